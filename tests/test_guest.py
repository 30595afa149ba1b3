"""A polite guest: whatever mixflow does, the process has its user's settings before, between and after; and float64 is float64
whatever those settings are (mixflow/jaxed.py)."""

import concurrent.futures
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import mixflow as mf
from mixflow.jaxed import BACKEND_OPTIONS, Programs, _tuned, float64, in_float64, jax

pytestmark = pytest.mark.as_user

# Everything of a process that a library could change for others, as text.
GLOBALS = """
import hashlib, locale, logging, os, pickle, random, signal, sys, threading, warnings
import jax, jax.numpy as jnp, matplotlib, numpy as np
from jax._src import compilation_cache, compiler

def globals_of_the_process():
    mask = os.umask(0); os.umask(mask)
    digest = lambda x: hashlib.sha256(pickle.dumps(x)).hexdigest()
    return {
        "jax settings": {name: repr(value) for name, value in jax.config.values.items()},
        "jax precision": str(jnp.ones(1).dtype),
        "jax compiles with": compiler.get_compile_options(1, 1).SerializeAsString().hex(),
        "jax makes options by": compiler.get_compile_options.__qualname__,
        "jax cache": repr(compilation_cache._cache),
        "numpy errors": np.geterr(),
        "numpy printing": repr(np.get_printoptions()),
        "numpy random": digest(np.random.get_state()),
        "random": digest(random.getstate()),
        "matplotlib": {name: repr(value) for name, value in matplotlib.rcParams.items() if name != "backend"},
        "warnings": repr(warnings.filters),
        "signals": {str(s): repr(signal.getsignal(s)) for s in signal.valid_signals()},
        "blocked signals": repr(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "environment": dict(os.environ),
        "umask": mask,
        "folder": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "hooks": [repr(hook) for hook in (sys.excepthook, sys.displayhook, threading.excepthook)],
        "log": [logging.getLogger().level, repr(logging.getLogger().handlers)],
        "streams": [repr(stream) for stream in (sys.stdout, sys.stderr, sys.stdin)],
    }
"""

SESSION = (
    GLOBALS
    + """
import json, sys
# What these do when they are imported, whoever asks for them, is theirs: SciPy adds filters of warnings.
import distributed, equinox, h5netcdf, jax.scipy.special, matplotlib.pyplot, optax, scipy.optimize, xarray

before = globals_of_the_process()
import mixflow as mf

if __name__ == "__main__":
    found = {}
    def note(name):
        now = globals_of_the_process()
        found[name] = {k: [before[k], now[k]] for k in before if before[k] != now[k]}
    note("import")
    task, method = mf.Mixture(), mf.GradientDescent(steps=50)
    run = mf.train(task, mf.Transformer(), method); note("descent")
    mf.train(task, mf.Transformer(), mf.GradientFlow(until=20.0)); note("flow")
    mf.train(task, mf.Transformer(width=4), mf.Optimizer(kind="adam", steps=20)); note("adam")
    mf.train_many(task, [mf.Transformer(width=4, seed=s) for s in range(3)], method); note("many")
    run.save("run.nc"); mf.load("run.nc"); note("save and load")
    mf.plot_run(run); note("plot")
    description = {"transformer": {"width": 4}, "method": {"kind": "descent", "steps": 20}, "seeds": {"transformer.seed": 2}}
    mf.sweep(description, out="sweep", workers=1); note("sweep")
    try:
        mf.train(task, mf.Transformer(), mf.GradientDescent(learning_rate=1e300, steps=50))
    except mf.DivergedError:
        pass
    note("a diverging run")
    print(json.dumps(found))
"""
)


def process(code, folder, **environment):
    path = folder / "session.py"
    path.write_text(code)
    environment = {
        **os.environ,
        "MPLBACKEND": "Agg",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        **environment,
    }
    done = subprocess.run([sys.executable, str(path)], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_whole_session_leaves_the_process_as_it_was(tmp_path):
    changed = process(SESSION, tmp_path)
    assert len(changed) == 9
    assert changed == {step: {} for step in changed}


TOGETHER = """
import asyncio, concurrent.futures, json, multiprocessing, warnings
import mixflow as mf

def loss(seed):
    network = mf.Transformer(width=4, seed=seed)
    both = mf.GradientDescent(steps=20), mf.Optimizer(kind="adam", steps=20)  # in machine code, and by JAX
    return [float(mf.train(mf.Mixture(), network, method).dataset.loss[-1]) for method in both]

def forked(seed):
    try:
        return loss(seed)
    except mf.MixflowError as error:
        return str(error)

async def inside():  # as in a notebook, whose loop is running
    return [loss(1), await asyncio.to_thread(loss, 1)]

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1) as pool:  # before the first run of this process
        early = pool.map(forked, [1])
    found = {"alone": loss(1), "fork, early": early[0], "loop": asyncio.run(inside())}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found["threads"] = list(pool.map(loss, [1, 1]))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found["spawn"] = pool.map(loss, [1])
    with warnings.catch_warnings(action="ignore"), multiprocessing.get_context("fork").Pool(1) as pool:  # JAX warns, too
        found["fork, late"] = pool.map_async(forked, [1]).get(60)[0]
    print(json.dumps(found))
"""


def test_threads_pools_and_loops_compute_the_same_and_a_late_fork_is_told(tmp_path):
    found = process(TOGETHER, tmp_path)
    alone = found.pop("alone")
    assert "get_context('spawn')" in found.pop("fork, late")
    assert found == {"fork, early": alone, "loop": [alone] * 2, "threads": [alone] * 2, "spawn": [alone]}


NUMBERS = """
import json, os
import jax, jax.numpy as jnp
theirs = jnp.ones(3)
SETTINGS
precision = lambda: str(jax.dtypes.canonicalize_dtype("float64"))
usual = precision()
import mixflow as mf
task, digits = mf.Mixture(), {}
method = mf.GradientDescent(steps=200)
for name, network, how in (
    ("gram", mf.Transformer(width=8), method),
    ("symmetric", mf.Transformer(), method),
    ("adam", mf.Transformer(width=4), mf.Optimizer(kind="adam", steps=50)),
    ("flow", mf.Transformer(), mf.GradientFlow(until=20.0)),
    ("standard", mf.Vanilla(seed=1), mf.GradientDescent(steps=5)),
):
    run = mf.train(task, network, how)
    assert precision() == usual, name
    digits[name] = [float(x).hex() for x in run.dataset.loss.values]
    digits[name + " options"] = json.loads(run.dataset.attrs["compiler_options"])
jax.jit(lambda x: x * 2)(theirs)
print(json.dumps(digits))
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return process(NUMBERS.replace("SETTINGS", ""), tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize(
    "settings",  # several at once: a process costs six seconds
    [
        'jax.config.update("jax_enable_x64", False); jax.config.update("jax_numpy_rank_promotion", "raise"); '
        'jax.config.update("jax_numpy_dtype_promotion", "strict")',
        'jax.config.update("jax_enable_x64", True); jax.config.update("jax_debug_nans", True); '
        'jax.config.update("jax_transfer_guard", "disallow_explicit"); jax.config.update("jax_default_prng_impl", "rbg"); '
        'jax.config.update("jax_threefry_partitionable", False)',
    ],
)
def test_the_users_settings_change_no_digit(settings, undisturbed, tmp_path):
    assert process(NUMBERS.replace("SETTINGS", settings), tmp_path) == undisturbed


@pytest.mark.parametrize(
    "flags",
    ["--xla_cpu_prefer_vector_width=256", "--xla_backend_extra_options=xla_cpu_disable_loop_unrolling=false"],
)
def test_flags_of_the_users_own_are_respected(flags, undisturbed, tmp_path):
    found = process(NUMBERS.replace("SETTINGS", ""), tmp_path, XLA_FLAGS=flags)
    assert flags.split("=")[0].strip("-") not in found["gram options"]
    for name in ("gram", "symmetric", "adam", "flow"):
        ours, theirs = ([float.fromhex(x) for x in digits[name]] for digits in (undisturbed, found))
        np.testing.assert_allclose(theirs, ours, rtol=1e-12)


def test_outside_of_float64_jax_is_refused_and_inside_it_is_not():
    with pytest.raises(RuntimeError, match="in_float64"):
        jax()
    with float64():
        assert jax().numpy.ones(1).dtype == np.float64
        with float64():
            assert jax().numpy.ones(1).dtype == np.float64
        assert jax().numpy.ones(1).dtype == np.float64
    with pytest.raises(RuntimeError, match="in_float64"):
        jax()


def test_float64_holds_for_one_thread():
    import jax as theirs

    inside, seen = threading.Barrier(2), []

    def other():
        inside.wait()
        seen.append(str(theirs.numpy.ones(1).dtype))
        inside.wait()

    usual = str(theirs.numpy.ones(1).dtype)
    thread = threading.Thread(target=other)
    thread.start()
    with float64():
        jax()
        inside.wait()
        inside.wait()
    thread.join()
    assert seen == [usual] == ["float32"]


def test_what_hands_over_between_its_steps_cannot_be_a_door():
    with pytest.raises(TypeError, match="hands over"):
        in_float64(lambda: (yield))


def test_programs_of_ours_are_compiled_with_the_options_and_others_are_not():
    from jax._src import compiler

    def tuned():
        """Whether JAX, asked in this thread, would compile with our options."""
        given = compiler.get_compile_options(1, 1).SerializeAsString()
        found = {name.encode() in given for name in BACKEND_OPTIONS}
        assert len(found) == 1
        return found.pop()

    assert not tuned()
    with float64(), _tuned():
        assert tuned()
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            assert not thread.submit(tuned).result()
    assert not tuned()
    run = mf.train(mf.Mixture(), mf.Transformer(), mf.GradientDescent(steps=10))
    assert set(BACKEND_OPTIONS) < set(json.loads(run.dataset.attrs["compiler_options"]))


def test_the_program_used_longest_ago_makes_room():
    kept = Programs(2)
    built = []

    def program(key):
        return kept.get(key, lambda: built.append(key) or key)

    for key in "abacab":
        assert program(key) == key
    assert built == ["a", "b", "c", "b"]
    assert len(kept) == 2


def test_a_program_is_built_once_and_nobody_waits_for_anothers():
    kept, built, go = Programs(4), [], threading.Event()

    def slow():
        go.wait(60)
        built.append("a")
        return kept.get("inner", lambda: "inner")  # to build may take others

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [pool.submit(kept.get, "a", slow) for _ in range(2)]
        assert kept.get("b", lambda: "b") == "b"  # while "a" is being built
        assert not built
        go.set()
        assert [each.result(60) for each in both] == ["inner"] * 2
    assert built == ["a"]
    with pytest.raises(ZeroDivisionError):
        kept.get("c", lambda: 1 / 0)
    assert kept.get("c", lambda: "c") == "c"  # who failed is in nobody's way
