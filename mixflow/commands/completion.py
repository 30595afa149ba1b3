"""`mixflow completion`: a script that lets the shell complete commands and flags."""

import argparse

from .common import DONE

SUMMARY = "Print a script that completes commands and flags in your shell."
EXAMPLE = "mixflow completion bash > ~/.local/share/bash-completion/completions/mixflow"
SHELLS = ("bash", "zsh", "fish")


def flags():
    return [
        (
            ["shell"],
            {
                "choices": SHELLS,
                "help": "bash: source it in ~/.bashrc; zsh: in ~/.zshrc; fish: save it as "
                "~/.config/fish/completions/mixflow.fish",
            },
        )
    ]


def run(options):
    print(script(options.every_command(), options.shell))
    return DONE


def script(parser, shell):
    """The completion script of a shell, made from the parser of all commands."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    helps = {choice.dest: choice.help for choice in commands._choices_actions}
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands.choices, helps)


def _bash(commands, _helps):
    """Words after a flag that names its choices are these; otherwise flags, and files."""
    cases = []
    for name, parser in commands.items():
        for action in parser._actions:
            if action.choices and action.option_strings:
                flags = "|".join(action.option_strings)
                cases.append(f"      {name}:{flags.replace('|', f'|{name}:')}) words={_quoted(action.choices)} ;;")
        words = [flag for action in parser._actions for flag in action.option_strings]
        words += [str(word) for action in parser._actions if not action.option_strings for word in action.choices or ()]
        cases.append(f"      {name}:*) words={_quoted(words)} ;;")
    return "\n".join(
        [
            "_mixflow() {",
            '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=',
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f"    words={_quoted([*commands, '--help', '--version'])}",
            "  else",
            '    case "${COMP_WORDS[1]}:$before" in',
            *cases,
            "    esac",
            "  fi",
            '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            "complete -o default -F _mixflow mixflow",
        ]
    )


def _zsh(commands, helps):
    """zsh reads bash's script."""
    return "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + _bash(commands, helps)


def _fish(commands, helps):
    lines = [
        "complete -c mixflow -f -n __fish_use_subcommand -l help",
        "complete -c mixflow -f -n __fish_use_subcommand -l version",
    ]
    for name, parser in commands.items():
        lines.append(f"complete -c mixflow -f -n __fish_use_subcommand -a {name} -d {_quoted([helps[name]])}")
        for action in parser._actions:
            inside = f"complete -c mixflow -n '__fish_seen_subcommand_from {name}'"
            choices = f" -xa {_quoted(action.choices)}" if action.choices else ""
            for flag in action.option_strings:
                lines.append(f"{inside} {'-l' if flag.startswith('--') else '-s'} {flag.lstrip('-')}{choices}")
            if choices and not action.option_strings:
                lines.append(f"{inside}{choices.replace(' -xa', ' -fa')}")
    return "\n".join(lines)


def _quoted(words):
    """One word of the shell, between single quotes."""
    return "'" + " ".join(map(str, words)).replace("'", "'\\''") + "'"
