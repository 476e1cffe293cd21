"""The privacy-utility plot of one evaluation: EER on the horizontal axis, WER or UAR on the vertical one.

Conventions: percent. A filled circle is the system under its strongest attacker, open circles the same system under the
other attackers; squares are other results, diamonds the published baselines (measured by other attackers and
recognizers), a triangle the original speech. Lines are 95% intervals. Averages are over the data sets of the
evaluation, weighted as in the challenge; results that lack one of these sets are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from voiceveil.core.errors import InputError
from voiceveil.evaluation.averages import Average, counting_figures, dataset_of, weighted_average
from voiceveil.evaluation.protocol import Protocol, find_protocol
from voiceveil.evaluation.results import Figure, Results
from voiceveil.report.published import published
from voiceveil.report.report_data import Attack, ReportData, attacks_of
from voiceveil.report.svg import Axis, Box, grid, place_names, scale, shorten, svg, text

__all__ = ["Plane", "Point", "planes"]

_WIDTH, _HEIGHT, _FRAME = 460.0, 380.0, (52.0, 14.0, 446.0, 334.0)
_TITLES = {"wer": "WER (%), lower is better", "uar": "UAR (%), higher is better"}
_SIZE = 6.0


@dataclass(frozen=True)
class Point:
    """A system under one attacker; ``kind`` says how it is drawn."""

    name: str
    x: Average
    y: Average
    kind: str  # "main" | "ours" | "other" | "published" | "original"
    label: str = ""  # beside the point; "" for none


@dataclass(frozen=True)
class Plane:
    """One plot: its points, the SVG drawing, and the systems that could not be shown."""

    metric: str
    split: str
    points: tuple[Point, ...]
    drawing: str
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Basis:
    """Data sets that the averages of a plot are over, so that all of its points are comparable."""

    metric: str  # of utility: "wer" or "uar"
    split: str
    protocol: Protocol | None  # its weights; None: all sets count the same
    eer_sets: frozenset[str]
    utility_sets: frozenset[str]

    def utility(self, figures: Sequence[Figure]) -> Average | None:
        """Return the average of the utility metric over ``utility_sets``; None if a set is missing."""
        return self.mean(self.metric, figures, self.utility_sets)

    def mean(self, metric: str, figures: Sequence[Figure], sets: frozenset[str] | None = None) -> Average | None:
        """Return the average over ``sets`` (None: all sets of this split); None if a set is missing."""
        chosen = {dataset_of(figure): figure for figure in figures if figure.split in (self.split, "")}
        names = frozenset(chosen) if sets is None else sets
        if not names or not names <= set(chosen):
            return None
        try:
            weights = {} if self.protocol is None else self.protocol.weights(metric, self.split)
        except InputError:  # the protocol has no data of this split, as for a substitute for an emotion corpus
            weights = {}
        if not names <= set(weights):
            weights = dict.fromkeys(names, 1.0)
        total = sum(weights[name] for name in names)
        return weighted_average([(weights[name] / total, chosen[name]) for name in sorted(names)])


def planes(data: ReportData, others: Sequence[Results] = ()) -> list[Plane]:
    """Return a plot for each utility metric and each split that has EERs and that metric."""
    results, main = data.results, data.strongest()
    plots = []
    for split in dict.fromkeys(f.split for f in results.find("eer")) if main else ():
        for metric in ("wer", "uar"):
            measured = _measured(results, metric, split) or _measured(results, metric, "")
            if measured:
                sets = frozenset(dataset_of(f) for f in (main.figures if main else ()) if f.split == split)
                utility_sets = frozenset(dataset_of(figure) for figure in measured)
                basis = _Basis(metric, split, data.protocol, sets, utility_sets)
                plots.append(_plane(data, basis, measured, others))
    return plots


def _measured(results: Results, metric: str, split: str, condition: str = "a") -> list[Figure]:
    figures = counting_figures(results, metric, find_protocol(results), split=split, condition=condition)
    return list(figures)


def _plane(data: ReportData, basis: _Basis, measured: list[Figure], others: Sequence[Results]) -> Plane:
    main = data.strongest()
    points, left_out = [], []
    y = basis.utility(measured)
    for attack in data.attacks():
        x = basis.mean("eer", attack.figures)
        if x is None or y is None or "a" not in attack.condition or attack.is_free:
            continue
        kind = "main" if attack == main else "ours"
        label = data.results.system if kind == "main" else f"{attack.attacker} {attack.condition}"
        points.append(Point(f"{data.results.system}, attacked by {_whose(attack)}", x, y, kind, label))
    if main is not None and main.is_free:
        x = basis.mean("eer", main.figures)
        if x is not None and y is not None:
            points.append(Point(f"{data.results.system}, {_whose(main)}", x, y, "main", data.results.system))
    points += _original(data, basis)
    references = [(results, "published") for results in published(data.results.protocol)]
    references += [(results, "other") for results in others]
    for results, kind in references:
        point = _reference(results, kind, basis)
        if point is None:
            left_out.append(results.system)
        else:
            points.append(point)
    return Plane(basis.metric, basis.split, tuple(points), _draw(basis.metric, points), tuple(left_out))


def _whose(attack: Attack) -> str:
    return f"{attack.evaluator}, {attack.condition}"


def _original(data: ReportData, basis: _Basis) -> list[Point]:
    """Return the point of the original speech, if both of its averages are known."""
    metric, split = basis.metric, basis.split
    y = basis.utility(_measured(data.results, metric, split, "o") or _measured(data.results, metric, "", "o"))
    plain = next((attack for attack in data.attacks() if attack.condition == "oo"), None)
    x = basis.mean("eer", plain.figures, basis.eer_sets) if plain else None
    if plain is None or x is None or y is None:
        return []
    return [Point(f"original speech, {_whose(plain)}", x, y, "original", "original")]


def _reference(results: Results, kind: str, basis: _Basis) -> Point | None:
    """Return the point of other results under their strongest attacker; None without figures on the same data.

    The attacker enrolls anonymized speech and attacks anonymized trials.
    """
    y = basis.utility(_measured(results, basis.metric, basis.split))
    attacks = [a for a in attacks_of(results) if a.condition == "aa" and a.knowledge != "metadata"]
    known = [(x, attack) for attack in attacks if (x := basis.mean("eer", attack.figures, basis.eer_sets)) is not None]
    if y is None or not known:
        return None
    x, attack = min(known, key=lambda pair: pair[0].value)
    version = f", {results.info['version']}" if kind == "published" else ""
    return Point(f"{results.system} ({kind}{version}), {_whose(attack)}", x, y, kind, results.system)


def _end(average: Average, end: str) -> float:
    limit = average.low if end == "low" else average.high
    return 100 * (average.value if limit is None else limit)


def _draw(metric: str, points: Sequence[Point]) -> str:
    left, top, right, bottom = _FRAME
    most = max([50.0, *(_end(p.x, "high") for p in points)])
    x = Axis(0.0, 10 * math.ceil(most / 10), 10.0, left, right)
    ends = [_end(p.y, end) for p in points for end in ("low", "high")]
    y = scale(ends, bottom, top, from_zero=metric == "wer")
    parts = list(grid(x, y, _FRAME, (x.ticks(), y.ticks()), ("EER (%), higher is more private", _TITLES[metric])))
    named: list[tuple[str, Box]] = []
    lines: list[Box] = []
    order = {"published": 0, "original": 1, "other": 2, "ours": 3, "main": 4}
    for point in sorted(points, key=lambda p: order[p.kind]):
        across, up = x(100 * point.x.value), y(100 * point.y.value)
        x1, x2, y1, y2 = (
            x(_end(point.x, "low")),
            x(_end(point.x, "high")),
            y(_end(point.y, "high")),
            y(_end(point.y, "low")),
        )
        if x1 < x2:
            lines.append((x1, up, x2, up))
            parts.append(f'<path class="range k-{point.kind}" d="M{x1:.1f} {up:.1f}H{x2:.1f}"/>')
        if y1 < y2:
            lines.append((across, y1, across, y2))
            parts.append(f'<path class="range k-{point.kind}" d="M{across:.1f} {y1:.1f}V{y2:.1f}"/>')
        parts += _mark(point, across, up)
        named.append((shorten(point.label, 24), (across - _SIZE, up - _SIZE, across + _SIZE, up + _SIZE)))
    parts += place_names(list(reversed(named)), lines, _FRAME)
    return svg(_WIDTH, _HEIGHT, f"EER and {metric.upper()} of {len(points)} points", parts)


def _mark(point: Point, x: float, y: float) -> Iterator[str]:
    tip = f"{point.name}: EER {100 * point.x.value:.1f}%, {100 * point.y.value:.1f}%"
    r = _SIZE
    shape = {
        "published": f"M{x:.1f} {y - r:.1f}l{r} {r}l-{r} {r}l-{r} -{r}z",
        "original": f"M{x:.1f} {y - r:.1f}l{r} {2 * r}h-{2 * r}z",
        "other": f"M{x - r:.1f} {y - r:.1f}h{2 * r}v{2 * r}h-{2 * r}z",
    }.get(point.kind, f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 -{2 * r} 0z")
    yield f'<g><title>{text(tip)}</title><path class="mark k-{point.kind}" d="{shape}"/></g>'
