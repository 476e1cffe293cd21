"""How the risk grows beyond what was measured: more speakers, longer conversations. Extrapolations, marked as such.

Conventions: rates are fractions. A rate is a straight line in the logarithm of N (or of L) on the probit scale, fitted
to the largest values that were measured: with Gaussian scores, Linkability is nearly so over a few doublings, and no
longer. What it is worth is tested on what is known: the line through the values up to a quarter of the largest N
predicts that at the largest. How wrong it was there, and the sampling error over speakers, make the interval, which
widens with the distance. It is no promise: data of another kind can be anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from voiceveil.metrics.legal import Floats
from voiceveil.risk.protocol import Curve

__all__ = ["Extrapolation", "extrapolate_length", "extrapolate_speakers"]

_POINTS = 4  # of the curve that the line goes through
_FACTORS = (2, 4, 10)  # how far beyond the largest
_EDGE = 1e-4  # a rate of 0 or 1 has no probit
_RESAMPLES = 300
_MARGIN = 0.05  # probits a doubling that even a perfect test leaves open


@dataclass(frozen=True)
class Extrapolation:
    """A rate at an N or an L that was not measured; ``tested``: how far off the method was on known values."""

    attacker: str
    metric: str
    along: Literal["speakers", "length"]
    length: int
    speakers: int
    value: float
    low: float
    high: float
    tested: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "extrapolated": True}


def extrapolate_speakers(curve: Curve, *, seed: int = 0) -> list[Extrapolation]:
    """To 2, 4 and 10 times as many speakers; nothing if fewer than four N were measured, or all or nobody is linked.

    Where every speaker is linked the resamples show no trend and no error, which would look like certainty.
    """
    if curve.components is None or len(curve.sizes) < _POINTS or not _EDGE < curve.value[-1] < 1 - _EDGE:
        return []
    x = np.log2(np.array(curve.sizes, dtype=np.float64))
    levels = _resampled(curve.components, seed)
    error = _backtest(x, levels[0])
    found = []
    for factor in _FACTORS:
        there = x[-1] + np.log2(factor)
        value, low, high = _predict(x, levels, there, error)
        chance = 1 / (factor * curve.sizes[-1])  # nobody links less often
        value, low, high = (max(rate, chance) for rate in (value, low, high))
        found.append(
            Extrapolation(
                curve.attacker,
                curve.metric,
                "speakers",
                curve.length,
                factor * curve.sizes[-1],
                value,
                low,
                high,
                abs(float(ndtr(levels[0][-1]) - ndtr(levels[0][-1] + error[0]))) if error else None,
            )
        )
    return found


def extrapolate_length(curves: Sequence[Curve], *, seed: int = 0) -> list[Extrapolation]:
    """To conversations 2, 4 and 10 times as long as the longest, at its largest N; needs three lengths or more."""
    ordered = sorted(curves, key=lambda curve: curve.length)
    if len(ordered) < 3 or any(curve.components is None for curve in ordered):
        return []
    if not _EDGE < ordered[-1].value[-1] < 1 - _EDGE:
        return []
    size = min(curve.sizes[-1] for curve in ordered)
    x = np.log2(np.array([curve.length for curve in ordered], dtype=np.float64))
    columns = [_resampled(c.components[:, [c.at(size)]], seed)[:, 0] for c in ordered if c.components is not None]
    levels = np.stack(columns, axis=1)
    error = _backtest(x, levels[0])
    last = ordered[-1]
    found = []
    for factor in _FACTORS:
        value, low, high = (max(rate, 1 / size) for rate in _predict(x, levels, x[-1] + np.log2(factor), error))
        found.append(
            Extrapolation(
                last.attacker,
                last.metric,
                "length",
                factor * last.length,
                size,
                value,
                low,
                high,
                abs(float(ndtr(levels[0][-1]) - ndtr(levels[0][-1] + error[0]))) if error else None,
            )
        )
    return found


def _resampled(components: Floats, seed: int) -> Floats:
    """Probits of the mean of each column: of all speakers in row 0, of resampled speakers in the others."""
    n = len(components)
    draws = np.random.default_rng([seed, 6]).multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)
    means = np.concatenate([components.mean(axis=0)[None], draws @ components / n])
    return np.asarray(ndtri(np.clip(means, _EDGE, 1 - _EDGE)))


def _line(x: Floats, levels: Floats, there: float) -> Floats:
    """The value at ``there`` of the least-squares line through each row of ``levels``."""
    centred = x - x.mean()
    slope = (levels @ centred) / (centred @ centred)
    return np.asarray(levels.mean(axis=-1) + slope * (there - x.mean()))


def _backtest(x: Floats, levels: Floats) -> tuple[float, float] | None:
    """How far off the line was, in probits, when it predicted the last value, and over how many doublings."""
    known = np.flatnonzero(x <= x[-1] - 2)[-_POINTS:]
    if len(known) < 2:
        known = np.arange(len(x) - 1)[-_POINTS:]
    if len(known) < 2:
        return None
    error = float(_line(x[known], levels[known], x[-1]) - levels[-1])
    return error, float(x[-1] - x[known[-1]])


def _predict(x: Floats, levels: Floats, there: float, error: tuple[float, float] | None) -> tuple[float, float, float]:
    last = slice(-_POINTS, None)
    lines = _line(x[last], levels[:, last], there)
    distance = there - x[-1]
    wrong = 0.0 if error is None else error[0] / error[1]
    spread = np.hypot(lines[1:].std(ddof=1), distance * np.hypot(wrong, _MARGIN))
    value, low, high = ndtr(lines[0] + np.array([0.0, -1.96, 1.96]) * spread)
    return float(value), float(low), float(high)
