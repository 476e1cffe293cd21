"""Is the speech still useful? Recognizers of words, emotion, pitch and naturalness.

Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voiceveil.core.lazy import lazy_exports

if TYPE_CHECKING:
    from voiceveil.models.asr.recognition import (
        WordErrorRate,
        compare_word_error_rates,
        recognizer,
        recognizers,
        transcribe,
        word_error_rate,
    )
    from voiceveil.models.emotion.evaluation import (
        EmotionResult,
        LinearRecognizer,
        evaluate_emotion,
        train_emotion_recognizer,
    )
    from voiceveil.models.emotion.folds import EMOTIONS, EmotionFolds, emotion_folds
    from voiceveil.models.emotion.functionals import Functionals
    from voiceveil.models.emotion.neural import EmotionModel, PretrainedRecognizer
    from voiceveil.models.naturalness import DNSMOS, Naturalness, evaluate_naturalness
    from voiceveil.models.pitch.correlation import PitchCorrelation, PitchTracker, evaluate_pitch, tracker, trackers

__all__ = [
    "DNSMOS",
    "EMOTIONS",
    "EmotionFolds",
    "EmotionModel",
    "EmotionResult",
    "Functionals",
    "LinearRecognizer",
    "Naturalness",
    "PitchCorrelation",
    "PitchTracker",
    "PretrainedRecognizer",
    "WordErrorRate",
    "compare_word_error_rates",
    "emotion_folds",
    "evaluate_emotion",
    "evaluate_naturalness",
    "evaluate_pitch",
    "recognizer",
    "recognizers",
    "tracker",
    "trackers",
    "train_emotion_recognizer",
    "transcribe",
    "word_error_rate",
]

_HOME = {
    "DNSMOS": "voiceveil.models.naturalness",
    "EMOTIONS": "voiceveil.models.emotion.folds",
    "EmotionFolds": "voiceveil.models.emotion.folds",
    "EmotionModel": "voiceveil.models.emotion.neural",
    "EmotionResult": "voiceveil.models.emotion.evaluation",
    "Functionals": "voiceveil.models.emotion.functionals",
    "LinearRecognizer": "voiceveil.models.emotion.evaluation",
    "Naturalness": "voiceveil.models.naturalness",
    "PitchCorrelation": "voiceveil.models.pitch.correlation",
    "PitchTracker": "voiceveil.models.pitch.correlation",
    "PretrainedRecognizer": "voiceveil.models.emotion.neural",
    "WordErrorRate": "voiceveil.models.asr.recognition",
    "compare_word_error_rates": "voiceveil.models.asr.recognition",
    "emotion_folds": "voiceveil.models.emotion.folds",
    "evaluate_emotion": "voiceveil.models.emotion.evaluation",
    "evaluate_naturalness": "voiceveil.models.naturalness",
    "evaluate_pitch": "voiceveil.models.pitch.correlation",
    "recognizer": "voiceveil.models.asr.recognition",
    "recognizers": "voiceveil.models.asr.recognition",
    "tracker": "voiceveil.models.pitch.correlation",
    "trackers": "voiceveil.models.pitch.correlation",
    "train_emotion_recognizer": "voiceveil.models.emotion.evaluation",
    "transcribe": "voiceveil.models.asr.recognition",
    "word_error_rate": "voiceveil.models.asr.recognition",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
