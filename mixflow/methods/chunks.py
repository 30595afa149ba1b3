"""Gradient descent in chunks: one compiled program serves any number of steps, shows progress and can stop anywhere."""

import time
from dataclasses import dataclass, field

import numpy as np

from .. import native
from ..ctrl_c import patient_ctrl_c
from ..jaxed import jax, jit, programs

SAVES = 128  # rows of the record buffer of one compiled call
CALL_SECONDS = 0.1  # of a call, about: fine enough for progress and Ctrl-C, long enough to hide its overhead
MOST_STEPS = 2**30  # in one call


@dataclass
class History:
    """What descent recorded: `steps` (saves,), `saved` arrays (saves, …, lanes), and the state after the last step."""

    steps: list = field(default_factory=list)
    parts: list = field(default_factory=list)
    state: dict | None = None
    diverged: dict = field(default_factory=dict)  # lane -> first step that is not finite
    interrupted: bool = False

    @property
    def saved(self):
        """All recorded arrays, time first; joined once, however many lanes ask."""
        if len(self.parts) > 1:
            self.parts = [{name: np.concatenate([part[name] for part in self.parts]) for name in self.parts[0]}]
        return self.parts[0]

    def drop_repeated(self):
        """End at the first of the rows that repeat at the end, wherever the calls began and ended."""
        saved = self.saved
        moved = np.any([(x != x[-1]).reshape(len(x), -1).any(axis=1) for x in saved.values()], axis=0)
        keep = 1 + int(np.flatnonzero(moved)[-1] + 1 if moved.any() else 0)
        self.steps, self.parts = self.steps[:keep], [{name: x[:keep] for name, x in saved.items()}]


def descend(
    engine,
    states,
    parameters,
    steps,
    save_every,
    *,
    first=0,
    record_first=True,
    progress=None,
    stop=None,
    alike=True,
    on_save=None,
):
    """Advance `states` (one for each lane of `engine`) from step `first` to step `steps`; returns a History.

    Saves fall on multiples of `save_every`, whatever `first` is, and on the last step, so that a run continued from a
    save records what one long run records. `progress(done, total)` is called after every chunk; `stop(part)` looks at the
    recorded rows of a chunk and returns the index of the row after which descent ends, or None; where all steps are `alike` it
    ends as well once they change nothing any more, since what is looked for will never come; `on_save(steps, part)` is given
    the rows as they are recorded.
    """
    record = _program(engine, states[0])
    history = History(state=engine.stack(states))

    def advance(saves, stride):
        state, buffers = record(history.state, parameters, at, saves, stride)
        return state, {name: np.asarray(x)[:saves] for name, x in buffers.items()}

    def keep(steps, part):
        history.steps.extend(steps)
        history.parts.append(part)
        if on_save:
            on_save(steps, part)

    at = first
    if record_first:
        keep([first], advance(1, 0)[1])
    budget = 64  # steps in the next call, adapted to CALL_SECONDS
    try:
        with patient_ctrl_c() as check:
            while at < steps and len(history.diverged) < engine.lanes:
                check()
                saves, stride = _next_call(at, steps, save_every, budget)
                began = time.perf_counter()
                before = history.state
                state, part = advance(saves, stride)
                elapsed = time.perf_counter() - began
                ends = [at + stride * (j + 1) for j in range(saves)]
                _find_divergence(engine, history, before, part, at, stride, record, parameters)
                recorded = ends[-1] % save_every == 0 or ends[-1] == steps
                last = stop(part) if stop and recorded else None
                if last is not None and last + 1 < saves:  # the state at an earlier row: replay up to it
                    state, part = advance(last + 1, stride)
                    ends = ends[: last + 1]
                history.state, at = state, ends[-1]
                if recorded:
                    keep(ends, part)
                if last is not None:
                    break
                if stop and alike and recorded and _still(before, state):
                    history.drop_repeated()
                    break
                faster = np.clip(CALL_SECONDS / max(elapsed, 1e-6), 0.5, 4)
                budget = min(int(budget * faster) + 1, MOST_STEPS)
                if progress:
                    progress(at, steps)
    except KeyboardInterrupt:
        history.interrupted = True
        if not history.steps or at > history.steps[-1]:  # between two saves: record where it stands, so nothing is lost
            history.parts.append(advance(1, 0)[1])
            history.steps.append(at)
    return history


def _still(before, state):
    """Whether two states are the same to the last bit."""
    return all(np.array_equal(before[name], x) for name, x in state.items())


def _next_call(at, steps, save_every, budget):
    """(saves, stride) of the next call from step `at`, of about `budget` steps: whole strides, or up to the next save."""
    to_save = min(save_every - at % save_every, steps - at)
    if to_save < save_every or save_every > budget:
        return 1, min(to_save, max(budget, 1))
    return min(SAVES, (steps - at) // save_every, max(1, budget // save_every)), save_every


def _program(engine, state):
    """The compiled `record(state, parameters, first, saves, stride)` of this engine: by LLVM where it is small, or by JAX."""
    return programs.get(engine.key, lambda: native.program(engine, state) or jit(_record(engine)))


def _record(engine):
    J = jax()
    lax, jnp = J.lax, J.numpy

    def record(state, parameters, first, saves, stride):
        seen = J.eval_shape(lambda s: engine.observe(s, parameters), state)
        buffers = J.tree.map(lambda x: jnp.zeros((SAVES, *x.shape), x.dtype), seen)

        def save(j, carry):
            state, buffers = carry
            begin = first + j * stride
            state = lax.fori_loop(0, stride, lambda i, s: engine.step(begin + i, s, parameters), state)
            row = engine.observe(state, parameters)
            return state, J.tree.map(lambda b, x: lax.dynamic_update_index_in_dim(b, x, j, 0), buffers, row)

        return lax.fori_loop(0, saves, save, (state, buffers))

    return record


def _find_divergence(engine, history, before, part, at, stride, record, parameters):
    """Note the first non-finite step of every lane that left float64 in the chunk that began at step `at`.

    NaN never heals, so the step is found by bisection: replay the chunk from its start to a given length.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        if all(np.isfinite(np.sum(x)) for x in part.values()):  # what is not finite stays in a sum
            return
    broken = np.any([~_finite_lanes(x, engine.lanes) for x in part.values()], axis=0)  # (saves, lanes)
    for lane in np.flatnonzero(broken[-1]):
        if lane in history.diverged:
            continue
        low, high = 0, stride * (int(np.argmax(broken[:, lane])) + 1)  # finite after `low` steps, not after `high`
        while high - low > 1:
            middle = (low + high) // 2
            replay = record(before, parameters, at, 1, middle)[1]
            finite = all(_finite_lanes(np.asarray(x)[:1], engine.lanes)[0, lane] for x in replay.values())
            low, high = (middle, high) if finite else (low, middle)
        history.diverged[int(lane)] = at + high


def _finite_lanes(x, lanes):
    """(saves, lanes): whether everything recorded of a lane is finite; the last axis is lanes, or (head, lane) flattened."""
    return np.isfinite(x).reshape(len(x), -1, lanes).all(axis=1)
