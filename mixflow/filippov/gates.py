"""Which gates at z = 0 are off, on or sliding: the complementarity problem at an event (docs/mathematics.md §7).

At a state where the surfaces of a set T are reached, dz/dt = v − N μ with μ = r · gate, N symmetric semi-definite.
Every gate of T must satisfy one of

    off      gate = 0 and dz/dt ≤ 0        on       gate = 1 and dz/dt ≥ 0        sliding  0 ≤ gate ≤ 1 and dz/dt = 0

For the gates that push their own z down (r > 0) these are the optimality conditions of the convex problem
min ½ μᵀNμ − vᵀμ over the box 0 ≤ μ ≤ r: a solution exists and dz/dt is unique, so no order of deciding matters. The gates
with r < 0 never slide; they enter by a search over off and on.

A field that is no gradient has dz/dt = v + B gate with any B. Then all 3^s choices are tried, and what fits is either one motion
or a failure with a name: no solution, or several between which Filippov's convention does not decide.
"""

import itertools

import numpy as np

from ..errors import MixflowError

OFF, ON, SLIDING = 0, 1, 2
NAMES = ("off", "on", "sliding")
EDGE = 1e-8  # a gate this near to 0 or 1 has left the interval; twins by symmetry agree far better
MOST = 8  # so many gates of a field that is no gradient are decided by trying all 3^MOST choices
SAME = 1e-6  # velocities this near, relatively, are one motion
SEARCH = 12  # at most 2^SEARCH combinations of self-exciting gates are tried


class ChatteringError(MixflowError, ArithmeticError):
    """The gates at a surface switch without end, or not exactly one choice of them fits. An ArithmeticError.

    time  the time of the flow at which it happened, or None
    run   everything computed until then, or None

    Raised by `train` with a GradientFlow and by `filippov.solve`.

    >>> import mixflow as mf
    >>> issubclass(mf.ChatteringError, mf.MixflowError)
    True
    """

    def __init__(self, message, *, time=None, run=None):
        super().__init__(message)
        self.time = time
        self.run = run


def decide(v, N, r, guess):
    """States (s,) of the touching gates, and their gate values (s,).

    `guess` (s,) holds OFF, ON or SLIDING and decides only what rounding leaves open: a gate that just left the interval
    has dz/dt = 0 up to rounding and keeps the side on which it left.
    """
    v, N, r, guess = np.asarray(v, float), np.asarray(N, float), np.asarray(r, float), np.asarray(guess)
    # Rounding of dz/dt: what a change of every gate by EDGE can do, plus rounding of v itself.
    tol = 2 * EDGE * np.abs(N) @ np.abs(r) + 1e-13 * np.max(np.abs(v), initial=0)
    able = r > 0
    rigid = np.flatnonzero(~able)
    for pattern in _patterns(v, N, r, guess, able, rigid, tol):
        state = guess.copy()
        state[rigid] = pattern
        push = v - N[:, rigid] @ (r[rigid] * pattern)
        free = np.flatnonzero(able)
        state[free], mu = _box(push[free], N[np.ix_(free, free)], r[free], guess[free], tol[free])
        speed = push - N[:, free] @ mu
        if np.all(np.where(pattern == ON, speed[rigid] >= -tol[rigid], speed[rigid] <= tol[rigid])):
            gate = (state == ON).astype(float)
            gate[free] = mu / r[free]
            return state, np.where(state == SLIDING, np.clip(gate, 0, 1), gate)
    raise ChatteringError(
        f"no consistent choice of off, on or sliding exists for {len(v)} gates at z = 0; "
        "perturb the start or a constant slightly."
    )


def _patterns(v, N, r, guess, able, rigid, tol):
    """Candidate off/on patterns of the self-exciting gates: the guess, each correction of it, then all.

    Several patterns can be consistent (a self-exciting gate exactly at its surface); the first is the one that follows the
    direction of arrival.
    """
    first = np.where(guess[rigid] == OFF, OFF, ON)
    seen = set()
    pattern = first
    free = np.flatnonzero(able)
    while tuple(pattern) not in seen:
        seen.add(tuple(pattern))
        yield pattern
        push = v - N[:, rigid] @ (r[rigid] * pattern)
        _, mu = _box(push[free], N[np.ix_(free, free)], r[free], guess[free], tol[free])
        speed = (push - N[:, free] @ mu)[rigid]
        pattern = np.where(speed > tol[rigid], ON, np.where(speed < -tol[rigid], OFF, pattern))
    if len(rigid) <= SEARCH:
        for rest in itertools.product((ON, OFF), repeat=len(rigid)):
            if rest not in seen:
                yield np.array(rest, dtype=int)


def _box(v, N, r, guess, tol):
    """States and μ of min ½ μᵀNμ − vᵀμ, 0 ≤ μ ≤ r, by block principal pivoting from the guess.

    All violated gates move at once (so twins by symmetry stay twins); if that stops making progress, one at a time, the
    lowest first (Murty's rule, finite for definite N), and at last SciPy's bounded least squares.
    """
    state = np.array(guess, dtype=int)
    best, patience = len(v) + 1, 5
    for _ in range(20 + 4 * len(v) ** 2):
        mu = np.where(state == ON, r, 0.0)
        free = state == SLIDING
        if free.any():
            rest = v[free] - N[np.ix_(free, ~free)] @ mu[~free]
            mu[free] = solve(N[np.ix_(free, free)], rest)
        speed = v - N @ mu
        target = state.copy()
        target[free & (mu < -EDGE * r)] = OFF
        target[free & (mu > (1 + EDGE) * r)] = ON
        target[((state == OFF) & (speed > tol)) | ((state == ON) & (speed < -tol))] = SLIDING
        wrong = np.flatnonzero(target != state)
        if not len(wrong):
            return state, mu
        if len(wrong) < best:
            best, patience = len(wrong), 5
        else:
            patience -= 1
        move = wrong if patience > 0 else wrong[:1]
        state[move] = target[move]
    return _least_squares(v, N, r)


def solve(N, v):
    """The smallest solution of N μ = v: unique where N is regular, even-handed among twins where it is not."""
    if not np.array_equal(N, N.T):
        return np.linalg.lstsq(N, v, rcond=1e-12)[0]
    values, vectors = np.linalg.eigh(N)
    keep = np.abs(values) > 1e-12 * max(np.abs(values).max(), 1e-300)
    return vectors[:, keep] @ ((vectors[:, keep].T @ v) / values[keep])


def _least_squares(v, N, r):
    """The box problem as bounded least squares over a square root of N (v lies in the range of N)."""
    from scipy.optimize import lsq_linear

    values, vectors = np.linalg.eigh(N)
    keep = values > 1e-12 * max(values[-1], 1e-300)
    root = np.sqrt(values[keep])[:, None] * vectors[:, keep].T
    mu = lsq_linear(root, vectors[:, keep].T @ v / np.sqrt(values[keep]), (0, r), method="bvls", tol=1e-15).x
    return np.where(mu <= EDGE * r, OFF, np.where(mu >= (1 - EDGE) * r, ON, SLIDING)), mu


# --- fields that are no gradients ------------------------------------------------------------------------------------------


def decide_any(v, B, guess, motion):
    """States (s,) of the touching gates of any field, and their gate values (s,).

    motion(gates (s,)) gives y', by which choices are told apart: two that move y alike are one solution, and of these the
    one nearest to `guess` is taken, since rounding leaves open whether a gate that just left still slides. Where dependent
    surfaces leave a direction open, some gate reaches 0 or 1 along it, and the choices with that one off or on fit too.
    """
    tol = 2 * EDGE * np.abs(B).sum(axis=1) + 1e-13 * np.max(np.abs(v), initial=0)
    s = len(v)
    if s > MOST:
        return _monotone(v, B, guess, tol)
    fits = [pair for pair in map(np.array, itertools.product((OFF, ON, SLIDING), repeat=s)) if _fits(v, B, pair, tol)]
    choices = [(state, _gates_of(v, B, state, tol)) for state in fits]
    if not choices:
        raise ChatteringError(
            f"no solution: no choice of off, on or sliding fits the {s} surfaces reached together; perturb the start or a "
            "constant."
        )
    velocities = np.array([motion(gate) for _, gate in choices])
    size = max(np.abs(motion(np.full(s, share))).max() for share in (0.0, 1.0))
    if np.abs(velocities - velocities[0]).max() > SAME * size:
        raise ChatteringError(
            f"several solutions: Filippov's convention does not decide between the {len(choices)} choices of off, on or "
            f"sliding that fit the {s} surfaces reached together; start beside them, or perturb a constant."
        )
    return max(choices, key=lambda choice: np.sum(choice[0] == guess))


def _fits(v, B, state, tol):
    gate = _gates_of(v, B, state, tol)
    speed = v + B @ gate
    fine = np.where(state == OFF, speed <= tol, np.where(state == ON, speed >= -tol, np.abs(speed) <= tol))
    return bool(np.all(fine & (gate >= -EDGE) & (gate <= 1 + EDGE)))


def _gates_of(v, B, state, tol):
    """The gates of a choice; where dependent surfaces leave several, those inside [0, 1] if there are any."""
    gate, free = (state == ON).astype(float), state == SLIDING
    if free.any():
        block, push = B[np.ix_(free, free)], -(v + B @ gate)[free]
        gate[free] = np.linalg.lstsq(block, push, rcond=1e-12)[0]
        if np.any((gate < 0) | (gate > 1)) and np.linalg.matrix_rank(block, tol=1e-12 * np.abs(B).max()) < free.sum():
            from scipy.optimize import lsq_linear

            gate[free] = lsq_linear(block, push, (0, 1), method="bvls", tol=1e-15).x
    return gate


def _monotone(v, B, guess, tol):
    """Many gates at once, where −B is definite and so the solution is unique."""
    if np.linalg.eigvalsh(-(B + B.T))[0] <= 1e-12 * np.abs(B).max():
        raise ChatteringError(
            f"{len(v)} surfaces are reached together and −B is not definite: expected at most {MOST} of them, or a field "
            "in which every gate pushes most against its own surface; perturb the start or a constant."
        )
    state, gate = _box(v, -B, np.ones(len(v)), guess, tol)
    if not _fits(v, B, state, tol):
        raise ChatteringError(
            f"{len(v)} surfaces are reached together and pivoting does not settle; perturb the start."
        )
    return state, np.where(state == SLIDING, np.clip(gate, 0, 1), gate)
