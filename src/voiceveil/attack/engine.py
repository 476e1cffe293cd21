"""The attack itself: finds the sets, checks all input, lets each attacker score each set, measures, diagnoses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np

from voiceveil import metrics
from voiceveil.attack.attackers import (
    AdaptedAttacker,
    Attacker,
    EncoderAttacker,
    FreeAttacker,
    InversionAttacker,
    Means,
    Scoring,
    attacker,
)
from voiceveil.attack.embedding import write_scores
from voiceveil.attack.health import control_eer, diagnose
from voiceveil.attack.result import AttackResult, Health, Knowledge, Row
from voiceveil.attack.sanity import check_learned, check_trials
from voiceveil.attack.sanity_data import check_sets
from voiceveil.attack.sets import Condition, TrialSet, check_lengths, find_sets
from voiceveil.core.checks import merged
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.metrics import ScoredTrials, estimate
from voiceveil.models.speaker.covariances import Floats
from voiceveil.run.cache import Cache
from voiceveil.run.executor import Jobs, check_jobs

__all__ = ["run"]


def run(
    data: str | Path,
    *,
    anon: str | None = None,
    attackers: Sequence[str] = ("campplus", "free"),
    sets: Sequence[str] | None = None,
    scoring: Scoring = "cosine",
    train: Sequence[str | Path] = (),
    train_original: Sequence[str | Path] = (),
    similar: bool = False,
    anon_data: str | Path | None = None,
    cache: str | Path | Cache | None = None,
    out: str | Path | None = None,
    jobs: Jobs = 1,
    resamples: int = 1000,
    seed: int = 0,
    quiet: bool = True,
) -> AttackResult:
    """Attack the sets of a folder and say how far each attacker gets.

    ``data``: holds Kaldi directories such as ``libri_dev_enrolls`` and ``libri_dev_trials_f``; ``anon``: the suffix of
    the anonymized ones (in ``anon_data``, if they are elsewhere), or None to attack the original speech alone.
    ``attackers``: see :func:`voiceveil.attack.attackers.attacker`. ``train``: corpora of anonymized speech of other
    speakers, for those that learn; ``similar``: by a similar system, not by the one that is attacked.
    ``train_original``: the same speech, not anonymized. ``scoring`` "plda" needs speech of the kind that the encoder
    was trained on. ``cache``: a file (or Cache) that keeps embeddings, which are biometric data. ``out``: a folder for
    the score files.

    With ``jobs`` > 1, scripts need the usual ``if __name__ == "__main__":``.
    """
    start = time.monotonic()
    check_jobs(jobs)
    if scoring not in get_args(Scoring):
        raise InputError(f"unknown scoring {scoring!r}", fix=f"known: {', '.join(get_args(Scoring))}")
    chosen = [one for spec in dict.fromkeys(attackers) for one in attacker(spec, similar=similar, scoring=scoring)]
    if not chosen:
        raise InputError("no attacker", fix="name one, e.g. campplus")
    found = find_sets(Path(data), anon=anon, names=sets, anon_data=None if anon_data is None else Path(anon_data))
    training, original = (tuple(open_corpus(source) for source in side) for side in (train, train_original))
    store = cache if isinstance(cache, Cache) else Cache(None if cache is None else Path(cache))
    try:
        means = Means(store, jobs, quiet, training, original)
        _check(chosen, found, means)
        folder = None if out is None else Path(out)
        rows, health = [], []
        checks = check_sets(found, (*training, *original), store)
        for one in chosen:
            new, scored = _attack(one, found, means, folder, resamples, seed)
            rows += new
            health.append(_diagnose(one, new, scored, found, means))
            if isinstance(one, EncoderAttacker | AdaptedAttacker | InversionAttacker):
                checks += check_learned(one.name, one.encoder.training().speaker_ids, _speakers(found))
            if isinstance(one, FreeAttacker):
                continue  # a cue may be equal for all, or mislead, without anything being wrong
            for row, (trial_set, scores) in zip(new, scored, strict=True):
                trials = ScoredTrials.of_trials(trial_set.trials, scores, trial_set.speaker_of)
                checks += check_trials(trials, where=f"{row.attacker}, {row.condition}, {row.set}")
    finally:
        if not isinstance(cache, Cache):
            store.close()
    return AttackResult(tuple(rows), tuple(health), time.monotonic() - start, merged(checks))


def _conditions(one: Attacker, trial_set: TrialSet) -> dict[Condition, Knowledge]:
    """What can be done with this set: without anonymized speech, only ``oo``."""
    wanted = one.conditions()
    if trial_set.anonymized is not None:
        return wanted
    if isinstance(one, FreeAttacker):
        return {"oo": "free"}
    return {condition: knowledge for condition, knowledge in wanted.items() if condition == "oo"}


def _check(chosen: list[Attacker], found: list[TrialSet], means: Means) -> None:
    """Everything that can be wrong with the input, before the long work begins."""
    for one in chosen:
        one.check(means)
        if not any(_conditions(one, trial_set) for trial_set in found):
            raise InputError(f"the attacker {one.name} needs anonymized speech", fix="give its suffix with --anon")
    attacked = _speakers(found)
    for corpus in (*means.training, *means.original):
        both = sorted(attacked & set(corpus.speakers()))
        if both:
            what = (
                f"training-speakers-in-test: {len(both)} training speaker(s) are among those attacked, e.g. {both[0]}"
            )
            raise InputError(what, where=corpus.root, fix="train on other speakers")
    minimum = max(one.minimum for one in chosen)
    for trial_set in found:
        for condition in dict.fromkeys(c for one in chosen for c in _conditions(one, trial_set)):
            for side in trial_set.speech(condition):
                check_lengths(side, minimum, "an attacker")
    for corpus in (*means.training, *means.original):
        check_lengths(corpus.utterances, minimum, "an attacker")


def _speakers(found: list[TrialSet]) -> set[str]:
    """Return all who are enrolled or heard in the trials."""
    return {speaker for trial_set in found for speaker in (*trial_set.enrollment, *trial_set.speaker_of.values())}


def _attack(
    one: Attacker, found: list[TrialSet], means: Means, out: Path | None, resamples: int, seed: int
) -> tuple[list[Row], list[tuple[TrialSet, Floats]]]:
    """The rows of one attacker, and the scores behind them."""
    rows, scored = [], []
    for condition in dict.fromkeys(c for trial_set in found for c in _conditions(one, trial_set)):
        for trial_set in found:
            if condition not in _conditions(one, trial_set):
                continue
            scores = one.scores(trial_set, condition, means)
            trials = ScoredTrials.of_trials(trial_set.trials, scores, trial_set.speaker_of)
            path = None
            if out is not None:
                path = out / _file_name(one.name) / f"{trial_set.name}.{condition}.scores"
                write_scores(path, trial_set.trials, scores)
            value = estimate(trials, "eer", resamples=resamples, seed=seed)
            knowledge = _conditions(one, trial_set)[condition]
            place = (one.name, knowledge, condition, trial_set.name, trial_set.gender)
            rows.append(Row(*place, value, len(scores), one.backend, one.llr, path))
            scored.append((trial_set, scores))
    return rows, scored


def _diagnose(
    one: Attacker, rows: list[Row], scored: list[tuple[TrialSet, Floats]], found: list[TrialSet], means: Means
) -> Health:
    control = float(np.mean([control_eer(trial_set, scores) for trial_set, scores in scored]))
    original = lazy = None
    if isinstance(one, EncoderAttacker | AdaptedAttacker | InversionAttacker):
        plain = one if isinstance(one, EncoderAttacker) else EncoderAttacker(one.encoder)
        original = _mean_eer(plain, found, "oo", means)
        if isinstance(one, AdaptedAttacker):
            lazy = _mean_eer(plain, found, "aa", means)
    own = [row.eer.value for row in rows if row.condition == "aa"]
    return diagnose(one, original, control, lazy, float(np.mean(own)) if own else None)


def _mean_eer(one: EncoderAttacker, found: list[TrialSet], condition: Condition, means: Means) -> float:
    """The mean over the sets; the embeddings are in the cache, or are needed anyway."""
    rates = []
    for trial_set in found:
        scores = one.scores(trial_set, condition, means)
        rates.append(metrics.eer(scores[trial_set.trials.target], scores[~trial_set.trials.target]))
    return float(np.mean(rates))


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
