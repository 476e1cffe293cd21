"""The assessment: all attackers, all lengths, all three criteria, what to be warned of, and the user's limits.

Conventions: rates are fractions. *Protected* attackers are all but ``original``. A figure is judged by the end of its
95 % interval that is worse for the people in the data: an attack is better than guessing when its lower limit is above
the baseline and the control; a limit is exceeded when the upper limit of the interval is above it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from voiceveil.core.checks import Check, merged
from voiceveil.core.errors import InputError
from voiceveil.risk.growth import Extrapolation, extrapolate_length, extrapolate_speakers
from voiceveil.risk.inference import Inference, infer
from voiceveil.risk.protocol import METRICS, Curve, Metric, Plan, measure_linking, measure_singling_out
from voiceveil.risk.sanity import check_attacks
from voiceveil.risk.sets import Attack

__all__ = ["Assessment", "Limits", "Verdict", "WorstSpeaker", "assess"]

_WORST = 20
_RANDOM = 0.5  # what an attack on original speech must reach at N' = 20 or so to be taken seriously


@dataclass(frozen=True)
class Limits:
    """What the user accepts at most, of the strongest protected attacker, at the N nearest to ``speakers``."""

    linkability: float | None = None
    singling_out: float | None = None
    inference: float | None = None  # UAR
    speakers: int | None = None  # None: the largest N
    length: int | None = None  # None: any

    def __post_init__(self) -> None:
        for name in ("linkability", "singling_out", "inference"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= 1.0:
                raise InputError(f"a limit of {value:g} for {name}", fix="give a fraction such as 0.05")


@dataclass(frozen=True)
class Verdict:
    """A limit of the user's, and what was measured against it."""

    criterion: str
    limit: float
    value: float
    high: float
    attacker: str
    length: int
    speakers: int
    exceeded: bool


@dataclass(frozen=True)
class WorstSpeaker:
    """How often a speaker is linked among N', or isolates somebody among N; None where they were not tested."""

    speaker: str
    attacker: str
    length: int
    linkability: float
    singling_out: float | None


@dataclass(frozen=True, eq=False)
class Assessment:
    """All that was found; ``about`` says by whom, of what and how it can be repeated."""

    plan: Plan
    attackers: dict[str, Mapping[str, Any]]
    curves: tuple[Curve, ...]
    inferences: tuple[Inference, ...]
    growth: tuple[Extrapolation, ...]
    worst: tuple[WorstSpeaker, ...]
    warnings: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    sets: dict[str, dict[str, Any]]
    about: dict[str, Any] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()  # that failed: see `voiceveil.core.checks`

    @property
    def exceeded(self) -> bool:
        """Whether one of the user's limits is."""
        return any(one.exceeded for one in self.verdicts)

    def curve(self, attacker: str, metric: Metric, length: int) -> Curve | None:
        """One curve, if it was measured."""
        wanted = (attacker, metric, length)
        return next((one for one in self.curves if (one.attacker, one.metric, one.length) == wanted), None)

    def strongest(self, metric: Metric, *, size: int | None = None, length: int | None = None) -> Curve | None:
        """The curve of the protected attacker whose upper limit is highest, at the N nearest to ``size``."""
        found = [
            one
            for one in self.curves
            if one.metric == metric and one.attacker != "original" and length in (None, one.length)
        ]
        return max(found, key=lambda one: float(one.high[one.at(size)]), default=None)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "format": "voiceveil risk 1",
            "criteria": {
                "singling_out": "measured",
                "linkability": "measured",
                "inference": sorted({one.attribute for one in self.inferences}) or "not measured",
            },
            "sets": self.sets,
            "attackers": {name: dict(about) for name, about in self.attackers.items()},
            "plan": self.plan.as_dict(),
            "curves": [one.as_dict() for one in self.curves],
            "inference": [one.as_dict() for one in self.inferences],
            "growth": [one.as_dict() for one in self.growth],
            "worst_speakers": [asdict(one) for one in self.worst],
            "checks": [check.as_dict() for check in self.checks],
            "warnings": list(self.warnings),
            "limits": [asdict(one) for one in self.verdicts],
            "exceeded": self.exceeded,
            "about": self.about,
        }


def assess(
    attacks: Sequence[Attack],
    plan: Plan | None = None,
    *,
    limits: Limits | None = None,
    jobs: int = 1,
    about: Mapping[str, Any] | None = None,
    checks: Sequence[Check] = (),
    progress: Callable[[str], None] | None = None,
) -> Assessment:
    """Measure all attackers; ``jobs`` threads share the vectors, and the result does not depend on their number.

    ``checks``: those of the audio that have failed already; those of the embeddings are added.
    """
    chosen, accepted = plan or Plan(), limits or Limits()
    _check(attacks)
    tasks: list[tuple[str, Callable[[], tuple[Curve, ...] | Inference | None]]] = []
    for attack in attacks:
        for length in sorted(chosen.lengths):
            tasks.append((f"{attack.name}, L = {length}: Singling Out", _singling(attack, chosen, length)))
            tasks.append((f"{attack.name}, L = {length}: Linkability, EER", _linking(attack, chosen, length)))
            for attribute in sorted(attack.labels):
                name = f"{attack.name}, L = {length}: {attribute}"
                tasks.append((name, _inferring(attack, attribute, length, chosen.seed)))
    tell = progress or (lambda _: None)

    def work(task: tuple[str, Callable[[], Any]]) -> Any:
        result = task[1]()
        tell(task[0])
        return result

    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        results = list(pool.map(work, tasks))
    curves = tuple(curve for one in results if isinstance(one, tuple) for curve in one)
    inferences = tuple(one for one in results if isinstance(one, Inference))
    found = Assessment(
        chosen,
        {attack.name: attack.about for attack in attacks},
        tuple(sorted(curves, key=lambda one: (METRICS.index(one.metric), one.length))),
        inferences,
        tuple(_growth(curves, chosen)),
        (),
        tuple(_warnings(curves, inferences)),
        (),
        _sizes(attacks[0]),
        dict(about or {}),
        merged([*checks, *check_attacks(attacks)]),
    )
    worst, verdicts = tuple(_worst(found, accepted)), tuple(_verdicts(found, accepted))
    return Assessment(**{**vars(found), "worst": worst, "verdicts": verdicts})


def _check(attacks: Sequence[Attack]) -> None:
    """There are attackers, with different names, of the same sets."""
    if not attacks:
        raise InputError("no attacker", fix="give at least one")
    first = attacks[0]
    names = [attack.name for attack in attacks]
    for attack in attacks[1:]:
        if names.count(attack.name) > 1:
            raise InputError(f"the attacker {attack.name} is there twice")
        for side in ("a", "b"):
            mine, theirs = (set(getattr(one.parts[0], side).names) for one in (attack, first))
            for speaker in sorted(mine ^ theirs)[:1]:
                has, lacks = (attack, first) if speaker in mine else (first, attack)
                raise InputError(
                    f"speaker {speaker} is in {side.upper()} of the attacker {has.name} but not of {lacks.name}",
                    fix="all attackers must hear the same utterances",
                )


def _singling(attack: Attack, plan: Plan, length: int) -> Callable[[], tuple[Curve, ...]]:
    return lambda: (measure_singling_out(attack, plan, length),)


def _linking(attack: Attack, plan: Plan, length: int) -> Callable[[], tuple[Curve, ...]]:
    return lambda: measure_linking(attack, plan, length)


def _inferring(attack: Attack, attribute: str, length: int, seed: int) -> Callable[[], Inference | None]:
    return lambda: infer(attack, attribute, length, seed=seed)


def _sizes(attack: Attack) -> dict[str, dict[str, Any]]:
    part = attack.parts[0]
    return {
        name: {"speakers": len(side.names), "utterances": len(side.codes)}
        for name, side in (("A", part.a), ("B", part.b))
    }


def _growth(curves: Sequence[Curve], plan: Plan) -> list[Extrapolation]:
    found: list[Extrapolation] = []
    linked = [curve for curve in curves if curve.metric == "linkability"]
    for curve in linked:
        found += extrapolate_speakers(curve, seed=plan.seed)
    for attacker in dict.fromkeys(curve.attacker for curve in linked):
        found += extrapolate_length([one for one in linked if one.attacker == attacker], seed=plan.seed)
    return found


def _warnings(curves: Sequence[Curve], inferences: Sequence[Inference]) -> list[str]:
    """What keeps a weak attacker from being taken for privacy."""
    weak: dict[str, list[str]] = {}
    for curve in curves:
        if curve.metric == "one_minus_eer":
            continue
        at = curve.at()
        base = max(float(curve.chance[at]), 0.0 if curve.control is None else float(curve.control[at]))
        if curve.low[at] <= base:
            what = f"{_NAMES[curve.metric]} among {curve.sizes[at]:,}, L = {curve.length}"
            weak.setdefault(curve.attacker, []).append(f"{what} ({curve.value[at]:.1%}, baseline {base:.1%})")
    for one in inferences:
        if one.low <= max(one.baseline, one.control):
            what = f"inference of {one.attribute}, L = {one.length}"
            weak.setdefault(one.attacker, []).append(f"{what} ({one.value:.1%}, baseline {one.baseline:.1%})")
    found = [
        f"The {attacker} attacker is no better than guessing in: {'; '.join(items)}. That is what a weak attacker "
        "looks like as well as privacy: do not take it for the latter."
        for attacker, items in weak.items()
    ]
    names = {curve.attacker for curve in curves}
    if "informed" not in names:
        found.append("No informed attacker was tried: whoever has the system can do better than these figures say.")
    for curve in curves:
        if curve.metric == "linkability" and curve.attacker == "original" and curve.value[0] < _RANDOM:
            found.append(
                f"Even on original speech (L = {curve.length}) only {curve.value[0]:.1%} are linked among "
                f"{curve.sizes[0]}: the encoder is weak, and protected figures from it say little."
            )
    return [*found, *_odd_order(curves)]


def _odd_order(curves: Sequence[Curve]) -> list[str]:
    """An informed attacker who does clearly worse than an ignorant one has not learned properly."""
    found = []
    for length in sorted({curve.length for curve in curves}):
        by = {c.attacker: c for c in curves if c.metric == "linkability" and c.length == length}
        if {"informed", "ignorant"} <= set(by) and by["informed"].high[-1] < by["ignorant"].value[-1]:
            found.append(
                f"L = {length}: the informed attacker links less than the ignorant one. It has learned badly: take the "
                "ignorant one's figures."
            )
    return found


_NAMES = {"singling_out": "Singling Out", "linkability": "Linkability", "one_minus_eer": "1 - EER"}


def _worst(found: Assessment, limits: Limits) -> list[WorstSpeaker]:
    """The speakers whom the strongest protected attacker links most often, the worst first."""
    curve = found.strongest("linkability", size=limits.speakers, length=limits.length)
    if curve is None or curve.components is None:
        return []
    column = curve.components[:, curve.at(limits.speakers)]
    other = found.curve(curve.attacker, "singling_out", curve.length)
    isolated: dict[str, float] = {}
    if other is not None and other.components is not None:
        rates = other.components[:, other.at(limits.speakers)]
        isolated = dict(zip(other.speakers, map(float, rates), strict=True))
    order = np.lexsort((np.array([-isolated.get(name, 0.0) for name in curve.speakers]), -column))
    return [
        WorstSpeaker(name, curve.attacker, curve.length, float(column[row]), isolated.get(name))
        for row in order[:_WORST]
        for name in (curve.speakers[row],)
    ]


def _verdicts(found: Assessment, limits: Limits) -> list[Verdict]:
    """Each limit against the strongest protected attacker."""
    verdicts = []
    metrics: dict[Metric, float | None] = {"linkability": limits.linkability, "singling_out": limits.singling_out}
    for metric, limit in metrics.items():
        if limit is None:
            continue
        curve = found.strongest(metric, size=limits.speakers, length=limits.length)
        if curve is None:
            raise InputError(
                f"a limit for {metric}, but no protected attacker to judge", fix="give anonymized speech, or no limit"
            )
        at = curve.at(limits.speakers)
        value, high = float(curve.value[at]), float(curve.high[at])
        verdicts.append(
            Verdict(metric, limit, value, high, curve.attacker, curve.length, curve.sizes[at], high > limit)
        )
    if limits.inference is not None:
        protected = [one for one in found.inferences if one.attacker != "original"]
        if not protected:
            raise InputError("a limit for inference, but no attribute could be inferred", fix="give labels")
        worst = max(protected, key=lambda one: one.high)
        name = f"inference of {worst.attribute}"
        verdicts.append(
            Verdict(
                name,
                limits.inference,
                worst.value,
                worst.high,
                worst.attacker,
                worst.length,
                worst.speakers,
                worst.high > limits.inference,
            )
        )
    return verdicts
