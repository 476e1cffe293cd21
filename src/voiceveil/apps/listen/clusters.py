"""Results of the clustering panels: F1, purity and clustering change against the control panel.

Conventions (Tomashenko et al. 2022, sections 2.3.2 and 4.2.3): a difference is that of one evaluator, the control panel
minus the mean of the panels that are half anonymized; a positive one of F1 or purity means that anonymization made it
harder to link voices. Clustering change is the number of moves per excerpt. Intervals are over evaluators and panels,
that is, groups of speakers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from voiceveil.apps.listen.crossed_bootstrap import crossed_interval, weighted_mean
from voiceveil.apps.listen.responses import PanelResponse
from voiceveil.apps.listen.study import ORIGINAL
from voiceveil.metrics.subjective import (
    RatingTest,
    clustering_change,
    clustering_f1,
    clustering_purity,
    compare_ratings,
)
from voiceveil.stats.values import Estimate

__all__ = ["Clustering", "PanelScore", "SystemClustering", "cluster_results"]


@dataclass(frozen=True)
class PanelScore:
    """Scores of one panel of one evaluator."""

    panel: PanelResponse
    f1: float
    purity: float
    change: float  # moves per excerpt
    clusters: int
    alone: bool  # whether the distractor has a cluster of its own


@dataclass(frozen=True)
class SystemClustering:
    """All panels of one system ("original": the control panels); differences and test against the control panels."""

    panels: int
    f1: Estimate
    purity: Estimate
    change: Estimate
    alone: Estimate  # share of panels
    f1_difference: Estimate | None = None
    purity_difference: Estimate | None = None
    change_difference: Estimate | None = None
    purity_test: RatingTest | None = None


@dataclass(frozen=True)
class Clustering:
    """Scores of every panel, and their means for each system, the control panels first."""

    scores: tuple[PanelScore, ...]
    systems: dict[str, SystemClustering]


def cluster_results(panels: Sequence[PanelResponse]) -> Clustering:
    """Score every panel, and average the scores by system."""
    scores = tuple(_score(panel) for panel in panels)
    names = sorted({panel.system for panel in panels}, key=lambda name: (name != ORIGINAL, name))
    return Clustering(scores, {name: _system(scores, name) for name in names})


def _score(panel: PanelResponse) -> PanelScore:
    speakers, clusters = list(panel.speakers), list(panel.clusters)
    distractor = min(Counter(speakers).items(), key=lambda pair: pair[1])[0]
    with_it = clusters[speakers.index(distractor)]
    return PanelScore(
        panel,
        clustering_f1(speakers, clusters),
        clustering_purity(speakers, clusters),
        clustering_change(panel.moves).per_utterance,
        len(set(clusters)),
        clusters.count(with_it) == 1,
    )


def _system(scores: Sequence[PanelScore], name: str) -> SystemClustering:
    own = [score for score in scores if score.panel.system == name]
    control = [score for score in scores if score.panel.system == ORIGINAL]
    evaluators, panels = [score.panel.evaluator for score in own], [score.panel.item for score in own]

    def mean(field: str, most: float = 1.0) -> Estimate:
        values = [float(getattr(score, field)) for score in own]
        return crossed_interval(weighted_mean(values), evaluators, panels, bounds=(0.0, most))

    clustering = SystemClustering(len(own), mean("f1"), mean("purity"), mean("change", np.inf), mean("alone"))
    if name == ORIGINAL or not control:
        return clustering
    return replace(
        clustering,
        f1_difference=_difference(control, own, "f1"),
        purity_difference=_difference(control, own, "purity"),
        change_difference=_difference(control, own, "change"),
        purity_test=compare_ratings([s.purity for s in control], [s.purity for s in own]),
    )


def _difference(control: Sequence[PanelScore], own: Sequence[PanelScore], field: str) -> Estimate | None:
    """Return the mean over evaluators of (their control panels - their panels ``own``); None if no one has both."""
    by_person: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for side, scores in enumerate((control, own)):
        for score in scores:
            by_person[score.panel.evaluator][side].append(float(getattr(score, field)))
    values = {evaluator: float(np.mean(a) - np.mean(b)) for evaluator, (a, b) in by_person.items() if a and b}
    if not values:
        return None
    groups = {score.panel.evaluator: score.panel.item for score in own}
    bounds = (-np.inf, np.inf) if field == "change" else (-1.0, 1.0)
    names = list(values)
    return crossed_interval(
        weighted_mean(list(values.values())), names, [groups[name] for name in names], bounds=bounds
    )
