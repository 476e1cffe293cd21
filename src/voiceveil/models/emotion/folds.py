"""Who is held out when: the folds of an emotion recognition experiment, checked before any work.

Conventions: a fold is a set of speakers that are judged by a recognizer which has heard none of them: the sessions of
IEMOCAP in the VoicePrivacy 2024 Challenge (evaluation plan, Table 2), a single speaker where a corpus names no folds.
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
    """Which fold judges what: utterance id -> ``emotion``, ``fold`` and ``speaker``, of the original corpus."""

    emotion: Mapping[str, str]
    fold: Mapping[str, str]
    speaker: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """The folds, sorted."""
        return tuple(sorted(set(self.fold.values())))

    @property
    def emotions(self) -> tuple[str, ...]:
        """The classes, sorted."""
        return tuple(sorted(set(self.emotion.values())))


def emotion_folds(corpus: Corpus, emotions: Iterable[str] | None = EMOTIONS) -> EmotionFolds:
    """Leave-one-session-out if the corpus has folds, else leave-one-speaker-out; of utterances with these emotions.

    ``None`` takes all emotions of the corpus. Faults that would spoil the evaluation are found here, before any work.
    """
    used = [u for u in corpus if u.emotion is not None and (emotions is None or u.emotion in set(emotions))]
    wanted = {u.emotion for u in used} if emotions is None else set(emotions)
    if not any(u.emotion for u in corpus):
        fix = "give a Kaldi directory with utt2emo, a manifest with a column `emotion`, or iemocap:PATH"
        raise InputError("the corpus has no emotion labels", where=corpus.root, fix=fix)
    if len(wanted) < 2:
        raise InputError(f"recognition needs two emotions or more, not {sorted(map(str, wanted))}", where=corpus.root)
    if absent := sorted(map(str, wanted - {u.emotion for u in used})):
        has = ", ".join(sorted({u.emotion for u in corpus if u.emotion}))
        what = f"no utterance has the emotion {' or '.join(absent)}; there are {has}"
        raise InputError(what, where=corpus.root, fix="name the emotions to tell apart")
    folds = EmotionFolds({u.id: str(u.emotion) for u in used}, _fold_of(used, corpus), _speaker_of(used, corpus))
    _check_folds(folds, corpus)
    return folds


def _speaker_of(used: Sequence[Utterance], corpus: Corpus) -> dict[str, str]:
    for u in used:
        if u.speaker is None:
            raise InputError(f"utterance {u.id} has no speaker", where=corpus.root, fix="write utt2spk")
    return {u.id: str(u.speaker) for u in used}


def _fold_of(used: Sequence[Utterance], corpus: Corpus) -> dict[str, str]:
    without = [u for u in used if u.fold is None]
    if len(without) == len(used):
        return _speaker_of(used, corpus)
    if without:
        what = f"{len(without)} of {len(used)} utterances have no fold, e.g. {without[0].id}"
        raise InputError(what, where=corpus.root, fix="name a fold for every speaker, or for none: then each is one")
    return {u.id: str(u.fold) for u in used}


def _check_folds(folds: EmotionFolds, corpus: Corpus) -> None:
    if len(folds.names) < 2:
        what = f"cross-validation needs two folds or more, not {len(folds.names)}"
        raise InputError(what, where=corpus.root, fix="use a corpus of at least two speakers or sessions")
    home: dict[str, str] = {}
    for name, speaker in folds.speaker.items():
        if home.setdefault(speaker, folds.fold[name]) != folds.fold[name]:
            what = f"speaker {speaker} is in the folds {home[speaker]} and {folds.fold[name]}"
            raise InputError(what, where=corpus.root, fix="a speaker must be held out as a whole")
    for held_out in folds.names:
        known = {folds.emotion[name] for name, fold in folds.fold.items() if fold != held_out}
        if lacking := sorted(set(folds.emotions) - known):
            what = f"without fold {held_out} there is no {lacking[0]} to learn from"
            raise InputError(what, where=corpus.root, fix="leave that emotion out, or add speakers who have it")
