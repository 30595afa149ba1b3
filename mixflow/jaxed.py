"""JAX as a guest uses it: float64, fast small loops and a compilation cache for mixflow's own programs, nothing for others.

Every public call that computes with JAX runs inside `float64()` (the decorator `in_float64`), and what it compiles for
speed it compiles with `jit`. Both hold for the calling thread only and leave no trace: before and after, JAX has the
precision, flags and cache that the user gave it. `jax()` refuses to be used outside, where it might compute in float32.

    @in_float64
    def train(...):            # the door
        J = jax()              # the module, anywhere behind the door
        program = programs.get(key, lambda: jit(step))
"""

import contextlib
import functools
import importlib
import inspect
import os
import pathlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from .errors import MixflowError

# XLA runs every fused kernel of a loop body as a task of its own, some 0.2 µs each; for our bodies, a few µs of
# arithmetic in all, that is most of the time. The first option compiles a loop whose buffers are small into one
# function; its threshold (bytes touched by one step) covers `gram` to K = 5 and leaves wide `full` models to the
# threaded matrix products. The second: LLVM would unroll a loop over 16 lanes into 16 scalar instructions before it looks for
# vectors, and takes three times as long to compile `symmetric`. Measured per step of 8 lanes, without and with both: `gram` at
# K = 4 66 and 39 µs, `symmetric` at K = 200 99 and 54. Merging kernels that read the same arrays, which gained at K = 2 before
# `native` took such steps over, doubles these times, and those of standard transformers.
BACKEND_OPTIONS = {"xla_cpu_small_while_loop_byte_threshold": "20000000", "xla_cpu_disable_loop_unrolling": "true"}

# A preference, without effect where AVX-512 is missing.
OPTIONS = {"xla_cpu_prefer_vector_width": "512"}

# For programs that are compiled often and run briefly. XLA's newer code generator for fused loops takes twice as long to
# compile the fields of flows (2.2 s instead of 1.2 s with sliding gates, K = 2), and the result runs no faster (440 and
# 454 µs for a step). JAX 0.11 has no other generator, and refuses the option.
QUICK = {"xla_cpu_use_fusion_emitters": False}

PROGRAMS = 64  # compiled programs kept in memory; the page visits about as many settings in an hour

Function = TypeVar("Function", bound=Callable)

# .doors: how many float64() this thread is inside, .settings: theirs; .tuned: whether it is in a `jit` program
_thread = threading.local()
_lock = threading.RLock()
_inside = 0  # threads inside a door
_tuning = 0  # threads inside a `jit` program


def cache_directory():
    """Where compiled programs are kept: $MIXFLOW_CACHE, or mixflow/ in the user's cache directory."""
    if chosen := os.environ.get("MIXFLOW_CACHE"):
        return pathlib.Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(home) if home else pathlib.Path.home() / ".cache") / "mixflow"


def jax():
    """The `jax` module, for code that runs inside `float64()`. Imported on first use: `mixflow --help` does not pay for it.

    Raises RuntimeError outside, where JAX computes in whatever precision the user chose.
    """
    if not getattr(_thread, "doors", 0):
        raise RuntimeError(
            "mixflow's use of JAX began outside float64: put @in_float64 (mixflow/jaxed.py) on the public function, or call it "
            "inside `with float64():`."
        )
    if not _thread.settled:
        _settle(_module(), _thread.settings)
        _thread.settled = True
    if _process() != os.getpid():
        raise MixflowError(
            "this process was forked after mixflow had computed in its parent, and JAX's threads did not come along: start it "
            "with multiprocessing.get_context('spawn'), or fork before the first run."
        )
    return _module()


@functools.cache
def _module():
    return importlib.import_module("jax")


@functools.cache
def _process():
    """The process in which JAX was first used; a fork of it inherits the answer. MixflowError where JAX has no device."""
    try:
        _module().devices()
    except Exception as error:  # JAX_PLATFORMS names one that is not there; the type depends on the platform
        why = f" ({said.splitlines()[0][:100]})" if (said := str(error)) else ""
        raise MixflowError(
            f"JAX finds no device to compute on{why}: leave JAX_PLATFORMS out, or set it to cpu."
        ) from None
    return os.getpid()


@contextlib.contextmanager
def float64():
    """Inside, this thread's JAX computes in float64 and keeps what it compiles in mixflow's cache; others see no change.

    Settings that would change results or forbid what we do (promotion, NaN checks, transfer guards, jit switched off, how
    random numbers are made) have JAX's defaults inside. A user who has a compilation cache keeps it, for our programs too. May
    be nested. Where JAX is not loaded yet, it is only when it is used.
    """
    if getattr(_thread, "doors", 0):
        _thread.doors += 1
        try:
            yield
        finally:
            _thread.doors -= 1
        return
    with contextlib.ExitStack() as _thread.settings:
        _thread.doors, _thread.settled = 1, False
        try:
            if "jax" in sys.modules:
                jax()
            yield
        finally:
            _thread.doors = 0


def _settle(J, stack):
    """Enter the settings of `float64`; the stack leaves them."""
    for setting, value in (
        (J.enable_x64, True),
        (J.numpy_dtype_promotion, "standard"),
        (J.numpy_rank_promotion, "allow"),
        (J.debug_nans, False),
        (J.debug_infs, False),
        (J.transfer_guard, "allow"),
        (J.disable_jit, False),
        (J.default_prng_impl, "threefry2x32"),
        (J.threefry_partitionable, True),
    ):
        stack.enter_context(setting(value))
    _own_cache(J, stack)


def in_float64(function: Function) -> Function:
    """The function, with its whole call inside `float64()`. Not for generators and coroutines, which other code interrupts."""
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{function.__qualname__} hands over between its steps: put in_float64 on what runs it to its end."
        )

    @functools.wraps(function)
    def inside(*arguments, **options):
        with float64():
            return function(*arguments, **options)

    return inside  # type: ignore[return-value]  # functools.wraps keeps the signature


def _own_cache(J, stack):
    """Enter mixflow's compilation cache, unless the user has one or has switched caching off.

    JAX has one cache object for a process and makes it on first use, so the last thread to leave resets it: the user's
    next program then finds none, as before.
    """
    if J.config.jax_compilation_cache_dir is not None or not J.config.jax_enable_compilation_cache:
        return
    compiled = cache_directory() / "compiled"
    try:
        compiled.mkdir(parents=True, exist_ok=True)
        settings = importlib.import_module("jax._src.config")  # only there can they be set for one thread
        reset = importlib.import_module("jax.experimental.compilation_cache.compilation_cache").reset_cache
        places = (
            settings.compilation_cache_dir(str(compiled)),
            settings.persistent_cache_min_compile_time_secs(0.0),
            settings.persistent_cache_min_entry_size_bytes(
                -1
            ),  # 0 would make JAX write a number of its own into its settings
        )
    except (OSError, ImportError, AttributeError, TypeError):
        return  # a read-only home, or a JAX without these names, costs a compilation per process, nothing else
    for place in places:
        stack.enter_context(place)
    stack.callback(_leave, reset)
    with _lock:
        global _inside
        _inside += 1


def _leave(reset):
    global _inside
    with _lock:
        _inside -= 1
        if not _inside:
            reset()


def jit(function, *, quick=False):
    """`jax.jit(function)`, compiled with the options of this file that this JAX accepts.

    quick  for programs that are compiled often and run briefly
    """
    program = jax().jit(function, compiler_options=dict(_accepted(quick)))

    @functools.wraps(function)
    def run(*arguments):
        jax()  # a program kept from an earlier call may be traced for new shapes only now: in float64 then, too
        with _tuned():
            return program(*arguments)

    return run


def host_call(function, shapes, *arrays):
    """function(*arrays), NumPy in and out, as a part of a compiled program; a tuple of float64 arrays of the `shapes`.

    JAX calls back in threads of its own, where the user's precision holds and would round what passes: so each number
    travels as two whole ones of 32 bits.
    """
    J = jax()

    def on_the_host(*words):
        arrays = [np.ascontiguousarray(pair).view(np.float64)[..., 0] for pair in words]
        return tuple(np.ascontiguousarray(x, np.float64)[..., None].view(np.uint32) for x in function(*arrays))

    words = [J.lax.bitcast_convert_type(J.numpy.asarray(x, np.float64), np.uint32) for x in arrays]
    kinds = tuple(J.ShapeDtypeStruct((*shape, 2), np.uint32) for shape in shapes)
    answers = J.pure_callback(on_the_host, kinds, *words, vmap_method="sequential")
    return tuple(J.lax.bitcast_convert_type(pair, np.float64) for pair in answers)


def compiler_options():
    """What `jit` adds to the user's own settings with this JAX, by name; recorded with every run. {} if JAX was not used."""
    if "jax" not in sys.modules:
        return {}
    return {**dict(_accepted(False)), **(BACKEND_OPTIONS if _extended() else {})}


@functools.cache
def _accepted(quick):
    """The options of `jax.jit` that this JAX knows and XLA_FLAGS does not decide, as pairs; found by trying them once."""
    wanted = {**OPTIONS, **(QUICK if quick else {})}
    theirs = os.environ.get("XLA_FLAGS", "")
    wanted = {name: value for name, value in wanted.items() if name not in theirs}

    def works(options):
        try:
            _module().jit(lambda x: x, compiler_options=options).lower(0.0).compile()
        except Exception:  # the type of this error has changed from release to release
            return False
        return True

    if works(wanted):
        return tuple(wanted.items())
    return tuple((name, value) for name, value in wanted.items() if works({name: value}))


@contextlib.contextmanager
def _tuned():
    """Inside, what this thread compiles has BACKEND_OPTIONS.

    `jax.jit` takes the simple options of XLA but not this map, and XLA_FLAGS would hold for the user's programs too. So while
    a program of ours runs, JAX's function that makes compile options is replaced by one that adds them for our thread.
    """
    global _tuning
    replacement = _extended()
    if replacement is None or getattr(_thread, "tuned", False):
        yield
        return
    compiler, original, extended = replacement
    with _lock:
        _tuning += 1
        compiler.get_compile_options = extended
    _thread.tuned = True
    try:
        yield
    finally:
        _thread.tuned = False
        with _lock:
            _tuning -= 1
            if not _tuning:
                compiler.get_compile_options = original


@functools.cache
def _extended():
    """(module, its get_compile_options, the one that adds BACKEND_OPTIONS), or None where this JAX has no such thing."""
    try:
        compiler = importlib.import_module("jax._src.compiler")
        original = compiler.get_compile_options
        options_type = compiler.CompileOptions
    except (ImportError, AttributeError):
        return None

    def added(options):
        serialised = options.SerializeAsString()
        # A message that ends with more of one of its fields is that message with the field merged. 3 and 3 are the build
        # options and the debug options within; 500 is the map of backend options, pairs of key 1 and value 2.
        entries = [
            _field(500, _field(1, name.encode()) + _field(2, value.encode()))
            for name, value in BACKEND_OPTIONS.items()
            if name.encode() not in serialised  # set by the user in XLA_FLAGS: left alone
        ]
        overrides = options.env_option_overrides
        options = options_type.ParseFromString(serialised + _field(3, _field(3, b"".join(entries))))
        options.env_option_overrides = overrides
        return options

    def extended(*arguments, **keywords):
        options = original(*arguments, **keywords)
        return added(options) if getattr(_thread, "tuned", False) else options

    try:
        understood = added(options_type()).SerializeAsString()
    except Exception:  # whatever a later JAX raises here: without the options programs are slower and as right
        return None
    if not all(name.encode() in understood for name in BACKEND_OPTIONS):
        return None
    return compiler, original, extended


def _field(number, content):
    """A length-delimited field of a protocol buffer."""

    def varint(x):
        return bytes([x]) if x < 128 else bytes([x % 128 + 128]) + varint(x // 128)

    return varint(8 * number + 2) + varint(len(content)) + content


class Programs:
    """At most `size` compiled programs by key; the one not used for longest makes room. Safe to share between threads.

    >>> kept = Programs(2)
    >>> [kept.get(key, lambda: key.upper()) for key in "abca"], len(kept)
    (['A', 'B', 'C', 'A'], 2)
    """

    def __init__(self, size):
        self.size = size
        self._kept, self._building = OrderedDict(), {}
        self._lock = threading.Lock()

    def get(self, key, build):
        """The program kept under `key`, built by `build()` if there is none. Equal keys must mean equal programs.

        It is built once, however many threads ask; who asks for another does not wait for it. To build may take others.
        """
        with self._lock:
            turn = self._building.setdefault(key, threading.Lock())
        with turn:
            try:
                with self._lock:
                    if key in self._kept:
                        self._kept.move_to_end(key)
                        return self._kept[key]
                found = build()
                with self._lock:
                    self._kept[key] = found
                    while len(self._kept) > self.size:
                        self._kept.popitem(last=False)
                return found
            finally:
                self._building.pop(key, None)

    def __len__(self):
        return len(self._kept)


programs = Programs(PROGRAMS)  # every compiled program that outlives a run belongs here
