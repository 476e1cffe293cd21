"""Scored trials with their speakers, and resampling by speakers.

Conventions: arrays of length n, one entry per trial; speakers are numbered from 0. ``enroll`` is the enrolled speaker
that the trial claims, ``speaker`` the speaker of the test utterance. A person is one unit of the bootstrap in both
roles.

A speaker who is drawn k times counts as k different people. A trial between speakers drawn k and l times then has the
weight k l, and a target trial of a speaker drawn k times the weight k, since each copy is only compared with itself. A
resample is thus a vector w of speaker weights; a trial has the weight w[a] w[b] or, if a = b, w[a], and scores need not
be sorted again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.compiled import njit
from voiceveil.core.errors import InputError
from voiceveil.metrics.tally import Floats, Tally, check_scores

if TYPE_CHECKING:
    from voiceveil.corpus.model import Trials

__all__ = ["ScoredTrials"]

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ScoredTrials:
    """Scores of trials with their speakers.

    Parameters
    ----------
    score, target
        Score of each trial, and whether it is a target trial, (n,).
    enroll, speaker
        Numbers of the claimed speaker and of the speaker of the test utterance, (n,).
    of
        Units of the bootstrap: ``"speakers"`` or ``"trials"``.
    text_dependent
        A nontarget may be the claimed speaker with wrong words.
    """

    score: Floats
    target: NDArray[np.bool_]
    enroll: Codes
    speaker: Codes
    of: str = "speakers"
    text_dependent: bool = False

    def __post_init__(self) -> None:
        shapes = {np.shape(column) for column in (self.score, self.target, self.enroll, self.speaker)}
        if len(shapes) != 1:
            raise InputError(
                f"the columns of scored trials have shapes {sorted(shapes)}", fix="give one entry for each trial"
            )
        check_scores(self.score[self.target], self.score[~self.target])
        same = self.enroll == self.speaker
        wrong = self.target & ~same if self.text_dependent else self.target != same
        if wrong.any():
            i = int(wrong.argmax())
            kind = "target, but its speakers differ" if self.target[i] else "nontarget, but its speakers are the same"
            raise InputError(f"trial {i} is {kind}", fix="correct the labels or the speakers")

    @classmethod
    def of_speakers(cls, score: ArrayLike, target: ArrayLike, enroll: ArrayLike, speaker: ArrayLike) -> ScoredTrials:
        """Return trials whose speakers are given by names or any labels.

        Parameters
        ----------
        score, target
            Scores, and whether each trial is a target trial, (n,).
        enroll, speaker
            Claimed speaker, and speaker of the test utterance, (n,).
        """
        enroll, speaker = np.asarray(enroll), np.asarray(speaker)
        codes = np.unique(np.concatenate([enroll, speaker]), return_inverse=True)[1].reshape(-1)
        scores = np.asarray(score, dtype=np.float64)
        return cls(scores, np.asarray(target, dtype=bool), codes[: len(enroll)], codes[len(enroll) :])

    @classmethod
    def of_trials(cls, trials: Trials, score: ArrayLike, speaker_of: Mapping[str, str]) -> ScoredTrials:
        """Return the trials of a list with their scores (n,), given the speaker of each utterance."""
        missing = sorted(set(trials.utterance.tolist()) - set(speaker_of))
        if missing:
            raise InputError(f"no speaker for {len(missing)} utterance(s), e.g. {missing[0]}")
        speaker = np.array([speaker_of[utterance] for utterance in trials.utterance.tolist()])
        return cls.of_speakers(score, trials.target, trials.enroll, speaker)

    @classmethod
    def independent(cls, target: ArrayLike, nontarget: ArrayLike) -> ScoredTrials:
        """Return trials of unknown speakers: every trial is a unit of its own, and intervals are too narrow."""
        tar, non = check_scores(target, nontarget)
        n = len(tar) + len(non)
        enroll = np.arange(n)
        # The second speaker of a nontarget is a dummy, number n, whose weight is always 1 (see `weights`).
        speaker = np.where(enroll < len(tar), enroll, n)
        return cls(np.concatenate([tar, non]), enroll < len(tar), enroll, speaker, of="trials")

    def with_scores(self, score: ArrayLike) -> ScoredTrials:
        """Return these trials with the scores (n,) of another system, in the same order."""
        scores = np.asarray(score, dtype=np.float64)
        return ScoredTrials(scores, self.target, self.enroll, self.speaker, self.of, self.text_dependent)

    def classes(self) -> tuple[Floats, Floats]:
        """Return target and nontarget scores."""
        return self.score[self.target], self.score[~self.target]

    @cached_property
    def n_codes(self) -> int:
        """Return the number of speaker codes."""
        return int(max(self.enroll.max(), self.speaker.max())) + 1

    @cached_property
    def n_units(self) -> int:
        """Return the number of units: speakers with target trials, or all trials if they are independent."""
        return len(self.score) if self.of == "trials" else len(np.unique(self.enroll[self.target]))

    @cached_property
    def _sorted(self) -> tuple[Floats, Codes, NDArray[np.bool_], Codes, Codes]:
        """Return the distinct scores, and for each trial in ascending order its rank among them, class and speakers."""
        order = np.argsort(self.score, kind="stable")
        score = self.score[order]
        new = np.concatenate([[True], score[1:] != score[:-1]])
        rank = np.cumsum(new) - 1
        return score[new], rank, self.target[order], self.enroll[order], self.speaker[order]

    def tally(self, weights: Floats) -> Tally:
        """Return the weight of both classes at each distinct score, for speaker weights of shape (n_codes,)."""
        score, rank, target, enroll, speaker = self._sorted
        return Tally(score, *_weigh(rank, target, enroll, speaker, weights, len(score)))

    def weights(self, resamples: int, seed: int) -> Iterator[Floats]:
        """Yield the speaker weights (n_codes,) of each resample; a draw that leaves a class empty is repeated."""
        if resamples < 2:
            raise InputError(f"resamples = {resamples} is too few", fix="use 1000, at least 2")
        rng = np.random.default_rng(seed)
        units = self._units
        _, _, target, enroll, speaker = self._sorted
        accepted = tried = 0
        while accepted < resamples:
            tried += 1
            if tried > 100 * resamples + 1000:
                raise InputError("nearly all resamples lack targets or nontargets", fix="use more speakers")
            weights = np.ones(self.n_codes)
            weights[units] = np.bincount(rng.integers(len(units), size=len(units)), minlength=len(units))
            if _both_classes(target, enroll, speaker, weights):
                accepted += 1
                yield weights

    @cached_property
    def _units(self) -> Codes:
        """Return the speakers to draw from, in an order that depends only on the scores.

        Neither names nor the order of the trials change a result. The order is that of the sums of the ranks of the
        scores, in each role and class; speakers with equal sums are interchangeable.
        """
        if self.of == "trials":
            return np.arange(len(self.score))[np.lexsort((self.target, self.score))]
        _, rank, target, enroll, speaker = self._sorted
        keys = [
            np.bincount(role[chosen], weights=value[chosen], minlength=self.n_codes)
            for role in (enroll, speaker)
            for chosen in (target, ~target)
            for value in (rank.astype(np.float64), np.ones(len(rank)))
        ]
        present = np.unique(np.concatenate([enroll, speaker]))
        return present[np.lexsort([key[present] for key in keys])]


@njit(cache=True)
def _weigh(
    rank: Codes, target: NDArray[np.bool_], enroll: Codes, speaker: Codes, weights: Floats, size: int
) -> tuple[Floats, Floats]:
    tar, non = np.zeros(size), np.zeros(size)
    for i in range(len(rank)):
        if target[i]:
            tar[rank[i]] += weights[enroll[i]]
        elif enroll[i] == speaker[i]:
            non[rank[i]] += weights[enroll[i]]
        else:
            non[rank[i]] += weights[enroll[i]] * weights[speaker[i]]
    return tar, non


@njit(cache=True)
def _both_classes(target: NDArray[np.bool_], enroll: Codes, speaker: Codes, weights: Floats) -> bool:
    some_target = some_nontarget = False
    for i in range(len(target)):
        if weights[enroll[i]] > 0.0 and weights[speaker[i]] > 0.0:
            some_target = some_target or target[i]
            some_nontarget = some_nontarget or not target[i]
            if some_target and some_nontarget:
                return True
    return False
