"""Summarize a corpus: counts of speakers, utterances and trials, and hours of speech."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from voiceveil.audio import info
from voiceveil.core.errors import InputError
from voiceveil.corpus.model import Corpus, Utterance

__all__ = ["CorpusSummary", "TrialCount", "set_sizes", "summarize"]


@dataclass(frozen=True)
class TrialCount:
    """The trials whose utterances are of speakers of one gender ("f", "m", or None if unknown)."""

    gender: str | None
    enroll_speakers: int
    utterances: int
    target: int
    nontarget: int


@dataclass(frozen=True)
class CorpusSummary:
    """Counts of a corpus; ``speakers`` by gender; ``hours`` is None if a length is neither stated nor readable."""

    name: str
    kind: str
    utterances: int
    speakers: dict[str, int]
    hours: float | None
    roles: dict[str, int]
    emotions: dict[str, int]
    subsets: dict[str, int]
    folds: dict[str, int]
    texts: int
    trials: tuple[TrialCount, ...]

    @property
    def speaker_count(self) -> int:
        """The number of speakers."""
        return sum(self.speakers.values())


def summarize(corpus: Corpus, *, audio: bool = True) -> CorpusSummary:
    """Return the counts of a corpus; lengths that are not stated are read from audio headers if ``audio`` is True."""
    genders = Counter(utterances[0].gender or "?" for utterances in corpus.by_speaker.values())
    return CorpusSummary(
        name=corpus.name,
        kind=corpus.kind,
        utterances=len(corpus),
        speakers=dict(sorted(genders.items())),
        hours=_hours(corpus, audio),
        roles=_counts(u.role for u in corpus),
        emotions=_counts(u.emotion for u in corpus),
        subsets=_counts(u.subset for u in corpus),
        folds=_counts(u.fold for u in corpus),
        texts=sum(u.text is not None for u in corpus),
        trials=_trials(corpus),
    )


def _counts(values: Iterable[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(value for value in values if value).items()))


def _hours(corpus: Corpus, audio: bool) -> float | None:
    lengths: dict[Path, float] = {}
    total = 0.0
    for utterance in corpus:
        length = utterance.length
        if length is None and audio:
            length = _read_length(utterance, lengths)
        if length is None:
            return None
        total += length
    return total / 3600


def _read_length(utterance: Utterance, lengths: dict[Path, float]) -> float | None:
    try:
        if utterance.path not in lengths:
            lengths[utterance.path] = info(utterance.path).duration
    except InputError:
        return None
    return lengths[utterance.path] - utterance.start


def _trials(corpus: Corpus) -> tuple[TrialCount, ...]:
    """Return one row for each gender of the trial speakers."""
    if corpus.trials is None:
        return ()
    trials = corpus.trials
    rows: dict[str | None, list[tuple[str, str, bool]]] = {}
    columns = zip(trials.enroll.tolist(), trials.utterance.tolist(), trials.target.tolist(), strict=True)
    for speaker, key, target in columns:
        gender = corpus[key].gender if key in corpus else None
        rows.setdefault(gender, []).append((speaker, key, target))
    return tuple(
        TrialCount(
            gender,
            len({speaker for speaker, _, _ in counts}),
            len({key for _, key, _ in counts}),
            sum(target for _, _, target in counts),
            sum(not target for _, _, target in counts),
        )
        for gender, counts in sorted(rows.items(), key=lambda row: row[0] or "~")
    )


def set_sizes(corpus: Corpus) -> str:
    """Return the numbers of speakers, utterances and trials of a set as a phrase."""
    text = f"{len(corpus.by_speaker)} speakers, {len(corpus)} utterances"
    if corpus.trials is None:
        return text
    target = int(corpus.trials.target.sum())
    return f"{text}, {target} target and {len(corpus.trials) - target} nontarget trials"
