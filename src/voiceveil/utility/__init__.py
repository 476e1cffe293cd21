"""Is the speech still useful? Recognisers of words, emotion, pitch and naturalness.

Each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voiceveil.utility.asr import (
        WordErrorRate,
        compare_word_error_rates,
        recogniser,
        recognisers,
        transcribe,
        word_error_rate,
    )

__all__ = [
    "WordErrorRate",
    "compare_word_error_rates",
    "recogniser",
    "recognisers",
    "transcribe",
    "word_error_rate",
]

_HOME = {
    "WordErrorRate": "voiceveil.utility.asr",
    "compare_word_error_rates": "voiceveil.utility.asr",
    "recogniser": "voiceveil.utility.asr",
    "recognisers": "voiceveil.utility.asr",
    "transcribe": "voiceveil.utility.asr",
    "word_error_rate": "voiceveil.utility.asr",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'voiceveil.utility' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
