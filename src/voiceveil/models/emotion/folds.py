"""The folds of an emotion recognition experiment, checked before the work begins.

Conventions: a fold is a set of speakers that are tested with a recognizer trained on none of them: a session of IEMOCAP
in the VoicePrivacy 2024 Challenge (evaluation plan, Table 2), a single speaker where a corpus names no folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance

__all__ = ["EMOTIONS", "EmotionFolds", "emotion_folds"]

#: The four classes of the 2024 Challenge.
EMOTIONS = ("ang", "hap", "neu", "sad")


@dataclass(frozen=True)
class EmotionFolds:
    """Utterance id -> ``emotion``, ``fold`` and ``speaker``, of the original corpus."""

    emotion: Mapping[str, str]
    fold: Mapping[str, str]
    speaker: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the folds, sorted."""
        return tuple(sorted(set(self.fold.values())))

    @property
    def emotions(self) -> tuple[str, ...]:
        """Names of the emotions, sorted."""
        return tuple(sorted(set(self.emotion.values())))


def emotion_folds(corpus: Corpus, emotions: Iterable[str] | None = EMOTIONS) -> EmotionFolds:
    """Return the folds of a corpus: leave-one-session-out if it names folds, else leave-one-speaker-out.

    Parameters
    ----------
    corpus
        With emotions and speakers.
    emotions
        Utterances with other emotions are left out; None: all emotions of the corpus.

    Raises
    ------
    InputError
        If labels or folds do not allow an evaluation, e.g. because a speaker is in two folds.
    """
    used = [u for u in corpus if u.emotion is not None and (emotions is None or u.emotion in set(emotions))]
    wanted = {u.emotion for u in used} if emotions is None else set(emotions)
    if not any(u.emotion for u in corpus):
        fix = "give a Kaldi directory with utt2emo, a manifest with a column `emotion`, or iemocap:PATH"
        raise InputError("the corpus has no emotion labels", where=corpus.root, fix=fix)
    if len(wanted) < 2:
        problem = f"recognition needs two emotions or more, not {sorted(map(str, wanted))}"
        raise InputError(problem, where=corpus.root, fix="name at least two emotions")
    if absent := sorted(map(str, wanted - {u.emotion for u in used})):
        present = ", ".join(sorted({u.emotion for u in corpus if u.emotion}))
        problem = f"no utterance has the emotion {' or '.join(absent)}; the corpus has {present}"
        raise InputError(problem, where=corpus.root, fix="name the emotions to recognize")
    folds = EmotionFolds({u.id: str(u.emotion) for u in used}, _fold_of(used, corpus), _speaker_of(used, corpus))
    _check_folds(folds, corpus)
    return folds


def _speaker_of(used: Sequence[Utterance], corpus: Corpus) -> dict[str, str]:
    for u in used:
        if u.speaker is None:
            fix = "name its speaker, e.g. in utt2spk"
            raise InputError(f"utterance {u.id} has no speaker", where=corpus.root, fix=fix)
    return {u.id: str(u.speaker) for u in used}


def _fold_of(used: Sequence[Utterance], corpus: Corpus) -> dict[str, str]:
    without = [u for u in used if u.fold is None]
    if len(without) == len(used):
        return _speaker_of(used, corpus)
    if without:
        problem = f"{len(without)} of {len(used)} utterances have no fold, e.g. {without[0].id}"
        fix = "name a fold for every utterance, or for none: then each speaker is a fold"
        raise InputError(problem, where=corpus.root, fix=fix)
    return {u.id: str(u.fold) for u in used}


def _check_folds(folds: EmotionFolds, corpus: Corpus) -> None:
    if len(folds.names) < 2:
        problem = f"cross-validation needs two folds or more, not {len(folds.names)}"
        raise InputError(problem, where=corpus.root, fix="use a corpus of at least two speakers or sessions")
    fold_of: dict[str, str] = {}
    for name, speaker in folds.speaker.items():
        if fold_of.setdefault(speaker, folds.fold[name]) != folds.fold[name]:
            problem = f"speaker {speaker} is in the folds {fold_of[speaker]} and {folds.fold[name]}"
            raise InputError(problem, where=corpus.root, fix="put all utterances of a speaker into one fold")
    for held_out in folds.names:
        trained = {folds.emotion[name] for name, fold in folds.fold.items() if fold != held_out}
        if missing := sorted(set(folds.emotions) - trained):
            problem = f"without fold {held_out} there is no training data for the emotion {missing[0]}"
            raise InputError(problem, where=corpus.root, fix="leave that emotion out, or add speakers who have it")
