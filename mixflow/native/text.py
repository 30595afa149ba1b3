"""A step in LLVM's language: one instruction on a vector over lanes for each operation, and the loop over steps.

What costs time is not the arithmetic but the numbers that do not fit the registers and the first cache. So heads come one
after the other; a number of the state is stored as soon as its old value is not needed any more; and the step is cut into short
blocks: each loads what it reads of the state again, and takes products of long ago again (in one block LLVM would keep them).
"""

import struct
import sys
from typing import NamedTuple

from .graph import Graph

BLOCK = 128  # operations between two cuts; 60 to 300 make no difference
FAR = 500  # operations after which a product is taken again rather than kept; 200 to 500 make no difference

INSTRUCTIONS = {
    "neg": "fneg {V} {0}",
    "round": "call {V} @llvm.roundeven.v{n}f64({V} {0})",
    "abs": "call {V} @llvm.fabs.v{n}f64({V} {0})",
    "sqrt": "call {V} @llvm.sqrt.v{n}f64({V} {0})",
    "max": "call {V} @llvm.maximum.v{n}f64({V} {0}, {V} {1})",
    "min": "call {V} @llvm.minimum.v{n}f64({V} {0}, {V} {1})",
    "select": "select {B} {0}, {V} {2}, {V} {1}",
    "cast_int": "bitcast {V} {0} to {I}",
    "cast_float": "bitcast {I} {0} to {V}",
    "shl": "shl {I} {0}, {1}",
    "add_int": "add {I} {0}, {1}",
}
INSTRUCTIONS |= {name: f"fcmp o{name} {{V}} {{0}}, {{1}}" for name in ("le", "lt", "ge", "gt")}
# `contract`: a product and a sum may be one instruction, as in XLA; which ones is decided here, once, for all lanes alike.
INSTRUCTIONS |= {name: f"f{name} contract {{V}} {{0}}, {{1}}" for name in ("add", "sub", "mul", "div")}

PROGRAM = """
declare {V} @llvm.roundeven.v{n}f64({V})
declare {V} @llvm.fabs.v{n}f64({V})
declare {V} @llvm.sqrt.v{n}f64({V})
declare {V} @llvm.maximum.v{n}f64({V}, {V})
declare {V} @llvm.minimum.v{n}f64({V}, {V})
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @record(
  ptr noalias %state, ptr noalias %parameters, ptr noalias %drawn, ptr noalias %rows, i64 %saves, i64 %stride
) "prefer-vector-width"="512" {{
entry:
  %s = alloca {V}, i64 {numbers}, align 64
  %p = alloca {V}, i64 {given}, align 64
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %s, ptr align 8 %state, i64 {bytes}, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %p, ptr align 8 %parameters, i64 {given_bytes}, i1 false)
  br label %save
save:
  %j = phi i64 [0, %entry], [%j.next, %saved]
  %d.save = phi ptr [%drawn, %entry], [%d.saved, %saved]
  %any = icmp sgt i64 %stride, 0
  br i1 %any, label %step, label %saved
step:
  %i = phi i64 [0, %save], [%i.next, %{last}]
  %d = phi ptr [%d.save, %save], [%d.next, %{last}]
{body}
  %i.next = add i64 %i, 1
  %d.next = getelementptr i8, ptr %d, i64 {drawn_bytes}
  %on = icmp slt i64 %i.next, %stride
  br i1 %on, label %step, label %after
after:
{copies}
  br label %saved
saved:
  %d.saved = phi ptr [%d.save, %save], [%d.next, %after]
  %offset = mul i64 %j, {bytes}
  %row = getelementptr i8, ptr %rows, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %row, ptr align 64 %s, i64 {bytes}, i1 false)
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %j.next, %saves
  br i1 %more, label %save, label %end
end:
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %state, ptr align 64 %s, i64 {bytes}, i1 false)
  ret void
}}
"""


class Traced(NamedTuple):
    """A step as a graph.

    numbers       that replace the state, the first of the numbers given; each has its place
    turns         the same number of integers: outputs with a lower one are computed first
    given, drawn  how many numbers follow the state: parameters, and what each step draws
    """

    graph: Graph
    numbers: list[int]
    turns: list[int]
    given: int
    drawn: int

    @property
    def order(self):
        """All operations that `numbers` need, each after what it needs, and near its first reader."""
        nodes, seen, order = self.graph.nodes, set(), []
        goals = sorted(range(len(self.numbers)), key=self.turns.__getitem__)
        waiting = [(self.numbers[place], False) for place in reversed(goals)]
        while waiting:
            number, ready = waiting.pop()
            operation, *operands = nodes[number]
            if ready:
                order.append(number)
            elif number not in seen and operation not in ("given", "float", "int", "bool"):
                seen.add(number)
                waiting.append((number, True))
                waiting += [(each, False) for each in reversed(operands)]
        return order


class Writer:
    """Writes the program of one step, of so many lanes."""

    def __init__(self, step, lanes):
        self.step, self.nodes, self.lanes = step, step.graph.nodes, lanes
        self.types = {"n": lanes, "V": f"<{lanes} x double>", "I": f"<{lanes} x i64>", "B": f"<{lanes} x i1>"}
        parts = (
            ("%s", len(step.numbers), 64),
            ("%p", step.given, 64),
            ("%d", step.drawn, 8),
        )  # base, how many, alignment
        self.places = [(base, at, aligned) for base, many, aligned in parts for at in range(many)]
        self.order, self.lines, self.now, self.names = step.order, [], 0, 0
        self.when = {number: t for t, number in enumerate(self.order)}
        self.here = {}  # what this block has loaded or computed again, by number
        self.seen = {}  # when a number was last at hand
        self.last = {x: t for t, number in enumerate(self.order) for x in self.nodes[number][1:]}  # its last reader
        self.last.update((x, sys.maxsize) for x in step.numbers)

    def text(self):
        """The whole program."""
        step, last, copies, stores = self.step, "step", self._copies(), {}
        late = [place for place in range(len(step.numbers)) if place not in copies]
        for place in late:
            if (when := self._free(place)) is not None:
                stores.setdefault(when, []).append(place)
        for now, number in enumerate(self.order):
            self.now = now
            if now and now % BLOCK == 0:
                last = f"block{now}"
                self.lines += [f"br label %{last}", f"{last}:"]
                self.here = {}
            self._operation(number)
            for place in stores.get(now, ()):
                self._store(place, self._name(step.numbers[place]))
        early = {place for places in stores.values() for place in places}
        rest = [(place, self._name(step.numbers[place])) for place in late if place not in early]
        for place, name in rest:
            self._store(place, name)
        body, self.lines = self.lines, []
        for place, twin in copies.items():
            self._store(place, self._load(twin))
        counts = {"numbers": len(step.numbers), "given": step.given}
        sizes = {"bytes": len(step.numbers), "given_bytes": step.given, "drawn_bytes": step.drawn}
        counts |= {name: 8 * self.lanes * many for name, many in sizes.items()}
        body, after = ("\n".join(f"  {line}" for line in lines) for lines in (body, self.lines))
        return PROGRAM.format(body=body, copies=after, last=last, **counts, **self.types)

    def _copies(self):
        """{place: another of the same number}: places that no step reads are filled after the last one."""
        read = {self.nodes[x][1] for x in self.last if self.nodes[x][0] == "given"}
        first, found = {}, {}
        for place, number in enumerate(self.step.numbers):
            if number in first and place not in read:
                found[place] = first[number]
            first.setdefault(number, place)
        return found

    def _free(self, place):
        """When a number may be stored at its place: it is there, and nobody reads the old one; None: at the end."""
        number, old = self.step.numbers[place], self.step.graph.found("given", place)
        when = max(self.when.get(number, sys.maxsize), self.last.get(old, 0))
        return None if when == sys.maxsize else when

    def _operation(self, number):
        """Its instruction, after those that bring its operands."""
        operation, *operands = self.nodes[number]
        for x in operands:
            self._bring(x)
        self._emit(f"%v{number}", operation, number, operands)
        self.seen[number] = self.now

    def _bring(self, x):
        operation, *operands = self.nodes[x]
        far = operation == "mul" and x not in self.here and self.now - self.seen[x] > FAR
        if far and all(self.nodes[y][0] == "float" or self.last[y] >= self.now for y in operands):
            self.here[x] = self._new()
            self._emit(self.here[x], operation, x, operands)
        self.seen[x] = self.now

    def _emit(self, name, operation, number, operands):
        if operation == "add" and self.step.graph.kind(number) == "int":
            operation = "add_int"
        self.lines.append(f"{name} = {INSTRUCTIONS[operation].format(*map(self._name, operands), **self.types)}")

    def _name(self, number):
        """What this block calls a number; one that is given is loaded."""
        kind, *rest = self.nodes[number]
        if kind == "float":
            bits = struct.unpack("<Q", struct.pack("<d", self.step.graph.value(number)))[0]
            return f"<{', '.join([f'double 0x{bits:016X}'] * self.lanes)}>"
        if kind == "int":
            return f"<{', '.join([f'i64 {rest[0]}'] * self.lanes)}>"
        if kind == "given" and number not in self.here:
            self.here[number] = self._load(rest[0])
        return self.here.get(number, f"%v{number}")

    def _new(self):
        self.names += 1
        return f"%x{self.names}"

    def _pointer(self, place):
        base, at, aligned = self.places[place]
        self.lines.append(f"{(name := self._new())} = getelementptr {self.types['V']}, ptr {base}, i64 {at}")
        return name, aligned

    def _load(self, place):
        (pointer, aligned), name = self._pointer(place), self._new()
        self.lines.append(f"{name} = load {self.types['V']}, ptr {pointer}, align {aligned}")
        return name

    def _store(self, place, name):
        pointer, aligned = self._pointer(place)
        self.lines.append(f"store {self.types['V']} {name}, ptr {pointer}, align {aligned}")
