"""The privacy-utility plane of one evaluation: EER to the right, WER or UAR upward, others beside it.

Conventions: percent. A filled circle is the system under its strongest attacker, open circles the same system under the
others; squares are other results, diamonds the published baselines (measured by other attackers and recognizers), a
triangle the original speech. Lines are 95% intervals. An average is over the data sets that the evaluation has, with
the challenge's weights among them; a result that lacks one of them is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from voiceveil.core.errors import InputError
from voiceveil.evaluation.averages import Average, dataset_of, weighted_average
from voiceveil.evaluation.protocol import Protocol
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
    """A system under one attacker, or the published one; ``kind`` says how it is drawn."""

    name: str
    x: Average
    y: Average
    kind: str  # "main" | "ours" | "other" | "published" | "original"
    label: str = ""  # beside the point; "" for none


@dataclass(frozen=True)
class Plane:
    """One figure: the points, the drawing, and what could not be shown."""

    metric: str
    split: str
    points: tuple[Point, ...]
    drawing: str
    left_out: tuple[str, ...] = ()


def planes(data: ReportData, others: Sequence[Results] = ()) -> list[Plane]:
    """A plane for each utility metric and each split that has EERs and that metric."""
    results, main = data.results, data.strongest()
    made = []
    for split in dict.fromkeys(f.split for f in results.find("eer")) if main else ():
        for metric in ("wer", "uar"):
            measured = _anonymized(results, metric, split) or _anonymized(results, metric, "")
            if measured:
                made.append(_plane(data, metric, split, measured, others))
    return made


def _anonymized(results: Results, metric: str, split: str, condition: str = "a") -> list[Figure]:
    return list(results.primary(metric, split=split, condition=condition))


def _plane(data: ReportData, metric: str, split: str, measured: list[Figure], others: Sequence[Results]) -> Plane:
    main = data.strongest()
    protocol = data.protocol
    utility_sets = {dataset_of(figure) for figure in measured}
    points, left_out = [], []
    y = mean(measured, utility_sets, protocol, metric, split)
    for attack in data.attacks():
        x = mean(attack.figures, None, protocol, "eer", split)
        if x is None or y is None or "a" not in attack.condition or attack.is_free:
            continue
        kind = "main" if attack == main else "ours"
        label = data.results.system if kind == "main" else f"{attack.attacker} {attack.condition}"
        points.append(Point(f"{data.results.system}, attacked by {_whose(attack)}", x, y, kind, label))
    if main is not None and main.is_free:
        x = mean(main.figures, None, protocol, "eer", split)
        if x is not None and y is not None:
            points.append(Point(f"{data.results.system}, {_whose(main)}", x, y, "main", data.results.system))
    sets = {dataset_of(f) for f in (main.figures if main else ()) if f.split == split}
    points += _original(data, metric, split, sets, utility_sets)
    elsewhere = [(one, "published") for one in published(data.results.protocol)] + [(o, "other") for o in others]
    for one, kind in elsewhere:
        point = _elsewhere(one, kind, metric, split, sets, utility_sets, protocol)
        if point is None:
            left_out.append(one.system)
        else:
            points.append(point)
    return Plane(metric, split, tuple(points), _draw(metric, points), tuple(left_out))


def _whose(attack: Attack) -> str:
    return f"{attack.evaluator}, {attack.condition}"


def mean(
    figures: Sequence[Figure], sets: set[str] | None, protocol: Protocol | None, metric: str, split: str
) -> Average | None:
    """The average over ``sets`` (None: all that are there, of this split), None if one is missing."""
    chosen = {dataset_of(figure): figure for figure in figures if figure.split in (split, "")}
    names = set(chosen) if sets is None else sets
    if not names or not names <= set(chosen):
        return None
    try:
        shares = {} if protocol is None else protocol.weights(metric, split)
    except InputError:  # no data of this split, as for a set of emotions that stands in for another
        shares = {}
    if not names <= set(shares):
        shares = dict.fromkeys(names, 1.0)
    total = sum(shares[name] for name in names)
    return weighted_average([(shares[name] / total, chosen[name]) for name in sorted(names)])


def _original(data: ReportData, metric: str, split: str, sets: set[str], utility_sets: set[str]) -> list[Point]:
    y = mean(_anonymized(data.results, metric, split, "o") or _anonymized(data.results, metric, "", "o"),
             utility_sets, data.protocol, metric, split)  # fmt: skip
    plain = next((one for one in data.attacks() if one.condition == "oo"), None)
    x = mean(plain.figures, sets, data.protocol, "eer", split) if plain else None
    if plain is None or x is None or y is None:
        return []
    return [Point(f"original speech, {_whose(plain)}", x, y, "original", "original")]


def _elsewhere(
    one: Results, kind: str, metric: str, split: str, sets: set[str], utility_sets: set[str], protocol: Protocol | None
) -> Point | None:
    """Other results on the same data: under their strongest attacker with anonymized enrollment and trials."""
    y = mean(_anonymized(one, metric, split), utility_sets, protocol, metric, split)
    attacks = [a for a in attacks_of(one) if a.condition == "aa" and a.knowledge != "metadata"]
    known = [(x, attack) for attack in attacks if (x := mean(attack.figures, sets, protocol, "eer", split)) is not None]
    if y is None or not known:
        return None
    x, attack = min(known, key=lambda pair: pair[0].value)
    return Point(f"{one.system} ({kind}), {_whose(attack)}", x, y, kind, one.system)


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
