"""The protocol of section 3.4: what is measured of one attacker, for each conversation length L.

Conventions: rates are fractions; a :class:`Curve` has one entry for each N (test speakers, of Singling Out) or N'
(enrolled speakers, of Linkability and 1 - EER), ascending. Everything is drawn from ``Plan.seed``; the same utterances
are drawn for all attackers.

* Singling Out: 495 speakers of B enrolled with up to 30 utterances; up to ten x-vectors of L utterances of each of N
  speakers of A; ten folds; threshold between the 9th and the 10th calibration score, or footnote 4's for speakers with
  fewer x-vectors; five draws (:mod:`voiceveil.metrics.singling`).
* Linkability: an x-vector of L utterances of each speaker of B against N' speakers of A, each the mean of all their
  utterances; the exact expectation over all draws of the N' (:mod:`voiceveil.metrics.linking`), a mean over five
  draws of the utterances.
* 1 - EER: of the same x-vectors (:mod:`voiceveil.metrics.crossing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from voiceveil.core.errors import InputError
from voiceveil.metrics import crossing, legal
from voiceveil.metrics.isolation import Rank
from voiceveil.metrics.legal import Floats
from voiceveil.metrics.linking import link_probabilities, own_columns
from voiceveil.metrics.singling import SinglingOut, singling_out_of
from voiceveil.risk.sets import Attack, Part

__all__ = ["METRICS", "Curve", "Metric", "Plan", "measure_linking", "measure_singling_out"]

Metric = Literal["singling_out", "linkability", "one_minus_eer"]
METRICS: tuple[Metric, ...] = ("singling_out", "linkability", "one_minus_eer")


@dataclass(frozen=True)
class Plan:
    """The numbers of the protocol; the defaults are the paper's."""

    lengths: tuple[int, ...] = (1, 3, 30)
    sizes: tuple[int, ...] | None = None  # N and N'; None: all speakers, halved down to 20
    enrolled: int = 495
    enroll_length: int = 30
    folds: int = 10
    draws: int = 5
    rank: Rank = "published"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) < 1 or len(set(self.lengths)) < len(self.lengths):
            raise InputError(f"conversation lengths {self.lengths}", fix="give different numbers, 1 or more")
        for name in ("enrolled", "enroll_length", "draws"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}", fix="give 1 or more")

    def curve_sizes(self, speakers: int, usable: int) -> tuple[int, ...]:
        """N of a curve: those of the plan; at most ``usable`` of the ``speakers`` have enough utterances for L."""
        wanted = legal.halving_sizes(speakers if self.sizes else usable, self.sizes, least=2)
        return tuple(sorted({min(size, usable) for size in wanted}))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, eq=False)
class Curve:
    """A metric of an attacker at one L: ``value``, ``low``, ``high`` (95 %), ``chance``, ``control``, all (k,).

    ``components``: (speakers, k), what each of ``speakers`` contributes to the value; None for 1 - EER.
    """

    attacker: str
    metric: Metric
    length: int
    sizes: tuple[int, ...]
    value: Floats
    low: Floats
    high: Floats
    chance: Floats
    control: Floats | None
    speakers: tuple[str, ...] = ()
    components: Floats | None = None

    def at(self, size: int | None = None) -> int:
        """The entry of the N that is nearest to ``size`` (None: the largest)."""
        return len(self.sizes) - 1 if size is None else int(np.abs(np.array(self.sizes) - size).argmin())

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        columns = {"value": self.value, "low": self.low, "high": self.high, "chance": self.chance}
        return {
            "attacker": self.attacker,
            "metric": self.metric,
            "length": self.length,
            "speakers": list(self.sizes),
            **{name: [round(float(x), 6) for x in column] for name, column in columns.items()},
            "control": None if self.control is None else [round(float(x), 6) for x in self.control],
            "probes": len(self.speakers),
        }


def measure_singling_out(attack: Attack, plan: Plan, length: int) -> Curve:
    """The curve of Singling Out; parts are joined speaker by speaker."""
    first = attack.parts[0].a
    usable = int((first.counts >= 2 * length).sum())
    if usable < 2:
        raise InputError(
            f"L = {length}: {usable} speaker(s) of A have {2 * length} utterances", fix="use a smaller length"
        )
    sizes = plan.curve_sizes(len(first.names), usable)
    found = [one for part in attack.parts if (one := _singling_out(part, plan, length, sizes)) is not None]
    if not found:
        raise InputError(f"L = {length}: no enrolled speaker has {2 * length} utterances in A", fix="use a smaller one")
    speakers = tuple(speaker for one in found for speaker in one.speakers)
    components = np.concatenate([one.components for one in found])
    control = np.concatenate([one.control for one in found])
    weights = np.array([len(one.speakers) for one in found])
    limits = legal.speaker_interval(components, speakers, seed=plan.seed)
    return Curve(
        attack.name,
        "singling_out",
        length,
        sizes,
        components.mean(axis=0),
        limits[:, 0],
        limits[:, 1],
        np.average([one.chance for one in found], axis=0, weights=weights),
        control[np.isfinite(control).all(axis=1)].mean(axis=0) if np.isfinite(control).all(axis=1).any() else None,
        speakers,
        components,
    )


def _singling_out(part: Part, plan: Plan, length: int, sizes: Sequence[int]) -> SinglingOut | None:
    """One part; None if none of the 495 is attacked by it."""
    try:
        return singling_out_of(
            part.a,
            part.b,
            sizes=sizes,
            length=length,
            enroll_length=plan.enroll_length,
            most_enrolled=plan.enrolled,
            only=part.only,
            folds=plan.folds,
            draws=plan.draws,
            rank=plan.rank,
            seed=plan.seed,
        )
    except InputError as error:
        if part.only is not None and error.what == "none of these speakers is enrolled and tested":
            return None
        raise


def measure_linking(attack: Attack, plan: Plan, length: int) -> tuple[Curve, Curve]:
    """The curves of Linkability and of 1 - EER."""
    names = attack.parts[0].a.names
    sizes = plan.curve_sizes(len(names), len(names))
    found = [one for part in attack.parts if (one := _linking(part, plan, length, sizes)) is not None]
    if not found:
        raise InputError(f"L = {length}: no speaker of B has {length} utterances", fix="use a smaller length")
    speakers = tuple(speaker for one in found for speaker in one.speakers)
    components = np.concatenate([one.linked for one in found])
    control = np.concatenate([one.control for one in found]).mean(axis=0)
    limits = legal.speaker_interval(components, speakers, seed=plan.seed)
    weights = np.array([len(one.speakers) for one in found])
    eer = np.average([one.eer for one in found], axis=0, weights=weights)
    spread = _eer_limits(found, eer, weights, plan.seed)
    chance = 1 / np.array(sizes)
    half = np.full(len(sizes), 0.5)
    linked = Curve(
        attack.name, "linkability", length, sizes, components.mean(axis=0), limits[:, 0], limits[:, 1], chance, control,
        speakers, components,
    )  # fmt: skip
    return linked, Curve(
        attack.name, "one_minus_eer", length, sizes, 1 - eer, 1 - spread[:, 1], 1 - spread[:, 0], half, None, speakers
    )


@dataclass(frozen=True, eq=False)
class _Linked:
    """Of one part: ``linked``, ``control``: (tests, k); ``eer``: (k,), and its trials."""

    speakers: tuple[str, ...]
    linked: Floats
    control: Floats
    eer: Floats
    trials: crossing.Trials


def _linking(part: Part, plan: Plan, length: int, sizes: tuple[int, ...]) -> _Linked | None:
    rng = np.random.default_rng([plan.seed, 2])
    enrolled = legal.mean_voices(part.a)
    n = len(enrolled.speakers)
    done: list[crossing.Crossing] = []
    speakers: tuple[str, ...] = ()
    if not (part.b.counts >= length).any():
        return None
    for number in range(plan.draws):
        tests = legal.draw_conversations(part.b, length, most=1, rng=rng)
        rows = np.array([part.only is None or name in part.only for name in tests.speakers])
        if not rows.any():
            return None
        speakers = tuple(name for name, kept in zip(tests.speakers, rows, strict=True) if kept)
        own = own_columns(tests.speakers, enrolled.speakers)
        claimed = (own + rng.integers(1, n, size=len(own))) % n  # anybody but the speaker
        edges = done[0].trials.edges if done else None
        others = np.random.default_rng([plan.seed, 3, number])  # apart: parts must draw the same utterances
        vectors = tests.vectors[rows]
        done.append(crossing.cross(vectors, enrolled.vectors, own[rows], claimed[rows], sizes, others, edges))
    trials = done[0].trials
    for one in done[1:]:
        trials = trials + one.trials
    return _Linked(
        speakers,
        np.mean([_linked(one.rivals, n, sizes) for one in done], axis=0),
        np.mean([_linked(one.control, n - 1, sizes) for one in done], axis=0),
        np.mean([one.eer for one in done], axis=0),
        trials,
    )


def _linked(rivals: legal.Ints, enrolled: int, sizes: Sequence[int]) -> Floats:
    """The probability that each test is linked, (tests, k)."""
    return np.stack([link_probabilities(rivals, enrolled, min(size, enrolled)) for size in sizes], axis=1)


def _eer_limits(found: Sequence[_Linked], eer: Floats, weights: legal.Ints, seed: int) -> Floats:
    """95 % limits, (k, 2); the errors of parts, which attack different speakers, add like independent ones."""
    limits = [crossing.eer_interval(one.eer, one.trials, seed=seed) for one in found]
    share = (weights / weights.sum())[:, None]
    down = np.sqrt(sum((s * (one.eer - x[:, 0])) ** 2 for s, one, x in zip(share, found, limits, strict=True)))
    up = np.sqrt(sum((s * (x[:, 1] - one.eer)) ** 2 for s, one, x in zip(share, found, limits, strict=True)))
    return np.stack([np.maximum(eer - down, 0.0), np.minimum(eer + up, 0.5)], axis=1)
