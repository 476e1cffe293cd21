"""VoiceVeil: voice anonymization and its evaluation.

``import voiceveil as vv`` costs almost nothing: each name below is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voiceveil.audio import Waveform, load, save
    from voiceveil.errors import InputError

__all__ = ["InputError", "Waveform", "load", "save"]

_HOME = {
    "InputError": "voiceveil.errors",
    "Waveform": "voiceveil.audio",
    "load": "voiceveil.audio",
    "save": "voiceveil.audio",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'voiceveil' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
