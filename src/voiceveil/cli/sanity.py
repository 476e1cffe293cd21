"""Print failed checks so that nobody overlooks them: on the standard error output, whatever else is quiet."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from voiceveil.core.checks import Check
from voiceveil.core.terminal import print_lines

__all__ = ["check_lines", "print_checks"]


def check_lines(checks: Iterable[Check]) -> list[str]:
    """Return the lines of a summary: one for each failed check, and what to do; nothing if none failed."""
    lines = [str(check) for check in checks]
    if not lines:
        return []
    return [*lines, "Do not use or publish these figures before the WARNINGs above are explained."]


def print_checks(checks: Iterable[Check]) -> None:
    """Print failed checks on the standard error output, last of all."""
    for line in check_lines(checks):
        print_lines(line, file=sys.stderr)
