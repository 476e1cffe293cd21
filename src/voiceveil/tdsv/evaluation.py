"""Figures of the scores of a challenge: normalized minimum and actual detection cost and EER, of all trials and parts.

Conventions: costs C_miss = 10, C_fa = 1, P_target = 0.01, divided by 0.1 (evaluation plan, section 2.3); rates are
fractions. TC trials are targets; TW, IC and IW are nontargets. 95% intervals come from a bootstrap over speakers, or
over models if the keys have no speakers, which is too narrow if a speaker has several models.

A part is a set of trials: of one language, gender or phrase, or the targets with one type of nontargets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.errors import InputError
from voiceveil.metrics import ScoredTrials, estimate_all
from voiceveil.metrics import measures as m
from voiceveil.stats import Estimate, ratio
from voiceveil.tdsv.lists import TRIAL_TYPES, TdsvKey, TdsvModel
from voiceveil.tdsv.phrases import language_of

__all__ = [
    "BAYES_THRESHOLD",
    "NONTARGETS",
    "Acceptance",
    "PartResult",
    "TdsvEvaluation",
    "complete_keys",
    "evaluate",
    "scored_trials",
]

#: An LLR above ln(C_fa (1 - P) / (C_miss P)) is accepted.
BAYES_THRESHOLD = float(np.log(0.99 / 0.1))

#: Nontarget type -> title of its part, in which it is compared with all targets.
NONTARGETS = {
    "TW": "TC against TW: the right person, wrong words",
    "IC": "TC against IC: an impostor, the right words",
    "IW": "TC against IW: an impostor, wrong words",
}


@dataclass(frozen=True)
class PartResult:
    """The figures of some trials; ``group`` is "all", "type", "language", "gender" or "phrase"."""

    group: str
    name: str
    targets: int
    nontargets: int
    min_dcf: Estimate
    act_dcf: Estimate
    eer: Estimate

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        figures = {name: getattr(self, name).as_dict() for name in ("min_dcf", "act_dcf", "eer")}
        return {
            "group": self.group,
            "name": self.name,
            "targets": self.targets,
            "nontargets": self.nontargets,
            **figures,
        }


@dataclass(frozen=True)
class Acceptance:
    """Share of the trials of one type that is accepted at the Bayes threshold, and their mean LLR."""

    type: str
    trials: int
    accepted: Estimate
    mean_llr: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**vars(self), "accepted": self.accepted.as_dict()}


@dataclass(frozen=True, eq=False)
class TdsvEvaluation:
    """All figures of one answer."""

    name: str
    parts: tuple[PartResult, ...]
    acceptance: tuple[Acceptance, ...]
    scores: NDArray[np.float64]
    types: NDArray[np.str_]
    units: str  # of the intervals: speakers or models

    @property
    def overall(self) -> PartResult:
        """All trials."""
        return self.parts[0]

    def group(self, name: str) -> tuple[PartResult, ...]:
        """Return the parts of a group."""
        return tuple(part for part in self.parts if part.group == name)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "intervals_over": self.units,
            "parts": [part.as_dict() for part in self.parts],
            "acceptance": [entry.as_dict() for entry in self.acceptance],
        }


def complete_keys(keys: Sequence[TdsvKey], models: Mapping[str, TdsvModel] | None = None) -> tuple[TdsvKey, ...]:
    """Return keys with gender and phrase from the enrollment list, and the language of the challenge's own phrases."""
    completed = []
    for key in keys:
        model = (models or {}).get(key.model)
        gender = key.gender or (model.gender if model else None)
        phrase = key.phrase or (model.phrase if model else None)
        known = key.language or (language_of(phrase) if phrase and key.phrase is None else None)
        completed.append(replace(key, gender=gender, phrase=phrase, language=known))
    return tuple(completed)


def evaluate(
    scores: ArrayLike, keys: Sequence[TdsvKey], *, name: str = "answer", resamples: int = 1000, seed: int = 0
) -> TdsvEvaluation:
    """Return all figures of the scores of a system.

    Parameters
    ----------
    scores
        Log-likelihood ratios, shape (n,), in the order of the keys.
    keys
        Type, speaker, phrase and so on of each trial.
    name
        Of the system, for tables.
    resamples, seed
        Of the bootstrap over speakers.
    """
    values = np.asarray(scores, dtype=np.float64)
    if len(values) != len(keys):
        raise InputError(f"{len(values)} scores for {len(keys)} keys", fix="give one score per key")
    types = np.array([key.type for key in keys])
    missing = "targets (TC)" if not (types == "TC").any() else "nontargets" if (types == "TC").all() else ""
    if missing:
        raise InputError(f"the keys have no {missing}", fix="error rates need both")
    trials = scored_trials(values, keys)
    parts = [
        _part(group, title, _chosen(trials, mask), resamples, seed)
        for group, title, mask in _masks(keys, types)
        if (mask & trials.target).any() and (mask & ~trials.target).any()
    ]
    acceptance = tuple(
        _acceptance(kind, values[own], trials.enroll[own], resamples, seed)
        for kind in TRIAL_TYPES
        if (own := types == kind).any()
    )
    return TdsvEvaluation(name, tuple(parts), acceptance, values, types, trials.of)


def _acceptance(
    kind: str, scores: NDArray[np.float64], claimed: NDArray[np.int64], resamples: int, seed: int
) -> Acceptance:
    """Return the rate of acceptance of trials of one type; the interval is over claimed models."""
    accepted = scores > BAYES_THRESHOLD
    share = ratio(accepted, np.ones(len(accepted)), claimed, resamples=resamples, seed=seed, top=1.0)
    return Acceptance(kind, len(accepted), share, float(scores.mean()))


def scored_trials(scores: NDArray[np.float64], keys: Sequence[TdsvKey]) -> ScoredTrials:
    """Return the trials with their speakers, as far as the keys tell them."""
    known = all(key.speaker and (key.test_speaker or key.type[0] == "T") for key in keys)
    if known:
        enroll = np.array([key.speaker for key in keys])
        tested = np.array([key.speaker if key.type[0] == "T" else key.test_speaker for key in keys])
    else:  # count each model and each recording of an impostor as a speaker
        enroll = np.array([key.model for key in keys])
        tested = np.array([key.model if key.type[0] == "T" else f"file {key.test}" for key in keys])
    codes = np.unique(np.concatenate([enroll, tested]), return_inverse=True)[1].reshape(-1)
    target = np.array([key.type == "TC" for key in keys])
    of = "speakers" if known else "models"
    return ScoredTrials(scores, target, codes[: len(keys)], codes[len(keys) :], of, text_dependent=True)


def _masks(keys: Sequence[TdsvKey], types: NDArray[np.str_]) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Yield group, name and mask of each part."""
    yield "all", "all trials", np.ones(len(keys), dtype=bool)
    for kind in NONTARGETS:
        yield "type", kind, (types == "TC") | (types == kind)
    columns: dict[str, Callable[[TdsvKey], str | None]] = {
        "language": lambda key: key.language,
        "gender": lambda key: {"f": "women", "m": "men"}.get(key.gender or ""),
        "phrase": lambda key: key.phrase,
    }
    for group, value in columns.items():
        column = np.array([value(key) or "" for key in keys])
        for title in sorted(set(column.tolist()) - {""}):
            yield group, title, column == title


def _chosen(trials: ScoredTrials, mask: NDArray[np.bool_]) -> ScoredTrials:
    return ScoredTrials(
        trials.score[mask], trials.target[mask], trials.enroll[mask], trials.speaker[mask], trials.of, True
    )


def _part(group: str, name: str, trials: ScoredTrials, resamples: int, seed: int) -> PartResult:
    figures = estimate_all(trials, [m.min_dcf(), m.act_dcf(), m.eer()], resamples=resamples, seed=seed)
    targets = int(trials.target.sum())
    return PartResult(group, name, targets, len(trials.target) - targets, figures[0], figures[1], figures[2])
