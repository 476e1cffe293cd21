"""What goes wrong outside of the program: kills, full disks, files and clocks that change, two at once, hostile data.

``make test`` runs the quick form, ``make torture`` the long one.
"""

from __future__ import annotations

import os

__all__ = ["TORTURE", "many"]

TORTURE = bool(os.environ.get("VOICEVEIL_TORTURE"))


def many(quick: int, long: int) -> int:
    """How often to try."""
    return long if TORTURE else quick
