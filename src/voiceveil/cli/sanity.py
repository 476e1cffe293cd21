"""Print failed checks so that nobody overlooks them: on the standard error output, whatever else is quiet."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from voiceveil.core.checks import Check, check_lines
from voiceveil.core.terminal import print_lines

__all__ = ["print_checks"]


def print_checks(checks: Iterable[Check]) -> None:
    """Print failed checks on the standard error output, last of all."""
    for line in check_lines(checks):
        print_lines(line, file=sys.stderr)
