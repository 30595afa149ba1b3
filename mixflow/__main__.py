"""The program: `mixflow …` and `python -m mixflow …`. Only a program may take Ctrl-C; importing this file makes it one."""

import signal
import sys

from .ctrl_c import leave

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, leave)  # before anything slow is imported

from .cli import main

for stream in (sys.stdout, sys.stderr):
    if hasattr(stream, "reconfigure"):  # a terminal or a pipe that has no ω gets \u03c9, not an end in the middle
        stream.reconfigure(errors="backslashreplace")

if __name__ == "__main__":
    sys.exit(main())
