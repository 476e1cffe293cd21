"""Verification of a submission: its audio is attacked and transcribed again, and the figures are compared.

Conventions: rates are fractions. Attackers compare anonymized enrollment with anonymized trials (condition ``aa``) by
cosines; of several attackers the one with the lowest EER counts. With a sample, submitted and recomputed figures are
both of the trials and transcripts of the sampled utterances.

UAR and pitch correlation are computed where the ranking needs them, see :mod:`voiceveil.apps.board.utility`.

A submitted figure differs if it is better than the recomputed one (a higher EER or UAR, a lower WER) by more than the
tolerance beyond the 95% interval. Figures that are worse than the recomputed ones are accepted.

Enrollment audio counts for the EER alone: a team that sends other words, noise or other speakers as enrollment would
raise the EER and keep the WER. Hence some of it is transcribed as well, and its WER must not be far above that of the
trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from voiceveil.apps.board.contest import Contest
from voiceveil.apps.board.leaderboard import lowest_pitch
from voiceveil.apps.board.lists import contest_attackers, open_set, parts_of, training_sets
from voiceveil.apps.board.scoring import eer_figure, in_sample, select, wer_figure
from voiceveil.apps.board.utility import check_emotion_model, emotion_figures, pitch_figures
from voiceveil.attack import TrainingSpeech
from voiceveil.attack.checks import check_audio
from voiceveil.attack.embedding import embed_raw
from voiceveil.attack.sets import TrialSet, find_sets
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance
from voiceveil.evaluation.averages import Average
from voiceveil.evaluation.ranking import rank_systems
from voiceveil.evaluation.results import Figure, Results
from voiceveil.metrics.catalog import metric_info
from voiceveil.metrics.wer import word_errors
from voiceveil.models import recognizer, transcribe
from voiceveil.models.asr.text_normalization import plain_words
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

__all__ = [
    "AudioRejected",
    "VerificationOutcome",
    "averages",
    "check_models",
    "compare",
    "draw_sample",
    "recompute",
    "reject_degenerate",
]

_CHECKED = 48  # utterances of each set whose audio is checked
_CHUNK = 8  # utterances between two reports of progress
_MAX_EXCESS_WER = 0.25  # of enrollment utterances over that of the trials

Report = Callable[[float], None]


class AudioRejected(InputError):
    """The audio of a submission is not anonymized speech of the challenge."""


@dataclass(frozen=True)
class VerificationOutcome:
    """The result of a verification; ``reason`` says how figures differ, why audio is rejected, or what failed."""

    state: Literal["verified", "differs", "rejected", "failed"]
    reason: str = ""
    figures: tuple[Figure, ...] = ()


def check_models(contest: Contest) -> None:
    """Raise an ``InputError`` if an attacker or the recognizer of the contest cannot be used here."""
    for attacker in contest_attackers(contest):
        attacker.check()
    recognizer(contest.recognizer)
    check_emotion_model(contest)


def draw_sample(contest: Contest, digest: Callable[..., bytes], submission: str) -> dict[str, frozenset[str]]:
    """Return set -> ids of the utterances that are verified.

    A trial list gets more utterances than the contest says if those would leave it without target or nontarget trials.

    Parameters
    ----------
    contest
        Rules and data.
    digest
        Keyed hash (:meth:`~voiceveil.apps.web.tokens.Seal.digest`): the sample cannot be predicted without the key.
    submission
        Id of the submission.
    """
    verifications, recognitions = parts_of(contest)
    names = [name for part in verifications for name in (part.enroll, *(trials.set for trials in part.trials))]
    names += [name for part in recognitions for name in part.sets]
    sample = {}
    for name in dict.fromkeys(names):
        corpus = open_set(contest.data / name)
        order = sorted((u.id for u in corpus), key=lambda key: digest("verification sample", submission, name, key))
        count = len(order) if contest.verify == "all" else min(int(contest.verify), len(order))
        while corpus.trials is not None and count < len(order) and not _has_both(corpus.trials, order[:count]):
            count += 1
        sample[name] = frozenset(order[:count])
    return sample


def _has_both(trials: Trials, utterances: Sequence[str]) -> bool:
    chosen = set(utterances)
    labels = {bool(t) for key, t in zip(trials.utterance.tolist(), trials.target, strict=True) if key in chosen}
    return len(labels) == 2


class _Progress:
    """Counts the utterances that are done, and reports the share of all."""

    def __init__(self, total: int, report: Report) -> None:
        self._total, self._done, self._report = total, 0, report

    def each(self, utterances: Sequence[Utterance]) -> Iterator[Sequence[Utterance]]:
        """Yield the utterances in short chunks, and report after each."""
        for start in range(0, len(utterances), _CHUNK):
            chunk = utterances[start : start + _CHUNK]
            yield chunk
            self._done += len(chunk)
            self._report(self._done / self._total)


def reject_degenerate(
    contest: Contest, audio: Mapping[str, Corpus], digest: Callable[..., bytes], submission: str, cache: Cache
) -> None:
    """Raise ``AudioRejected`` if audio is silent, noise, the original, or the same for several utterances.

    Of each set 48 utterances are checked, drawn with ``digest`` as in :func:`draw_sample`.
    """
    for name, corpus in audio.items():
        order = sorted((u.id for u in corpus), key=lambda key: digest("audio checks", submission, name, key))
        chosen = order[:_CHECKED]
        original = open_set(contest.data / name)
        for check in check_audio({k: corpus[k] for k in chosen}, {k: original[k] for k in chosen}, cache, where=name):
            raise AudioRejected(f"{check.title}. {check.seen}".rstrip("."))


def recompute(
    contest: Contest, audio: Mapping[str, Corpus], sample: Mapping[str, frozenset[str]], cache: Cache, report: Report
) -> tuple[Figure, ...]:
    """Attack and transcribe the anonymized audio of a submission, and return the figures.

    Parameters
    ----------
    contest
        Rules and data.
    audio
        Set -> its anonymized speech.
    sample
        Set -> ids of the utterances that count, see :func:`draw_sample`.
    cache
        Results of models that need not be computed again.
    report
        Called with the progress, from 0 to 1.

    Raises
    ------
    AudioRejected
        If enrollment audio does not hold the words of its utterances.
    """
    verifications, recognitions = parts_of(contest)
    attacked = _attacked(contest, audio, sample)
    attackers = contest_attackers(contest)
    training = TrainingSpeech(tuple(audio[name] for name in training_sets(contest)))
    context = RunContext(cache)
    compared = [u for trial_set in attacked.values() for side in trial_set.speech("aa") for u in side]
    compared = _unique((*compared, *(u for corpus in training.anonymized for u in corpus)))
    spoken = _unique(u for part in recognitions for name in part.sets for u in audio[name] if u.id in sample[name])
    enrolled = _unique(
        u for part in verifications for u in audio[part.enroll] if u.id in sample[part.enroll] and u.text
    )
    progress = _Progress(len(attackers) * len(compared) + len(spoken) + len(enrolled), report)
    by_attacker = []
    for attacker in attackers:
        attacker.check()
        attacker.check_training(training)
        assert attacker.encoder is not None  # noqa: S101 -- contest_attackers allows no other
        for chunk in progress.each(compared):
            embed_raw(chunk, attacker.encoder, context)  # into the cache
        attacker.fit(training, context)
        eers = []
        for part in verifications:
            for listed in part.trials:
                scores = attacker.score(attacked[listed.set], "aa", context)
                fields = {"attacker": attacker.name, "knowledge": attacker.conditions()["aa"]}
                eers.append(eer_figure(contest, part, listed, attacked[listed.set].trials, scores, fields))
        by_attacker.append(eers)
    asr = recognizer(contest.recognizer)
    transcripts: dict[str, str] = {}
    for chunk in progress.each(_unique((*spoken, *enrolled))):
        recognized = transcribe(chunk, asr, context)
        transcripts |= {key: plain_words(words) for key, words in recognized.items()}
    words = [wer_figure(contest, part, transcripts, contest.recognizer, sample) for part in recognitions]
    _check_enrollment(enrolled, transcripts, max(figure.value for figure in words))
    utility = [*words, *emotion_figures(contest, audio, context), *pitch_figures(contest, audio, sample, context)]
    return min(((*eers, *utility) for eers in by_attacker), key=lambda figures: averages(contest, figures)["eer"].value)


def _attacked(
    contest: Contest, audio: Mapping[str, Corpus], sample: Mapping[str, frozenset[str]]
) -> dict[str, TrialSet]:
    """Return set -> its trials of sampled utterances, with the original and the anonymized speech of both sides."""
    enroll_of = {trials.set: trial_set.enroll for trial_set in parts_of(contest)[0] for trials in trial_set.trials}
    opened = {name: open_set(contest.data / name) for name in (*enroll_of, *enroll_of.values())}
    attacked = {}
    for trial_set in find_sets(contest.data, names=enroll_of, opened=opened):
        trials = select(trial_set.trials, in_sample(trial_set.trials, sample[trial_set.name]))
        speakers = set(trials.enroll.tolist())
        attacked[trial_set.name] = replace(
            trial_set,
            trials=trials,
            enrollment={speaker: ids for speaker, ids in trial_set.enrollment.items() if speaker in speakers},
            speaker_of={key: speaker for key, speaker in trial_set.speaker_of.items() if key in sample[trial_set.name]},
            anonymized=(audio[enroll_of[trial_set.name]], audio[trial_set.name]),
        )
    return attacked


def _unique(utterances: Iterable[Utterance]) -> list[Utterance]:
    """Return the utterances, each once, by id."""
    return list({u.id: u for u in utterances}.values())


def _check_enrollment(enrolled: Sequence[Utterance], transcripts: Mapping[str, str], trial_wer: float) -> None:
    """Raise ``AudioRejected`` if enrollment audio does not hold the words of its utterances."""
    if not enrolled:
        return
    refs = {u.id: u.text or "" for u in enrolled}
    rate = word_errors(refs, {key: transcripts[key] for key in refs}, normalize=True).wer
    if rate > trial_wer + _MAX_EXCESS_WER:
        problem = (
            f"the enrollment audio does not hold the words of its utterances: WER {rate:.1%}, {trial_wer:.1%} on trials"
        )
        raise AudioRejected(
            problem, fix="anonymize enrollment and trials with the same system, each utterance under its own id"
        )


def averages(contest: Contest, figures: Sequence[Figure]) -> dict[str, Average]:
    """Return metric -> the average that the challenge ranks by: of the EER, and of the utility metrics that are there.

    A pitch correlation is there if the challenge asks for a minimum: then it is the lowest of all sets.
    """
    results = Results("submission", contest.rules.name, tuple(figures))
    standing = rank_systems([results], contest.rules, split=contest.split).standings[0]
    shown = {"eer": standing.eer, **standing.utility}
    lowest = lowest_pitch(figures)
    if lowest is not None:
        shown.setdefault("pitch_correlation", Average(lowest.value, lowest.low, lowest.high))
    return shown


def compare(contest: Contest, submitted: Sequence[Figure], recomputed: Sequence[Figure]) -> VerificationOutcome:
    """Compare submitted figures with those that were recomputed from the same utterances."""
    claimed, computed = (averages(contest, figures) for figures in (submitted, recomputed))
    differences = []
    for metric in claimed:
        if metric in computed and _is_better(metric, claimed[metric], computed[metric], contest.tolerance):
            info = metric_info(metric)
            texts = (
                f"{a.value:.1%}" if info.unit == "%" else f"{a.value:.2f}" for a in (claimed[metric], computed[metric])
            )
            differences.append(f"submitted {info.title} {next(texts)}, recomputed {next(texts)}")
    state: Literal["verified", "differs"] = "differs" if differences else "verified"
    return VerificationOutcome(state, "; ".join(differences), tuple(recomputed))


def _is_better(metric: str, claimed: Average, computed: Average, tolerance: float) -> bool:
    """Return whether a claimed average is better than the 95% interval of the computed one and the tolerance."""
    if metric_info(metric).better == "higher":
        return claimed.value > (computed.value if computed.high is None else computed.high) + tolerance
    return claimed.value < (computed.value if computed.low is None else computed.low) - tolerance
