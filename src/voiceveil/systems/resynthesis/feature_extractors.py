"""The parts that take a recording apart, by name: content features, pitch tracker, speaker encoder.

A name may carry a model after a colon: ``moonshine:4`` is a layer, ``trained:FOLDER`` an encoder of one's own.
"""

from __future__ import annotations

from voiceveil.models.content.features import at_speed, content_features
from voiceveil.models.pitch.correlation import tracker
from voiceveil.models.speaker.encoders import encoder
from voiceveil.training.synthesis_data import Parts

__all__ = ["parts"]


def parts(
    *, content: str = "moonshine", pitch: str = "swift", speaker: str = "campplus", speeds: tuple[float, ...] = ()
) -> Parts:
    """The parts of those names; an ``InputError`` if a package or a model of one is missing.

    ``speeds``: the content is taken at these speeds of the recording too.
    """
    heard = content_features(content)
    return Parts(heard, tracker(pitch), encoder(speaker), tuple(at_speed(heard, speed) for speed in speeds))
