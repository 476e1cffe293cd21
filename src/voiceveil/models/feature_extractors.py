"""The models that analyze a recording for resynthesis: content features, pitch tracker, speaker encoder.

A name may carry a model after a colon: ``moonshine:4`` is a layer, ``trained:FOLDER`` an encoder of one's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.models.content.features import Content, at_speed, content_features
from voiceveil.models.pitch.correlation import PitchTracker, tracker
from voiceveil.models.speaker.encoders import encoder
from voiceveil.run.extract import Evaluator

__all__ = ["FeatureExtractors", "feature_extractors"]


@dataclass(frozen=True)
class FeatureExtractors:
    """Content, pitch and speaker models. ``varied``: the content at other speeds, which training draws from too."""

    content: Content
    pitch: PitchTracker
    speaker: Evaluator[NDArray[np.float32]]
    varied: tuple[Content, ...] = ()

    @property
    def contents(self) -> tuple[Content, ...]:
        """Content features as they are, then those at other speeds."""
        return (self.content, *self.varied)

    def fingerprints(self) -> dict[str, str]:
        """Return role -> model and hash of its weights."""
        return {name: getattr(self, name).fingerprint() for name in ("content", "pitch", "speaker")}


def feature_extractors(
    *, content: str = "moonshine", pitch: str = "swift", speaker: str = "campplus", speeds: tuple[float, ...] = ()
) -> FeatureExtractors:
    """Return the models of these names.

    Parameters
    ----------
    content, pitch, speaker
        Names in the registries of content features, pitch trackers and speaker encoders.
    speeds
        Playback speeds at which content features are extracted in addition.

    Raises
    ------
    InputError
        If a name is unknown, or a package or weights are missing.
    """
    features = content_features(content)
    varied = tuple(at_speed(features, speed) for speed in speeds)
    return FeatureExtractors(features, tracker(pitch), encoder(speaker), varied)
