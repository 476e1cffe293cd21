"""The intonation: F0 on the frames of synthesis, from any pitch tracker.

B1 takes pYAAPT's track before interpolation, 60 to 600 Hz; SwiftF0 is fifty times as quick and hears the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voiceveil.models.content.features import FRAME
from voiceveil.models.pitch.correlation import STEP, PitchTracker, Track

__all__ = ["on_frames"]

RATE = 16000


def on_frames(track: Track, tracker: PitchTracker, samples: int) -> NDArray[np.float32]:
    """F0 in Hz of every frame of 160 samples, 0 = unvoiced: the tracker's value nearest to the frame's center.

    As many frames as the samples have begun. Where the tracker says nothing, at the ends, there is no voice.
    """
    frames = -(-samples // FRAME)
    centers = (np.arange(frames) + 0.5) * FRAME / RATE
    nearest = np.round((centers - tracker.first(samples)) / STEP).astype(np.int64)
    inside = (nearest >= 0) & (nearest < len(track))
    values = np.zeros(frames, dtype=np.float32)
    values[inside] = track[nearest[inside]]
    return values
