from .asr.recognition import (
    WordErrorRate,
    compare_word_error_rates,
    recognizer,
    recognizers,
    transcribe,
    word_error_rate,
)
from .emotion.evaluation import (
    EmotionResult,
    LinearRecognizer,
    evaluate_emotion,
    train_emotion_recognizer,
)
from .emotion.folds import EMOTIONS, EmotionFolds, emotion_folds
from .emotion.functionals import Functionals
from .emotion.neural import EmotionModel, PretrainedRecognizer, pretrained_recognizer
from .naturalness import DNSMOS, Naturalness, evaluate_naturalness
from .pitch.correlation import PitchCorrelation, evaluate_pitch
from .pitch.trackers import PitchTracker, tracker, trackers

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
    "pretrained_recognizer",
    "recognizer",
    "recognizers",
    "tracker",
    "trackers",
    "train_emotion_recognizer",
    "transcribe",
    "word_error_rate",
]
