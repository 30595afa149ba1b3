"""JAX, configured once: float64, the compiler options that make small loops fast, the persistent compilation cache."""

import functools
import os
import pathlib

# XLA runs every fused kernel of a loop body as a task of its own, some 0.2 µs each; for our bodies, a few µs of
# arithmetic in all, that is most of the time. The first option compiles a loop whose buffers are small into one
# function; its threshold (bytes touched by one step) covers `gram` to K = 5 and leaves wide `full` models to the
# threaded matrix products. The second merges kernels that read the same arrays. The third: LLVM would unroll a loop
# over 16 lanes into 16 scalar instructions before it looks for vectors. The vector width is a preference, without
# effect where AVX-512 is missing. Measured with one and the same step, K = 2 and 8 lanes: 8.0 µs without options, 3.7
# with the first two, 2.9 with all.
XLA_BACKEND_OPTIONS = {
    "xla_cpu_small_while_loop_byte_threshold": "20000000",
    "xla_cpu_use_multi_output_fusion": "true",
    "xla_cpu_disable_loop_unrolling": "true",
}
XLA_OPTIONS = " ".join(
    [
        "--xla_backend_extra_options=" + ",".join(f"{name}={value}" for name, value in XLA_BACKEND_OPTIONS.items()),
        "--xla_cpu_prefer_vector_width=512",
    ]
)

# XLA's newer code generator for fused loops takes twice as long to compile these fields (2.2 s instead of 1.2 s with
# sliding gates, K = 2) and the result runs no faster (440 and 454 µs for a step).
COMPILER = {"xla_cpu_use_fusion_emitters": False}


def cache_directory():
    """Where compiled programs are kept: $MIXFLOW_CACHE, or mixflow/ in the user's cache directory."""
    if chosen := os.environ.get("MIXFLOW_CACHE"):
        return pathlib.Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(home) if home else pathlib.Path.home() / ".cache") / "mixflow"


@functools.cache
def jax():
    """The configured `jax` module. Imported on first use, so that `mixflow --help` does not pay for it."""
    if "xla_backend_extra_options" not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {XLA_OPTIONS}".strip()
    import jax as module

    module.config.update("jax_enable_x64", True)
    compiled = cache_directory() / "compiled"
    try:
        compiled.mkdir(parents=True, exist_ok=True)
    except OSError:
        return module  # a read-only home costs a compilation per process, nothing else
    module.config.update("jax_compilation_cache_dir", str(compiled))
    module.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    module.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return module
