"""The attack: find the sets, check all input, let each attacker score each set, compute EERs, diagnose the attackers.

Conventions: rates are fractions. See :mod:`voiceveil.attack.attacker` for conditions and knowledge.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from voiceveil import metrics
from voiceveil.attack.attacker import Attacker, Health, Knowledge, TrainingSpeech
from voiceveil.attack.checks import check_sets, check_training_speakers, check_trials
from voiceveil.attack.embedding import write_scores
from voiceveil.attack.health import control_eer, diagnose
from voiceveil.attack.outcome import AttackResult, AttackRow
from voiceveil.attack.registry import Scoring, make_attackers
from voiceveil.attack.sets import CONDITIONS, Condition, TrialSet, check_lengths, find_sets
from voiceveil.attack.trial_design import Half, group_trials, mix_genders, single_utterances, take_half
from voiceveil.attack.work_estimate import describe_work
from voiceveil.core.checks import Check, merged
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.metrics import ScoredTrials, estimate
from voiceveil.metrics.speaker_rates import speaker_rates
from voiceveil.models.speaker.covariances import Floats
from voiceveil.run.context import RunContext
from voiceveil.run.executor import check_jobs

__all__ = ["AttackOptions", "AttackRequest", "run"]


@dataclass(frozen=True)
class AttackOptions:
    """Less common options of an attack.

    Parameters
    ----------
    anon_data : path, optional
        Folder of the anonymized directories, if it is not that of the original ones.
    conditions : sequence of {"oo", "oa", "aa"}
        Conditions to attack under; an attacker that has none of them is refused.
    scoring : {"cosine", "plda"}
        Back-end of named attackers. PLDA needs training speech of the kind that the encoder was trained on.
    train_original : sequence of paths
        Corpora of other speakers, with original speech, that attackers train on.
    similar : bool
        The anonymized training speech is of a similar system, not of the one that is attacked.
    from_enrollment : bool
        Back-ends that adapt also learn from the enrollment utterances of the attacked speakers, with their labels.
    trial_utterances : sequence of int
        Numbers of utterances, known to be of one person, in a trial: ``(1, 3, 5)`` also attacks with three and five.
    mixed : bool
        Also attack with all pairs of enrolled speakers and utterances of both genders.
    speakers : {"odd", "even"}, optional
        Attack only speakers with odd, or even, numbers in their ids; the others may be training speakers.
    resamples, seed : int
        Of the bootstrap; the seed also of the groups of utterances.
    cache : path, optional
        SQLite file that keeps embeddings, which are biometric data, for the next call.
    overwrite : bool
        Replace files in the output that no attack has written; never the data.
    progress : bool
        Show progress on the standard error output.
    """

    anon_data: str | Path | None = None
    conditions: Sequence[Condition] = CONDITIONS
    scoring: Scoring = "cosine"
    train_original: Sequence[str | Path] = ()
    similar: bool = False
    from_enrollment: bool = False
    trial_utterances: Sequence[int] = (1,)
    mixed: bool = False
    speakers: Half | None = None
    resamples: int = 1000
    seed: int = 0
    cache: str | Path | None = None
    overwrite: bool = False
    progress: bool = False


@dataclass(frozen=True)
class AttackRequest:
    """The speech of an attack and its attackers.

    Parameters
    ----------
    data : path
        Folder of Kaldi directories such as ``libri_dev_enrolls`` and ``libri_dev_trials_f``.
    anon : str, optional
        Suffix of the anonymized directories; None attacks the original speech alone.
    attackers : sequence of str or Attacker
        Names, see :mod:`voiceveil.attack.registry`, or attackers.
    sets : sequence of str or mapping, optional
        Directories of trials, the beginnings of their names, or trial set -> enrollment set; all by default.
    train : sequence of paths
        Corpora of other speakers, with anonymized speech, that attackers train on.
    options : AttackOptions
        Less common options; cache, overwrite and progress are those of :func:`voiceveil.attack`.
    """

    data: Path
    anon: str | None = None
    attackers: Sequence[str | Attacker] = ("campplus", "free")
    sets: Sequence[str] | Mapping[str, str] | None = None
    train: Sequence[str | Path] = ()
    options: AttackOptions = field(default_factory=AttackOptions)


def run(request: AttackRequest, context: RunContext, out: Path | None = None) -> AttackResult:
    """Attack the sets of a folder and return the EERs of each attacker.

    Parameters
    ----------
    request : AttackRequest
        Speech, attackers and options.
    context : RunContext
        Cache and processes. With more than one process, scripts need ``if __name__ == "__main__":``.
    out : path, optional
        Folder for the score files.

    Raises
    ------
    InputError
        If data, models or options cannot be used; found before the work begins.
    """
    start = time.monotonic()
    check_jobs(context.jobs)
    options = request.options
    attackers = make_attackers(
        request.attackers,
        scoring=options.scoring,
        similar=options.similar,
        from_enrollment=options.from_enrollment,
    )
    sets, training = _open(request)
    _check_input(attackers, sets, options.conditions, training)
    designed = _design(sets, options)
    if context.progress:
        print_lines(describe_work(attackers, sets, options.conditions, training, context), file=sys.stderr)
    rows, health = [], []
    checks = check_sets(sets, training.corpora, context.cache)
    for attacker in attackers:
        attacker.fit(training, context)
        scored = _score(attacker, designed, options.conditions, context)
        new = [_row(attacker, entry, out, options) for entry in scored]
        own = [row.eer.value for row in new if row.condition == "aa" and row.usual]
        rows += new
        usual = [entry for entry, row in zip(scored, new, strict=True) if row.usual]
        health.append(_diagnose(attacker, float(np.mean(own)) if own else None, usual, training, context))
        checks += _check_scores(attacker, usual, sets)
    seconds = time.monotonic() - start
    return AttackResult(tuple(rows), tuple(health), seconds, merged(checks), options.speakers or "")


def _open(request: AttackRequest) -> tuple[list[TrialSet], TrainingSpeech]:
    """Return the sets, or one half of their speakers, and the training speech."""
    options = request.options
    anon_data = None if options.anon_data is None else Path(options.anon_data)
    sets = find_sets(request.data, anon=request.anon, names=request.sets, anon_data=anon_data)
    training = TrainingSpeech(
        *(tuple(open_corpus(source) for source in side) for side in (request.train, options.train_original))
    )
    if options.speakers is None:
        return sets, training
    half = options.speakers
    sets = [take_half(trial_set, half) for trial_set in sets]
    attacked = _speakers(sets)

    def others(corpora: Sequence[Corpus]) -> tuple[Corpus, ...]:
        filtered = [corpus.filter(lambda utterance: utterance.speaker not in attacked) for corpus in corpora]
        return tuple(corpus for corpus in filtered if len(corpus))

    return sets, TrainingSpeech(others(training.anonymized), others(training.original))


def _design(sets: Sequence[TrialSet], options: AttackOptions) -> list[TrialSet]:
    """Return the sets as listed, then those with several utterances a trial and with both genders.

    Raises
    ------
    InputError
        If a number of utterances is wrong, or no set allows such trials.
    """
    sizes = list(dict.fromkeys([1, *options.trial_utterances]))
    wrong = [size for size in sizes if size < 1]
    if wrong:
        raise InputError(f"trials of {wrong[0]} utterances", fix="give numbers from 1 on: --trial-utterances 1,3,5")
    mixed = mix_genders(sets) if options.mixed else []
    if options.mixed and not mixed:
        raise InputError("no set has trials of women and of men", fix="leave out --trials mixed, or name both --sets")
    designed: list[TrialSet] = []
    for size in sizes:
        grouped = [group_trials(trial_set, size, seed=options.seed) for trial_set in (*sets, *mixed)]
        present = [trial_set for trial_set in grouped if trial_set is not None]
        if not present:
            raise InputError(f"no speaker has {size} trial utterances", fix="ask for fewer: --trial-utterances 1,2")
        designed += present
    return designed


@dataclass(frozen=True, eq=False)
class _Scored:
    """The scores (trials,) of one attacker on one set."""

    trial_set: TrialSet
    condition: Condition
    knowledge: Knowledge
    scores: Floats

    @property
    def trials(self) -> ScoredTrials:
        return ScoredTrials.of_trials(self.trial_set.trials, self.scores, self.trial_set.speaker_of)


def _conditions(attacker: Attacker, trial_set: TrialSet, allowed: Sequence[Condition]) -> dict[Condition, Knowledge]:
    """Return those conditions of an attacker that are allowed and possible with a set."""
    possible = attacker.conditions(anonymized=trial_set.anonymized is not None)
    return {condition: knowledge for condition, knowledge in possible.items() if condition in allowed}


def _check_input(
    attackers: Sequence[Attacker], sets: Sequence[TrialSet], allowed: Sequence[Condition], training: TrainingSpeech
) -> None:
    """Raise an ``InputError`` for anything that is wrong with the input, before the work begins."""
    for attacker in attackers:
        attacker.check()
        attacker.check_training(training)
        if not any(_conditions(attacker, trial_set, CONDITIONS) for trial_set in sets):
            raise InputError(f"the attacker {attacker.name} needs anonymized speech", fix="give its suffix with --anon")
        if not any(_conditions(attacker, trial_set, allowed) for trial_set in sets):
            own = ", ".join(attacker.conditions(anonymized=True))
            problem = f"the attacker {attacker.name} attacks under {own} only"
            raise InputError(problem, fix=f"leave it out, or allow more conditions than {', '.join(allowed)}")
    attacked = _speakers(sets)
    for corpus in training.corpora:
        both = sorted(attacked & set(corpus.speakers()))
        if both:
            shared = f"{len(both)} training speaker(s) are among those attacked, e.g. {both[0]}"
            fix = "train on other speakers, or attack one half and learn from the other: --speakers even"
            raise InputError(f"training-speakers-in-test: {shared}", where=corpus.root, fix=fix)
    minimum = max(attacker.minimum for attacker in attackers)
    for trial_set in sets:
        for condition in dict.fromkeys(c for attacker in attackers for c in _conditions(attacker, trial_set, allowed)):
            for side in trial_set.speech(condition):
                check_lengths(side, minimum, "an attacker")
    for corpus in training.corpora:
        check_lengths(corpus.utterances, minimum, "an attacker")


def _speakers(sets: Sequence[TrialSet]) -> set[str]:
    """Return all enrolled speakers and all speakers of trial utterances."""
    return {speaker for trial_set in sets for speaker in (*trial_set.enrollment, *trial_set.speaker_of.values())}


def _score(
    attacker: Attacker, sets: Sequence[TrialSet], allowed: Sequence[Condition], context: RunContext
) -> list[_Scored]:
    """Return the scores of an attacker, condition by condition."""
    scored = []
    for condition in dict.fromkeys(c for trial_set in sets for c in _conditions(attacker, trial_set, allowed)):
        for trial_set in sets:
            knowledge = _conditions(attacker, trial_set, allowed).get(condition)
            if knowledge is not None:
                scores = _trial_scores(attacker, trial_set, condition, context)
                scored.append(_Scored(trial_set, condition, knowledge, scores))
    return scored


def _trial_scores(attacker: Attacker, trial_set: TrialSet, condition: Condition, context: RunContext) -> Floats:
    """Return the scores (trials,); of several utterances the mean, unless the attacker compares them together."""
    if trial_set.size == 1 or attacker.scores_groups:
        return attacker.score(trial_set, condition, context)
    scores = attacker.score(single_utterances(trial_set), condition, context)
    return np.asarray(scores.reshape(-1, trial_set.size).mean(axis=1))


def _row(attacker: Attacker, scored: _Scored, out: Path | None, options: AttackOptions) -> AttackRow:
    """Write the score file, and return the row with the EER and its interval."""
    trial_set = scored.trial_set
    path = None
    if out is not None:
        size = f".{trial_set.size}-utterances" if trial_set.size > 1 else ""
        path = out / _file_name(attacker.name) / f"{trial_set.name}{size}.{scored.condition}.scores"
        write_scores(path, trial_set.trials, scored.scores)
    return AttackRow(
        attacker.name,
        scored.knowledge,
        scored.condition,
        trial_set.name,
        trial_set.gender,
        estimate(scored.trials, "eer", resamples=options.resamples, seed=options.seed),
        scored.trials,
        attacker.encoder_family,
        attacker.backend,
        attacker.llr,
        path,
        trial_set.size,
        trial_set.pairs,
        speaker_rates(scored.trials, trial_set.trials.utterance, resamples=min(options.resamples, 300)),
    )


def _diagnose(
    attacker: Attacker, eer: float | None, scored: Sequence[_Scored], training: TrainingSpeech, context: RunContext
) -> Health:
    """Compare an attacker, whose mean EER in the condition ``aa`` is given, with its reference and with chance."""
    control = float(np.mean([control_eer(entry.trial_set, entry.scores) for entry in scored]))
    reference = attacker.reference
    original = unadapted = None
    if reference is not None:
        sets = list({entry.trial_set.name: entry.trial_set for entry in scored}.values())
        reference.fit(training, context)
        original = _mean_eer(reference, sets, "oo", context)
        if reference is not attacker and eer is not None:
            unadapted = _mean_eer(reference, sets, "aa", context)
    return diagnose(attacker, control=control, original_eer=original, reference_eer=unadapted, eer=eer)


def _mean_eer(attacker: Attacker, sets: Sequence[TrialSet], condition: Condition, context: RunContext) -> float:
    """Return the mean EER over the sets; the embeddings are in the cache already, or are needed anyway."""
    rates = []
    for trial_set in sets:
        scores = attacker.score(trial_set, condition, context)
        rates.append(metrics.eer(scores[trial_set.trials.target], scores[~trial_set.trials.target]))
    return float(np.mean(rates))


def _check_scores(attacker: Attacker, scored: Sequence[_Scored], sets: Sequence[TrialSet]) -> list[Check]:
    """Return the failed checks of an attacker's training speakers and scores."""
    checks = []
    if attacker.encoder is not None:
        checks += check_training_speakers(attacker.name, attacker.encoder.training().speaker_ids, _speakers(sets))
    for entry in scored if attacker.scores_vary else ():
        where = f"{attacker.name}, {entry.condition}, {entry.trial_set.name}"
        checks += check_trials(entry.trials, where=where)
    return checks


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
