"""VoiceVeil: voice anonymization and its evaluation.

``import voiceveil as vv`` costs almost nothing: each name below is imported when it is first used.

    wave = vv.load("a.wav")                                     a recording
    vv.save("b.wav", vv.system("veil").convert(wave))           its anonymized version
    vv.anonymize("recordings", "hidden", jobs=4)                a folder
    vv.compare("a.wav", "b.wav")                                what is left of voice, words and quality
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from voiceveil.core.lazy import lazy_exports

if TYPE_CHECKING:
    from voiceveil.api.comparing import RecordingComparison, compare
    from voiceveil.api.evaluating import evaluate
    from voiceveil.api.recordings import save
    from voiceveil.api.risk_assessment import Risk, assess_risk
    from voiceveil.api.transcripts import Transcripts, transcribe
    from voiceveil.attack import AttackResult, attack
    from voiceveil.audio import Waveform, load
    from voiceveil.core.errors import InputError
    from voiceveil.corpus import Corpus, open_corpus
    from voiceveil.evaluation.results import Results
    from voiceveil.systems.batch import anonymize
    from voiceveil.systems.contract import Anonymizer, system
    from voiceveil.systems.keys import Key
    from voiceveil.systems.listing import list_systems as systems

    __version__: str

__all__ = [
    "Anonymizer",
    "AttackResult",
    "Corpus",
    "InputError",
    "Key",
    "RecordingComparison",
    "Results",
    "Risk",
    "Transcripts",
    "Waveform",
    "__version__",
    "anonymize",
    "assess_risk",
    "attack",
    "compare",
    "evaluate",
    "load",
    "open_corpus",
    "save",
    "system",
    "systems",
    "transcribe",
]

_HOME = {
    "Anonymizer": "voiceveil.systems.contract",
    "AttackResult": "voiceveil.attack.pipeline",
    "RecordingComparison": "voiceveil.api.comparing",
    "Results": "voiceveil.evaluation.results",
    "Risk": "voiceveil.api.risk_assessment",
    "Corpus": "voiceveil.corpus",
    "InputError": "voiceveil.core.errors",
    "Key": "voiceveil.systems.keys",
    "Transcripts": "voiceveil.api.transcripts",
    "Waveform": "voiceveil.audio",
    "anonymize": "voiceveil.systems.batch",
    "assess_risk": "voiceveil.api.risk_assessment",
    "compare": "voiceveil.api.comparing",
    "evaluate": "voiceveil.api.evaluating",
    "load": "voiceveil.audio",
    "open_corpus": "voiceveil.corpus",
    "save": "voiceveil.api.recordings",
    "system": "voiceveil.systems.contract",
    "transcribe": "voiceveil.api.transcripts",
}
#: Packages that are also functions, see `voiceveil.core.callable_package`.
_CALLABLE = ("attack", "systems")

_get, _ = lazy_exports(__name__, _HOME)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # here: it takes 0.1 s

        return version("voiceveil")
    return import_module(f"voiceveil.{name}") if name in _CALLABLE else _get(name)


def __dir__() -> list[str]:
    return sorted(__all__)
