"""The tables of the leaderboard: entries ranked by the rules of the challenge, with the organizer's baselines.

Conventions: a name on the board is TEAM/SYSTEM. Places are by value; systems whose 95% intervals overlap are tied. The
VoicePrivacy Challenges rank within each EER condition by WER, and by UAR where submissions state it; a minimum pitch
correlation must be reached (2022). TdSV ranks the best submission of each team by the minimum detection cost.

A system whose audio was attacked and transcribed again counts with the recomputed figures, also where they differ from
the submitted ones. Systems that are not verified get places behind all that are, or none (``rank`` of the contest);
those whose audio was rejected never get one. Baselines stand where they belong by their figures, without a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from voiceveil.apps.board.contest import TDSV, Contest
from voiceveil.apps.board.entries import BoardEntry
from voiceveil.apps.board.stated import needs_pitch
from voiceveil.apps.board.store import Baseline
from voiceveil.evaluation.averages import Average
from voiceveil.evaluation.ranking import Ranking, Standing, rank_systems, team_of
from voiceveil.evaluation.results import Figure, Results
from voiceveil.metrics.catalog import metric_info

__all__ = ["BoardRow", "BoardTable", "figure_ranking", "lowest_pitch", "ranking", "tables"]

Entries = Mapping[str, BoardEntry]


@dataclass(frozen=True)
class BoardRow:
    """A row of a table of the board; ``id`` is that of the submission, "" for a baseline."""

    place: int | None
    name: str
    figures: tuple[str, ...]
    tied_with: tuple[str, ...] = ()
    status: str = ""
    id: str = ""


@dataclass(frozen=True)
class BoardTable:
    """A ranking: its title, the headings of its figures, its lines."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[BoardRow, ...]


def ranking(contest: Contest, figures: Mapping[str, Sequence[Figure]]) -> Ranking | None:
    """Return the ranking of systems (name -> figures) of a VoicePrivacy Challenge; None for others and for none."""
    if contest.protocol == TDSV or not figures:
        return None
    results = [Results(name, contest.rules.name, tuple(own)) for name, own in figures.items()]
    return rank_systems(results, contest.rules, split=contest.split)


def figure_ranking(contest: Contest, entries: Entries, baselines: Mapping[str, Baseline]) -> Ranking | None:
    """Return the ranking that the figure shows: entries that may have a place, and baselines."""
    ranked = ranking(contest, {name: entry.figures for name, entry in entries.items() if not entry.exclusion(contest)})
    reference = ranking(contest, {name: baseline.figures for name, baseline in baselines.items()})
    both = [group for group in (ranked, reference) if group is not None]
    if not both:
        return None
    places = {metric: ranked.places[metric] if ranked else {} for metric in _ranked_by(contest, both)}
    return replace(both[0], standings=tuple(s for group in both for s in group.standings), places=places)


def tables(contest: Contest, entries: Entries, baselines: Mapping[str, Baseline] | None = None) -> list[BoardTable]:
    """Return all tables of the board."""
    baselines = baselines or {}
    if not entries and not baselines:
        return []
    if contest.protocol == TDSV:
        return _by_cost(contest, entries, baselines)
    allowed = {name: entry for name, entry in entries.items() if not entry.exclusion(contest)}
    verified = {name: entry for name, entry in allowed.items() if entry.is_verified}
    others = {name: entry for name, entry in allowed.items() if not entry.is_verified}
    groups = [ranked for group in (verified, others) if (ranked := _ranking_of(contest, group)) is not None]
    reference = ranking(contest, {name: baseline.figures for name, baseline in baselines.items()})
    board = _Board(contest, entries, baselines, groups, reference)
    return [*board.ranked_tables(), *board.best_of_teams(), *board.unranked_tables()]


def _ranking_of(contest: Contest, entries: Entries) -> Ranking | None:
    return ranking(contest, {name: entry.figures for name, entry in entries.items()})


def _ranked_by(contest: Contest, groups: Iterable[Ranking]) -> list[str]:
    """Return the metrics of the ranking that at least one system has."""
    measured = {metric for group in groups for standing in group.standings for metric in standing.utility}
    return [metric for metric in contest.ranking.by if metric in measured or metric == "wer"]


@dataclass(frozen=True)
class _Board:
    """Entries and baselines of a VoicePrivacy Challenge; ``groups``: all of the first rank before all of the second."""

    contest: Contest
    entries: Entries
    baselines: Mapping[str, Baseline]
    groups: Sequence[Ranking]
    reference: Ranking | None  # of the baselines

    def metrics(self, first: str) -> list[str]:
        """Return the metrics of the columns: ``first``, then EER, then the others."""
        used = _ranked_by(self.contest, [*self.groups, *filter(None, [self.reference])])
        pitch = ["pitch_correlation"] if needs_pitch(self.contest) and "pitch_correlation" not in used else []
        return [first, "eer", *(metric for metric in [*used, *pitch] if metric != first)]

    def row(self, standing: Standing, metrics: Sequence[str]) -> BoardRow:
        """Return the row of an entry or a baseline, without a place."""
        name = standing.system
        entry = self.entries.get(name)
        figures = self.baselines[name].figures if entry is None else entry.figures
        shown = tuple(_shown(metric, standing, figures) for metric in metrics)
        if entry is None:
            return BoardRow(None, name, shown, (), f"baseline: {self.baselines[name].source}")
        status = "; ".join(filter(None, [standing.fault, entry.status()]))
        return BoardRow(None, name, shown, (), status, entry.submission.id)

    def table(self, title: str, standings: Iterable[Standing], first: str = "wer") -> BoardTable:
        """Return a table without places."""
        metrics = self.metrics(first)
        return BoardTable(title, _headings(metrics), tuple(self.row(standing, metrics) for standing in standings))

    def best_of_teams(self) -> list[BoardTable]:
        """Return the table of the best system of each team: of the highest EER condition, there by the first metric.

        It is left out while no team has more than one system with a place.
        """
        metric = self.contest.ranking.by[0]
        sign = 1 if metric_info(metric).better == "lower" else -1
        best: dict[str, tuple[tuple[int, float, float], Standing]] = {}
        for number, group in enumerate(self.groups):
            for minimum, placings in group.places[metric].items():
                for placing in placings:
                    key = (number, -minimum, sign * placing.average.value)
                    team = team_of(placing.system)
                    if team not in best or key < best[team][0]:
                        best[team] = key, group.standing(placing.system)
        placed = {p.system for group in self.groups for placings in group.places[metric].values() for p in placings}
        if len(placed) == len(best):
            return []
        ordered = [standing for _, standing in sorted(best.values(), key=lambda pair: pair[0])]
        return [self.table("Best system of each team", ordered, metric)]

    def ranked_tables(self) -> list[BoardTable]:
        """Return a table with places for each EER condition and metric."""
        minima = [*self.contest.ranking.minimum_eer, 1.0]
        used = _ranked_by(self.contest, self.groups)
        shown = []
        for metric in used:
            for low, high in pairwise(minima):
                by = f", by {metric_info(metric).title}" if len(used) > 1 else ""
                title = f"EER from {100 * low:g} to {100 * high:g}%{by}"
                shown.append(BoardTable(title, _headings(self.metrics(metric)), self._ranked(metric, low)))
        return shown

    def _ranked(self, metric: str, minimum: float) -> tuple[BoardRow, ...]:
        """Return the rows of one condition: entries with places, and baselines where they belong."""
        metrics = self.metrics(metric)
        rows: list[tuple[float, BoardRow]] = []
        for group in self.groups:
            before = len(rows)
            for placing in group.places[metric].get(minimum, ()):
                row = self.row(group.standing(placing.system), metrics)
                row = replace(row, place=before + placing.place, tied_with=placing.tied_with)
                rows.append((placing.average.value, row))
        sign = 1 if metric_info(metric).better == "lower" else -1
        for standing in self.reference.standings if self.reference else ():
            if standing.condition == minimum and metric in standing.utility:
                value = standing.utility[metric].value
                behind = next((i for i, (other, _) in enumerate(rows) if sign * other > sign * value), len(rows))
                rows.insert(behind, (value, self.row(standing, metrics)))
        return tuple(row for _, row in rows)

    def unranked_tables(self) -> list[BoardTable]:
        """Return the tables of entries that have no place, by reason."""
        lowest = self.contest.ranking.minimum_eer[0]
        listed: dict[str, list[Standing]] = {}
        for group in self.groups:
            crowded = {name for names in group.team_limit.values() for name in names}
            for standing in group.standings:
                if standing.fault:
                    minimum = self.contest.ranking.minimum_pitch_correlation
                    listed.setdefault(f"no pitch correlation above {minimum:g} in all sets", []).append(standing)
                elif standing.condition is None:
                    listed.setdefault(f"EER below {100 * lowest:g}%", []).append(standing)
                elif standing.system in crowded:
                    listed.setdefault("the team has better systems", []).append(standing)
        for standing in self.reference.standings if self.reference else ():
            if standing.condition is None:
                listed.setdefault(f"EER below {100 * lowest:g}%", []).append(standing)
        for name, entry in self.entries.items():
            reason = entry.exclusion(self.contest)
            if reason and (own := _ranking_of(self.contest, {name: entry})) is not None:
                listed.setdefault(reason, []).extend(own.standings)
        shown = [self.table(f"Not ranked: {reason}", standings) for reason, standings in listed.items()]
        as_submitted = ("WER, as submitted", "EER, as submitted")
        return [
            replace(table, headings=(*as_submitted, *table.headings[2:]))
            if table.title.endswith(": not verified")
            else table
            for table in shown
        ]


def _headings(metrics: Sequence[str]) -> tuple[str, ...]:
    return tuple("lowest pitch correlation" if m == "pitch_correlation" else metric_info(m).title for m in metrics)


def _shown(metric: str, standing: Standing, figures: Sequence[Figure]) -> str:
    if metric == "eer":
        return _percent(standing.eer)
    average = standing.utility.get(metric)
    if metric == "pitch_correlation":
        lowest = lowest_pitch(figures)
        return "–" if lowest is None else _interval(Average(lowest.value, lowest.low, lowest.high), 1.0, 3)
    return "–" if average is None else _percent(average)


def lowest_pitch(figures: Iterable[Figure]) -> Figure | None:
    """Return the lowest pitch correlation of all sets, by which systems are excluded; None if there is none."""
    return min((f for f in figures if f.metric == "pitch_correlation"), key=lambda f: f.value, default=None)


def _by_cost(contest: Contest, entries: Entries, baselines: Mapping[str, Baseline]) -> list[BoardTable]:
    """Return the ranking of TdSV: the best submission of each team, by the normalized minimum detection cost."""
    figures = {name: entry.figures for name, entry in entries.items()}
    figures |= {name: baseline.figures for name, baseline in baselines.items()}
    costs = {name: _average(own, "min_dcf") for name, own in figures.items()}
    rates = {name: _average(own, "eer") for name, own in figures.items()}
    allowed = sorted((n for n in entries if not entries[n].exclusion(contest)), key=lambda name: costs[name].value)
    best = {team_of(name): name for name in reversed(allowed)}

    def row(name: str) -> BoardRow:
        entry = entries.get(name)
        status = f"baseline: {baselines[name].source}" if entry is None else entry.status()
        numbers = (_interval(costs[name], 1.0, 4), _percent(rates[name]))
        if name not in best.values():
            return BoardRow(None, name, numbers, (), status, "" if entry is None else entry.submission.id)
        place = 1 + sum(costs[other].value < costs[name].value for other in best.values())
        tied = tuple(o for o in sorted(best.values()) if o != name and costs[o].overlaps(costs[name]))
        return BoardRow(place, name, numbers, tied, status, "" if entry is None else entry.submission.id)

    ranked = sorted([*best.values(), *baselines], key=lambda name: costs[name].value)
    listed = {"By minimum detection cost": ranked}
    for name in allowed:
        if name not in best.values():
            listed.setdefault("Not ranked: the team has better systems", []).append(name)
    for name, entry in entries.items():
        if reason := entry.exclusion(contest):
            listed.setdefault(f"Not ranked: {reason}", []).append(name)
    return [BoardTable(title, ("min DCF", "EER"), tuple(map(row, names))) for title, names in listed.items()]


def _average(figures: Iterable[Figure], metric: str) -> Average:
    figure = next(candidate for candidate in figures if candidate.metric == metric)
    return Average(figure.value, figure.low, figure.high)


def _percent(average: Average) -> str:
    return _interval(average, 100.0, 2, "%")


def _interval(average: Average, factor: float, digits: int, unit: str = "") -> str:
    value = f"{factor * average.value:.{digits}f}{unit}"
    if average.low is None or average.high is None:
        return value
    return f"{value} [{factor * average.low:.{digits}f}, {factor * average.high:.{digits}f}]"
