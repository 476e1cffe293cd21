"""The assessment: all attackers, lengths and criteria, warnings, and verdicts on the user's limits.

Conventions: rates are fractions. *Protected* attackers are all but ``original``. A figure is judged by its 95%
interval, as :mod:`voiceveil.risk.verdicts` says: found, not found, or it cannot be said with so few people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from voiceveil.core.checks import Check, merged
from voiceveil.core.errors import InputError
from voiceveil.risk.assumptions import state_assumptions
from voiceveil.risk.checks import check_attacks
from voiceveil.risk.curves import METRICS, Curve, Metric, RiskPlan, measure_linking, measure_singling_out
from voiceveil.risk.extrapolation import Extrapolation, extrapolate_length, extrapolate_speakers
from voiceveil.risk.inference import Inference, infer
from voiceveil.risk.sets import RiskAttack
from voiceveil.risk.verdicts import CriterionVerdict, LimitVerdict, Outcome, RiskLimits, overall_outcome

__all__ = ["Assessment", "WorstSpeaker", "assess", "complete"]

_WORST = 20  # speakers who are listed
_WEAK = 0.5  # Linkability on original speech at N' of about 20, below which the encoder is too weak


@dataclass(frozen=True)
class WorstSpeaker:
    """Rates at which a speaker is linked among N' speakers, and singled out among N; None if not tested."""

    speaker: str
    attacker: str
    length: int
    linkability: float
    singling_out: float | None


@dataclass(frozen=True, eq=False)
class Assessment:
    """The result of :func:`assess`.

    Parameters
    ----------
    plan : RiskPlan
        Settings of the measurement.
    attackers : dict
        Attacker -> its encoder and training.
    curves : tuple of Curve
        Singling Out, Linkability and 1 - EER.
    inferences : tuple of Inference
        Attribute inference.
    growth : tuple of Extrapolation
        Linkability beyond the measured numbers of speakers and lengths.
    worst : tuple of WorstSpeaker
        Speakers who are linked most often.
    warnings : tuple of str
        Reasons to doubt the figures.
    verdicts : tuple of LimitVerdict
        One for each limit of the user.
    sets : dict
        ``A`` and ``B`` -> numbers of speakers and utterances.
    about : dict
        Command, versions and files, to repeat the assessment.
    checks : tuple of Check
        Failed checks, see :mod:`voiceveil.core.checks`.
    """

    plan: RiskPlan
    attackers: dict[str, Mapping[str, Any]]
    curves: tuple[Curve, ...]
    inferences: tuple[Inference, ...]
    growth: tuple[Extrapolation, ...]
    worst: tuple[WorstSpeaker, ...]
    warnings: tuple[str, ...]
    verdicts: tuple[LimitVerdict, ...]
    sets: dict[str, dict[str, Any]]
    about: dict[str, Any] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()

    @property
    def exceeded(self) -> bool:
        """True if a limit of the user is exceeded beyond doubt."""
        return any(verdict.exceeded for verdict in self.verdicts)

    @property
    def outcome(self) -> Outcome:
        """The overall verdict: on the limits of the user, or else on the criteria; failed checks allow none."""
        if self.checks:
            return "cannot be said"
        judged = self.verdicts or [v for m in ("singling_out", "linkability") if (v := self.criterion(m)) is not None]
        return overall_outcome([verdict.outcome for verdict in judged])

    def criterion(self, metric: Metric) -> CriterionVerdict | None:
        """Return the verdict on a criterion against guessing, at the largest N; None if it was not measured."""
        curve = self.strongest(metric)
        return None if curve is None else CriterionVerdict(metric, *_judged(curve, curve.at()))

    def curve(self, attacker: str, metric: Metric, length: int) -> Curve | None:
        """Return a curve, or None if it was not measured."""
        wanted = (attacker, metric, length)
        return next((c for c in self.curves if (c.attacker, c.metric, c.length) == wanted), None)

    def strongest(self, metric: Metric, *, size: int | None = None, length: int | None = None) -> Curve | None:
        """Return the curve of the protected attacker with the highest upper limit at the N nearest to ``size``."""
        protected = [c for c in self.curves if c.attacker != "original"]
        curves = [c for c in protected if c.metric == metric and length in (None, c.length)]
        return max(curves, key=lambda curve: float(curve.high[curve.at(size)]), default=None)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "format": "voiceveil risk 1",
            "criteria": {
                **{
                    name: "measured" if any(curve.metric == name for curve in self.curves) else "not measured"
                    for name in ("singling_out", "linkability")
                },
                "inference": sorted({inference.attribute for inference in self.inferences}) or "not measured",
            },
            "sets": self.sets,
            "attackers": {name: dict(about) for name, about in self.attackers.items()},
            "assumptions": state_assumptions(self.attackers, self.plan.lengths, self.about).as_dict(),
            "plan": self.plan.as_dict(),
            "curves": [curve.as_dict() for curve in self.curves],
            "inference": [inference.as_dict() for inference in self.inferences],
            "growth": [extrapolation.as_dict() for extrapolation in self.growth],
            "worst_speakers": [asdict(speaker) for speaker in self.worst],
            "checks": [check.as_dict() for check in self.checks],
            "warnings": list(self.warnings),
            "limits": [verdict.as_dict() for verdict in self.verdicts],
            "exceeded": self.exceeded,
            "outcome": self.outcome,
            "about": self.about,
        }


def assess(
    attacks: Sequence[RiskAttack],
    plan: RiskPlan | None = None,
    *,
    limits: RiskLimits | None = None,
    jobs: int = 1,
    checks: Sequence[Check] = (),
    progress: Callable[[str], None] | None = None,
) -> Assessment:
    """Measure the re-identification risk under all attackers.

    Parameters
    ----------
    attacks : sequence of RiskAttack
        Embeddings by each attacker; all of the same utterances.
    plan : RiskPlan, optional
        Settings; by default those of the paper.
    limits : RiskLimits, optional
        Rates that the user accepts.
    jobs : int
        Threads; the result does not depend on their number.
    checks : sequence of Check
        Failed checks of the audio; those of the embeddings are added.
    progress : callable, optional
        Called with a sentence after each step.

    Raises
    ------
    InputError
        If there is no attack, attacks differ in their speakers, or a length or limit cannot be measured.
    """
    chosen, accepted = plan or RiskPlan(), limits or RiskLimits()
    _check(attacks)
    report = progress or (lambda _: None)

    def work(step: _Step) -> Any:
        name, measure = step
        result = measure()
        report(name)
        return result

    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        results = list(pool.map(work, _steps(attacks, chosen)))
    curves = tuple(curve for result in results if isinstance(result, tuple) for curve in result)
    inferences = tuple(result for result in results if isinstance(result, Inference))
    assessment = Assessment(
        chosen,
        {attack.name: attack.about for attack in attacks},
        tuple(sorted(curves, key=lambda curve: (METRICS.index(curve.metric), curve.length))),
        inferences,
        (),
        (),
        (),
        (),
        _sizes(attacks[0]),
        {},
        merged([*checks, *check_attacks(attacks)]),
    )
    return complete(assessment, accepted)


def complete(assessment: Assessment, limits: RiskLimits) -> Assessment:
    """Return an assessment with all that follows from its curves: growth, warnings, worst speakers and verdicts."""
    curves = assessment.curves
    growth, warnings = _growth(curves, assessment.plan), _warnings(curves, assessment.inferences)
    judged = replace(assessment, growth=tuple(growth), warnings=tuple(warnings))
    return replace(judged, worst=tuple(_worst(judged, limits)), verdicts=tuple(_verdicts(judged, limits)))


_Step = tuple[str, Callable[[], tuple[Curve, ...] | Inference | None]]


def _steps(attacks: Sequence[RiskAttack], plan: RiskPlan) -> Iterator[_Step]:
    """Yield the name and the computation of every measurement."""
    for attack in attacks:
        for length in sorted(plan.lengths):
            yield f"{attack.name}, L = {length}: Singling Out", _singling(attack, plan, length)
            yield f"{attack.name}, L = {length}: Linkability, EER", _linking(attack, plan, length)
            for attribute in sorted(attack.labels):
                name = f"{attack.name}, L = {length}: {attribute}"
                yield name, _inferring(attack, attribute, length, plan.seed)


def _check(attacks: Sequence[RiskAttack]) -> None:
    """Raise an ``InputError`` unless there are attackers with different names and the same speakers."""
    if not attacks:
        raise InputError("no attacker was given", fix="give at least one")
    first = attacks[0]
    names = [attack.name for attack in attacks]
    for attack in attacks[1:]:
        if names.count(attack.name) > 1:
            raise InputError(f"the attacker {attack.name} is there twice")
        for side in ("a", "b"):
            speakers, others = (set(getattr(entry.parts[0], side).names) for entry in (attack, first))
            for speaker in sorted(speakers ^ others)[:1]:
                has, lacks = (attack, first) if speaker in speakers else (first, attack)
                raise InputError(
                    f"speaker {speaker} is in {side.upper()} of the attacker {has.name} but not of {lacks.name}",
                    fix="give embeddings of the same utterances for all attackers",
                )


def _singling(attack: RiskAttack, plan: RiskPlan, length: int) -> Callable[[], tuple[Curve, ...]]:
    return lambda: (measure_singling_out(attack, plan, length),)


def _linking(attack: RiskAttack, plan: RiskPlan, length: int) -> Callable[[], tuple[Curve, ...]]:
    return lambda: measure_linking(attack, plan, length)


def _inferring(attack: RiskAttack, attribute: str, length: int, seed: int) -> Callable[[], Inference | None]:
    return lambda: infer(attack, attribute, length, seed=seed)


def _sizes(attack: RiskAttack) -> dict[str, dict[str, Any]]:
    part = attack.parts[0]
    return {
        name: {"speakers": len(side.names), "utterances": len(side.codes)}
        for name, side in (("A", part.a), ("B", part.b))
    }


def _growth(curves: Sequence[Curve], plan: RiskPlan) -> list[Extrapolation]:
    extrapolations: list[Extrapolation] = []
    linked = [curve for curve in curves if curve.metric == "linkability"]
    for curve in linked:
        extrapolations += extrapolate_speakers(curve, seed=plan.seed)
    for attacker in dict.fromkeys(curve.attacker for curve in linked):
        extrapolations += extrapolate_length([curve for curve in linked if curve.attacker == attacker], seed=plan.seed)
    return extrapolations


def _warnings(curves: Sequence[Curve], inferences: Sequence[Inference]) -> list[str]:
    """Return warnings that a weak attacker may look like privacy."""
    weak: dict[str, list[str]] = {}
    for curve in curves:
        if curve.metric == "one_minus_eer":
            continue
        at = curve.at()
        base = max(float(curve.chance[at]), 0.0 if curve.control is None else float(curve.control[at]))
        if curve.low[at] <= base:
            task = f"{_NAMES[curve.metric]} among {curve.sizes[at]:,}, L = {curve.length}"
            weak.setdefault(curve.attacker, []).append(f"{task} ({curve.value[at]:.1%}, baseline {base:.1%})")
    for entry in inferences:
        if entry.low <= max(entry.baseline, entry.control):
            task = f"inference of {entry.attribute}, L = {entry.length}"
            weak.setdefault(entry.attacker, []).append(f"{task} ({entry.value:.1%}, baseline {entry.baseline:.1%})")
    warnings = [
        f"The {attacker} attacker is no better than guessing in: {'; '.join(items)}. A weak attacker gives "
        "such figures as well: they do not prove that the data are private."
        for attacker, items in weak.items()
    ]
    names = {curve.attacker for curve in curves}
    if "informed" not in names:
        warnings.append(
            "No informed attacker was tried: an attacker who has the system can do better than these figures say."
        )
    for curve in curves:
        if curve.metric == "linkability" and curve.attacker == "original" and curve.value[0] < _WEAK:
            warnings.append(
                f"Even on original speech (L = {curve.length}) only {curve.value[0]:.1%} are linked among "
                f"{curve.sizes[0]}: the encoder is weak, and protected figures from it say little."
            )
    return [*warnings, *_warn_of_order(curves)]


def _warn_of_order(curves: Sequence[Curve]) -> list[str]:
    """Return a warning for each length at which the informed attacker does clearly worse than the ignorant one."""
    warnings = []
    for length in sorted({curve.length for curve in curves}):
        by = {c.attacker: c for c in curves if c.metric == "linkability" and c.length == length}
        if {"informed", "ignorant"} <= set(by) and by["informed"].high[-1] < by["ignorant"].value[-1]:
            warnings.append(
                f"L = {length}: the informed attacker links less than the ignorant one: its training has failed. Use "
                "the ignorant attacker's figures."
            )
    return warnings


_NAMES = {"singling_out": "Singling Out", "linkability": "Linkability", "one_minus_eer": "1 - EER"}


def _worst(assessment: Assessment, limits: RiskLimits) -> list[WorstSpeaker]:
    """Return the speakers whom the strongest protected attacker links most often, the worst first."""
    curve = assessment.strongest("linkability", size=limits.speakers, length=limits.length)
    if curve is None or curve.components is None:
        return []
    column = curve.components[:, curve.at(limits.speakers)]
    other = assessment.curve(curve.attacker, "singling_out", curve.length)
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


def _verdicts(assessment: Assessment, limits: RiskLimits) -> list[LimitVerdict]:
    """Return the verdict on each limit, for the strongest protected attacker."""
    verdicts = []
    metrics: dict[Metric, float | None] = {"linkability": limits.linkability, "singling_out": limits.singling_out}
    for metric, limit in metrics.items():
        if limit is None:
            continue
        curve = assessment.strongest(metric, size=limits.speakers, length=limits.length)
        if curve is None:
            raise InputError(
                f"a limit for {metric}, but no protected attacker to judge", fix="give anonymized speech, or no limit"
            )
        verdicts.append(LimitVerdict(metric, *_judged(curve, curve.at(limits.speakers)), limit))
    if limits.inference is not None:
        protected = [entry for entry in assessment.inferences if entry.attacker != "original"]
        if not protected:
            raise InputError("a limit for inference, but no attribute could be inferred", fix="give labels")
        worst = max(protected, key=lambda entry: entry.high)
        verdicts.append(
            LimitVerdict(
                f"inference of {worst.attribute}",
                worst.value,
                worst.low,
                worst.high,
                worst.baseline,
                worst.attacker,
                worst.length,
                worst.speakers,
                worst.speakers,
                limits.inference,
            )
        )
    return verdicts


def _judged(curve: Curve, at: int) -> tuple[float, float, float, float, str, int, int, int]:
    """Return the fields of a verdict after the criterion: rate, interval, chance or control, attacker, L, N, tested."""
    chance = max(float(curve.chance[at]), 0.0 if curve.control is None else float(curve.control[at]))
    rate = float(curve.value[at]), float(curve.low[at]), float(curve.high[at])
    return *rate, chance, curve.attacker, curve.length, curve.sizes[at], len(set(curve.speakers))
