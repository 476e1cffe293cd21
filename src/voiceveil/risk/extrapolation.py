"""Extrapolation of the risk to more speakers and longer conversations than were measured; results are marked as such.

Conventions: rates are fractions. A rate is extrapolated by a straight line in the logarithm of N (or of L) on the
probit scale, fitted to the largest values that were measured: with Gaussian scores Linkability is nearly linear over a
few doublings, but not further. The method is tested on known values: the line through the values up to a quarter of the
largest N predicts the value at the largest N. Its error there and the sampling error over speakers give the interval,
which widens with the distance. It is no guarantee: other data may behave differently. On the paper's twelve curves,
fitted up to N' = 2,720, errors at 5,420 to 21,920 are 0.4 points in the mean and 2.0 at most, and every interval holds
(:mod:`voiceveil.risk.paper_points`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr, ndtri

from voiceveil.metrics.legal import Floats
from voiceveil.risk.curves import Curve

__all__ = ["Extrapolation", "extrapolate_length", "extrapolate_speakers"]

_POINTS = 4  # of the curve to which the line is fitted
_FACTORS = (2, 4, 10)  # multiples of the largest measured value
_EDGE = 1e-4  # a rate of 0 or 1 has no probit
_RESAMPLES = 300
_MARGIN = 0.05  # uncertainty in probits per doubling, even after a perfect test


@dataclass(frozen=True)
class Extrapolation:
    """A rate at an N or an L that was not measured; ``tested`` is the error of the method on known values."""

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
        """Return plain values for JSON."""
        return {**asdict(self), "extrapolated": True}


def extrapolate_speakers(curve: Curve, *, sizes: Sequence[int] | None = None, seed: int = 0) -> list[Extrapolation]:
    """Return the rates for more speakers than were measured: 2, 4 and 10 times as many, or ``sizes``.

    The list is empty if fewer than four N were measured, or if all speakers or none are linked: resamples then show no
    trend and no error, which would look like certainty.
    """
    if curve.components is None or len(curve.sizes) < _POINTS or not _EDGE < curve.value[-1] < 1 - _EDGE:
        return []
    x = np.log2(np.array(curve.sizes, dtype=np.float64))
    levels = _resampled(curve.components, seed)
    error = _backtest(x, levels[0])
    extrapolations = []
    for size in sizes or [factor * curve.sizes[-1] for factor in _FACTORS]:
        # 1 / size is the rate of a random guess
        value, low, high = (max(rate, 1 / size) for rate in _predict(x, levels, float(np.log2(size)), error))
        extrapolations.append(
            Extrapolation(
                curve.attacker,
                curve.metric,
                "speakers",
                curve.length,
                size,
                value,
                low,
                high,
                abs(float(ndtr(levels[0][-1]) - ndtr(levels[0][-1] + error[0]))) if error else None,
            )
        )
    return extrapolations


def extrapolate_length(curves: Sequence[Curve], *, seed: int = 0) -> list[Extrapolation]:
    """Return the rates for conversations 2, 4 and 10 times as long as the longest, at the largest common N.

    The list is empty if fewer than three lengths were measured, or if all speakers or none are linked.
    """
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
    extrapolations = []
    for factor in _FACTORS:
        value, low, high = (max(rate, 1 / size) for rate in _predict(x, levels, x[-1] + np.log2(factor), error))
        extrapolations.append(
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
    return extrapolations


def _resampled(components: Floats, seed: int) -> Floats:
    """Return probits of the column means of (speakers, k): of all speakers in row 0, of resampled ones below."""
    n = len(components)
    draws = np.random.default_rng([seed, 6]).multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)
    means = np.concatenate([components.mean(axis=0)[None], draws @ components / n])
    return np.asarray(ndtri(np.clip(means, _EDGE, 1 - _EDGE)))


def _line(x: Floats, levels: Floats, target: float) -> Floats:
    """Return the value at ``target`` of the least-squares line through each row of ``levels``."""
    centered = x - x.mean()
    slope = (levels @ centered) / (centered @ centered)
    return np.asarray(levels.mean(axis=-1) + slope * (target - x.mean()))


def _backtest(x: Floats, levels: Floats) -> tuple[float, float] | None:
    """Return the error in probits of a prediction of the last value, and its distance in doublings, or None."""
    known = np.flatnonzero(x <= x[-1] - 2)[-_POINTS:]
    if len(known) < 2:
        known = np.arange(len(x) - 1)[-_POINTS:]
    if len(known) < 2:
        return None
    error = float(_line(x[known], levels[known], x[-1]) - levels[-1])
    return error, float(x[-1] - x[known[-1]])


def _predict(x: Floats, levels: Floats, target: float, error: tuple[float, float] | None) -> tuple[float, float, float]:
    """Return the rate at ``target`` and the ends of its 95% interval."""
    last = slice(-_POINTS, None)
    lines = _line(x[last], levels[:, last], target)
    distance = target - x[-1]
    slope_error = 0.0 if error is None else error[0] / error[1]
    spread = np.hypot(lines[1:].std(ddof=1), distance * np.hypot(slope_error, _MARGIN))
    value, low, high = ndtr(lines[0] + np.array([0.0, -1.96, 1.96]) * spread)
    return float(value), float(low), float(high)
