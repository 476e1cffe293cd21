"""Print the completion script of a shell: commands, options and choices.

The script is static: completing a command line does not start Python. Print it again after an update of voiceveil.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from voiceveil.cli.parser import subparsers
from voiceveil.systems import systems

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """\
examples:
  voiceveil completion bash > ~/.local/share/bash-completion/completions/voiceveil
  voiceveil completion zsh > ~/.voiceveil.zsh
  voiceveil completion fish > ~/.config/fish/completions/voiceveil.fish

For zsh, also add `source ~/.voiceveil.zsh` to ~/.zshrc.
"""


#: Loads the completion system of zsh, unless ~/.zshrc has done so, and its emulation of bash's.
_ZSH = (
    "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }",
    "autoload -Uz bashcompinit && bashcompinit",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=SHELLS, help="the shell to print a script for")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    commands = list(_commands())
    print(_fish(commands) if args.shell == "fish" else _bash(commands, zsh=args.shell == "zsh"))
    return 0


@dataclass(frozen=True)
class _Command:
    """A command such as ("corpus", "check") with its subcommands, options and the values that are known."""

    path: tuple[str, ...]
    below: dict[str, str]  # name -> help
    options: dict[str, str]
    values: dict[str, tuple[str, ...]]  # option -> choices
    arguments: tuple[str, ...] = ()


def _commands() -> Iterator[_Command]:
    from voiceveil.cli.main import VERBS, verb_parser

    yield _Command((), dict(VERBS), {"--help": "show help", "--version": "show the version"}, {})
    for verb in VERBS:
        yield from _below((verb,), verb_parser(verb)[1])


def _below(path: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[_Command]:
    options: dict[str, str] = {}
    values: dict[str, tuple[str, ...]] = {}
    arguments: tuple[str, ...] = ()
    for action in parser._actions:
        for option in action.option_strings:
            if option.startswith("--") and action.help != argparse.SUPPRESS:
                options[option] = (action.help or "").replace("%(default)s", str(action.default))
                if _choices(action, path):
                    values[option] = _choices(action, path)
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction):
            arguments = arguments or _choices(action, path)
    below = dict(subparsers(parser))
    yield _Command(path, dict.fromkeys(below, ""), options, values, arguments)
    for name, sub in below.items():
        yield from _below((*path, name), sub)


def _choices(action: argparse.Action, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values that an option or argument can have, if they are known."""
    names_system = path in (("systems",), ("check",)) and not action.option_strings
    if names_system or ("--system" in action.option_strings and path[0] != "listen"):
        return tuple(systems)
    return tuple(map(str, action.choices)) if action.choices else ()


def _bash(commands: list[_Command], *, zsh: bool) -> str:
    paths = "|".join(f'"{" ".join(("voiceveil", *command.path))}"' for command in commands if command.path)
    lines = list(_ZSH) if zsh else []
    lines += [
        "_voiceveil() {",
        '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        '    local path=voiceveil words="" i',
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        '        case "$path ${COMP_WORDS[i]}" in',
        f'            {paths}) path="$path ${{COMP_WORDS[i]}}" ;;',
        "        esac",
        "    done",
        '    case "$path $previous" in',
    ]
    for command in commands:
        name = " ".join(("voiceveil", *command.path))
        lines += [f'        "{name} {option}") words="{" ".join(v)}" ;;' for option, v in command.values.items()]
    lines += ["    esac", '    if [[ -z "$words" ]]; then', '        case "$path" in']
    for command in commands:
        name = " ".join(("voiceveil", *command.path))
        others = " ".join((*command.below, *command.arguments))
        options = " ".join(command.options)
        lines.append(
            f'            "{name}") if [[ "$current" == -* ]]; then words="{options}"; else words="{others}"; fi ;;'
        )
    lines += [
        "        esac",
        "    fi",
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        "complete -o default -F _voiceveil voiceveil",
    ]
    return "\n".join(lines)


def _fish(commands: list[_Command]) -> str:
    lines = []
    for command in commands:
        seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in command.path)
        where = seen or "__fish_use_subcommand"
        if command.below and command.path:
            where = f"{seen}; and not __fish_seen_subcommand_from {' '.join(command.below)}"
        for name, text in command.below.items():
            lines.append(f"complete -c voiceveil -n '{where}' -f -a {name} -d {_quoted(text)}")
        for value in command.arguments:
            lines.append(f"complete -c voiceveil -n '{where}' -f -a {value}")
        for option, text in command.options.items():
            values = f" -x -a {_quoted(' '.join(command.values[option]))}" if option in command.values else ""
            lines.append(f"complete -c voiceveil -n '{where}' -l {option[2:]}{values} -d {_quoted(text)}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Return a text in single quotes, as fish reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
