"""What goes wrong outside of the program: kills, full disks, files and clocks that change, two at once, hostile data.

``make test`` runs the quick form, ``make torture`` the long one, and ``VOICEVEIL_TORTURE=0.1`` a tenth of it.
"""

from __future__ import annotations

import os

__all__ = ["TORTURE", "many"]

#: Share of the long form that is run; 0: the quick one.
TORTURE = float(os.environ.get("VOICEVEIL_TORTURE") or 0)


def many(quick: int, long: int) -> int:
    """How often to try."""
    return max(quick, round(TORTURE * long))
