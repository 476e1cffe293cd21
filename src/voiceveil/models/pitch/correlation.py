"""Pitch correlation ρ_F0 between original and anonymized corpora, which shows how much of the intonation is kept.

Conventions: as in :mod:`voiceveil.models.pitch.trackers`; both tracks of a pair come from the same tracker.

>>> print(evaluate_pitch(original, anonymized).rho)                     # doctest: +SKIP
0.832 [0.758, 0.906]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.metrics.pitch import pitch_correlation
from voiceveil.models.pitch.trackers import PitchTracker, Track, trackers
from voiceveil.run.context import RunContext
from voiceveil.stats.rates import mean
from voiceveil.stats.values import Estimate

__all__ = ["PitchCorrelation", "evaluate_pitch"]


@dataclass(frozen=True, eq=False)
class PitchCorrelation:
    """Pitch correlation of a corpus; the challenge reports mean and standard deviation of each data set.

    Attributes
    ----------
    rho
        Mean over utterances, with an interval over speakers.
    std
        Standard deviation over utterances.
    by_utterance
        Utterance id -> correlation.
    mean_f0
        Utterance id -> mean F0 of the voiced frames in Hz, original and anonymized; None without voiced frames.
    """

    rho: Estimate
    std: float
    by_utterance: Mapping[str, float]
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
    """Return ρ_F0 over the utterances of ``anonymized``, each compared with that of the same id in ``original``.

    Parameters
    ----------
    original, anonymized
        Every utterance of ``anonymized`` must be in ``original``.
    context
        Cache, jobs and progress.
    tracker
        A tracker, or its name.
    method, max_lag
        See :func:`voiceveil.metrics.pitch_correlation`.

    Raises
    ------
    InputError
        If ``anonymized`` is empty or has other utterances, or a name is unknown.
    """
    if method not in ("official", "published"):
        raise InputError(f"unknown method {method!r}", fix="use 'official' or 'published'")
    chosen = trackers[tracker]() if isinstance(tracker, str) else tracker
    pairs = _pairs(original, anonymized)
    run = context or RunContext()
    before, after = (run.extract((pair[side] for pair in pairs), chosen) for side in (0, 1))
    values = {name: pitch_correlation(before[name], after[name], method=method, max_lag=max_lag) for name in before}
    speakers_known = all(source.speaker is not None for source, _ in pairs)
    groups = [(source.speaker or "") if speakers_known else source.id for source, _ in pairs]
    rho = mean(list(values.values()), groups)
    unit = "speakers" if speakers_known else "utterances"
    rho = replace(rho, low=max(rho.low, -1.0), high=min(rho.high, 1.0), of=unit)
    mean_f0 = {name: (_mean_f0(before[name]), _mean_f0(after[name])) for name in before}
    return PitchCorrelation(rho, float(np.std(list(values.values()))), values, mean_f0)


def _mean_f0(track: Track) -> float | None:
    voiced = np.asarray(track)[np.asarray(track) > 0]
    return float(voiced.mean()) if len(voiced) else None


def _pairs(original: Corpus, anonymized: Corpus) -> list[tuple[Utterance, Utterance]]:
    if not len(anonymized):
        raise InputError("the corpus has no utterances", where=anonymized.root, fix="give the anonymized corpus")
    unknown = [u.id for u in anonymized if u.id not in original]
    if unknown:
        problem = f"{len(unknown)} utterance(s) are not in the original corpus, e.g. {unknown[0]}"
        raise InputError(problem, where=anonymized.root, fix="an anonymized corpus must keep the ids of the original")
    return [(original[u.id], u) for u in anonymized]
