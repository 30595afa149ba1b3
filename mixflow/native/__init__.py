"""A small step of descent in machine code: the same `step` that JAX would compile, by another compiler, LLVM.

XLA computes array by array, each written to memory and read again, zeros included. Here the step is traced for one lane and taken
apart into operations on single numbers (`graph`), each of which becomes one instruction on a vector over the lanes (`machine`):
two to four times as fast at K = 2 to 5, up to eight times for the symmetric model. What is finished lies on the disk, so that a
run whose program is there does not even import JAX. What a step draws at random is given to it, drawn for a block of steps at
once (`Engine.ahead`). Steps with other operations, or too many, are JAX's.
"""

import copy
import sys

import numpy as np

WORK = 50.0  # of a step, in units of the K = 2 mixture (`Engine.work`); K = 5 has 36, K = 6 100 and takes 5 s to take apart


def apt(engine):
    """Whether a step is arithmetic alone, and not too much of it."""
    return engine.straight and engine.work() <= WORK


def program(engine, state=None):
    """record(state, parameters, first, saves, stride), as `methods.chunks` calls it; None if JAX must serve.

    state  one of a run, for its shapes: a start takes seconds where the network is wide
    """
    if not apt(engine):
        return None
    one = alone(engine)
    state = one.stack([one.start(engine.network) if state is None else state])
    parameters = one.parameters([engine.network], [0.0], [0.0])
    drawn = one.ahead(0, parameters)
    from .machine import function

    record = function(engine, one, state, parameters, {name: x[0] for name, x in drawn.items()})
    return None if record is None else _Program(engine, record, state, parameters, drawn)


def alone(engine):
    """The same engine with one lane."""
    one = copy.copy(engine)
    one.lanes = 1
    return one


class _Program:
    """Arrays with lanes in and out of a compiled `record`; its numbers are rows of `lanes`, names in alphabetical order."""

    def __init__(self, engine, record, state, parameters, drawn):
        self.engine, self.record = engine, record
        self.sizes = {name: np.size(state[name]) for name in sorted(state)}
        self.shared = {name: np.shape(parameters[name]) for name in sorted(parameters)}
        self.block = len(next(iter(drawn.values()), ()))  # steps that are drawn at a time; 0 where nothing is
        self.drawn = None, np.empty(0)  # the last block, after what it belongs to

    def __call__(self, state, parameters, first, saves, stride):
        lanes, count = self.engine.lanes, sum(self.sizes.values())
        numbers = np.concatenate([np.asarray(state[name], float).reshape(-1, lanes) for name in self.sizes])
        given = np.concatenate([self._rows(np.asarray(parameters[name], float), name) for name in self.shared])
        rows, at, row = np.empty((int(saves), count, lanes)), int(first), 0
        while row < saves:  # in one call, but for the ends of blocks
            drawn, room = (
                self._ahead(at, parameters, given),
                self.block - at % self.block if self.block else sys.maxsize,
            )
            left = int(first) + (row + 1) * int(stride) - at
            whole = min(int(saves) - row, room // max(left, 1)) if left == stride else 0
            many, steps = (whole, left) if whole else (1, min(left, room))
            self.record(*(x.ctypes.data for x in (numbers, given, drawn, rows[row:])), many, steps)
            at, row = at + many * steps, row + many * (steps == left)
        after, seen, at = {}, {}, 0
        for name, size in self.sizes.items():
            shape = np.shape(state[name])
            after[name] = numbers[at : at + size].reshape(shape)
            seen[name] = rows[:, at : at + size].reshape(-1, *shape)
            at += size
        return after, self.engine.observe(seen, parameters)

    def _ahead(self, at, parameters, given):
        """What the steps from `at` to the end of their block draw, (steps, numbers, lanes)."""
        if not self.block:
            return self.drawn[1]
        whose, block = (at // self.block, given.tobytes()), self.drawn
        if block[0] != whose:
            found = self.engine.ahead(at // self.block, parameters)
            parts = [found[name].reshape(self.block, -1, self.engine.lanes) for name in sorted(found)]
            block = self.drawn = whose, np.ascontiguousarray(np.concatenate(parts, axis=1))
        return block[1][at % self.block :]

    def _rows(self, x, name):
        """(numbers, lanes) of a parameter; one that all lanes share is repeated."""
        if x.shape == self.shared[name]:
            return np.repeat(x.reshape(-1, 1), self.engine.lanes, axis=1)
        return x.reshape(-1, self.engine.lanes)
