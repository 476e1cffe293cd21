"""The analysis of a listening test: ratings, preferences and clusters of each system, with intervals and tests.

Conventions (Tomashenko et al. 2022, section 4.2): ratings are normalized by their rank among all that the evaluator
gave to the same question, and then lie in [0, 1). Similarity is shown apart for pairs of one speaker and of two: four
*aspects* in all. Intervals are 95%, over evaluators and speakers (:mod:`voiceveil.apps.listen.crossed_bootstrap`).
Tests between versions of the speech are Mann-Whitney U with Holm's correction within an aspect; they take ratings as
independent, which those of one person are not quite: rely on the intervals rather than on p-values near the threshold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from voiceveil.apps.listen.cluster_effects import ClusterEffects, cluster_effects
from voiceveil.apps.listen.clusters import Clustering, cluster_results
from voiceveil.apps.listen.crossed_bootstrap import crossed_interval, krippendorff_alpha, weighted_mean, weighted_median
from voiceveil.apps.listen.responses import Person, Preference, Rating, Responses
from voiceveil.apps.listen.study import ORIGINAL, Study
from voiceveil.core.errors import InputError
from voiceveil.metrics.kernels import rocch_eer
from voiceveil.metrics.subjective import RatingTest, compare_systems, holm, normalized_ranks, rating_det
from voiceveil.metrics.verification import DetCurve
from voiceveil.stats.values import Estimate

__all__ = ["ASPECTS", "Analysis", "Det", "Group", "Rules", "analyze"]

Floats = NDArray[np.float64]

#: Aspect -> (question, pairs of one speaker: True, of two: False, all: None).
ASPECTS: dict[str, tuple[str, bool | None]] = {
    "naturalness": ("naturalness", None),
    "intelligibility": ("intelligibility", None),
    "similarity, same speaker": ("similarity", True),
    "similarity, different speakers": ("similarity", False),
}
ATTENTIVE = 2 / 3  # the share of attention checks that must be right
WITH_HEADPHONES = 5 / 6  # of six comparisons (Woods et al. 2017)


@dataclass(frozen=True)
class Rules:
    """Rules for the evaluators whose answers count: by default all who passed the attention checks."""

    keep_all: bool = False
    need_headphones: bool = False

    def keeps(self, person: Person) -> bool:
        """Return whether the answers of a person count."""
        attentive = person.attention[0] >= ATTENTIVE * person.attention[1]
        headphones = person.headphones[0] >= WITH_HEADPHONES * person.headphones[1]
        return (self.keep_all or attentive) and (headphones or not self.need_headphones)


@dataclass(frozen=True)
class Group:
    """The ratings of one version of the speech in one aspect; ``normalized`` has shape (n,)."""

    source: str
    raw: Estimate  # mean on the scale from 1 to 10
    mean: Estimate  # of the normalized ratings
    median: Estimate
    normalized: Floats


@dataclass(frozen=True)
class Det:
    """A detection curve drawn from ratings, and its EER."""

    source: str
    curve: DetCurve
    eer: Estimate


@dataclass(frozen=True)
class Share:
    """Share of answers that prefer ``second`` to ``first``; ``p`` of a sign test, ``p_adjusted`` by Holm."""

    first: str
    second: str
    share: Estimate
    count: int
    p: float
    p_adjusted: float


@dataclass(frozen=True)
class Agreement:
    """Krippendorff's alpha of a question: of the ratings (ordinal) and of the normalized ones (interval)."""

    question: str
    alpha: float
    alpha_normalized: float
    items: int  # with two or more ratings
    correlations: Mapping[str, float]  # evaluator -> Spearman's with the mean of the others


@dataclass(frozen=True)
class Analysis:
    """All results of a study."""

    study: Study
    responses: Responses
    kept: tuple[Person, ...]
    ratings: tuple[Rating, ...]  # of those who are kept
    normalized: Floats

    @property
    def sources(self) -> tuple[str, ...]:
        """The versions: the original first, then the systems."""
        return (ORIGINAL, *self.study.systems)

    @cached_property
    def groups(self) -> dict[str, dict[str, Group]]:
        """Aspect -> version -> its ratings."""
        groups: dict[str, dict[str, Group]] = {}
        for aspect in ASPECTS:
            members = {source: self._where(aspect, source) for source in self.sources}
            rows = {source: self._group(source, index) for source, index in members.items() if len(index)}
            if rows:
                groups[aspect] = rows
        return groups

    @cached_property
    def tests(self) -> dict[str, dict[tuple[str, str], RatingTest]]:
        """Aspect -> pair of versions -> Mann-Whitney U test of their normalized ratings."""
        return {
            aspect: compare_systems({source: group.normalized for source, group in groups.items()})
            for aspect, groups in self.groups.items()
            if len(groups) > 1
        }

    @cached_property
    def dets(self) -> dict[str, list[Det]]:
        """Figure 17: how well ratings tell original from anonymized speech, or one speaker from two.

        Naturalness and intelligibility: original speech is to be detected among that of one system. Similarity: pairs
        of one speaker are to be detected among pairs of two, both of the same version; and, with the pairs of original
        speech as anchors, the same-speaker pairs of a system among the different-speaker pairs of the original, and the
        same-speaker pairs of the original among the different-speaker pairs of a system.
        """
        same, different = "similarity, same speaker", "similarity, different speakers"
        curves: dict[str, list[Det | None]] = {}
        for aspect in ("naturalness", "intelligibility"):
            curves[aspect] = [self._det(s, (aspect, ORIGINAL), (aspect, s)) for s in self.study.systems]
        for title, target, nontarget in (
            ("similarity, pairs of the same version", None, None),
            (f"{same}, against original pairs", None, ORIGINAL),
            (f"{different}, against original pairs", ORIGINAL, None),
        ):
            curves[title] = [self._det(s, (same, target or s), (different, nontarget or s)) for s in self.sources]
        drawn = {title: [det for det in dets if det is not None] for title, dets in curves.items()}
        return {title: dets for title, dets in drawn.items() if dets}

    @cached_property
    def preferences(self) -> list[Share]:
        """Every pair of versions that was compared."""
        from scipy.stats import binomtest

        names = {person.name for person in self.kept}
        pairs: dict[tuple[str, str], list[Preference]] = defaultdict(list)
        for preference in self.responses.preferences:
            if preference.evaluator in names:
                pairs[preference.first, preference.second].append(preference)
        shares = []
        for (first, second), preferences in sorted(pairs.items()):
            wins = [float(preference.chosen == second) for preference in preferences]
            evaluators = [preference.evaluator for preference in preferences]
            speakers = [preference.speaker for preference in preferences]
            p = float(binomtest(int(sum(wins)), len(wins)).pvalue)
            shares.append(
                Share(first, second, crossed_interval(weighted_mean(wins), evaluators, speakers), len(wins), p, p)
            )
        adjusted = holm([share.p for share in shares])
        return [replace(share, p_adjusted=p) for share, p in zip(shares, adjusted, strict=True)]

    @cached_property
    def agreement(self) -> list[Agreement]:
        """Agreement of evaluators who rated the same items, by question."""
        return [self._agreement(question) for question in self.study.ratings if self._of(question)]

    @cached_property
    def clustering(self) -> Clustering | None:
        """Results of the panels."""
        names = {person.name for person in self.kept}
        panels = [panel for panel in self.responses.panels if panel.evaluator in names]
        return cluster_results(panels) if panels else None

    @cached_property
    def cluster_effects(self) -> ClusterEffects | None:
        """Effects on the difference between control panels and other panels."""
        if self.clustering is None:
            return None
        return cluster_effects(self.clustering.scores, {person.name: person.background for person in self.kept})

    def lines(self) -> list[str]:
        """Return the main results as lines for a terminal."""
        people, kept = self.responses.people, self.kept
        lines = [f"{len(people)} evaluators, {len(kept)} kept; {len(self.ratings)} ratings by those"]
        for aspect, groups in self.groups.items():
            lines += ["", f"{aspect}: mean of normalized ratings [95%]"]
            lines += [f"  {source:<16} {group.mean}" for source, group in groups.items()]
        for share in self.preferences:
            rate = replace(share.share, unit="%")
            lines.append(f"{share.second} preferred to {share.first}: {rate}, p = {share.p_adjusted:.2g}")
        if self.clustering is not None:
            lines += ["", "clustering: purity [95%]"]
            lines += [f"  {system:<16} {row.purity}" for system, row in self.clustering.systems.items()]
        return lines

    def _of(self, question: str) -> list[int]:
        return [index for index, rating in enumerate(self.ratings) if rating.question == question]

    def _where(self, aspect: str, source: str) -> list[int]:
        question, same = ASPECTS[aspect]
        return [
            index
            for index in self._of(question)
            if self.ratings[index].source == source and same in (None, self.ratings[index].same)
        ]

    def _factors(self, index: Sequence[int]) -> tuple[list[str], list[str]]:
        return [self.ratings[i].evaluator for i in index], [self.ratings[i].speaker for i in index]

    def _group(self, source: str, index: list[int]) -> Group:
        evaluators, speakers = self._factors(index)
        values, raw = self.normalized[index], [self.ratings[i].value for i in index]
        return Group(
            source,
            crossed_interval(weighted_mean(raw), evaluators, speakers, bounds=(1.0, 10.0)),
            crossed_interval(weighted_mean(values), evaluators, speakers),
            crossed_interval(weighted_median(values), evaluators, speakers),
            values,
        )

    def _det(self, source: str, target: tuple[str, str], nontarget: tuple[str, str]) -> Det | None:
        """Return the DET curve of normalized ratings; None if a class has no ratings.

        Parameters
        ----------
        source
            Version of the speech that the curve is about.
        target, nontarget
            (aspect, version) of both classes.
        """
        index, against = self._where(*target), self._where(*nontarget)
        if not index or not against:
            return None
        evaluators, speakers = self._factors([*index, *against])
        values = self.normalized[[*index, *against]]
        levels, place = np.unique(values, return_inverse=True)
        is_target = np.arange(len(values)) < len(index)

        def eer(weights: Floats) -> float:
            tar = np.bincount(place, weights * is_target, len(levels)).astype(np.float64)
            non = np.bincount(place, weights * ~is_target, len(levels)).astype(np.float64)
            return float(rocch_eer(tar, non)) if tar.sum() > 0 and non.sum() > 0 else float("nan")

        curve = rating_det(self.normalized[index], self.normalized[against])
        return Det(source, curve, crossed_interval(eer, evaluators, speakers, bounds=(0.0, 0.5)))

    def _agreement(self, question: str) -> Agreement:
        units: dict[str, list[float]] = defaultdict(list)
        ranked: dict[str, list[float]] = defaultdict(list)
        by_item: dict[str, dict[str, float]] = defaultdict(dict)
        for index in self._of(question):
            rating = self.ratings[index]
            units[rating.item].append(rating.value)
            ranked[rating.item].append(float(self.normalized[index]))
            by_item[rating.item][rating.evaluator] = rating.value
        shared = sum(len(values) > 1 for values in units.values())
        plain = krippendorff_alpha(units)
        smooth = krippendorff_alpha(ranked, level="interval")
        return Agreement(question, plain, smooth, shared, _with_others(by_item))


def _with_others(by_item: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return Spearman's correlation of each evaluator with the mean of the others, over five shared items or more."""
    from scipy.stats import spearmanr

    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for ratings in by_item.values():
        for name, value in ratings.items():
            others = [other for key, other in ratings.items() if key != name]
            if others:
                pairs[name].append((value, float(np.mean(others))))
    correlations = {}
    for name, both in sorted(pairs.items()):
        own, rest = np.array(both).T
        if len(both) >= 5 and np.ptp(own) > 0 and np.ptp(rest) > 0:
            correlations[name] = float(spearmanr(own, rest).statistic)
    return correlations


def analyze(study: Study, responses: Responses, rules: Rules | None = None) -> Analysis:
    """Analyze the responses of the evaluators that the rules keep.

    Parameters
    ----------
    study
        The design.
    responses
        Of all evaluators, see :func:`~voiceveil.apps.listen.responses.load_responses`.
    rules
        Which evaluators count (default: all who passed the attention checks).

    Raises
    ------
    InputError
        If there are no responses, or no evaluator is kept.
    """
    chosen = rules or Rules()
    kept = tuple(person for person in responses.people if chosen.keeps(person))
    names = {person.name for person in kept}
    ratings = tuple(rating for rating in responses.ratings if rating.evaluator in names)
    if not ratings and not responses.preferences and not responses.panels:
        raise InputError("no answers yet", fix="`voiceveil listen serve` collects them")
    if not kept:
        raise InputError("no evaluator passed the checks", fix="--keep-all keeps all evaluators")
    normalized = np.empty(len(ratings))
    for question in study.ratings:
        index = [i for i, rating in enumerate(ratings) if rating.question == question]
        if index:
            normalized[index] = normalized_ranks(
                [ratings[i].value for i in index], [ratings[i].evaluator for i in index]
            )
    return Analysis(study, responses, kept, ratings, normalized)
