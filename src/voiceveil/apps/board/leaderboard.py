"""What the board shows: the last submission of each system of each team, ranked as the challenge ranks.

Conventions: a name on the board is TEAM/SYSTEM. Places are by value; systems whose 95% intervals overlap are tied. The
VoicePrivacy Challenges rank within each EER condition by WER; TdSV by the minimum detection cost.

A system whose audio was attacked and transcribed again counts with the recomputed figures, also where they differ from
the submitted ones. Systems that are not verified get places behind all that are, or none (``rank`` of the contest);
those whose audio was rejected never get one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from voiceveil.apps.board.contest import TDSV, Contest
from voiceveil.apps.board.store import Submission, Verification
from voiceveil.evaluation.averages import Average
from voiceveil.evaluation.ranking import Ranking, rank_systems, ranking_rules
from voiceveil.evaluation.results import Figure, Results

__all__ = ["Entry", "Line", "Table", "latest", "ranking", "shown_in_figure", "tables"]


@dataclass(frozen=True)
class Line:
    """A line of the board."""

    place: int | None
    name: str
    figures: tuple[str, ...]
    tied_with: tuple[str, ...] = ()
    status: str = ""


@dataclass(frozen=True)
class Table:
    """A ranking: its title, the headings of its figures, its lines."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Entry:
    """A submission with its verification, if it has one."""

    submission: Submission
    verification: Verification | None = None

    @property
    def is_verified(self) -> bool:
        """Whether its audio was attacked and transcribed again, whatever came of it."""
        return self.verification is not None and self.verification.state in ("verified", "differs")

    @property
    def is_rejected(self) -> bool:
        """Whether its audio cannot be taken for anonymized speech of the challenge."""
        return self.verification is not None and self.verification.state == "rejected"

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures that count: recomputed ones if there are any, else the submitted ones."""
        if self.verification is not None and self.is_verified:
            return self.verification.figures
        return self.submission.figures

    def status(self, *, hidden: bool = False) -> str:
        """Return what is known of the figures; ``hidden``: without the figures themselves."""
        one = self.verification
        if one is None:
            return "scores as submitted, not verified"
        return {
            "waiting": "waiting for verification",
            "verifying": f"verifying, {one.progress:.0%}",
            "verified": "verified",
            "differs": "differs" if hidden else f"differs: {one.reason}",
            "rejected": "not verified: the audio was rejected" if hidden else f"audio rejected: {one.reason}",
        }.get(one.state, f"not verified: {one.reason}")


def latest(
    contest: Contest, submissions: Iterable[Submission], verifications: Mapping[str, Verification], now: float
) -> dict[str, Entry]:
    """Return TEAM/SYSTEM -> its last submission whose figures may be seen."""
    visible = [one for one in submissions if not contest.is_hidden(one.made, now)]
    ordered = sorted(visible, key=lambda one: one.made)
    return {f"{one.team}/{one.system}": Entry(one, verifications.get(one.id)) for one in ordered}


def shown_in_figure(contest: Contest, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the entries that have a place."""
    return {name: one for group in _groups(contest, entries) for name, one in group.items()}


def _groups(contest: Contest, entries: Mapping[str, Entry]) -> list[dict[str, Entry]]:
    """Return the entries that get a place, in groups: all of the first stand before all of the second."""
    verified = {name: one for name, one in entries.items() if one.is_verified}
    others = {name: one for name, one in entries.items() if not one.is_verified and not one.is_rejected}
    return [verified] if contest.rank == "verified-only" else [verified, others]


def ranking(contest: Contest, entries: Mapping[str, Entry]) -> Ranking | None:
    """Return the ranking of a VoicePrivacy Challenge; None for others, and while there is nothing to rank."""
    if contest.protocol == TDSV or not entries:
        return None
    results = [Results(name, contest.rules.name, one.figures) for name, one in entries.items()]
    found = rank_systems(results, contest.rules, split=contest.split)
    return replace(found, places={"wer": found.places["wer"]})  # a UAR is not computed again, see `judging`


def tables(contest: Contest, entries: Mapping[str, Entry]) -> list[Table]:
    """Return all tables of the board."""
    if not entries:
        return []
    if contest.protocol == TDSV:
        return [_by_cost(entries)]
    groups = [ranking(contest, group) for group in _groups(contest, entries)]
    minima = [*ranking_rules(contest.rules).minimum_eer, 1.0]
    made = []
    for low, high in pairwise(minima):
        lines: list[Line] = []
        for group in groups:
            before = len(lines)
            for placing in group.places["wer"].get(low, ()) if group else ():
                line = _line(placing.system, group, entries)  # type: ignore[arg-type]
                lines.append(replace(line, place=before + placing.place, tied_with=placing.tied_with))
        made.append(Table(f"EER from {100 * low:g} to {100 * high:g} %", ("WER", "EER"), tuple(lines)))
    below = [_line(s.system, group, entries) for group in groups if group for s in group.standings if not s.condition]
    if below:
        made.append(Table(f"Not ranked: EER below {100 * minima[0]:g} %", ("WER", "EER"), tuple(below)))
    crowded = [_line(name, g, entries) for g in groups if g for names in g.team_limit.values() for name in names]
    if crowded:
        made.append(Table("Not ranked: the team has better systems", ("WER", "EER"), tuple(crowded)))
    rest = {name: one for name, one in entries.items() if name not in shown_in_figure(contest, entries)}
    everybody = ranking(contest, rest)
    if everybody is not None:
        unranked = tuple(_line(name, everybody, entries) for name in rest)
        made.append(Table("Not ranked: not verified", ("WER, as submitted", "EER, as submitted"), unranked))
    return made


def _line(name: str, group: Ranking, entries: Mapping[str, Entry]) -> Line:
    standing = group.standing(name)
    return Line(None, name, (_percent(standing.utility["wer"]), _percent(standing.eer)), (), entries[name].status())


def _by_cost(entries: Mapping[str, Entry]) -> Table:
    """TdSV: by the normalised minimum detection cost."""
    costs = {name: _average(one.figures, "min_dcf") for name, one in entries.items()}
    rates = {name: _average(one.figures, "eer") for name, one in entries.items()}
    lines = []
    for name in sorted(costs, key=lambda name: costs[name].value):
        place = 1 + sum(other.value < costs[name].value for other in costs.values())
        tied = tuple(o for o in sorted(costs) if o != name and costs[o].overlaps(costs[name]))
        figures = (_interval(costs[name], 1.0, 4), _percent(rates[name]))
        lines.append(Line(place, name, figures, tied, entries[name].status()))
    return Table("By minimum detection cost", ("min DCF", "EER"), tuple(lines))


def _average(figures: Iterable[Figure], metric: str) -> Average:
    one = next(figure for figure in figures if figure.metric == metric)
    return Average(one.value, one.low, one.high)


def _percent(average: Average) -> str:
    return f"{_interval(average, 100.0, 2)} %"


def _interval(average: Average, factor: float, digits: int) -> str:
    value = f"{factor * average.value:.{digits}f}"
    if average.low is None or average.high is None:
        return value
    return f"{value} [{factor * average.low:.{digits}f}, {factor * average.high:.{digits}f}]"
