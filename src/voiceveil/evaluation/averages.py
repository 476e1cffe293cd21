"""The figures that count under a protocol, and their weighted averages over its datasets, with intervals.

An average has an interval if each figure has one. Errors of figures of different speakers are independent: the
distances to the ends of their intervals are added in squares. Those of the same speakers (VCTK and its common
sentences) may be correlated: their distances are added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from voiceveil.evaluation.protocol import Protocol, dataset_name
from voiceveil.evaluation.results import Figure, Results

__all__ = ["Average", "counting_figures", "dataset_of", "weighted_average"]


@dataclass(frozen=True)
class Average:
    """The weighted average of a metric; ``low`` and ``high`` are None if some figure in it has no interval."""

    value: float
    low: float | None = None
    high: float | None = None

    def overlaps(self, other: Average) -> bool:
        """Return whether the intervals have a value in common; without intervals, whether the values are equal."""
        low, high = (self.value if end is None else end for end in (self.low, self.high))
        other_low, other_high = (other.value if end is None else end for end in (other.low, other.high))
        return low <= other_high and other_low <= high


def counting_figures(results: Results, metric: str, protocol: Protocol | None, **wanted: str) -> tuple[Figure, ...]:
    """Return the figures of a metric that count in averages and rankings.

    Parameters
    ----------
    results : Results
        They may have figures of several models; those of the first model count.
    metric : str
        E.g. ``wer``.
    protocol : Protocol or None
        Of WERs with several language models, those with the one that it names count, or all if it names none.
    wanted : str
        Fields of the figures, as for :meth:`Results.find`.
    """
    figures = results.find(metric, **wanted)
    language_model = "" if protocol is None or protocol.official is None else protocol.official.language_model
    named = tuple(figure for figure in figures if figure.detail.get("language_model") == language_model)
    figures = (named if language_model else ()) or figures
    return tuple(figure for figure in figures if figure.model == figures[0].model)


def weighted_average(parts: Sequence[tuple[float, Figure]]) -> Average:
    """Return the average of figures, each with its weight (they sum to 1), and its interval if all have one."""
    value = sum(weight * figure.value for weight, figure in parts)
    below, above = _distance(parts, "low"), _distance(parts, "high")
    return Average(value, None if below is None else value - below, None if above is None else value + above)


def dataset_of(figure: Figure) -> str:
    """Return the name of the data that a figure was measured on, as in :meth:`Protocol.weights`."""
    return dataset_name(figure.dataset, figure.subset, figure.gender)


def _distance(parts: Sequence[tuple[float, Figure]], end: str) -> float | None:
    """Return how far the average may be from its value on one side (Newcombe's MOVER); None without intervals."""
    by_speakers: dict[tuple[str, str], float] = {}
    for weight, figure in parts:
        limit = getattr(figure, end)
        if not isinstance(limit, int | float) or not math.isfinite(limit):
            return None
        speakers = (figure.dataset, figure.gender)
        by_speakers[speakers] = by_speakers.get(speakers, 0.0) + weight * abs(figure.value - limit)
    return math.hypot(*by_speakers.values())
