"""The leaderboard: the last submission of each system of each team, ranked by the rules of the challenge.

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
from voiceveil.apps.board.store import Submission, SubmissionVerification
from voiceveil.evaluation.averages import Average
from voiceveil.evaluation.ranking import Ranking, rank_systems, ranking_rules
from voiceveil.evaluation.results import Figure, Results

__all__ = ["BoardEntry", "BoardRow", "BoardTable", "latest", "ranking", "shown_in_figure", "tables"]


@dataclass(frozen=True)
class BoardRow:
    """A row of a table of the board."""

    place: int | None
    name: str
    figures: tuple[str, ...]
    tied_with: tuple[str, ...] = ()
    status: str = ""


@dataclass(frozen=True)
class BoardTable:
    """A ranking: its title, the headings of its figures, its lines."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[BoardRow, ...]


@dataclass(frozen=True)
class BoardEntry:
    """A submission with its verification, if it has one."""

    submission: Submission
    verification: SubmissionVerification | None = None

    @property
    def is_verified(self) -> bool:
        """True if its audio was attacked and transcribed again, with whatever result."""
        return self.verification is not None and self.verification.state in ("verified", "differs")

    @property
    def is_rejected(self) -> bool:
        """True if its audio cannot be anonymized speech of the challenge."""
        return self.verification is not None and self.verification.state == "rejected"

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures that count: recomputed ones if there are any, else the submitted ones."""
        if self.verification is not None and self.is_verified:
            return self.verification.figures
        return self.submission.figures

    def status(self, *, hidden: bool = False) -> str:
        """Return the state of the verification in words; without figures if ``hidden``."""
        verification = self.verification
        if verification is None:
            return "scores as submitted, not verified"
        return {
            "waiting": "waiting for verification",
            "verifying": f"verifying, {verification.progress:.0%}",
            "verified": "verified",
            "differs": "differs" if hidden else f"differs: {verification.reason}",
            "rejected": "not verified: the audio was rejected" if hidden else f"audio rejected: {verification.reason}",
        }.get(verification.state, f"not verified: {verification.reason}")


def latest(
    contest: Contest, submissions: Iterable[Submission], verifications: Mapping[str, SubmissionVerification], now: float
) -> dict[str, BoardEntry]:
    """Return TEAM/SYSTEM -> its last submission whose figures may be seen."""
    visible = [submission for submission in submissions if not contest.is_hidden(submission.submitted, now)]
    ordered = sorted(visible, key=lambda submission: submission.submitted)
    return {
        f"{submission.team}/{submission.system}": BoardEntry(submission, verifications.get(submission.id))
        for submission in ordered
    }


def shown_in_figure(contest: Contest, entries: Mapping[str, BoardEntry]) -> dict[str, BoardEntry]:
    """Return the entries that have a place."""
    return {name: entry for group in _groups(contest, entries) for name, entry in group.items()}


def _groups(contest: Contest, entries: Mapping[str, BoardEntry]) -> list[dict[str, BoardEntry]]:
    """Return the entries that get a place, in groups: all of the first rank before all of the second."""
    verified = {name: entry for name, entry in entries.items() if entry.is_verified}
    others = {name: entry for name, entry in entries.items() if not entry.is_verified and not entry.is_rejected}
    return [verified] if contest.rank == "verified-only" else [verified, others]


def ranking(contest: Contest, entries: Mapping[str, BoardEntry]) -> Ranking | None:
    """Return the ranking of a VoicePrivacy Challenge; None for others, and while there is nothing to rank."""
    if contest.protocol == TDSV or not entries:
        return None
    results = [Results(name, contest.rules.name, entry.figures) for name, entry in entries.items()]
    ranked = rank_systems(results, contest.rules, split=contest.split)
    return replace(ranked, places={"wer": ranked.places["wer"]})  # a UAR is not computed again, see `scoring`


def tables(contest: Contest, entries: Mapping[str, BoardEntry]) -> list[BoardTable]:
    """Return all tables of the board."""
    if not entries:
        return []
    if contest.protocol == TDSV:
        return [_by_cost(entries)]
    groups = [ranking(contest, group) for group in _groups(contest, entries)]
    minima = [*ranking_rules(contest.rules).minimum_eer, 1.0]
    shown = []
    for low, high in pairwise(minima):
        lines: list[BoardRow] = []
        for group in groups:
            before = len(lines)
            for placing in group.places["wer"].get(low, ()) if group else ():
                line = _line(placing.system, group, entries)  # type: ignore[arg-type]
                lines.append(replace(line, place=before + placing.place, tied_with=placing.tied_with))
        shown.append(BoardTable(f"EER from {100 * low:g} to {100 * high:g}%", ("WER", "EER"), tuple(lines)))
    below = [_line(s.system, group, entries) for group in groups if group for s in group.standings if not s.condition]
    if below:
        shown.append(BoardTable(f"Not ranked: EER below {100 * minima[0]:g}%", ("WER", "EER"), tuple(below)))
    crowded = [_line(name, g, entries) for g in groups if g for names in g.team_limit.values() for name in names]
    if crowded:
        shown.append(BoardTable("Not ranked: the team has better systems", ("WER", "EER"), tuple(crowded)))
    rest = {name: entry for name, entry in entries.items() if name not in shown_in_figure(contest, entries)}
    everybody = ranking(contest, rest)
    if everybody is not None:
        unranked = tuple(_line(name, everybody, entries) for name in rest)
        shown.append(BoardTable("Not ranked: not verified", ("WER, as submitted", "EER, as submitted"), unranked))
    return shown


def _line(name: str, group: Ranking, entries: Mapping[str, BoardEntry]) -> BoardRow:
    standing = group.standing(name)
    return BoardRow(None, name, (_percent(standing.utility["wer"]), _percent(standing.eer)), (), entries[name].status())


def _by_cost(entries: Mapping[str, BoardEntry]) -> BoardTable:
    """Return the ranking of TdSV, by the normalized minimum detection cost."""
    costs = {name: _average(entry.figures, "min_dcf") for name, entry in entries.items()}
    rates = {name: _average(entry.figures, "eer") for name, entry in entries.items()}
    lines = []
    for name in sorted(costs, key=lambda name: costs[name].value):
        place = 1 + sum(other.value < costs[name].value for other in costs.values())
        tied = tuple(o for o in sorted(costs) if o != name and costs[o].overlaps(costs[name]))
        figures = (_interval(costs[name], 1.0, 4), _percent(rates[name]))
        lines.append(BoardRow(place, name, figures, tied, entries[name].status()))
    return BoardTable("By minimum detection cost", ("min DCF", "EER"), tuple(lines))


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
