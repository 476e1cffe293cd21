"""Systems that hide who speaks, and the runner that applies them to corpora.

Calling the package lists the systems: ``vv.systems()``.
"""

from __future__ import annotations

from voiceveil.core.callable_package import make_callable
from voiceveil.systems.batch import anonymize
from voiceveil.systems.contract import Anonymizer, Stream, register, system, systems
from voiceveil.systems.listing import SystemInfo, SystemList, list_systems
from voiceveil.systems.parameters import Range, parameter
from voiceveil.systems.release import Release
from voiceveil.systems.summary import Failure, Summary

__all__ = [
    "Anonymizer",
    "Failure",
    "Range",
    "Release",
    "Stream",
    "Summary",
    "SystemInfo",
    "SystemList",
    "anonymize",
    "list_systems",
    "parameter",
    "register",
    "system",
    "systems",
]

make_callable(__name__, list_systems)
