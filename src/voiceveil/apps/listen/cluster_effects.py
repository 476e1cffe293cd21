"""Effects of system, gender and evaluators on the difference between control panels and other panels.

Conventions (Tomashenko et al. 2022, section 4.2.3): a :class:`Difference` is that of one evaluator and one system, the
control panels minus the mean of the panels that are half anonymized. Factors are the system, the gender of the original
speakers, and one question about the evaluators (``[[ask]]`` of the texts, e.g. their native language) with two to four
answers. Effects are those of an analysis of variance between evaluators (:mod:`voiceveil.stats.anova`); groups are
compared by Welch's t-tests.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from voiceveil.apps.listen.clusters import PanelScore
from voiceveil.apps.listen.study import ORIGINAL
from voiceveil.stats.anova import Effect, factorial_anova

__all__ = ["MEASURES", "ClusterEffects", "Difference", "GroupMean", "cluster_effects"]

#: Measure -> its title.
MEASURES = {"f1": "F1", "purity": "purity", "change": "clustering change"}
_MOST_LEVELS = 4
#: Differences of scores from 0 to 1 that are equal up to this are equal.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Difference:
    """Control minus anonymized panels of one evaluator, by measure, and the levels of the factors."""

    evaluator: str
    values: Mapping[str, float]
    levels: Mapping[str, str]


@dataclass(frozen=True)
class GroupMean:
    """Mean of the differences of a group, and its standard error; ``p`` of the test against the only other group."""

    name: str
    mean: float
    error: float
    count: int
    p: float | None = None


@dataclass(frozen=True)
class ClusterEffects:
    """Effects on the differences, by measure, and the means of groups.

    ``groups`` maps measure -> factors, joined by ×, -> means of the groups that the factors form.
    """

    factors: tuple[str, ...]
    differences: tuple[Difference, ...]
    effects: Mapping[str, tuple[Effect, ...]]
    groups: Mapping[str, Mapping[str, tuple[GroupMean, ...]]]


def cluster_effects(scores: Sequence[PanelScore], background: Mapping[str, Mapping[str, str]]) -> ClusterEffects | None:
    """Return the effects; None if no evaluator has both a control panel and another one.

    Parameters
    ----------
    scores
        Of all panels.
    background
        Evaluator -> question -> answer.
    """
    question = _question(scores, background)
    differences = tuple(_differences(scores, background, question))
    if not differences:
        return None
    factors = ("system", "gender", *([question] if question else []))
    levels = {name: [difference.levels[name] for difference in differences] for name in factors}
    effects = {
        measure: factorial_anova([difference.values[measure] for difference in differences], levels)
        for measure in MEASURES
    }
    varied = tuple(name for name in factors if len(set(levels[name])) > 1)
    grouped = [*((name,) for name in varied), *([varied] if len(varied) > 1 else [])]
    groups = {
        measure: {" × ".join(names): _groups(differences, measure, names) for names in grouped} for measure in MEASURES
    }
    return ClusterEffects(factors, differences, effects, groups)


def _question(scores: Sequence[PanelScore], background: Mapping[str, Mapping[str, str]]) -> str:
    """Return the first question that all evaluators of panels answered in two to four ways; "" if there is none."""
    evaluators = {score.panel.evaluator for score in scores}
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for evaluator in evaluators:
        for question, answer in background.get(evaluator, {}).items():
            answers[question][answer] += 1
    for question, counted in sorted(answers.items()):
        if counted.total() == len(evaluators) and 2 <= len(counted) <= _MOST_LEVELS and min(counted.values()) > 1:
            return question
    return ""


def _differences(
    scores: Sequence[PanelScore], background: Mapping[str, Mapping[str, str]], question: str
) -> Sequence[Difference]:
    by_evaluator: dict[str, dict[str, list[PanelScore]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        by_evaluator[score.panel.evaluator][score.panel.system].append(score)
    differences = []
    for evaluator, by_system in by_evaluator.items():
        control = by_system.get(ORIGINAL, [])
        for system, panels in by_system.items():
            if system == ORIGINAL or not control:
                continue
            values = {measure: _mean(control, measure) - _mean(panels, measure) for measure in MEASURES}
            levels = {"system": system, "gender": panels[0].panel.gender}
            if question:
                levels[question] = background[evaluator][question]
            differences.append(Difference(evaluator, values, levels))
    return differences


def _mean(scores: Sequence[PanelScore], measure: str) -> float:
    return float(np.mean([getattr(score, measure) for score in scores]))


def _groups(differences: Sequence[Difference], measure: str, names: Sequence[str]) -> tuple[GroupMean, ...]:
    """Return the mean of each group; two groups are compared by Welch's t-test."""
    values: dict[str, list[float]] = defaultdict(list)
    for difference in differences:
        values[", ".join(difference.levels[name] for name in names)].append(difference.values[measure])
    p = _welch_p(*values.values()) if len(values) == 2 else None
    return tuple(
        GroupMean(
            name,
            float(np.mean(members)),
            float(np.std(members, ddof=1) / np.sqrt(len(members))) if len(members) > 1 else 0.0,
            len(members),
            p,
        )
        for name, members in sorted(values.items())
    )


def _welch_p(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return p of Welch's t-test; None if a group has one member, or neither varies by more than rounding."""
    from scipy.stats import ttest_ind_from_stats

    if min(len(first), len(second)) < 2 or max(np.ptp(first), np.ptp(second)) < _ROUNDING:
        return None
    groups = [(np.mean(group), np.std(group, ddof=1), len(group)) for group in (first, second)]
    return float(ttest_ind_from_stats(*groups[0], *groups[1], equal_var=False).pvalue)
