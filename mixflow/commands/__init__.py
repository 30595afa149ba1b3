"""The commands, one file each: SUMMARY, EXAMPLE, flags() for the parser, run(options) -> exit code.

Heavy imports stay inside `run`, so that help answers at once.
"""

NAMES = (
    "reproduce",
    "verify",
    "train",
    "check",
    "claims",
    "sweep",
    "construct",
    "prove",
    "playground",
    "data",
    "bench",
    "info",
    "completion",
)
