"""Systems that hide who speaks, and the runner that applies them to corpora."""

from __future__ import annotations

from voiceveil.systems.batch import Failure, Summary, anonymize
from voiceveil.systems.contract import Anonymizer, Stream, register, system, systems
from voiceveil.systems.parameters import Range, parameter
from voiceveil.systems.release import Release

__all__ = [
    "Anonymizer",
    "Failure",
    "Range",
    "Release",
    "Stream",
    "Summary",
    "anonymize",
    "parameter",
    "register",
    "system",
    "systems",
]
