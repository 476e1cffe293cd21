"""The attack: find the sets, check all input, let each attacker score each set, compute EERs, diagnose the attackers.

Conventions: rates are fractions. See :mod:`voiceveil.attack.attacker` for conditions and knowledge.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil import metrics
from voiceveil.attack.attacker import Attacker, Health, Knowledge, TrainingSpeech
from voiceveil.attack.checks import check_sets, check_training_speakers, check_trials
from voiceveil.attack.embedding import write_scores
from voiceveil.attack.health import control_eer, diagnose
from voiceveil.attack.registry import Scoring, make_attackers
from voiceveil.attack.sets import CONDITIONS, Condition, TrialSet, check_lengths, find_sets
from voiceveil.core.checks import Check, check_lines, merged
from voiceveil.core.errors import InputError
from voiceveil.core.tables import Table, Tabular
from voiceveil.corpus import open_corpus
from voiceveil.metrics import ScoredTrials, estimate
from voiceveil.models.speaker.covariances import Floats
from voiceveil.run.context import RunContext
from voiceveil.run.executor import check_jobs
from voiceveil.stats import Estimate, average

__all__ = ["AttackOptions", "AttackRequest", "AttackResult", "AttackRow", "run"]


@dataclass(frozen=True)
class AttackRow:
    """The EER of one attacker on one set in one condition.

    Parameters
    ----------
    attacker, knowledge, condition : str
        Name of the attacker, its knowledge, and enrollment and trial: ``oo``, ``oa`` or ``aa``.
    set, gender : str
        Directory of the trials, and ``f``, ``m`` or "".
    eer : Estimate
        With its 95% interval over speakers.
    scored : ScoredTrials
        The trials with their scores.
    encoder : str
        Family of the speaker encoder, e.g. ``campplus``; "" without one.
    backend : str
        Back-end that computed the scores, e.g. ``cosine``.
    llr : bool
        True if scores are log-likelihood ratios, for which Cllr is defined.
    scores : Path, optional
        The score file.
    """

    attacker: str
    knowledge: Knowledge
    condition: Condition
    set: str
    gender: str
    eer: Estimate
    scored: ScoredTrials = field(compare=False, repr=False)
    encoder: str = ""
    backend: str = "cosine"
    llr: bool = False
    scores: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = {key: value for key, value in vars(self).items() if key not in ("eer", "scored", "scores")}
        files = {"scores": None if self.scores is None else str(self.scores)}
        return {**plain, "trials": self.trials, "eer": self.eer.as_dict(), **files}

    @property
    def trials(self) -> int:
        """Number of trials."""
        return len(self.scored.score)


@dataclass(frozen=True)
class AttackResult(Tabular):
    """All rows, the health of each attacker, the wall-clock seconds, and the checks that failed; prints a table."""

    rows: tuple[AttackRow, ...]
    health: tuple[Health, ...]
    seconds: float = 0.0
    checks: tuple[Check, ...] = ()

    def mean(self, attacker: str, condition: Condition) -> Estimate:
        """Return the mean EER over the sets, e.g. of women and men."""
        eers = [row.eer for row in self.rows if (row.attacker, row.condition) == (attacker, condition)]
        if not eers:
            raise InputError(f"no result of {attacker} in the condition {condition}")
        return average(eers)

    @property
    def strongest(self) -> tuple[str, Condition] | None:
        """Attacker and condition with the lowest mean EER on anonymized speech; None if there are no such rows.

        Attackers that use metadata alone do not count: the order of files is no property of the speech.
        """
        counted = [row for row in self.rows if row.condition != "oo" and row.knowledge != "metadata"]
        pairs = dict.fromkeys((row.attacker, row.condition) for row in counted)
        return min(pairs, key=lambda pair: self.mean(*pair).value, default=None)

    def records(self) -> list[dict[str, Any]]:
        """Return one record per row; the EER and the ends of its 95% interval are fractions."""
        plain = [row.as_dict() for row in self.rows]
        return [
            {**row, "eer": row["eer"]["value"], "eer_low": row["eer"]["low"], "eer_high": row["eer"]["high"]}
            for row in plain
        ]

    def table(self) -> Table:
        """Return the rows, with the health of each attacker and the strongest one below."""
        rows = [
            (row.attacker, row.knowledge, row.condition, row.backend, row.set, row.gender, f"{row.eer}")
            for row in self.rows
        ]
        notes = ["", "attackers' health", *(line for health in self.health for line in health.lines())]
        if (best := self.strongest) is not None:
            notes += ["", f"strongest attacker: {best[0]} ({best[1]}), EER {self.mean(*best)} over the sets"]
        if self.checks:
            notes += ["", *check_lines(self.checks)]
        columns = ("attacker", "knowledge", "condition", "scores", "set", "gender", "EER [95% interval]")
        return Table(columns, tuple(rows), tuple(notes))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        best = self.strongest
        return {
            "rows": [row.as_dict() for row in self.rows],
            "health": [health.as_dict() for health in self.health],
            "strongest": None
            if best is None
            else {"attacker": best[0], "condition": best[1], "eer": self.mean(*best).as_dict()},
            "checks": [check.as_dict() for check in self.checks],
            "seconds": self.seconds,
        }


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
    resamples, seed : int
        Of the bootstrap.
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
    attackers = make_attackers(request.attackers, scoring=options.scoring, similar=options.similar)
    anon_data = None if options.anon_data is None else Path(options.anon_data)
    sets = find_sets(request.data, anon=request.anon, names=request.sets, anon_data=anon_data)
    training = TrainingSpeech(
        *(tuple(open_corpus(source) for source in side) for side in (request.train, options.train_original))
    )
    _check_input(attackers, sets, options.conditions, training)
    rows, health = [], []
    checks = check_sets(sets, training.corpora, context.cache)
    for attacker in attackers:
        attacker.fit(training, context)
        scored = _score(attacker, sets, options.conditions, context)
        new = [_row(attacker, entry, out, options) for entry in scored]
        own = [row.eer.value for row in new if row.condition == "aa"]
        rows += new
        health.append(_diagnose(attacker, float(np.mean(own)) if own else None, scored, training, context))
        checks += _check_scores(attacker, scored, sets)
    return AttackResult(tuple(rows), tuple(health), time.monotonic() - start, merged(checks))


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
            raise InputError(f"training-speakers-in-test: {shared}", where=corpus.root, fix="train on other speakers")
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
                scores = attacker.score(trial_set, condition, context)
                scored.append(_Scored(trial_set, condition, knowledge, scores))
    return scored


def _row(attacker: Attacker, scored: _Scored, out: Path | None, options: AttackOptions) -> AttackRow:
    """Write the score file, and return the row with the EER and its interval."""
    trial_set = scored.trial_set
    path = None
    if out is not None:
        path = out / _file_name(attacker.name) / f"{trial_set.name}.{scored.condition}.scores"
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
