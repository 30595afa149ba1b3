"""How much faster is the engine than the obvious PyTorch program?

    python benchmarks/against_torch.py [--torch-python PATH]

The obvious program holds every weight (d = 100, m = 256, K = 2), runs the eight samples as one batch, and calls
loss.backward() and SGD.step(). It is timed in float64 and float32 with one thread and with all; the fastest counts.
PyTorch is not a dependency: `pip install torch` into this environment, or into another one and name its interpreter
with --torch-python. Both programs train the same network: the losses of the float64 run are compared. The engine is
pinned to one core, whatever PyTorch uses; alone it advances one trajectory, batched as many as it has lanes.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path

K, D, M, OMEGA, BIAS, LEARNING_RATE = 2, 100, 256, 0.3, 0.5, 0.1
STRETCH, SECONDS = 10, 10
ASK_FOR_TORCH = "PyTorch is missing: pip install torch, or name an interpreter that has it with --torch-python PATH."


def torch_program(weights, dtype, threads, steps, width):
    """Runs in the interpreter that has torch; prints time per step and the loss before the last step as JSON."""
    try:
        import torch
        from torch import nn
    except ImportError:
        sys.exit(3)
    torch.set_num_threads(threads)
    dtype = getattr(torch, dtype)

    class Head(nn.Module):
        def __init__(self, W_K, W_Q):
            super().__init__()
            self.W_K, self.W_Q = nn.Parameter(W_K), nn.Parameter(W_Q)
            self.w = nn.Parameter(torch.zeros(D, dtype=dtype))

        def forward(self, x):  # (sample, token, d)
            scores = (x @ self.W_K.T) @ (x @ self.W_Q.T).transpose(1, 2)  # (sample, key, query)
            read = (x @ self.w).unsqueeze(1) @ torch.softmax(scores, dim=1)
            return torch.relu(BIAS + read.mean(dim=(1, 2)))

    basis, x, y = torch.eye(D, dtype=dtype), [], []
    for k, signs in itertools.product(range(K), itertools.product((1, -1), repeat=K)):
        x.append(torch.stack([basis[k], *(sign * basis[K + j] for j, sign in enumerate(signs))]))
        y.append(signs[k])
    x, y = torch.stack(x), torch.tensor(y, dtype=dtype)
    stored = torch.frombuffer(bytearray(Path(weights).read_bytes()), dtype=torch.float64)
    W_K, W_Q = stored.reshape(2, 2, width, D).to(dtype)
    plus, minus = Head(W_K[0], W_Q[0]), Head(W_K[1], W_Q[1])
    optimizer = torch.optim.SGD([*plus.parameters(), *minus.parameters()], lr=LEARNING_RATE)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.softplus(-y * (plus(x) - minus(x))).mean()
        loss.backward()
        optimizer.step()
        return loss

    # The best of short stretches; processor time for one thread, as on the engine's side, wall time for more; and no
    # more than SECONDS in all, because two threads on a busy machine can wait for each other a hundred times longer than
    # they compute.
    clock = time.process_time if threads == 1 else time.perf_counter
    best, done, begin = float("inf"), 0, time.perf_counter()
    while done < steps and (done == 0 or time.perf_counter() - begin < SECONDS):
        start = clock()
        for _ in range(STRETCH):
            loss = step()
        best = min(best, (clock() - start) / STRETCH)
        done += STRETCH
    print(json.dumps({"us": best * 1e6, "steps": done, "loss": float(loss), "version": torch.__version__}))


def run_torch(python, weights, dtype, threads, steps, width=M):
    command = [python, __file__, "--worker", str(weights), dtype, str(threads), str(steps), str(width)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise SystemExit(f"against_torch: cannot run {python}: {error.strerror}.") from None
    if done.returncode == 3:
        raise SystemExit(f"against_torch: {ASK_FOR_TORCH}")
    if done.returncode:
        raise SystemExit(f"against_torch: the PyTorch program failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def reference_loss(W_K, W_Q, steps):
    """The loss before the last step of the same network, by the reduction in minimal.py."""
    import numpy as np

    import minimal

    k, q = W_K[..., : 2 * K], W_Q[..., : 2 * K]  # the features are the first basis vectors
    state = np.zeros((2, 2 * K)), minimal.T(k) @ q, minimal.T(k) @ k, minimal.T(q) @ q
    for _ in range(steps):
        state, _, _, loss = minimal.gram_step(*state)
    return float(loss)


def compare(options):
    import numpy as np
    from engine import LANES, best_of, engine_call, machine, versions

    rng = np.random.default_rng(0)
    W_K, W_Q = OMEGA / np.sqrt(M) * rng.standard_normal((2, 2, M, D))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    result = {"machine": machine(), **versions(), "lanes": LANES, "torch": {}}
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights"
        weights.write_bytes(array("d", np.stack([W_K, W_Q]).ravel().tolist()).tobytes())
        for dtype, threads in itertools.product(("float64", "float32"), sorted({1, cores})):
            run = run_torch(options.torch_python, weights, dtype, threads, options.steps)
            result["torch"][f"{dtype}, {threads} thread{'s' * (threads > 1)}"] = run["us"]
            result["torch_version"] = run["version"]
            if dtype == "float64" and threads == 1:
                result["loss_difference"] = abs(run["loss"] - reference_loss(W_K, W_Q, run["steps"]))
    result["torch_us_per_step"] = min(result["torch"].values())
    if not options.without_engine:
        if hasattr(os, "sched_setaffinity"):  # before the engine starts its pool of threads
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        steps, lanes = 20_000, {"alone": 1, "batched": LANES}
        best = best_of(20, {name: engine_call(count, steps)[0] for name, count in lanes.items()})
        for name, count in lanes.items():
            result[f"engine_us_{name}"] = best[name] / steps / count * 1e6
            result[f"ratio_{name}"] = result["torch_us_per_step"] / result[f"engine_us_{name}"]
    return result


def report(result):
    print(f"{result['machine']}, torch {result['torch_version']}, jax {result['jax']}, K = {K}, d = {D}, m = {M}")
    for setting, us in result["torch"].items():
        print(f"torch {setting}: {us:.1f} µs per step")
    print(f"torch float64 and the reduction end with losses that differ by {result['loss_difference']:.1e}")
    for name, where, aim in (("alone", "alone", 150), ("batched", f"in {result['lanes']} lanes", 600)):
        if f"ratio_{name}" in result:
            us, ratio = result[f"engine_us_{name}"], result[f"ratio_{name}"]
            print(f"engine {where}, one core: {us:.3f} µs per trajectory-step, {ratio:.0f} times faster (aim: {aim})")


def main():
    if sys.argv[1:2] == ["--worker"]:
        weights, dtype, threads, steps, width = sys.argv[2:]
        return torch_program(weights, dtype, int(threads), int(steps), int(width))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", default=sys.executable, metavar="PATH", help="an interpreter with PyTorch")
    parser.add_argument("--steps", type=int, default=2000, help="steps of each PyTorch run, at most (default 2000)")
    parser.add_argument("--without-engine", action="store_true", help="time and check PyTorch alone")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error(f"--steps {options.steps}: expected at least 1")
    result = compare(options)
    print(json.dumps(result)) if options.json else report(result)
    if not result["loss_difference"] < 1e-9:
        sys.exit("against_torch: the two programs do not train the same network, so the times are not comparable.")


if __name__ == "__main__":
    main()
