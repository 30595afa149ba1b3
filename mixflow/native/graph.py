"""A function of arrays as operations on single numbers: its jaxpr, taken apart; constants folded, nothing computed twice.

A number is an index into `Graph.nodes`, an array of numbers an integer array; moving numbers about costs nothing. A node is
    ("given", place)                         the number at this place of the arguments
    ("float", hexadecimal), ("int", value), ("bool", value)
    (operation, numbers …)                   of `machine.INSTRUCTIONS`
Products with 0 and 1 and sums with 0 are left out, which is exact for every finite number.
"""

import math
import operator

import numpy as np

LIMIT = (
    90_000  # operations, K = 5 has 88,000 with those that nobody reads; a longer program would keep 2 MB on the stack
)


class Untranslated(Exception):
    """An operation of JAX that is not known here, or too many."""


ELEMENTWISE = {"add_any": "add", "select_n": "select", "bitcast_convert_type": "cast", "shift_left": "shl"} | {
    name: name
    for name in ("add", "sub", "mul", "div", "neg", "max", "min", "round", "abs", "sqrt", "le", "lt", "ge", "gt")
}
FOLDED = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg}
FOLDED |= {"max": max, "min": min, "abs": abs, "sqrt": math.sqrt, "round": round}
FOLDED |= {"le": operator.le, "lt": operator.lt, "ge": operator.ge, "gt": operator.gt}
REDUCED = {"reduce_sum": "add", "reduce_max": "max", "reduce_min": "min"}
KINDS = {"le": "bool", "lt": "bool", "ge": "bool", "gt": "bool", "shl": "int"}


class Graph:
    """Nodes, each once."""

    def __init__(self):
        self.nodes, self._numbers = [], {}

    def node(self, *node):
        """The number of a node."""
        if node not in self._numbers:
            if len(self.nodes) > LIMIT:
                raise Untranslated(f"more than {LIMIT} operations")
            self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return self._numbers[node]

    def found(self, *node):
        """The number of a node that may be there, or None."""
        return self._numbers.get(node)

    def constant(self, x):
        """The number of a Python value."""
        if isinstance(x, (bool, np.bool_)):
            return self.node("bool", bool(x))
        return self.node("int", int(x)) if isinstance(x, (int, np.integer)) else self.node("float", float(x).hex())

    def value(self, number):
        """The Python value of a constant, or None."""
        kind, x = self.nodes[number][:2]
        return float.fromhex(x) if kind == "float" else x if kind in ("int", "bool") else None

    def kind(self, number):
        """float, int or bool."""
        node = self.nodes[number]
        if node[0] in ("float", "int", "bool"):
            return node[0]
        if node[0] in ("cast_int", "add"):
            return "int" if node[0] == "cast_int" else self.kind(node[1])
        return KINDS.get(node[0], "float")

    def apply(self, operation, *numbers):
        """An operation, simplified."""
        values = [self.value(number) for number in numbers]
        if None not in values and operation in FOLDED:
            return self.constant(FOLDED[operation](*values))
        if operation == "select" and values[0] is not None:
            return numbers[1 + int(values[0])]
        if operation == "cast":
            operation = "cast_float" if self.kind(numbers[0]) == "int" else "cast_int"
        if operation in ("add", "mul") and numbers[0] > numbers[1]:
            numbers, values = numbers[::-1], values[::-1]
        rule = getattr(self, f"_{operation}", None)
        found = rule(*zip(numbers, values)) if rule else None
        return self.node(operation, *numbers) if found is None else found

    def _negated(self, number):
        """x of a number −x, or None."""
        node = self.nodes[number]
        return node[1] if node[0] == "neg" else None

    def _neg(self, x):
        return self._negated(x[0])

    def _add(self, *pair):
        for (x, value), (other, _) in (pair, pair[::-1]):
            if value == 0:
                return other
            if (minus := self._negated(x)) is not None:
                return self.apply("sub", other, minus)
        return None

    def _sub(self, x, y):
        if y[1] == 0:
            return x[0]
        if x[1] == 0:
            return self.apply("neg", y[0])
        return None if (minus := self._negated(y[0])) is None else self.apply("add", x[0], minus)

    def _mul(self, *pair):
        for (x, value), (other, _) in (pair, pair[::-1]):
            if value == 0:
                return x
            if value in (1, -1):
                return other if value == 1 else self.apply("neg", other)
            if (minus := self._negated(x)) is not None:
                return self.apply("neg", self.apply("mul", minus, other))
        return None

    def elementwise(self, operation, *arrays):
        """An operation on arrays of numbers, with broadcasting."""
        found = np.frompyfunc(lambda *numbers: self.apply(operation, *map(int, numbers)), len(arrays), 1)(*arrays)
        return np.asarray(found, np.int64)

    def lifted(self, x):
        """An array of constants."""
        return np.asarray(np.frompyfunc(self.constant, 1, 1)(np.asarray(x)), np.int64)

    def evaluate(self, closed, arguments):
        """The arrays of numbers that a jaxpr gives for arrays of numbers."""
        jaxpr, known = closed.jaxpr, {}
        known.update(zip(jaxpr.constvars, map(self.lifted, closed.consts)))
        known.update(zip(jaxpr.invars, arguments))
        for equation in jaxpr.eqns:
            given = [self.lifted(v.val) if hasattr(v, "val") else known[v] for v in equation.invars]
            known.update(zip(equation.outvars, self._equation(equation, given)))
        return [self.lifted(v.val) if hasattr(v, "val") else known[v] for v in jaxpr.outvars]

    def _equation(self, equation, given):
        name, p = equation.primitive.name, equation.params
        for inner in ("jaxpr", "call_jaxpr"):
            if inner in p:
                return self.evaluate(p[inner], given)
        shape = equation.outvars[0].aval.shape
        if name in ELEMENTWISE:
            return [self.elementwise(ELEMENTWISE[name], *given)]
        if name in ("square", "integer_pow"):
            return [self._power(given[0], p.get("y", 2))]
        if name == "convert_element_type":
            return [self._converted(given[0], p["new_dtype"])]
        if name in REDUCED:
            return [self._reduced(REDUCED[name], given[0], p["axes"])]
        if name == "dot_general":
            return [self._product(p["dimension_numbers"], *given)]
        if name == "unstack":
            return list(np.moveaxis(given[0], p["axis"], 0))
        if name == "split":
            return np.split(given[0], np.cumsum(p["sizes"])[:-1], p["axis"])
        if name not in MOVES:
            raise Untranslated(name)
        return [MOVES[name](self, p, shape, *given)]

    def _power(self, x, exponent):
        if exponent < 0:
            return self.elementwise("div", self.lifted(1.0), self._power(x, -exponent))
        half = self._power(x, exponent // 2) if exponent > 1 else None
        square = None if half is None else self.elementwise("mul", half, half)
        return x if half is None else self.elementwise("mul", square, x) if exponent % 2 else square

    def _converted(self, x, dtype):
        kinds = {self.kind(number) for number in x.ravel().tolist()}
        wanted = {"f": "float", "i": "int", "u": "int", "b": "bool"}[dtype.kind]
        if kinds <= {wanted}:
            return x
        if kinds == {"bool"} and wanted == "float":
            return self.elementwise("select", x, self.constant(0.0), self.constant(1.0))
        values = [self.value(number) for number in x.ravel().tolist()]
        if None in values:
            raise Untranslated(f"{kinds} as {wanted}")
        return self.lifted(np.array(values, dtype).reshape(x.shape))

    def _product(self, dimensions, x, y):
        ((i,), (j,)), batches = dimensions
        if batches != ((), ()):
            raise Untranslated("dot_general")
        x, y = np.moveaxis(x, i, 0), np.moveaxis(y, j, 0)
        each = self.elementwise(
            "mul", x.reshape(*x.shape, *[1] * (y.ndim - 1)), y.reshape(len(y), *[1] * (x.ndim - 1), *y.shape[1:])
        )
        return self._reduced("add", each, (0,))

    def _reduced(self, operation, x, axes):
        rest = [axis for axis in range(x.ndim) if axis not in axes]
        rows = x.transpose(*axes, *rest).reshape(-1, *(x.shape[axis] for axis in rest))
        total = rows[0]
        for row in rows[1:]:
            total = self.elementwise(operation, total, row)
        return total


def _broadcast(graph, p, shape, x):
    at = dict(zip(p["broadcast_dimensions"], x.shape))
    return np.broadcast_to(x.reshape([at.get(axis, 1) for axis in range(len(shape))]), shape)


def _slice(graph, p, shape, x):
    return x[tuple(map(slice, p["start_indices"], p["limit_indices"], p["strides"] or [None] * x.ndim))]


def _gather(graph, p, shape, x, index):
    """Whole slices along one axis, at constant indices: what indexing with an array of NumPy becomes."""
    d, index = p["dimension_numbers"], np.frompyfunc(graph.value, 1, 1)(index)
    whole = sum(n != size for n, size in zip(p["slice_sizes"], x.shape)) <= 1
    if len(d.start_index_map) != 1 or d.collapsed_slice_dims != d.start_index_map or not whole or None in index:
        raise Untranslated("gather")
    found = np.take(x, index[..., 0].astype(int), d.start_index_map[0])
    if found.shape != shape:
        raise Untranslated("gather")
    return found


def _pad(graph, p, shape, x, filling):
    if any(low < 0 or high < 0 or inside for low, high, inside in p["padding_config"]):
        raise Untranslated("pad")
    return np.pad(x, [each[:2] for each in p["padding_config"]], constant_values=int(filling))


def _iota(graph, p, shape):
    return graph.lifted(np.indices(shape)[p["dimension"]].astype(p["dtype"]))


def _reshape(graph, p, shape, x):
    return x.reshape(shape)


def _transpose(graph, p, shape, x):
    return x.transpose(p["permutation"])


def _concatenate(graph, p, shape, *x):
    return np.concatenate(x, axis=p["dimension"])


def _tile(graph, p, shape, x):
    return np.tile(x, p["reps"])


def _stack(graph, p, shape, *x):
    return np.stack(x, axis=p["axis"])


MOVES = {"broadcast_in_dim": _broadcast, "slice": _slice, "gather": _gather, "pad": _pad, "iota": _iota}
MOVES |= dict.fromkeys(("reshape", "squeeze", "expand_dims", "copy"), _reshape)
MOVES |= {"transpose": _transpose, "concatenate": _concatenate, "stack": _stack, "tile": _tile}
