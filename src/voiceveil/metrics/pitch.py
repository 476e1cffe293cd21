"""Preservation of intonation: the pitch correlation ρ_F0 of the VoicePrivacy 2022 Challenge.

Conventions: an F0 track is a float array of shape (frames,) in Hz, at one hop for both tracks; 0 (or NaN) marks an
unvoiced frame. The result is a correlation in [-1, 1]; 1 is an unchanged intonation. The ρ_F0 of a dataset is the
mean over its utterances.

Where plan and code of the challenge differ (evaluation plan 2022, section 5.2.1):

* ``published`` (default) correlates only the frames that are voiced in both tracks, at the lag that maximizes the
  correlation;
* ``official`` correlates *all* frames, the zeros of the unvoiced ones among them, at the lag of the largest raw
  (not normalized) cross-product, however large, and wraps the track around. It measures mostly the voicing: a
  monotone F0 with the right voicing still gets 0.83. All published figures are computed in this way.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.errors import InputError

__all__ = ["pitch_correlation"]

Track = NDArray[np.float64]

#: Hz; Praat's search range in the challenge. The official code zeroes whatever interpolation moved outside of it.
FLOOR, CEILING = 75.0, 500.0


def pitch_correlation(
    f0_a: ArrayLike, f0_b: ArrayLike, *, method: Literal["official", "published"] = "published", max_lag: int = 20
) -> float:
    """Return the Pearson correlation of two F0 tracks, after interpolating the shorter to the longer and aligning them.

    It is 0 if it is not defined (a constant track, fewer than two frames voiced in both).

    Parameters
    ----------
    f0_a, f0_b
        (frames,) in Hz, 0 or NaN where unvoiced.
    method
        See the module.
    max_lag
        Largest lag of ``published`` in frames (20 frames of 10 ms = 200 ms, far more than the delay of any system);
        ``official`` has no limit.

    Examples
    --------
    >>> pitch_correlation([0, 100, 110, 120, 0], [0, 200, 220, 240, 0])
    1.0
    """
    a, b = _track(f0_a, "f0_a"), _track(f0_b, "f0_b")
    if method == "official":
        return _official(a, b)
    if method == "published":
        if max_lag < 0:
            raise InputError(f"max_lag is {max_lag}", fix="give 0 or more frames")
        return _published(a, b, max_lag)
    raise InputError(f"unknown method {method!r}", fix="use 'official' or 'published'")


def _track(f0: ArrayLike, name: str) -> Track:
    track = np.asarray(f0, dtype=np.float64)
    if track.ndim != 1 or track.size == 0:
        raise InputError(f"{name} has shape {track.shape}", fix="give at least one frame, shape (frames,)")
    if np.isinf(track).any() or (track < 0).any():
        raise InputError(f"{name} has negative or infinite values", fix="give F0 in Hz, 0 where unvoiced")
    return np.nan_to_num(track, nan=0.0)


def _stretch(track: Track, frames: int) -> Track:
    """Interpolate linearly to ``frames`` frames; the first and the last stay the same."""
    if track.size == frames:
        return track
    return np.interp(np.linspace(0, track.size - 1, frames), np.arange(track.size), track)


def _pearson(a: Track, b: Track) -> float:
    if a.max() == a.min() or b.max() == b.min():
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def _official(a: Track, b: Track) -> float:
    frames = max(a.size, b.size)
    a, b = (np.where((f0 >= FLOOR) & (f0 <= CEILING), f0, 0.0) for f0 in (_stretch(a, frames), _stretch(b, frames)))
    lag = int(np.argmax(np.correlate(a, b, "full"))) - (frames - 1)
    return _pearson(a, np.roll(b, lag))


def _published(a: Track, b: Track, max_lag: int) -> float:
    """Return the best correlation over the lags, over frames voiced in both; no frame is wrapped around.

    An interpolated frame between a voiced and an unvoiced one counts as unvoiced. A lag needs at least half as many
    frames as the best-overlapping lag: two frames alone would always correlate perfectly.
    """
    frames = max(a.size, b.size)
    voiced_a, voiced_b = (_stretch((f0 > 0).astype(np.float64), frames) > 1 - 1e-9 for f0 in (a, b))
    a, b = _stretch(a, frames), _stretch(b, frames)
    candidates = []
    for lag in range(-min(max_lag, frames - 1), min(max_lag, frames - 1) + 1):
        of_a = slice(max(lag, 0), frames + min(lag, 0))
        of_b = slice(max(-lag, 0), frames + min(-lag, 0))
        both = voiced_a[of_a] & voiced_b[of_b]
        candidates.append((int(both.sum()), a[of_a][both], b[of_b][both]))
    enough = max(2.0, max(count for count, _, _ in candidates) / 2)
    return max((_pearson(x, y) for count, x, y in candidates if count >= enough), default=0.0)
