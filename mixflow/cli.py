"""The command line: thin, flags -> the same calls a script would make."""

import argparse
import contextlib
import os
import sys
from importlib import import_module

from .commands import NAMES
from .commands.common import BAD_INPUT, DONE, INTERRUPTED, say
from .ctrl_c import work_begins
from .errors import Interrupted, MixflowError

LONGEST = 500  # characters of argparse's message, which repeats what it was given


def main(arguments=None):
    """Run one command; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell; whoever opens a file next must not become it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (for the life of the program)
    parser = _parser(arguments)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse(unknown, getattr(options, "parser", parser))
    if not hasattr(options, "command"):
        parser.print_help()
        return DONE
    if options.called != "train":  # which says by itself when there is something to keep
        work_begins()
    try:
        code = options.command(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output went away, for example `| head`
        _forget_output()
        return DONE
    except MixflowError as error:
        say(f"mixflow {options.called}: {error}")
        return BAD_INPUT
    except OSError as error:  # of print: files have their own StoreError
        return _unwritten(f"mixflow {options.called}", error)
    except Interrupted as stopped:
        say(f"\nmixflow {options.called}: {stopped}")
        return INTERRUPTED
    except KeyboardInterrupt:
        say(f"\nmixflow {options.called}: interrupted.")
        return INTERRUPTED


def _forget_output():
    """Python flushes stdout once more when it ends, and would fail once more."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unwritten(program, error):
    """Say that the output cannot be written; the exit code."""
    _forget_output()
    say(f"{program}: cannot write the output: {error.strerror or error}; send it to another place.")
    return BAD_INPUT


class _Parser(argparse.ArgumentParser):
    """Bad usage in one line that names the fix."""

    def _print_message(self, message, file=None):
        try:
            print(message, end="", file=file, flush=True)
        except BrokenPipeError:
            _forget_output()
        except OSError as error:  # argparse would not say so
            sys.exit(_unwritten(self.prog, error))

    def error(self, message):
        message = " ".join(message.split())
        say(f"{self.prog}: {message if len(message) <= LONGEST else message[:LONGEST] + '…'}; see {self.prog} --help.")
        sys.exit(BAD_INPUT)


def _refuse(unknown, parser):
    """Words that no flag took; the nearest flag is named."""
    from .checks import nearest

    flags = [flag for action in parser._actions for flag in action.option_strings]
    parser.error(f"unrecognized arguments: {' '.join(unknown)}{nearest(unknown[0], flags)}")


def _parser(arguments=NAMES):
    """The parser of all commands; only the one that is called gets its flags, so that the others import nothing."""
    from . import __version__

    parser = _Parser(
        prog="mixflow",
        description="The laboratory for watching a transformer learn a hidden correspondence, exactly.",
        epilog="example: mixflow train --classes 2 --omega 0.3 --steps 20000 --out run.nc",
    )
    parser.add_argument("--version", action="version", version=f"mixflow {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for name in NAMES:
        module = import_module(f".commands.{name}", __package__)
        command = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.SUMMARY,
            epilog=f"example: {module.EXAMPLE}",
            formatter_class=_Help,
        )
        for words, settings in module.flags() if name in arguments else ():
            command.add_argument(*words, **settings)
        command.set_defaults(command=module.run, called=name, parser=command, every_command=_parser)
    return parser


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    def _get_help_string(self, action):
        if (
            action.default in (None, False, [])
            or action.default is argparse.SUPPRESS
            or "%(default)" in (action.help or "")
        ):
            return action.help
        return super()._get_help_string(action)


if __name__ == "__main__":
    sys.exit(main())
