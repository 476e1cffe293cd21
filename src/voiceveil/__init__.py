"""VoiceVeil: voice anonymization and its evaluation.

``import voiceveil as vv`` costs almost nothing: each name below is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voiceveil.lazy import lazy_exports

if TYPE_CHECKING:
    from voiceveil.anonymization.batch import anonymize
    from voiceveil.anonymization.contract import Anonymizer, system
    from voiceveil.audio import Waveform, load, save
    from voiceveil.corpus import Corpus, open_corpus
    from voiceveil.errors import InputError

__all__ = ["Anonymizer", "Corpus", "InputError", "Waveform", "anonymize", "load", "open_corpus", "save", "system"]

_HOME = {
    "Anonymizer": "voiceveil.anonymization.contract",
    "Corpus": "voiceveil.corpus",
    "InputError": "voiceveil.errors",
    "Waveform": "voiceveil.audio",
    "anonymize": "voiceveil.anonymization.batch",
    "load": "voiceveil.audio",
    "open_corpus": "voiceveil.corpus",
    "save": "voiceveil.audio",
    "system": "voiceveil.anonymization.contract",
}

__getattr__ = lazy_exports(__name__, _HOME)
