"""How long, and how exactly, do solvers go through kinks that slide?

    python benchmarks/filippov.py [--seconds 60] [--json]

Three problems: a block on a belt (handbook, "Follow any field with kinks") to t = 14, a relay that controls a mass to
t = 5, and the mean-field transformer with K = 2, ω = 0.3 to t = 2000.

    mixflow    mf.filippov.solve at rtol 1e-9
    nosnoc     finite elements with switch detection, Radau IIA with 4 stages, through CasADi and IPOPT: pip install nosnoc
    LSODA, DOP853    SciPy at rtol 1e-9 on the raw field, whose gate is 1 where z > 0 and 0 elsewhere
    Dopri8     diffrax at the same tolerance on the same raw field: pip install diffrax

nosnoc and diffrax are no dependencies: without them their rows are left out. Each solver has --seconds for a problem, and
the time it reached is reported. The error is that of the final state, against the closed form, or for the transformer
against mixflow at rtol 1e-11. Times are by the clock, compilation excluded, and printed as ratios to mixflow's.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
RTOL, TIGHT = 1e-9, 1e-11
ELEMENTS = {"block": 56, "relay": 20, "transformer": 2000}  # finite elements of nosnoc, two in each


class Problem:
    """A Field with its start, end and exact final state; `casadi()` writes it again for nosnoc."""

    def __init__(self, name, field, y0, until, exact, casadi):
        self.name, self.field, self.y0, self.until = name, field, np.asarray(y0, float), until
        self.exact, self.casadi = np.asarray(exact, float), casadi

    def raw(self):
        """y' as a solver without gates sees it, for JAX to compile."""
        import jax.numpy as jnp

        f = self.field

        def right(t, y, _=None):
            return f.velocity(f.constants, y, jnp.where(f.surface(f.constants, y) > 0, 1.0, 0.0))

        return right


def block():
    import jax.numpy as jnp

    import mixflow as mf

    def velocity(c, y, gates):
        return jnp.stack([y[1], 0.5 * (2 * gates[0] - 1) - y[0]])

    def casadi(ca, x, a):
        return [1 - x[1]], ca.vertcat(x[1], 0.5 * (2 * a[0] - 1) - x[0])

    field = mf.filippov.Field(velocity=velocity, surface=lambda c, y: 1 - y[1:], gates=("belt faster",))
    arcs = np.pi + 2 * np.arctan(1 / 2.5), np.pi - 2 * np.arctan(1 / 1.5), np.pi + 2 * np.arctan(1 / 0.5), 0.5
    s = 14 - sum(arcs)
    return Problem("block", field, [3.0, 1.0], 14.0, [0.5 + np.sin(s), np.cos(s)], casadi)


def relay():
    import jax.numpy as jnp

    import mixflow as mf

    def velocity(c, y, gates):
        return jnp.stack([y[1], 1 - 2 * gates[0]])

    def casadi(ca, x, a):
        return [x[0] + x[1]], ca.vertcat(x[1], 1 - 2 * a[0])

    field = mf.filippov.Field(velocity=velocity, surface=lambda c, y: jnp.stack([y[0] + y[1]]), gates=("relay",))
    x = (3 - 5**0.5) * np.exp(3 * 5**0.5 - 5 - 5.0)
    return Problem("relay", field, [2.0, 0.0], 5.0, [x, -x], casadi)


def transformer():
    import mixflow as mf

    found = mf.field(mf.Mixture(classes=2), mf.Transformer(omega=0.3), model="symmetric")
    field, c = found.gated.field, found.constants
    exact = mf.filippov.solve(field, found.y0, 2000.0, rtol=TIGHT).state

    def casadi(ca, x, a):
        w, A, G_K, G_Q = x[:2], *(_sectors(ca, x, 2 + 8 * i) for i in range(3))
        entries = ca.vertcat(*[sum(c["mix"][i, s] * A[s][k, q] for s in (0, 1))
                               for i in (0, 1) for k in (0, 1) for q in (0, 1)])  # fmt: skip
        E = c["keys"].ravel() * ca.exp(ca.mtimes(c["scores"], entries))
        said = ca.mtimes(c["values"], w)
        z = []
        for i in range(4):
            heard = 0
            for q in range(4):
                rows = slice((i * 4 + q) * 5, (i * 4 + q + 1) * 5)
                heard += c["queries"][i, q] * ca.dot(E[rows], said[rows]) / ca.sum1(E[rows])
            z.append(c["bias"] + heard)
        on = [a[i] * z[i] for i in range(4)]  # ReLU
        pull = [c["weight"][k] / (1 + ca.exp(on[k] - on[2 + k])) for k in range(2)]
        r = ca.vertcat(-pull[0], -pull[1], pull[0], pull[1])
        gradient = ca.mtimes(ca.jacobian(ca.vertcat(*z), x[:10]).T, ca.vertcat(*[r[i] * a[i] for i in range(4)]))
        moves = [-ca.mtimes(c["metric_w"], gradient[:2])]
        parts = [[], [], []]
        for s, g in enumerate(_sectors(ca, gradient, 2)):
            g = c["rate"][s] * g
            K, Q = ca.mtimes(g, A[s].T), ca.mtimes(A[s].T, g)
            for part, move in zip(parts, (ca.mtimes(G_K[s], g) + ca.mtimes(g, G_Q[s]), K + K.T, Q + Q.T)):
                part.append(-move.T.reshape((4, 1)))
        return z, ca.vertcat(*moves, *[move for part in parts for move in part])

    return Problem("transformer", field, found.y0, 2000.0, exact, casadi)


def _sectors(ca, x, at):
    """Two 2×2 matrices, row by row, from x[at:]."""
    return [x[at + 4 * s : at + 4 * s + 4].reshape((2, 2)).T for s in (0, 1)]


def ours(problem, seconds):
    import mixflow as mf

    def run():
        return mf.filippov.solve(problem.field, problem.y0, problem.until, rtol=RTOL, dense=False)

    result, best = run(), np.inf
    for _ in range(9):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return row(problem, best, result.time, result.state, len(result.events))


def row(problem, seconds, reached, state, events=None):
    done = reached >= problem.until * (1 - 1e-12)
    error = float(np.abs(state - problem.exact).max()) if done else None
    return {"seconds": seconds, "reached": float(reached), "error": error, "events": events}


def scipy_side(name):
    def side(problem, seconds):
        import jax
        from scipy import integrate

        right = jax.jit(problem.raw())
        right(0.0, problem.y0)
        solver = getattr(integrate, name)(
            lambda t, y: np.asarray(right(t, y)), 0.0, problem.y0, problem.until, rtol=RTOL, atol=RTOL * 1e-3
        )
        begin = time.perf_counter()
        while solver.status == "running" and time.perf_counter() - begin < seconds:
            solver.step()
        return row(problem, time.perf_counter() - begin, solver.t, solver.y)

    return side


def diffrax_side(problem, seconds):
    try:
        import diffrax
    except ImportError:
        return None
    import jax

    term, control = diffrax.ODETerm(problem.raw()), diffrax.PIDController(rtol=RTOL, atol=RTOL * 1e-3)
    keep = diffrax.SaveAt(t1=True, solver_state=True, controller_state=True, made_jump=True)

    @jax.jit
    def chunk(t, y, inner, controller, jump):
        return diffrax.diffeqsolve(
            term, diffrax.Dopri8(), t, problem.until, 1e-4, y, stepsize_controller=control, saveat=keep, max_steps=500,
            throw=False, solver_state=inner, controller_state=controller, made_jump=jump,
        )  # fmt: skip

    def go(limit):
        t, y, state, begin = 0.0, problem.y0, (None, None, None), time.perf_counter()
        while t < problem.until and time.perf_counter() - begin < limit:
            out = chunk(t, y, *state)
            t, y = float(out.ts[-1]), np.asarray(out.ys[-1])
            state = out.solver_state, out.controller_state, out.made_jump
        return row(problem, time.perf_counter() - begin, t, y)

    go(1e-9), go(1.0)  # compiles the first call and the later ones
    return go(seconds)


def nosnoc_side(problem, seconds):
    try:
        import casadi as ca
        import nosnoc
    except ImportError:
        return None
    size, gates = len(problem.y0), problem.field.n_gates
    x, a = ca.SX.sym("x", size), ca.SX.sym("a", gates)
    surfaces, right = problem.casadi(ca, x, a)
    model = nosnoc.NosnocModel(x=x, x0=problem.y0, c=[ca.vertcat(*surfaces)], alpha=[a], f_x=[right])
    options, pieces = nosnoc.NosnocOpts(), ELEMENTS[problem.name]
    options.pss_mode, options.n_s, options.N_finite_elements = nosnoc.PssMode.STEP, 4, 2
    options.terminal_time, options.comp_tol, options.sigma_N = problem.until / pieces, RTOL, RTOL
    solver = nosnoc.NosnocSolver(options, model)
    begin, state, done, switches = time.perf_counter(), problem.y0, 0, 0
    while done < pieces and time.perf_counter() - begin < seconds:
        solver.set("x0", state)
        found = solver.solve()
        state, done = np.asarray(found["x_list"][-1]), done + 1
        switches += found["switch_times"].size
    return row(problem, time.perf_counter() - begin, problem.until * done / pieces, state, int(switches))


SIDES = {
    "mixflow": ours, "nosnoc": nosnoc_side, "LSODA": scipy_side("LSODA"), "DOP853": scipy_side("DOP853"), "Dopri8": diffrax_side,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each solver and problem (default 60)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not options.seconds > 0:
        parser.error(f"--seconds {options.seconds:g}: expected a positive number")
    sys.path.insert(0, str(ROOT))
    from mixflow.jaxed import float64

    found = {}
    with float64():  # for SciPy's and diffrax's right-hand sides too
        for make in (block, relay, transformer):
            problem = make()
            for name, side in SIDES.items():
                numbers = side(problem, options.seconds)
                if numbers is None:
                    continue
                found.setdefault(problem.name, {})[name] = numbers
                if not options.json:
                    print(sentence(problem, name, numbers, found[problem.name]["mixflow"]), flush=True)
    if options.json:
        print(json.dumps(found))


def sentence(problem, name, numbers, base):
    far = (
        "to the end"
        if numbers["error"] is not None
        else f"stalled at t = {numbers['reached']:.6g} of {problem.until:g}"
    )
    error = f", error {numbers['error']:.1e}" if numbers["error"] is not None else ""
    events = "" if numbers["events"] is None else f", {numbers['events']} events"
    ratio = numbers["seconds"] / base["seconds"]
    return f"{problem.name:12} {name:8} {numbers['seconds'] * 1e3:10.1f} ms  {ratio:9.1f} ×  {far}{error}{events}"


if __name__ == "__main__":
    main()
