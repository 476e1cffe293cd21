"""The points of the paper's Figure 1, to compare with: Common Voice 11.0, anonymized by B1 of the 2024 challenge.

Conventions: rates are fractions; speakers are N of Singling Out and N' of Linkability and 1 - EER. The file beside this
module names its source. What the points are worth: Linkability is the mean of five runs. Singling Out has no error
bars, its last N are of 495 outcomes each (a standard error of 2 points), enrollment averaged 10 utterances and not 30,
and the scripts behind L = 3 and 30 may not have been those of the written protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np

from voiceveil.metrics.legal import Floats
from voiceveil.risk.curves import Curve, Metric
from voiceveil.risk.extrapolation import Extrapolation, extrapolate_speakers

__all__ = ["PaperCurve", "PredictedPoint", "paper_curves", "predict_paper"]

_TESTS = 4949  # speakers of B, each a test
_LARGEST = 2720  # N' up to which the extrapolation is fitted when it is tested


@dataclass(frozen=True)
class PaperCurve:
    """A curve of the paper's Figure 1."""

    metric: Metric
    attacker: str
    length: int
    sizes: tuple[int, ...]
    value: tuple[float, ...]


@lru_cache
def paper_curves() -> tuple[PaperCurve, ...]:
    """Return all 36 curves of the figure."""
    text = (files("voiceveil.risk") / "paper_points.csv").read_text(encoding="utf-8")
    lines = [line.split(",") for line in text.splitlines() if not line.startswith(("#", "metric,"))]
    points: dict[tuple[str, str, int], list[tuple[int, float]]] = {}
    for metric, attacker, length, speakers, value in lines:
        points.setdefault((metric, attacker, int(length)), []).append((int(speakers), float(value)))
    return tuple(
        PaperCurve(metric, attacker, length, *zip(*sorted(listed), strict=True))  # type: ignore[arg-type]
        for (metric, attacker, length), listed in points.items()
    )


@dataclass(frozen=True)
class PredictedPoint:
    """An extrapolated Linkability, and the one that the paper measured."""

    predicted: Extrapolation
    measured: float

    @property
    def error(self) -> float:
        """Predicted minus measured rate."""
        return self.predicted.value - self.measured

    @property
    def covered(self) -> bool:
        """True if the 95% interval of the prediction holds the measured rate."""
        return self.predicted.low <= self.measured <= self.predicted.high


def predict_paper(largest: int = _LARGEST) -> list[PredictedPoint]:
    """Extrapolate the paper's Linkability from N' up to ``largest`` to the larger N', and compare.

    The paper has means alone; the contributions of single speakers, from which the interval follows, are taken to be 0
    or 1, and a speaker who is linked among many to be linked among few.
    """
    points = []
    for curve in paper_curves():
        if curve.metric != "linkability":
            continue
        known = sum(size <= largest for size in curve.sizes)
        measured = dict(zip(curve.sizes[known:], curve.value[known:], strict=True))
        predictions = extrapolate_speakers(_as_measured(curve, known), sizes=tuple(measured))
        points += [PredictedPoint(prediction, measured[prediction.speakers]) for prediction in predictions]
    return points


def _as_measured(curve: PaperCurve, known: int) -> Curve:
    """Return the first ``known`` points as a curve with contributions of each speaker."""
    value: Floats = np.array(curve.value[:known])
    components = (np.arange(_TESTS)[:, None] < np.round(_TESTS * value)).astype(np.float64)
    speakers = tuple(f"{number:04d}" for number in range(_TESTS))
    chance = 1 / np.array(curve.sizes[:known])
    return Curve(
        curve.attacker, curve.metric, curve.length, curve.sizes[:known], value, value, value, chance, None, speakers,
        components,
    )  # fmt: skip
