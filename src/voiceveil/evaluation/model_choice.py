"""The models that measure: a protocol may name them, options of an evaluation may name others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

__all__ = ["ModelChoice"]


@dataclass(frozen=True)
class ModelChoice:
    """The models of an evaluation.

    Parameters
    ----------
    recognizers
        Speech recognizers. The first one counts in rankings and in official files.
    anonymized_recognizers
        Recognizers of anonymized speech, e.g. ASR_eval^anon of the 2022 challenge; none: ``recognizers``. If there are
        some, ``recognizers`` recognize the original speech alone.
    emotion_models
        Emotion recognizers. The first one counts.
    similarity, similarity_scoring
        The attacker that compares voices for DeID and G_VD, and how it compares embeddings.
    pitch_tracker
        Tracks F0 for the pitch correlation.
    """

    recognizers: tuple[str, ...] = ("moonshine",)
    anonymized_recognizers: tuple[str, ...] = ()
    emotion_models: tuple[str, ...] = ("functionals",)
    similarity: str = "campplus"
    similarity_scoring: Literal["cosine", "plda"] = "cosine"
    pitch_tracker: str = "autocorrelation"

    def updated(self, **chosen: Any) -> ModelChoice:
        """Return the models with those fields replaced that are chosen, i.e. not None."""
        given = {name: value for name, value in chosen.items() if value is not None}
        fields: dict[str, Any] = {name: v if isinstance(v, str) else tuple(v) for name, v in given.items()}
        return replace(self, **fields)

    def recognizers_of(self, condition: str) -> tuple[str, ...]:
        """Return the recognizers of original (``o``) or anonymized (``a``) speech."""
        return (self.anonymized_recognizers or self.recognizers) if condition == "a" else self.recognizers

    @property
    def all_recognizers(self) -> tuple[str, ...]:
        """All recognizers, those of original speech first."""
        return tuple(dict.fromkeys([*self.recognizers, *self.anonymized_recognizers]))
