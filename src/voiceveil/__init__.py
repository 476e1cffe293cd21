"""Models that analyze speech: recognizers of words and emotion, pitch trackers, naturalness, speaker encoders.

Each name is imported when it is first used.
"""

from __future__ import annotations

import lazy_loader

# The types are in __init__.pyi. ``attack`` and ``systems`` are packages that can be called as functions, see
# `voiceveil.core.callable_package`.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["attack", "systems"],
    submod_attrs={
        "api.comparing": ["RecordingComparison", "compare"],
        "api.evaluating": ["evaluate"],
        "api.recordings": ["save"],
        "api.risk_assessment": ["Risk", "RiskOptions", "assess_risk"],
        "api.transcripts": ["Transcripts", "transcribe"],
        "attack.pipeline": ["AttackOptions", "AttackResult"],
        "audio": ["Waveform", "load"],
        "core.errors": ["InputError"],
        "core.version": ["__version__"],
        "corpus": ["Corpus", "open_corpus"],
        "evaluation.results": ["Results"],
        "evaluation.settings": ["EvaluationOptions"],
        "risk.curves": ["RiskPlan"],
        "risk.verdicts": ["RiskLimits"],
        "systems.batch": ["anonymize"],
        "systems.contract": ["Anonymizer", "system"],
        "systems.keys": ["Key"],
    },
)
