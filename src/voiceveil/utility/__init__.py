"""Is the speech still useful? Recognisers of words, emotion, pitch and naturalness.

Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voiceveil.lazy import lazy_exports

if TYPE_CHECKING:
    from voiceveil.utility.asr import (
        WordErrorRate,
        compare_word_error_rates,
        recogniser,
        recognisers,
        transcribe,
        word_error_rate,
    )
    from voiceveil.utility.emotion import EmotionResult, LinearRecogniser, evaluate_emotion, train_emotion_recogniser
    from voiceveil.utility.emotion_model import EmotionModel, PretrainedRecogniser
    from voiceveil.utility.folds import EMOTIONS, EmotionFolds, emotion_folds
    from voiceveil.utility.functionals import Functionals
    from voiceveil.utility.naturalness import DNSMOS, Naturalness, evaluate_naturalness
    from voiceveil.utility.pitch import PitchCorrelation, PitchTracker, evaluate_pitch, tracker, trackers

__all__ = [
    "DNSMOS",
    "EMOTIONS",
    "EmotionFolds",
    "EmotionModel",
    "EmotionResult",
    "Functionals",
    "LinearRecogniser",
    "Naturalness",
    "PitchCorrelation",
    "PitchTracker",
    "PretrainedRecogniser",
    "WordErrorRate",
    "compare_word_error_rates",
    "emotion_folds",
    "evaluate_emotion",
    "evaluate_naturalness",
    "evaluate_pitch",
    "recogniser",
    "recognisers",
    "tracker",
    "trackers",
    "train_emotion_recogniser",
    "transcribe",
    "word_error_rate",
]

_HOME = {
    "DNSMOS": "voiceveil.utility.naturalness",
    "EMOTIONS": "voiceveil.utility.folds",
    "EmotionFolds": "voiceveil.utility.folds",
    "EmotionModel": "voiceveil.utility.emotion_model",
    "EmotionResult": "voiceveil.utility.emotion",
    "Functionals": "voiceveil.utility.functionals",
    "LinearRecogniser": "voiceveil.utility.emotion",
    "Naturalness": "voiceveil.utility.naturalness",
    "PitchCorrelation": "voiceveil.utility.pitch",
    "PitchTracker": "voiceveil.utility.pitch",
    "PretrainedRecogniser": "voiceveil.utility.emotion_model",
    "WordErrorRate": "voiceveil.utility.asr",
    "compare_word_error_rates": "voiceveil.utility.asr",
    "emotion_folds": "voiceveil.utility.folds",
    "evaluate_emotion": "voiceveil.utility.emotion",
    "evaluate_naturalness": "voiceveil.utility.naturalness",
    "evaluate_pitch": "voiceveil.utility.pitch",
    "recogniser": "voiceveil.utility.asr",
    "recognisers": "voiceveil.utility.asr",
    "tracker": "voiceveil.utility.pitch",
    "trackers": "voiceveil.utility.pitch",
    "train_emotion_recogniser": "voiceveil.utility.emotion",
    "transcribe": "voiceveil.utility.asr",
    "word_error_rate": "voiceveil.utility.asr",
}

__getattr__ = lazy_exports(__name__, _HOME)
