"""The functions behind ``import voiceveil as vv``; the command line is a shell over the same functions."""

from __future__ import annotations

from voiceveil.api.comparing import Comparison, compare
from voiceveil.api.recordings import save
from voiceveil.api.transcripts import Transcripts, transcribe
from voiceveil.systems.listing import SystemList, list_systems

__all__ = ["Comparison", "SystemList", "Transcripts", "compare", "save", "systems", "transcribe"]


def systems() -> SystemList:
    """Return the anonymization systems, with summaries and parameters; prints a table.

    Examples
    --------
    >>> import voiceveil as vv
    >>> [info.name for info in vv.systems() if info.name.startswith("b2")]
    ['b2', 'b2-2020', 'b2-2022']
    """
    return list_systems()
