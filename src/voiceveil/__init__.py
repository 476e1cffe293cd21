"""VoiceVeil: voice anonymization and its evaluation.

``import voiceveil as vv`` costs almost nothing: each name below is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voiceveil.core.lazy import lazy_exports

if TYPE_CHECKING:
    from voiceveil.audio import Waveform, load, save
    from voiceveil.core.errors import InputError
    from voiceveil.corpus import Corpus, open_corpus
    from voiceveil.systems.batch import anonymize
    from voiceveil.systems.contract import Anonymizer, system

__all__ = ["Anonymizer", "Corpus", "InputError", "Waveform", "anonymize", "load", "open_corpus", "save", "system"]

_HOME = {
    "Anonymizer": "voiceveil.systems.contract",
    "Corpus": "voiceveil.corpus",
    "InputError": "voiceveil.core.errors",
    "Waveform": "voiceveil.audio",
    "anonymize": "voiceveil.systems.batch",
    "load": "voiceveil.audio",
    "open_corpus": "voiceveil.corpus",
    "save": "voiceveil.audio",
    "system": "voiceveil.systems.contract",
}

__getattr__ = lazy_exports(__name__, _HOME)
