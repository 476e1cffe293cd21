"""Systems that hide who speaks, and the runner that applies them to corpora."""

from __future__ import annotations

from voiceveil.anonymization.batch import Failure, Summary, anonymize
from voiceveil.anonymization.contract import Anonymizer, Stream, register, system, systems
from voiceveil.anonymization.parameters import Range, parameter
from voiceveil.anonymization.release import Release

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
