"""The models that analyze a recording for resynthesis: content features, pitch tracker, speaker encoder.

A name may have an argument after a colon: ``moonshine:4`` is a layer, ``trained:FOLDER`` a speaker encoder that the
user trained.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.models.content.features import ContentEncoder, at_speed, content_encoder
from voiceveil.models.pitch.trackers import PitchTracker, tracker
from voiceveil.models.speaker.encoders import encoder
from voiceveil.run.extract import Evaluator

__all__ = ["FeatureExtractors", "feature_extractors"]


@dataclass(frozen=True)
class FeatureExtractors:
    """Content encoder, pitch tracker and speaker encoder.

    ``speed_variants`` are the content encoder at other playback speeds, which training uses in addition.
    """

    content: ContentEncoder
    pitch: PitchTracker
    speaker: Evaluator[NDArray[np.float32]]
    speed_variants: tuple[ContentEncoder, ...] = ()

    @property
    def content_encoders(self) -> tuple[ContentEncoder, ...]:
        """The content encoder, then its speed variants."""
        return (self.content, *self.speed_variants)

    def fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of each model by its role: ``content``, ``pitch``, ``speaker``."""
        return {name: getattr(self, name).fingerprint() for name in ("content", "pitch", "speaker")}


def feature_extractors(
    *, content: str = "moonshine", pitch: str = "swift", speaker: str = "campplus", speeds: tuple[float, ...] = ()
) -> FeatureExtractors:
    """Return the models of these names.

    Parameters
    ----------
    content, pitch, speaker
        Names in the registries of content encoders, pitch trackers and speaker encoders.
    speeds
        Playback speeds of the additional content encoders (``speed_variants``).

    Raises
    ------
    InputError
        If a name is unknown, or a package or weights are missing.
    """
    chosen = content_encoder(content)
    variants = tuple(at_speed(chosen, speed) for speed in speeds)
    return FeatureExtractors(chosen, tracker(pitch), encoder(speaker), variants)
