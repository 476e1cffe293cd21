"""The argument parser of every verb: argparse with suggestions for mistyped options and choices.

Options are not abbreviated: an option has one spelling, which a script can rely on.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.core.terminal import print_lines

__all__ = ["Parser", "UsageError", "option_strings", "subparsers"]

_OPTION = re.compile(r"--[a-z][\w-]*")
_CHOICE = re.compile(r"invalid choice: '?(.*?)'? \(choose from (.*)\)")


class UsageError(InputError):
    """A command was used wrongly in a way that argparse cannot find: exit code 2."""


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that suggests options and choices, and accepts former names of options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs["allow_abbrev"] = False
        if sys.version_info >= (3, 14):
            kwargs.setdefault("color", False)  # what is printed is escaped
        super().__init__(*args, **kwargs)
        self._former: dict[str, str] = {}

    def rename_option(self, former: str, present: str) -> None:
        """Accept ``former`` for the option ``present``, with a warning, for one release."""
        self._former[former] = present

    def parse_known_args(  # type: ignore[override]  # typeshed has overloads for the namespace
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; an unknown option is an error at once, before a missing one is."""
        given = [self._present_name(text) for text in (sys.argv[1:] if args is None else args)]
        known = option_strings(self)
        for text in given:
            if text == "--":
                break
            option = text.partition("=")[0]
            if _OPTION.fullmatch(option) and option not in known:
                self.error(f"unknown option {option}{_suggestion(option, known)}")
        return super().parse_known_args(given, namespace)

    def error(self, message: str) -> NoReturn:
        """Exit with code 2, with a suggestion where a choice was mistyped."""
        match = _CHOICE.search(message)
        if match is not None:
            choices = [choice.strip(" '") for choice in match[2].split(",")]
            message = f"{message[: match.start()]}{match[1]!r} is not known: {did_you_mean(match[1], choices)}"
        super().error(message)

    def _present_name(self, text: str) -> str:
        option, equals, value = text.partition("=")
        if option not in self._former:
            return text
        print_lines(f"voiceveil: warning: {option} is now called {self._former[option]}", file=sys.stderr)
        return f"{self._former[option]}{equals}{value}"


def _suggestion(option: str, known: set[str]) -> str:
    """Return ": did you mean --jobs?" for the known options most like ``option``, or where to find them all."""
    names = [name.removeprefix("--") for name in known if name.startswith("--")]
    near = difflib.get_close_matches(option.removeprefix("--"), names, n=2, cutoff=0.6)
    return f": did you mean {' or '.join(f'--{name}' for name in near)}?" if near else " (see --help)"


def option_strings(parser: argparse.ArgumentParser) -> set[str]:
    """Return the options of a parser and of all parsers below it."""
    own = {*parser._option_string_actions, *getattr(parser, "_former", ())}
    return own.union(*(option_strings(below) for _, below in subparsers(parser)))


def subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the name and the parser of every action below a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()
