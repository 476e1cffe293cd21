"""What the board shows: the last submission of each system of each team, ranked as the challenge ranks.

Conventions: a name on the board is TEAM/SYSTEM. Places are by value; systems whose 95 % intervals overlap are tied. The
VoicePrivacy Challenges rank within each EER condition by WER; TdSV by the minimum detection cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from voiceveil.board.contest import Contest
from voiceveil.board.store import Submission
from voiceveil.challenges.ranking import Average, Ranking, rank_systems
from voiceveil.challenges.results import Figure, Results
from voiceveil.metrics.challenge import CONDITIONS

__all__ = ["Line", "Table", "latest", "ranking", "tables"]


@dataclass(frozen=True)
class Line:
    """A line of the board."""

    place: int | None
    name: str
    figures: tuple[str, ...]
    tied_with: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A ranking: its title, the headings of its figures, its lines."""

    title: str
    headings: tuple[str, ...]
    lines: tuple[Line, ...]


def latest(contest: Contest, submissions: Iterable[Submission], now: float) -> dict[str, Submission]:
    """TEAM/SYSTEM -> its last submission whose figures may be seen."""
    visible = [one for one in submissions if not contest.is_hidden(one.made, now)]
    return {f"{one.team}/{one.system}": one for one in sorted(visible, key=lambda one: one.made)}


def ranking(contest: Contest, entries: dict[str, Submission]) -> Ranking | None:
    """The ranking of a VoicePrivacy Challenge; None for others, and while there is nothing to rank."""
    if not contest.challenge.startswith("vpc") or not entries:
        return None
    results = [Results(name, contest.challenge, one.figures) for name, one in entries.items()]
    found = rank_systems(results, split=contest.split)  # type: ignore[arg-type]
    return replace(found, places={"wer": found.places["wer"]})  # a UAR is not computed again, see `judging`


def tables(contest: Contest, entries: dict[str, Submission]) -> list[Table]:
    """All tables of the board."""
    found = ranking(contest, entries)
    if found is None:
        return [_by_cost(entries)] if contest.challenge == "tdsv2024" and entries else []
    minima = [*CONDITIONS[found.edition], 1.0]
    made = []
    for low, high in pairwise(minima):
        lines = []
        for placing in found.places["wer"].get(low, ()):
            standing = found.standing(placing.system)
            figures = (_percent(placing.average), _percent(standing.eer))
            lines.append(Line(placing.place, placing.system, figures, placing.tied_with))
        made.append(Table(f"EER from {100 * low:g} to {100 * high:g} %", ("WER", "EER"), tuple(lines)))
    below = [s for s in found.standings if s.condition is None]
    if below:
        lines = [Line(None, s.system, (_percent(s.utility["wer"]), _percent(s.eer))) for s in below]
        made.append(Table(f"Not ranked: EER below {100 * minima[0]:g} %", ("WER", "EER"), tuple(lines)))
    return made


def _by_cost(entries: dict[str, Submission]) -> Table:
    """TdSV: by the normalised minimum detection cost."""
    costs = {name: _average(one.figures, "min_dcf") for name, one in entries.items()}
    rates = {name: _average(one.figures, "eer") for name, one in entries.items()}
    lines = []
    for name in sorted(costs, key=lambda name: costs[name].value):
        place = 1 + sum(other.value < costs[name].value for other in costs.values())
        tied = tuple(o for o in sorted(costs) if o != name and costs[o].overlaps(costs[name]))
        lines.append(Line(place, name, (_interval(costs[name], 1.0, 4), _percent(rates[name])), tied))
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
