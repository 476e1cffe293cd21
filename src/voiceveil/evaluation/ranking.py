"""Systems ranked as the challenges do it: within each EER condition, by WER and, in 2024, by UAR.

Conventions: rates are fractions; see :mod:`voiceveil.metrics.challenge` for weights and conditions. The EER that
counts is that of anonymized enrollments and trials (``aa``) under the semi-informed attacker; a ranking says whose it
is. Averages have an interval where each figure has one. Figures of different speakers err independently, so that their
distances add in squares; those of the same speakers (VCTK and its common sentences) may err together and add up.

Places are those of the challenge, by value alone. Systems of one condition whose intervals overlap are *tied*: the data
do not tell them apart. That is cautious, since all were heard by the same evaluator on the same speakers; a paired test
(``voiceveil score`` with two files) can tell apart what overlapping intervals cannot.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from voiceveil.core.checks import Check
from voiceveil.core.errors import InputError
from voiceveil.evaluation.attackers import choose_attacker
from voiceveil.evaluation.results import Figure, Results, attacker_label
from voiceveil.metrics.challenge import (
    MIN_PITCH_CORRELATION,
    Edition,
    Entry,
    Membership,
    Metric,
    Split,
    condition,
    rank,
    weights,
)
from voiceveil.official.names import trial_name

__all__ = ["Average", "Placing", "Ranking", "Standing", "dataset_of", "edition_of", "rank_systems", "weighted_average"]

UTILITIES: Mapping[int, tuple[Metric, ...]] = {2022: ("wer",), 2024: ("wer", "uar")}


@dataclass(frozen=True)
class Average:
    """The challenge's average of a metric; ``low`` and ``high`` are None if some figure in it has no interval."""

    value: float
    low: float | None = None
    high: float | None = None

    def overlaps(self, other: Average) -> bool:
        """Whether the intervals have a value in common; without intervals, whether the values are equal."""
        low, high = (self.value if end is None else end for end in (self.low, self.high))
        other_low, other_high = (other.value if end is None else end for end in (other.low, other.high))
        return low <= other_high and other_low <= high


@dataclass(frozen=True)
class Standing:
    """A system: its averages, the condition that its EER falls in (None: below the lowest), and whose EER it is."""

    system: str
    eer: Average
    utility: Mapping[str, Average]  # "wer", "uar"; without those that were not measured
    condition: float | None
    attacker: str
    knowledge: str = ""  # of the attacker
    borderline: bool = False  # the interval of the EER reaches into another condition
    fault: str = ""  # why the system is not ranked
    checks: tuple[Check, ...] = ()  # that failed: the figures may be false

    @property
    def evaluator(self) -> str:
        """The attacker with its knowledge, for a reader."""
        return attacker_label(self.attacker, self.knowledge)


@dataclass(frozen=True)
class Placing:
    """A line of a ranking: the place by value, and the systems of the same condition that it is tied with."""

    place: int
    system: str
    average: Average
    tied_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ranking:
    """All systems, and for each utility metric the places within each condition (by its minimum EER)."""

    edition: Edition
    split: Split
    membership: Membership
    standings: tuple[Standing, ...]
    places: Mapping[str, Mapping[float, tuple[Placing, ...]]]
    original: Standing | None  # the unprocessed speech, which takes no part

    def standing(self, system: str) -> Standing:
        """The standing of a system."""
        return next(standing for standing in self.standings if standing.system == system)


def edition_of(results: Sequence[Results]) -> Edition:
    """The challenge that all results are of."""
    found = {year for year in (2022, 2024) if any(str(year) in one.protocol for one in results)}
    others = [one.system for one in results if not any(str(year) in one.protocol for year in (2022, 2024))]
    if len(found) != 1 or others:
        protocols = ", ".join(sorted({one.protocol for one in results}))
        raise InputError(f"results of {protocols}: which ranking?", fix="say --edition 2022 or --edition 2024")
    return 2022 if found == {2022} else 2024


def rank_systems(
    results: Sequence[Results],
    edition: Edition | None = None,
    *,
    split: Split = "test",
    membership: Membership = "interval",
    attacker: str | None = None,
) -> Ranking:
    """Rank the systems; ``attacker`` is the model whose EERs count, where a system was attacked by several."""
    if not results:
        raise InputError("no results to rank")
    year = edition_of(results) if edition is None else edition
    for one in results:
        if one.protocol.startswith("vpc") and one.protocol != f"vpc{year}":
            fix = "rank results of one challenge; another protocol has other data and attackers"
            raise InputError(f"{one.system}: results of {one.protocol}, not of vpc{year}", fix=fix)
    names = [one.system for one in results]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"two results of {twice[0]!r}", fix="name them: NAME=PATH")
    standings = tuple(_standing(one, year, split, attacker) for one in results)
    places: dict[str, Mapping[float, tuple[Placing, ...]]] = {
        by: _places(standings, year, by, membership) for by in UTILITIES[year]
    }
    originals = (_original(one, year, split) for one in results)
    return Ranking(year, split, membership, standings, places, next(filter(None, originals), None))


def _standing(results: Results, edition: Edition, split: Split, attacker: str | None) -> Standing:
    figures = results.find("eer", condition="aa", split=split)
    if not figures:
        raise InputError(
            f"{results.system}: no EER of anonymized enrollments and trials on the {split} data",
            fix="the challenges rank by it; --split dev ranks on the development data",
        )
    name = choose_attacker(figures, results.system, attacker)
    by_attacker = [f for f in figures if f.attacker == name]
    eer = _average(by_attacker, edition, "eer", split, results.system)
    utility: dict[str, Average] = {
        by: _average(found, edition, by, split, results.system)
        for by in UTILITIES[edition]
        if (found := _utility_figures(results, by, split, "a"))
    }
    inside = condition(eer.value, edition)
    ends = {condition(end, edition) for end in (eer.low, eer.high) if end is not None}
    fault = _fault(results) if edition == 2022 else ""
    return Standing(
        results.system,
        eer,
        utility,
        inside,
        name,
        by_attacker[0].knowledge,
        borderline=bool(ends - {inside}),
        fault=fault,
        checks=results.checks,
    )


def _utility_figures(results: Results, metric: Metric, split: str, condition: str) -> list[Figure]:
    """The figures of a utility metric; of two language models the large one counts (2022)."""
    found = results.find(metric, split=split, condition=condition)
    large = [figure for figure in found if figure.detail.get("language_model") == "tglarge"]
    return large or list(found)


def _fault(results: Results) -> str:
    """Why a system is not ranked in 2022: its pitch correlation must be above 0.3 on every dataset, dev and test."""
    low = [f for f in results.find("pitch_correlation") if f.value <= MIN_PITCH_CORRELATION]
    return f"pitch correlation {low[0].value:.3f} on {trial_name(low[0])}" if low else ""


def _average(figures: Iterable[Figure], edition: Edition, metric: Metric, split: Split, system: str) -> Average:
    """The weighted average of the datasets and its interval."""
    by_name: dict[str, Figure] = {}
    for figure in figures:
        if by_name.setdefault(dataset_of(figure), figure) is not figure:
            models = f"{by_name[dataset_of(figure)].evaluator!r} and {figure.evaluator!r}"
            raise InputError(f"{system}: two figures for {metric} of {dataset_of(figure)}, by {models}", fix="keep one")
    shares = weights(edition, metric, split)
    missing = [name for name in shares if name not in by_name]
    if missing:
        raise InputError(
            f"{system}: no {metric} for {', '.join(missing)}", fix="evaluate all datasets of the challenge"
        )
    parts = [(share, by_name[name]) for name, share in shares.items()]
    for _, figure in parts:
        if not 0.0 <= figure.value <= (1.0 if metric != "wer" else sys.float_info.max):
            raise InputError(f"{system}: {figure}", fix="rates are fractions: 0.05, not 5")
    return weighted_average(parts)


def weighted_average(parts: Sequence[tuple[float, Figure]]) -> Average:
    """The average of figures, each with its share of 1, and its interval if all have one."""
    value = sum(share * figure.value for share, figure in parts)
    below, above = _reach(parts, "low"), _reach(parts, "high")
    return Average(value, None if below is None else value - below, None if above is None else value + above)


def dataset_of(figure: Figure) -> str:
    """The challenge's name of what a figure was measured on."""
    if figure.metric == "wer":
        return f"{figure.dataset}_asr"
    return figure.dataset if figure.metric == "uar" else trial_name(figure)


def _reach(parts: Sequence[tuple[float, Figure]], end: str) -> float | None:
    """How far the average may be from its value, on one side (Newcombe's MOVER)."""
    by_speakers: dict[tuple[str, str], float] = {}
    for share, figure in parts:
        limit = getattr(figure, end)
        if not isinstance(limit, int | float) or not math.isfinite(limit):
            return None
        speakers = (figure.dataset, figure.gender)
        by_speakers[speakers] = by_speakers.get(speakers, 0.0) + share * abs(figure.value - limit)
    return math.hypot(*by_speakers.values())


def _places(
    standings: Sequence[Standing], edition: Edition, by: Metric, membership: Membership
) -> dict[float, tuple[Placing, ...]]:
    members = {s.system: s for s in standings if by in s.utility and not s.fault}
    eers = {name: standing.eer.value for name, standing in members.items()}
    values = {name: standing.utility[by].value for name, standing in members.items()}
    table = rank(eers, values, edition, by="uar" if by == "uar" else "wer", membership=membership)
    return {
        minimum: tuple(
            Placing(
                entry.place, entry.system, members[entry.system].utility[by], _tied(entry.system, entries, members, by)
            )
            for entry in entries
        )
        for minimum, entries in table.items()
    }


def _tied(system: str, entries: Iterable[Entry], members: Mapping[str, Standing], by: str) -> tuple[str, ...]:
    mine = members[system].utility[by]
    others = (entry.system for entry in entries if entry.system != system)
    return tuple(name for name in others if mine.overlaps(members[name].utility[by]))


def _original(results: Results, edition: Edition, split: Split) -> Standing | None:
    """The unprocessed speech, if the results have it in full and by one attacker."""
    figures = [f for f in results.find("eer", condition="oo", split=split) if f.knowledge != "semi-informed"]
    if not figures:
        return None
    try:
        name = choose_attacker(figures, results.system)
        eer = _average([f for f in figures if f.attacker == name], edition, "eer", split, results.system)
        utility: dict[str, Average] = {
            by: _average(_utility_figures(results, by, split, "o"), edition, by, split, results.system)
            for by in UTILITIES[edition]
        }
    except InputError:
        return None
    return Standing("original", eer, utility, condition(eer.value, edition), name, figures[0].knowledge)
