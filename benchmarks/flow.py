"""How long until a gradient flow is known to 1e-8, by the flow here and by the obvious alternatives?

    python benchmarks/flow.py [--torch-python PATH] [--seconds 20] [--seeds] [--many 60 | --full] [--json]

The run: K = 2, width 64, seed 0, ω = 0.3, to t = 2000 (20,000 steps of descent at the paper's rate 0.1).

    flow       this package at rtol 1e-9; its error is measured against the same flow at a tolerance 100 times tighter
    solvers    SciPy's LSODA and DOP853 and diffrax's Dopri8 on the raw field, at the same tolerance. They meet neurons that
               stay at z = 0 and their steps shrink to nothing, so each has --seconds and the time it reached is reported.
               diffrax is no dependency: pip install diffrax, or it is left out.
    descent    the engine at rates 0.1 to 0.0125: its error is proportional to the rate, and the time for 1e-8 is
               extrapolated from the smallest, not measured (it would take days)
    PyTorch    the obvious program of against_torch.py at width 64: 20,000 times its best time per step. PyTorch is no
               dependency: name an interpreter that has it with --torch-python, or it is left out.

--seeds runs 20 seeds at width 16, 64 and 256 to t = 2000 and compares each with descent; --many and --full time train_many.
Times are processor time, the best of several, compilation excluded; those of the solvers and of train_many are by the clock.
"""

import argparse
import json
import sys
import tempfile
import time
from array import array
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
UNTIL, RTOL, WIDTH, OMEGA, ACCURACY = 2000.0, 1e-9, 64, 0.3, 1e-8
RATES = (0.1, 0.05, 0.025, 0.0125)
TORCH_STEPS, DIMENSION = 20_000, 100
CHUNK = 2000  # steps of a general solver between two looks at the clock


def flow_side(repeats=15):
    """Seconds, error and work of the flow; the field and its tight final state serve the other sides."""
    from engine import best_of

    from mixflow.engines.gated import flow
    from mixflow.engines.gram_field import gram_field
    from mixflow.filippov import certify
    from mixflow.methods.flow import GradientFlow
    from mixflow.networks.transformer import Transformer
    from mixflow.tasks import Mixture

    field = gram_field(Mixture(2), Transformer(width=WIDTH, omega=OMEGA))
    method = GradientFlow(until=UNTIL, rtol=RTOL)
    run = flow(field, field.y0, method)
    proof = certify(run)
    seconds = best_of(repeats, {"flow": lambda: flow(field, field.y0, method)})["flow"]
    found = {"seconds": seconds, "error": proof["difference"], "relative_drift": proof["relative_drift_tr_C2"]}
    return field, run.state, {**found, **{k: proof[k] for k in ("evaluations", "steps", "events")}}


def raw_field(field):
    """The gradient as descent sees it: a neuron is on where z > 0. Compiled; discontinuous at the kinks."""
    z, evaluate = field.functions[:2]
    nobody = field.put_indices(())
    return lambda t, y, _=None: evaluate(field.device, y, 1.0 * (z(field.device, y) > 0), *nobody).dy


def scipy_side(field, name, seconds):
    """How far SciPy's solver gets in `seconds`."""
    import jax
    from scipy import integrate

    right = jax.jit(raw_field(field))
    right(0.0, field.y0)
    solver = getattr(integrate, name)(
        lambda t, y: np.asarray(right(t, y)), 0.0, field.y0, UNTIL, rtol=RTOL, atol=RTOL * 1e-3
    )
    begin, steps = time.perf_counter(), 0
    while solver.status == "running" and time.perf_counter() - begin < seconds:
        solver.step()
        steps += 1
    return {"seconds": time.perf_counter() - begin, "reached": float(solver.t), "steps": steps}, solver.y


def diffrax_side(field, seconds):
    """How far diffrax gets in `seconds`, in chunks of steps; None if it is not installed."""
    try:
        import diffrax
    except ImportError:
        return None
    import jax

    right = diffrax.ODETerm(raw_field(field))
    control = diffrax.PIDController(rtol=RTOL, atol=RTOL * 1e-3)
    solver = diffrax.Dopri8()
    keep = diffrax.SaveAt(t1=True, solver_state=True, controller_state=True, made_jump=True)

    @jax.jit
    def chunk(t, y, dt, inner, controller, jump):
        return diffrax.diffeqsolve(
            right, solver, t, UNTIL, dt, y, stepsize_controller=control, saveat=keep, max_steps=CHUNK, throw=False,
            solver_state=inner, controller_state=controller, made_jump=jump,
        )  # fmt: skip

    t, y, begin, steps = 0.0, field.y0, None, 0
    state = (None, None, None)
    while True:
        out = chunk(t, y, 1e-3, *state)
        if begin is None:  # the first two calls compile; what they advanced is kept
            out = chunk(out.ts[-1], out.ys[-1], 1e-3, out.solver_state, out.controller_state, out.made_jump)
            jax.block_until_ready(out.ys)
            begin = time.perf_counter()
        t, y, state = out.ts[-1], out.ys[-1], (out.solver_state, out.controller_state, out.made_jump)
        steps += int(out.stats["num_steps"])
        if float(t) >= UNTIL or time.perf_counter() - begin > seconds:
            return {"seconds": time.perf_counter() - begin, "reached": float(t), "steps": steps}, np.asarray(y)


def descent_side(exact):
    """Error of descent at every rate, seconds per step, and the extrapolated time for ACCURACY."""
    from engine import best_of

    from mixflow import GradientDescent, Mixture, Transformer, train

    transformer = Transformer(width=WIDTH, omega=OMEGA)
    errors = [_distance(train(Mixture(2), transformer, _descent(rate)).dataset, exact) for rate in RATES]
    last = GradientDescent(RATES[-1], 20_000, save_every=20_000)
    per_step = best_of(3, {"descent": lambda: train(Mixture(2), transformer, last)})["descent"] / 20_000
    needed = UNTIL / (RATES[-1] * ACCURACY / errors[-1])
    return {
        "errors": dict(zip(map(str, RATES), errors)),
        "order": float(np.polyfit(np.log(RATES), np.log(errors), 1)[0]),
        "seconds_at_0.1": per_step * UNTIL / 0.1,
        "extrapolated_steps": needed,
        "extrapolated_seconds": needed * per_step,
    }


def _descent(rate):
    from mixflow import GradientDescent

    steps = round(UNTIL / rate)
    return GradientDescent(rate, steps, save_every=steps)


def _distance(data, exact):
    """Largest difference of w and A from a flat state of the flow."""
    found = np.concatenate([data.w.values[-1].ravel(), data.A.values[-1].ravel()])
    return float(np.abs(found - exact[: len(found)]).max())


def torch_side(python):
    """Seconds of the obvious PyTorch program for the same run; None if there is no PyTorch."""
    from against_torch import run_torch

    rng = np.random.default_rng(0)
    weights = OMEGA / np.sqrt(WIDTH) * rng.standard_normal((2, 2, WIDTH, DIMENSION))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights"
        path.write_bytes(array("d", weights.ravel().tolist()).tobytes())
        try:
            runs = [run_torch(python, path, dtype, 1, 2000, WIDTH) for dtype in ("float64", "float32")]
        except SystemExit as missing:
            return {"missing": str(missing)}
    best = min(runs, key=lambda run: run["us"])
    return {"seconds": best["us"] * 1e-6 * TORCH_STEPS, "us_per_step": best["us"], "version": best["version"]}


def many_side(count):
    """Seconds of `count` seeds through train_many."""
    from mixflow import GradientFlow, Mixture, Transformer, train_many

    models = [Transformer(width=WIDTH, omega=OMEGA, seed=seed) for seed in range(count)]
    method = GradientFlow(until=UNTIL, rtol=RTOL, save_at=20)
    train_many(Mixture(2), models[:4], method)  # compiles
    begin, cpu = time.perf_counter(), time.process_time()
    batch = train_many(Mixture(2), models, method).dataset
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    lost = int(np.isnan(batch.loss.values[:, -1]).sum())
    return {
        "seeds": count,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "per_thousand": 1000 * seconds / count,
        "lost": lost,
    }


def seeds_side(width, seeds=20, halvings=10):
    """Every seed to t = 2000 by the flow with its certificate, and by descent at rates that fall by √2.

    Where a step falls relative to a kink makes single errors jitter, so the order is fitted over all rates.
    """
    from mixflow import GradientDescent, Mixture, Transformer, train_many
    from mixflow.engines.gated import flow
    from mixflow.engines.gram_field import gram_field
    from mixflow.filippov import certify
    from mixflow.methods.flow import GradientFlow

    method = GradientFlow(until=UNTIL, rtol=RTOL, save_at=50)
    models = [Transformer(width=width, omega=OMEGA, seed=seed) for seed in range(seeds)]
    steps = [round(UNTIL / RATES[0] * 2 ** (i / 2)) for i in range(halvings + 1)]
    rates = UNTIL / np.array(steps)
    batches = [train_many(Mixture(2), models, GradientDescent(UNTIL / n, n, save_every=n)).dataset for n in steps]
    rows = []
    for i, model in enumerate(models):
        field = gram_field(Mixture(2), model)
        run = flow(field, field.y0, method)
        proof = certify(run)
        errors = np.array([_distance(batch.isel(run=i), run.state) for batch in batches])
        order = np.polyfit(np.log(rates), np.log(errors), 1)[0]
        rows.append((proof["relative_difference"], proof["relative_drift_tr_C2"], proof["evaluations"],
                     proof["events"], errors[-1], (errors / rates).max(), order))  # fmt: skip
    names = ("relative_difference", "relative_drift", "evaluations", "events", "last_error", "error_over_rate", "order")
    return {
        name: [float(f(column)) for f in (np.min, np.median, np.max)] for name, column in zip(names, np.array(rows).T)
    }


def sides(options):
    """(name, numbers, the sentence that reports them) of every side, as each is done."""
    from engine import machine

    yield "machine", machine(), f"{machine()}: K = 2, width {WIDTH}, to t = {UNTIL:g}"
    field, exact, ours = flow_side()
    yield (
        "flow",
        ours,
        (
            f"flow here: {ours['seconds'] * 1e3:.0f} ms, error {ours['error']:.1e}, {ours['evaluations']} evaluations, "
            f"{ours['events']} events"
        ),
    )
    t = torch_side(options.torch_python)
    yield (
        "torch",
        t,
        t.get("missing")
        or (
            f"PyTorch {t['version']}: {t['us_per_step']:.0f} µs per step, {t['seconds']:.1f} s for {TORCH_STEPS} steps, "
            f"{t['seconds'] / ours['seconds']:.0f} times the flow (aim: 200)"
        ),
    )
    m = many_side(1000 if options.full else options.many)
    yield (
        "many",
        m,
        (
            f"train_many: {m['seeds']} seeds in {m['seconds']:.1f} s ({m['cpu_seconds']:.1f} s of CPU, {m['lost']} lost), "
            f"{m['per_thousand']:.0f} s per 1,000 (aim: 120 on 2 cores)"
        ),
    )
    d = descent_side(exact)
    yield (
        "descent",
        d,
        (
            f"descent: error {d['errors']['0.1']:.1e} at rate 0.1, order {d['order']:.2f}; {ACCURACY:g} would take "
            f"{d['extrapolated_steps']:.1e} steps, {d['extrapolated_seconds'] / 3600:.3g} h (extrapolated), "
            f"{d['extrapolated_seconds'] / ours['seconds']:.1e} times the flow"
        ),
    )
    solvers = {name: (lambda name=name: scipy_side(field, name, options.seconds)) for name in ("LSODA", "DOP853")}
    for name, solve in {**solvers, "diffrax Dopri8": lambda: diffrax_side(field, options.seconds)}.items():
        if (found := solve()) is not None:
            r = found[0]
            end = "finished" if r["reached"] >= UNTIL else f"stalled: t = {r['reached']:.6g} of {UNTIL:g}"
            yield name, r, f"{name} on the raw field: {end} after {r['seconds']:.0f} s, {r['steps']} steps"
    for width in (16, 64, 256) if options.seeds else ():
        columns = seeds_side(width)
        lines = [f"width {width}, least, median and largest of 20 seeds:"]
        lines += [f"    {name:22} {low:.3g}  {middle:.3g}  {high:.3g}" for name, (low, middle, high) in columns.items()]
        yield f"seeds at width {width}", columns, "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", default=sys.executable, metavar="PATH", help="an interpreter with PyTorch")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each general solver (default 20)")
    parser.add_argument("--many", type=int, default=60, metavar="N", help="seeds through train_many (default 60)")
    parser.add_argument("--full", action="store_true", help="1,000 seeds through train_many")
    parser.add_argument("--seeds", action="store_true", help="20 seeds at three widths against descent")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if not options.seconds > 0 or options.many < 1:
        parser.error(f"--seconds {options.seconds:g} --many {options.many}: expected positive numbers")
    sys.path.insert(0, str(ROOT))
    from mixflow.jaxed import float64

    result = {}
    with float64():  # for SciPy's and diffrax's right-hand sides too
        for name, numbers, sentence in sides(options):
            result[name] = numbers
            if not options.json:
                print(sentence, flush=True)  # as each is done: the whole takes minutes
    if options.json:
        print(json.dumps(result))
    if not result["flow"]["error"] < ACCURACY:
        sys.exit(f"flow: the error {result['flow']['error']:.1e} is not below {ACCURACY:g}, so the times mean nothing.")


if __name__ == "__main__":
    main()
