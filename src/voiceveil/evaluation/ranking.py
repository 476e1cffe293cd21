"""Rank systems as a protocol says: within each EER condition, by utility metrics such as WER and UAR.

Conventions: rates are fractions. Weights, conditions and rules are those of the protocol
(:class:`voiceveil.evaluation.protocol.RankingRules`). The EER that counts is that of anonymized enrollment and trials
(``aa``) under the semi-informed attacker; a ranking says which attacker it was. A team is what stands before the first
``/`` of a system's name; a name without ``/`` is a team of its own.

Places are by value alone, as in the challenges. Systems of one condition whose intervals overlap are *tied*: the data
do not tell them apart. This is cautious, since all systems were evaluated by the same models on the same speakers; a
paired test (``voiceveil score`` with two files) can tell systems apart whose intervals overlap.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from voiceveil.core.checks import Check
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.evaluation.attackers import choose_attacker
from voiceveil.evaluation.averages import Average, counting_figures, dataset_of, weighted_average
from voiceveil.evaluation.protocol import Protocol, RankingRules, protocol_of
from voiceveil.evaluation.results import Figure, Results, attacker_label
from voiceveil.metrics.catalog import metric_info
from voiceveil.metrics.challenge import Entry, Membership, condition, rank

__all__ = ["Placing", "Ranking", "Standing", "rank_systems", "ranking_rules", "team_of"]


@dataclass(frozen=True)
class Standing:
    """A system in a ranking: its averages, its EER condition, and the attacker whose EER counts."""

    system: str
    eer: Average
    utility: Mapping[str, Average]  # metric -> average; without those that were not measured
    condition: float | None  # the minimum EER of its condition; None: the EER is below the lowest
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
    """All systems, and for each utility metric the places within each condition.

    ``places`` maps metric -> minimum EER -> places. ``team_limit`` maps minimum EER -> systems that take no place there
    because their teams have better ones. ``original`` is the unprocessed speech, which takes no part.
    """

    protocol: Protocol
    split: str
    membership: Membership
    standings: tuple[Standing, ...]
    places: Mapping[str, Mapping[float, tuple[Placing, ...]]]
    original: Standing | None = None
    team_limit: Mapping[float, tuple[str, ...]] = field(default_factory=dict)

    @property
    def minimum_eer(self) -> tuple[float, ...]:
        """The minimum EER of each condition, ascending."""
        return ranking_rules(self.protocol).minimum_eer

    def standing(self, system: str) -> Standing:
        """Return the standing of a system."""
        return next(standing for standing in self.standings if standing.system == system)


def rank_systems(
    results: Sequence[Results],
    protocol: Protocol | None = None,
    *,
    split: str | None = None,
    membership: Membership | None = None,
    attacker: str | None = None,
) -> Ranking:
    """Rank systems by their results.

    Parameters
    ----------
    results
        The results of one system each, all of the same protocol.
    protocol
        The rules; None: those of the results.
    split
        The data to rank on; None: ``test`` if the protocol has it, else its last split.
    membership
        Overrides that of the protocol.
    attacker
        The attacker whose EERs count, where a system was attacked by several.

    Raises
    ------
    InputError
        If there is nothing to rank, results are of different protocols, or figures are missing.
    """
    if not results:
        raise InputError("no results to rank")
    protocol = _common_protocol(results) if protocol is None else protocol
    rules = ranking_rules(protocol)
    split = _chosen_split(protocol, split)
    membership = rules.membership if membership is None else membership
    for result in results:
        if result.protocol != protocol.name:
            fix = "rank results of one protocol; another one has other data and attackers"
            raise InputError(f"{result.system}: results of {result.protocol}, not of {protocol.name}", fix=fix)
    names = [result.system for result in results]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"two results of {twice[0]!r}", fix="name them: NAME=PATH")
    standings = tuple(_standing(result, protocol, split, attacker) for result in results)
    team_limit = {
        minimum: dropped
        for minimum in rules.minimum_eer
        if (dropped := _beyond_team_limit(standings, rules, membership, minimum))
    }
    places = {metric: _places(standings, rules, metric, membership, team_limit) for metric in rules.by}
    originals = (_original(result, protocol, split) for result in results)
    return Ranking(protocol, split, membership, standings, places, next(filter(None, originals), None), team_limit)


def ranking_rules(protocol: Protocol) -> RankingRules:
    """Return the rules of a protocol, which must have some."""
    if protocol.ranking is None:
        fix = "add a table [ranking] to a copy of the protocol: `docs/how-to/protocols.md` explains it"
        raise InputError(f"{protocol.name} does not rank systems: it has no [ranking]", fix=fix)
    return protocol.ranking


def _common_protocol(results: Sequence[Results]) -> Protocol:
    names = sorted({result.protocol for result in results})
    if len(names) > 1:
        fix = "rank results of one protocol; another one has other data and attackers"
        raise InputError(f"results of different protocols: {', '.join(names)}", fix=fix)
    protocols = [protocol_of(result) for result in results]
    for result, protocol in zip(results, protocols, strict=True):
        if protocol != protocols[0]:
            problem = (
                f"{results[0].system} and {result.system} were evaluated under different versions of {result.protocol}"
            )
            raise InputError(problem, fix="evaluate them again, or say which rules count: --protocol NAME or FILE.toml")
    return protocols[0]


def _chosen_split(protocol: Protocol, split: str | None) -> str:
    splits = protocol.splits()
    if split is None:
        return "test" if "test" in splits else splits[-1]
    if split not in splits:
        raise InputError(f"{protocol.name} has no split {split!r}", fix=did_you_mean(split, list(splits)))
    return split


def team_of(system: str) -> str:
    """Return the team of a system: the part of its name before the first ``/``, or the whole name."""
    return system.split("/")[0]


def _standing(results: Results, protocol: Protocol, split: str, attacker: str | None) -> Standing:
    figures = results.find("eer", condition="aa", split=split)
    if not figures:
        raise InputError(
            f"{results.system}: no EER of anonymized enrollments and trials on the {split} data",
            fix=f"systems are ranked by it; --split takes {' or '.join(protocol.splits())}",
        )
    name = choose_attacker(figures, results.system, attacker)
    by_attacker = [figure for figure in figures if figure.attacker == name]
    eer = _average(by_attacker, protocol, "eer", split, results.system)
    rules = ranking_rules(protocol)
    utility = {
        metric: _average(measured, protocol, metric, split, results.system)
        for metric in rules.by
        if (measured := _utility_figures(results, protocol, metric, split, "a"))
    }
    inside = condition(eer.value, rules.minimum_eer)
    ends = {condition(end, rules.minimum_eer) for end in (eer.low, eer.high) if end is not None}
    return Standing(
        results.system,
        eer,
        utility,
        inside,
        name,
        by_attacker[0].knowledge,
        borderline=bool(ends - {inside}),
        fault=_fault(results, protocol),
        checks=results.checks,
    )


def _utility_figures(results: Results, protocol: Protocol, metric: str, split: str, side: str) -> list[Figure]:
    """Return the figures of a utility metric of original (``side`` "o") or anonymized ("a") speech.

    Metrics that compare both (pitch correlation, G_VD) are of the anonymized speech.
    """
    if metric_info(metric).part == "verification":
        return list(results.find(metric, split=split)) if side == "a" else []
    return list(counting_figures(results, metric, protocol, split=split, condition=side))


def _fault(results: Results, protocol: Protocol) -> str:
    """Return why a system is not ranked, or an empty string."""
    minimum = ranking_rules(protocol).minimum_pitch_correlation
    if minimum is None:
        return ""
    figures = {dataset_of(figure): figure.value for figure in results.find("pitch_correlation")}
    for split in protocol.splits():
        for dataset in protocol.weights("pitch_correlation", split):
            if dataset not in figures:
                return f"no pitch correlation on {dataset}, which must be above {minimum:g}"
            if not figures[dataset] > minimum:
                return f"pitch correlation {figures[dataset]:.3f} on {dataset}, not above {minimum:g}"
    return ""


def _average(figures: Iterable[Figure], protocol: Protocol, metric: str, split: str, system: str) -> Average:
    """Return the weighted average over the datasets of a split, with its interval."""
    by_dataset: dict[str, Figure] = {}
    for figure in figures:
        dataset = dataset_of(figure)
        if by_dataset.setdefault(dataset, figure) is not figure:
            models = f"{by_dataset[dataset].evaluator!r} and {figure.evaluator!r}"
            raise InputError(f"{system}: two figures for {metric} of {dataset}, by {models}", fix="keep one")
    weights = protocol.weights(metric, split)
    missing = [name for name in weights if name not in by_dataset]
    if missing:
        raise InputError(f"{system}: no {metric} for {', '.join(missing)}", fix="evaluate all data of the protocol")
    parts = [(weight, by_dataset[name]) for name, weight in weights.items()]
    if metric_info(metric).unit == "%":
        for _, figure in parts:
            if not 0.0 <= figure.value <= (1.0 if metric != "wer" else sys.float_info.max):
                raise InputError(f"{system}: {figure}", fix="rates are fractions: 0.05, not 5")
    return weighted_average(parts)


def _ranked(standings: Iterable[Standing], rules: RankingRules, metric: str, membership: Membership) -> _Table:
    """Return minimum EER -> entries of all systems that have the metric and no fault."""
    members = [standing for standing in standings if metric in standing.utility and not standing.fault]
    return rank(
        {standing.system: standing.eer.value for standing in members},
        {standing.system: standing.utility[metric].value for standing in members},
        rules.minimum_eer,
        better=metric_info(metric).better,
        membership=membership,
    )


_Table = dict[float, tuple[Entry, ...]]


def _beyond_team_limit(
    standings: Sequence[Standing], rules: RankingRules, membership: Membership, minimum: float
) -> tuple[str, ...]:
    """Return the systems of a condition that are left out because their teams have too many."""
    if rules.systems_per_team is None:
        return ()
    tables = [_ranked(standings, rules, metric, membership)[minimum] for metric in rules.by]
    teams: dict[str, list[str]] = {}
    for system in dict.fromkeys(entry.system for entries in tables for entry in entries):
        teams.setdefault(team_of(system), []).append(system)
    crowded = {team for team, systems in teams.items() if len(systems) > rules.systems_per_team}
    best = {system for entries in tables for system in _best_of_teams(entries)}
    return tuple(system for team in sorted(crowded) for system in teams[team] if system not in best)


def _best_of_teams(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the first system of each team; entries are sorted, best first."""
    seen: set[str] = set()
    for entry in entries:
        if team_of(entry.system) not in seen:
            seen.add(team_of(entry.system))
            yield entry.system


def _places(
    standings: Sequence[Standing],
    rules: RankingRules,
    metric: str,
    membership: Membership,
    team_limit: Mapping[float, Sequence[str]],
) -> dict[float, tuple[Placing, ...]]:
    """Return minimum EER -> places by one metric."""
    averages = {s.system: s.utility[metric] for s in standings if metric in s.utility}
    places = {}
    for minimum in rules.minimum_eer:
        members = [standing for standing in standings if standing.system not in team_limit.get(minimum, ())]
        entries = _ranked(members, rules, metric, membership)[minimum]
        places[minimum] = tuple(
            Placing(entry.place, entry.system, averages[entry.system], _tied(entry.system, entries, averages))
            for entry in entries
        )
    return places


def _tied(system: str, entries: Iterable[Entry], averages: Mapping[str, Average]) -> tuple[str, ...]:
    others = (entry.system for entry in entries if entry.system != system)
    return tuple(name for name in others if averages[system].overlaps(averages[name]))


def _original(results: Results, protocol: Protocol, split: str) -> Standing | None:
    """Return the standing of unprocessed speech, if the results have it in full and by one attacker."""
    figures = [f for f in results.find("eer", condition="oo", split=split) if f.knowledge != "semi-informed"]
    if not figures:
        return None
    rules = ranking_rules(protocol)
    try:
        name = choose_attacker(figures, results.system)
        eer = _average([f for f in figures if f.attacker == name], protocol, "eer", split, results.system)
        utility = {
            metric: _average(
                _utility_figures(results, protocol, metric, split, "o"), protocol, metric, split, results.system
            )
            for metric in rules.by
        }
    except InputError:
        return None
    return Standing("original", eer, utility, condition(eer.value, rules.minimum_eer), name, figures[0].knowledge)
