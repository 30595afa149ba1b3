"""The command line: thin, flags -> the same calls a script would make."""

import argparse
import sys
from importlib import import_module

from .commands import NAMES
from .commands.common import BAD_INPUT, DONE, INTERRUPTED


def main(arguments=None):
    """Run one command; returns the exit code."""
    from .errors import Interrupted, MixflowError

    parser = _parser()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse(unknown, getattr(options, "parser", parser))
    if not hasattr(options, "command"):
        parser.print_help()
        return DONE
    try:
        return options.command(options)
    except MixflowError as error:
        print(f"mixflow {options.name}: {error}", file=sys.stderr)
        return BAD_INPUT
    except Interrupted as stopped:
        print(f"\nmixflow {options.name}: {stopped}", file=sys.stderr)
        return INTERRUPTED
    except KeyboardInterrupt:
        print(f"\nmixflow {options.name}: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, for example `| head`
        sys.stderr.close()
        return DONE


class _Parser(argparse.ArgumentParser):
    """Bad usage in one line that names the fix."""

    def error(self, message):
        print(f"{self.prog}: {message}; see {self.prog} --help.", file=sys.stderr)
        sys.exit(BAD_INPUT)


def _refuse(unknown, parser):
    """Words that no flag took; the nearest flag is named."""
    from .checks import nearest

    flags = [flag for action in parser._actions for flag in action.option_strings]
    parser.error(f"unrecognized arguments: {' '.join(unknown)}{nearest(unknown[0], flags)}")


def _parser():
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
        for words, settings in module.flags():
            command.add_argument(*words, **settings)
        command.set_defaults(command=module.run, name=name, parser=command)
    return parser


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    def _get_help_string(self, action):
        if (
            action.default in (None, False)
            or action.default is argparse.SUPPRESS
            or "%(default)" in (action.help or "")
        ):
            return action.help
        return super()._get_help_string(action)


if __name__ == "__main__":
    sys.exit(main())
