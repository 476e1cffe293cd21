"""Curves of Singling Out, Linkability and 1 - EER of one attacker, for each conversation length L (section 3.4).

Conventions: rates are fractions; a :class:`Curve` has one entry for each N (test speakers, of Singling Out) or N'
(enrolled speakers, of Linkability and 1 - EER), ascending. All draws depend on ``RiskPlan.seed``, and are the same for
all attackers.

* Singling Out: 495 speakers of B enrolled with up to 30 utterances; up to ten x-vectors of L utterances of each of N
  speakers of A; ten folds; threshold between the 9th and the 10th calibration score, or footnote 4's for speakers with
  fewer x-vectors; five draws (:mod:`voiceveil.metrics.legal_singling_out`).
* Linkability: an x-vector of L utterances of each speaker of B against N' speakers of A, each the mean of all their
  utterances; the exact expectation over all draws of the N' (:mod:`voiceveil.metrics.legal_linkability`), a mean over
  five draws of the utterances.
* 1 - EER: of the same x-vectors (:mod:`voiceveil.metrics.all_pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.metrics import all_pairs, legal
from voiceveil.metrics.isolation import Rank, SinglingOutProtocol
from voiceveil.metrics.legal import Floats
from voiceveil.metrics.legal_linkability import link_probabilities, own_columns
from voiceveil.metrics.legal_singling_out import SinglingOut, singling_out
from voiceveil.metrics.rank_disclosure import RankDisclosure, rank_disclosure
from voiceveil.risk.sets import AttackPart, RiskAttack

__all__ = [
    "METRICS", "Curve", "LinkedTests", "Metric", "RiskPlan", "linking_curves", "measure_linking",
    "measure_singling_out", "singling_out_curve",
]  # fmt: skip

Metric = Literal["singling_out", "linkability", "one_minus_eer"]
METRICS: tuple[Metric, ...] = ("singling_out", "linkability", "one_minus_eer")


@dataclass(frozen=True)
class RiskPlan:
    """Settings of the measurement; the defaults are the paper's.

    Parameters
    ----------
    lengths : tuple of int
        Conversation lengths L in utterances.
    sizes : tuple of int, optional
        Numbers of speakers N and N'; by default all speakers, halved down to 20.
    enrolled, enroll_length : int
        Speakers of B who are enrolled for Singling Out, and their utterances at most.
    folds, draws : int
        Folds of the calibration of Singling Out, and random draws of the utterances.
    rank : Rank
        Calibration score that becomes the threshold, see :mod:`voiceveil.metrics.isolation`.
    seed : int
        Of all draws.
    """

    lengths: tuple[int, ...] = (1, 3, 30)
    sizes: tuple[int, ...] | None = None
    enrolled: int = 495
    enroll_length: int = 30
    folds: int = 10
    draws: int = 5
    rank: Rank = "published"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) < 1 or len(set(self.lengths)) < len(self.lengths):
            raise InputError(
                f"the conversation lengths are {self.lengths}", fix="give different numbers of utterances, 1 or more"
            )
        for name in ("enrolled", "enroll_length", "draws"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}, but must be 1 or more", fix="give 1 or more")

    def curve_sizes(self, speakers: int, usable: int) -> tuple[int, ...]:
        """Return the N of a curve, of which none exceeds ``usable``, the speakers with enough utterances for L."""
        wanted = legal.halving_sizes(speakers if self.sizes else usable, self.sizes, least=2)
        return tuple(sorted({min(size, usable) for size in wanted}))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}


@dataclass(frozen=True, eq=False)
class Curve:
    """A metric of one attacker at one L, over k numbers of speakers.

    Parameters
    ----------
    attacker, metric, length
        Which curve it is.
    sizes : tuple of int
        N or N', ascending.
    value, low, high : array of shape (k,)
        Rates with their 95% intervals.
    chance, control : array of shape (k,)
        Rate of a random guess, and of the same attack with wrong identities (None for 1 - EER).
    speakers : tuple of str
        Tested speakers.
    components : array of shape (speakers, k), optional
        Contribution of each speaker to the value; None for 1 - EER.
    disclosure : RankDisclosure, optional
        Evidence in the ranks of speakers among all enrolled ones; only of Linkability.
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
    disclosure: RankDisclosure | None = None

    @property
    def maximum(self) -> Floats | None:
        """Rates of the worst protected speaker, shape (k,); None for 1 - EER.

        The law protects each person and not the average. The highest of many uncertain rates is too high by luck.
        """
        return None if self.components is None else np.asarray(self.components.max(axis=0))

    def at(self, size: int | None = None) -> int:
        """Return the index of the N that is nearest to ``size`` (None: the largest)."""
        return len(self.sizes) - 1 if size is None else int(np.abs(np.array(self.sizes) - size).argmin())

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        columns = {"value": self.value, "low": self.low, "high": self.high, "chance": self.chance}
        return {
            "attacker": self.attacker,
            "metric": self.metric,
            "length": self.length,
            "speakers": list(self.sizes),
            **{name: [round(float(x), 6) for x in column] for name, column in columns.items()},
            "control": None if self.control is None else [round(float(x), 6) for x in self.control],
            "maximum": None if self.maximum is None else [round(float(x), 6) for x in self.maximum],
            "rank_llr": None if self.disclosure is None else self.disclosure.as_dict(),
            "probes": len(self.speakers),
        }


def measure_singling_out(attack: RiskAttack, plan: RiskPlan, length: int) -> Curve:
    """Return the curve of Singling Out; the speakers of all parts together.

    Raises
    ------
    InputError
        If too few speakers have enough utterances for the length.
    """
    first = attack.parts[0].a
    usable = int((first.counts >= 2 * length).sum())
    if usable < 2:
        raise InputError(
            f"L = {length}: {usable} speaker(s) of A have {2 * length} utterances", fix="use a smaller length"
        )
    sizes = plan.curve_sizes(len(first.names), usable)
    results = [r for part in attack.parts if (r := _singling_out(part, plan, length, sizes)) is not None]
    if not results:
        raise InputError(
            f"L = {length}: no enrolled speaker has {2 * length} utterances in A", fix="use a smaller length"
        )
    return singling_out_curve((attack.name, length), sizes, results, plan)


def singling_out_curve(
    name: tuple[str, int], sizes: tuple[int, ...], results: Sequence[SinglingOut], plan: RiskPlan
) -> Curve:
    """Return the curve of Singling Out of an attacker and a length, from the results of one model or more."""
    speakers = tuple(speaker for result in results for speaker in result.speakers)
    components = np.concatenate([result.components for result in results])
    control = np.concatenate([result.control for result in results])
    weights = np.array([len(result.speakers) for result in results])
    limits = legal.speaker_interval(components, speakers, seed=plan.seed)
    return Curve(
        name[0],
        "singling_out",
        name[1],
        sizes,
        components.mean(axis=0),
        limits[:, 0],
        limits[:, 1],
        np.average([result.chance for result in results], axis=0, weights=weights),
        control[np.isfinite(control).all(axis=1)].mean(axis=0) if np.isfinite(control).all(axis=1).any() else None,
        speakers,
        components,
    )


def _singling_out(part: AttackPart, plan: RiskPlan, length: int, sizes: Sequence[int]) -> SinglingOut | None:
    """Return the result of one part, or None if it attacks none of the enrolled speakers."""
    try:
        protocol = SinglingOutProtocol(
            length, plan.enroll_length, plan.enrolled, folds=plan.folds, draws=plan.draws, rank=plan.rank
        )
        return singling_out(part.a, part.b, protocol, sizes=sizes, only=part.only, seed=plan.seed)
    except InputError as error:
        if part.only is not None and error.what == "none of these speakers is enrolled and tested":
            return None
        raise


def measure_linking(attack: RiskAttack, plan: RiskPlan, length: int) -> tuple[Curve, Curve]:
    """Return the curves of Linkability and of 1 - EER.

    Raises
    ------
    InputError
        If no speaker of B has enough utterances for the length.
    """
    names = attack.parts[0].a.names
    sizes = plan.curve_sizes(len(names), len(names))
    results = [r for part in attack.parts if (r := _linking(part, plan, length, sizes)) is not None]
    if not results:
        raise InputError(f"L = {length}: no speaker of B has {length} utterances", fix="use a smaller length")
    return linking_curves((attack.name, length), sizes, results, plan)


def linking_curves(
    name: tuple[str, int], sizes: tuple[int, ...], results: Sequence[LinkedTests], plan: RiskPlan
) -> tuple[Curve, Curve]:
    """Return the curves of Linkability and of 1 - EER of an attacker and a length, from one model or more."""
    attacker, length = name
    speakers = tuple(speaker for result in results for speaker in result.speakers)
    components = np.concatenate([result.linked for result in results])
    control = np.concatenate([result.control for result in results]).mean(axis=0)
    limits = legal.speaker_interval(components, speakers, seed=plan.seed)
    weights = np.array([len(result.speakers) for result in results])
    eer = np.average([result.eer for result in results], axis=0, weights=weights)
    spread = _eer_limits(results, eer, weights, plan.seed)
    above, ties = (np.concatenate(counts) for counts in zip(*((r.above, r.ties) for r in results), strict=True))
    tested = tuple(speaker for result in results for speaker in result.ranked)
    disclosure = rank_disclosure(above, ties, results[0].candidates, tested, seed=plan.seed)
    chance = 1 / np.array(sizes)
    half = np.full(len(sizes), 0.5)
    linked = Curve(
        attacker, "linkability", length, sizes, components.mean(axis=0), limits[:, 0], limits[:, 1], chance, control,
        speakers, components, disclosure,
    )  # fmt: skip
    return linked, Curve(
        attacker, "one_minus_eer", length, sizes, 1 - eer, 1 - spread[:, 1], 1 - spread[:, 0], half, None, speakers
    )


@dataclass(frozen=True, eq=False)
class LinkedTests:
    """Tests by one model, against the same enrolled speakers.

    Parameters
    ----------
    speakers : tuple of str
        Speaker of each test.
    linked, control : array of shape (tests, k)
        Probability that a test is linked, and that of a voice from outside.
    eer : array of shape (k,)
        EER, a fraction.
    trials : TrialCounts
        Trials of each test, for the interval of the EER.
    above, ties : array of shape (comparisons,)
        Enrolled speakers more, and exactly as, similar as the own one, in every draw.
    ranked : tuple of str
        Speaker of each comparison.
    candidates : int
        Enrolled speakers.
    """

    speakers: tuple[str, ...]
    linked: Floats
    control: Floats
    eer: Floats
    trials: all_pairs.TrialCounts
    above: legal.Ints
    ties: legal.Ints
    ranked: tuple[str, ...]
    candidates: int

    @classmethod
    def of_draws(
        cls, draws: Sequence[all_pairs.AllPairs], speakers: tuple[str, ...], candidates: int, sizes: tuple[int, ...]
    ) -> LinkedTests:
        """Return the means over draws of the same speakers."""
        trials = draws[0].trials
        for entry in draws[1:]:
            trials = trials + entry.trials
        return cls(
            speakers,
            np.mean([_linked(entry.rivals, candidates, sizes) for entry in draws], axis=0),
            np.mean([_linked(entry.control, candidates - 1, sizes) for entry in draws], axis=0),
            np.mean([entry.eer for entry in draws], axis=0),
            trials,
            np.concatenate([entry.rivals - entry.ties for entry in draws]),
            np.concatenate([entry.ties for entry in draws]),
            speakers * len(draws),
            candidates,
        )

    def by_speaker(self) -> LinkedTests:
        """Return the same with one test of each speaker: the mean of all theirs."""
        names, codes, counts = np.unique(np.array(self.speakers), return_inverse=True, return_counts=True)

        def total(rows: NDArray[Any]) -> NDArray[Any]:
            sums = np.zeros((len(names), *rows.shape[1:]), dtype=rows.dtype)
            np.add.at(sums, codes, rows)
            return sums

        trials = replace(self.trials, target=total(self.trials.target), nontarget=total(self.trials.nontarget))
        linked, control = (total(rows) / counts[:, None] for rows in (self.linked, self.control))
        return replace(self, speakers=tuple(map(str, names)), linked=linked, control=control, trials=trials)


def _linking(part: AttackPart, plan: RiskPlan, length: int, sizes: tuple[int, ...]) -> LinkedTests | None:
    rng = np.random.default_rng([plan.seed, 2])
    enrolled = legal.speaker_means(part.a)
    n = len(enrolled.speakers)
    results: list[all_pairs.AllPairs] = []
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
        edges = results[0].trials.edges if results else None
        others = np.random.default_rng([plan.seed, 3, number])  # of its own: all parts must draw the same utterances
        link = all_pairs.LinkTrials(tests.vectors[rows], enrolled.vectors, own[rows], claimed[rows])
        results.append(all_pairs.score_all_pairs(link, sizes, others, edges))
    return LinkedTests.of_draws(results, speakers, n, sizes)


def _linked(rivals: legal.Ints, enrolled: int, sizes: Sequence[int]) -> Floats:
    """Return the probability that each test is linked, shape (tests, k)."""
    return np.stack([link_probabilities(rivals, enrolled, min(size, enrolled)) for size in sizes], axis=1)


def _eer_limits(results: Sequence[LinkedTests], eer: Floats, weights: legal.Ints, seed: int) -> Floats:
    """Return 95% limits, shape (k, 2); errors of parts are independent, as parts attack different speakers."""
    limits = [all_pairs.eer_interval(result.eer, result.trials, seed=seed) for result in results]
    share = (weights / weights.sum())[:, None]
    down = np.sqrt(sum((s * (r.eer - x[:, 0])) ** 2 for s, r, x in zip(share, results, limits, strict=True)))
    up = np.sqrt(sum((s * (x[:, 1] - r.eer)) ** 2 for s, r, x in zip(share, results, limits, strict=True)))
    return np.stack([np.maximum(eer - down, 0.0), np.minimum(eer + up, 0.5)], axis=1)
