"""The data of a corpus: utterances, and the trials between speakers and utterances.

Conventions: times are in seconds; ids are unique in their corpus; nothing here opens an audio file.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.errors import InputError

__all__ = ["Corpus", "CorpusLike", "Trials", "Utterance", "UtteranceSource", "paused_collector"]


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance: an audio file (or ``duration`` seconds of it from ``start``) and its metadata."""

    id: str
    path: Path
    speaker: str | None = None
    gender: str | None = None  # "f" | "m"
    text: str | None = None
    emotion: str | None = None
    role: str = ""  # "enroll" | "trial" | "train" | ""
    fold: str | None = None
    phrase: str | None = None
    subset: str | None = None  # a part that the corpus itself defines, e.g. "common" of VCTK
    start: float = 0.0
    duration: float | None = None  # None: to the end of the file
    seconds: float | None = None  # the length that the corpus states (utt2dur): it informs, it does not cut

    @property
    def length(self) -> float | None:
        """The length in seconds that the metadata state, or None."""
        return self.seconds if self.duration is None else self.duration

    @property
    def is_segment(self) -> bool:
        """True if the utterance is a part of its file."""
        return self.start > 0 or self.duration is not None


@dataclass(frozen=True, eq=False)
class Trials:
    """Pairs to compare, in the order of their file, as arrays of shape (n,).

    Parameters
    ----------
    enroll
        Ids of the enrolled speakers.
    utterance
        Ids of the trial utterances.
    target
        Whether both are the same speaker.
    """

    enroll: NDArray[np.str_]
    utterance: NDArray[np.str_]
    target: NDArray[np.bool_]

    def __post_init__(self) -> None:
        columns: dict[str, tuple[ArrayLike, type]] = {
            "enroll": (self.enroll, np.str_),
            "utterance": (self.utterance, np.str_),
            "target": (self.target, np.bool_),
        }
        for name, (values, dtype) in columns.items():
            object.__setattr__(self, name, np.asarray(values, dtype=dtype))
        if not self.enroll.shape == self.utterance.shape == self.target.shape == (len(self),):
            raise InputError("the columns of a trial list must be equally long")

    def __len__(self) -> int:
        return len(self.target)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trials):
            return NotImplemented
        return (
            np.array_equal(self.enroll, other.enroll)
            and np.array_equal(self.utterance, other.utterance)
            and np.array_equal(self.target, other.target)
        )

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: NDArray[np.bool_] | NDArray[np.integer] | slice) -> Trials:
        return Trials(self.enroll[index], self.utterance[index], self.target[index])


class UtteranceSource(Protocol):
    """Utterances that can be iterated over several times, with their trials."""

    @property
    def trials(self) -> Trials | None:
        """See :class:`Corpus`."""
        ...

    def __iter__(self) -> Iterator[Utterance]: ...


class CorpusLike(UtteranceSource, Protocol):
    """The part of the interface of :class:`Corpus` that batches need; its utterances need not be in memory."""

    @property
    def name(self) -> str:
        """See :class:`Corpus`."""
        ...

    @property
    def kind(self) -> str:
        """See :class:`Corpus`."""
        ...

    @property
    def root(self) -> Path | None:
        """See :class:`Corpus`."""
        ...

    def __len__(self) -> int: ...

    def filter(self, keep: Callable[[Utterance], bool]) -> CorpusLike:
        """Return the utterances for which ``keep`` is true, with their trials."""
        ...


@dataclass(frozen=True)
class Corpus:
    """Utterances in the order of their source, with the trials that belong to them."""

    name: str
    utterances: tuple[Utterance, ...]
    trials: Trials | None = None
    kind: str = "folder"
    root: Path | None = None  # the folder that relative output paths are taken from

    def __post_init__(self) -> None:
        if len(self.by_id) != len(self.utterances):
            duplicates = [key for key, count in Counter(u.id for u in self.utterances).items() if count > 1]
            raise InputError(
                f"{len(duplicates)} utterance id(s) are not unique, e.g. {duplicates[0]!r}", where=self.root
            )
        if "" in self.by_id:
            raise InputError("an utterance has an empty id", where=self.by_id[""].path)

    def __len__(self) -> int:
        return len(self.utterances)

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self.utterances)

    def __getitem__(self, key: str) -> Utterance:
        return self.by_id[key]

    def __contains__(self, key: object) -> bool:
        return key in self.by_id

    @cached_property
    def by_id(self) -> dict[str, Utterance]:
        """Utterance id -> utterance."""
        return {utterance.id: utterance for utterance in self.utterances}

    @cached_property
    def by_speaker(self) -> dict[str, tuple[Utterance, ...]]:
        """Speaker -> utterances; sorted by speaker, without utterances of unknown speakers."""
        groups: dict[str, list[Utterance]] = {}
        for utterance in self.utterances:
            if utterance.speaker is not None:
                groups.setdefault(utterance.speaker, []).append(utterance)
        return {speaker: tuple(groups[speaker]) for speaker in sorted(groups)}

    def speakers(self) -> tuple[str, ...]:
        """Return the speakers, sorted."""
        return tuple(self.by_speaker)

    def filter(self, keep: Callable[[Utterance], bool]) -> Corpus:
        """Return the utterances for which ``keep`` is true, with their trials.

        >>> women = corpus.filter(lambda utterance: utterance.gender == "f")  # doctest: +SKIP
        """
        utterances = tuple(utterance for utterance in self.utterances if keep(utterance))
        trials = self.trials
        if trials is not None:
            trials = trials[np.isin(trials.utterance, [utterance.id for utterance in utterances])]
        return replace(self, utterances=utterances, trials=trials)


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause garbage collection, which would traverse 100,000 new utterances again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
