"""Objective measures against ratings: EER and similarity (Figure 20), WER and the other two (Figure 21).

Conventions: the EER is that of the ignorant attacker (original enrollment, anonymized trial), which like the evaluators
knows nothing of anonymization; without one, the lowest of the other attackers. EER and WER are means over sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from voiceveil.apps.listen.analysis import Analysis
from voiceveil.apps.listen.figures import ScatterPoint, scatter_svg
from voiceveil.apps.listen.study import ORIGINAL
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.evaluation.averages import Average, weighted_average
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official import read_results

__all__ = ["Comparison", "comparisons", "read_objective"]

Comparison = dict[str, object]

_PAIRS = (
    ("eer", "similarity, same speaker"),
    ("eer", "similarity, different speakers"),
    ("wer", "naturalness"),
    ("wer", "intelligibility"),
)
_TITLES = {"eer": "EER (%)", "wer": "WER (%)"}


def read_objective(specs: Sequence[str], systems: Sequence[str]) -> dict[str, Results]:
    """Return system -> its results, from specifications NAME=FILE."""
    results = {}
    for spec in specs:
        name, equals, path = spec.partition("=")
        if not equals:
            raise InputError(f"{spec!r} names no system", fix="--results NAME=results.json")
        if name not in systems:
            raise InputError(f"no system {name!r} in the study", fix=did_you_mean(name, list(systems)))
        results[name] = read_results(Path(path), system=name)
    return results


def comparisons(analysis: Analysis, results: Mapping[str, Results]) -> list[Comparison]:
    """Return a scatter plot for each pair of an objective and a subjective measure that some systems have."""
    scatters: list[Comparison] = []
    for metric, aspect in _PAIRS:
        groups = analysis.groups.get(aspect, {})
        points = []
        for name, system_results in [
            *results.items(),
            *([(ORIGINAL, next(iter(results.values())))] if results else []),
        ]:
            measured, model = _measured(system_results, metric, original=name == ORIGINAL)
            if measured is None or name not in groups:
                continue
            reach = None if measured.low is None or measured.high is None else (measured.low, measured.high)
            median = groups[name].median
            point = ScatterPoint(name, measured.value, median.value, reach, (median.low, median.high), name == ORIGINAL)
            points.append((point, model))
        if points:
            plain = [point for point, _ in points]
            drawing = scatter_svg(plain, f"{_TITLES[metric]} and {aspect}", (_TITLES[metric], f"median {aspect}"))
            rows = [{"name": p.name, "objective": p.x, "subjective": p.y, "by": by} for p, by in points]
            scatters.append(
                {"metric": metric, "aspect": aspect, "drawing": drawing, "rows": rows, "rank": _rank(plain)}
            )
    return scatters


def _rank(points: Sequence[ScatterPoint]) -> float | None:
    """Return Spearman's correlation over the points; None for fewer than four."""
    from scipy.stats import spearmanr

    if len(points) < 4 or len({p.x for p in points}) < 2 or len({p.y for p in points}) < 2:
        return None
    return float(spearmanr([p.x for p in points], [p.y for p in points]).statistic)


def _measured(results: Results, metric: str, *, original: bool) -> tuple[Average | None, str]:
    """Return the mean of the figures that count, and the attacker or recognizer that measured them."""
    if metric == "wer":
        figures = list(results.find("wer", condition="o" if original else "a"))
    elif original:
        figures = list(results.find("eer", condition="oo"))
    else:
        figures = list(results.find("eer", condition="oa")) or list(results.find("eer", condition="aa"))
    figures = [f for f in figures if f.split == "test"] or figures
    by_model: dict[str, list[Figure]] = {}
    for figure in figures:
        by_model.setdefault(figure.evaluator, []).append(figure)
    averages = [(weighted_average([(1 / len(fs), f) for f in fs]), model) for model, fs in by_model.items()]
    return min(averages, key=lambda pair: pair[0].value) if averages else (None, "")
