"""Is the intonation kept? Pitch trackers, and the pitch correlation ρ_F0 between original and anonymized corpora.

Conventions: a track is a float64 array of shape (frames,) in Hz, one frame every 10 ms, 0 where unvoiced. The time of
frame 0 and the number of frames are the tracker's own (:class:`PitchTracker`); tracks that are compared must come from
the same one.

The trackers are in :mod:`voiceveil.models.pitch.trackers`.

>>> print(evaluate_pitch(original, anonymized).rho)                     # doctest: +SKIP
0.832 [0.758, 0.906]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry
from voiceveil.corpus import Corpus, Utterance
from voiceveil.metrics.pitch import pitch_correlation
from voiceveil.run.context import RunContext
from voiceveil.stats.rates import mean
from voiceveil.stats.values import Estimate

__all__ = ["STEP", "PitchCorrelation", "PitchTracker", "evaluate_pitch", "tracker", "trackers"]

Track = NDArray[np.float64]

#: Seconds between frames.
STEP = 0.01


class PitchTracker(Protocol):
    """An :class:`~voiceveil.run.extract.Evaluator` of F0 tracks: ``tracker("yaapt")(wave)``."""

    @property
    def rate(self) -> int:
        """Hz."""
        ...

    @property
    def minimum(self) -> float:
        """The shortest audio in seconds that has a track."""
        ...

    def fingerprint(self) -> str:
        """Name, version and settings."""
        ...

    def first(self, samples: int) -> float:
        """Return the time in seconds that frame 0 is centered at, for so many samples."""
        ...

    def __call__(self, wave: Waveform) -> Track:
        """F0 in Hz every 10 ms, 0 where unvoiced."""
        ...


#: Name -> tracker class.
trackers: Registry[type[PitchTracker]] = Registry(
    "pitch tracker", group="voiceveil.trackers", modules=("voiceveil.models.pitch.trackers",)
)


def tracker(name: str = "autocorrelation") -> PitchTracker:
    """Return a pitch tracker by its name; an ``InputError`` if its package is not installed."""
    return trackers[name]()


@dataclass(frozen=True, eq=False)
class PitchCorrelation:
    """``rho``: the mean over utterances, with an interval over speakers; ``std``: over utterances.

    ``of``: utterance id -> correlation; ``mean_f0``: utterance id -> mean F0 of the voiced frames in Hz, original and
    anonymized, None without voiced frames. The challenge reports mean and std of each data set.
    """

    rho: Estimate
    std: float
    of: Mapping[str, float]
    mean_f0: Mapping[str, tuple[float | None, float | None]]


def evaluate_pitch(
    original: Corpus,
    anonymized: Corpus,
    context: RunContext | None = None,
    *,
    tracker: PitchTracker | str = "autocorrelation",
    method: Literal["official", "published"] = "published",
    max_lag: int = 20,
) -> PitchCorrelation:
    """ρ_F0 over the utterances of ``anonymized``, each against the one of the same id in ``original``.

    ``method`` and ``max_lag``: see :func:`voiceveil.metrics.pitch_correlation`.
    """
    if method not in ("official", "published"):
        raise InputError(f"unknown method {method!r}", fix="use 'official' or 'published'")
    chosen = trackers[tracker]() if isinstance(tracker, str) else tracker
    pairs = _pairs(original, anonymized)
    run = context or RunContext()
    before, after = (run.extract((pair[side] for pair in pairs), chosen) for side in (0, 1))
    values = {name: pitch_correlation(before[name], after[name], method=method, max_lag=max_lag) for name in before}
    known = all(a.speaker is not None for a, _ in pairs)
    rho = mean(list(values.values()), [(a.speaker or "") if known else a.id for a, _ in pairs])
    rho = replace(rho, low=max(rho.low, -1.0), high=min(rho.high, 1.0), of="speakers" if known else "utterances")
    mean_f0 = {name: (_mean_f0(before[name]), _mean_f0(after[name])) for name in before}
    return PitchCorrelation(rho, float(np.std(list(values.values()))), values, mean_f0)


def _mean_f0(track: Track) -> float | None:
    voiced = np.asarray(track)[np.asarray(track) > 0]
    return float(voiced.mean()) if len(voiced) else None


def _pairs(original: Corpus, anonymized: Corpus) -> list[tuple[Utterance, Utterance]]:
    if not len(anonymized):
        raise InputError("no utterances", where=anonymized.root)
    strange = [u.id for u in anonymized if u.id not in original]
    if strange:
        what = f"{len(strange)} utterance(s) are not in the original corpus, e.g. {strange[0]}"
        raise InputError(what, where=anonymized.root, fix="an anonymized corpus must keep the ids of the original")
    return [(original[u.id], u) for u in anonymized]
