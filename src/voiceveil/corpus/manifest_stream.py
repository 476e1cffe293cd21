"""Stream a manifest: it is read again in every pass, so that memory does not grow with its length.

Batches use it like a :class:`~voiceveil.corpus.model.Corpus`. A manifest that changes between two passes is an
``InputError``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from voiceveil.core.diskdict import DiskDict
from voiceveil.core.errors import InputError
from voiceveil.core.files import file_stamp
from voiceveil.corpus.faults import strict
from voiceveil.corpus.manifest import listed, read_trials, twice
from voiceveil.corpus.model import CorpusLike, Trials, Utterance
from voiceveil.corpus.readers import find_reader, open_corpus

__all__ = ["ManifestStream", "stream_corpus"]


def stream_corpus(spec: str | Path) -> CorpusLike:
    """Return a corpus as ``open_corpus`` does, but stream ``.csv`` and ``.jsonl`` manifests instead of loading them."""
    name, path = find_reader(spec)
    return stream_manifest(path) if name == "manifest" else open_corpus(spec)


@dataclass(frozen=True)
class ManifestStream:
    """The utterances of a ``.csv`` or ``.jsonl`` manifest, read again in every pass; see :func:`stream_corpus`."""

    path: Path
    stamp: str  # of the file, when it was counted
    count: int | None  # None: not counted yet
    trials: Trials | None
    keep: Callable[[Utterance], bool] | None = None
    kind: str = "manifest"

    @property
    def name(self) -> str:
        """The name of the file, without its suffix."""
        return self.path.stem

    @property
    def root(self) -> Path:
        """The folder of the file."""
        return self.path.parent

    def __len__(self) -> int:
        return sum(1 for _ in self) if self.count is None else self.count

    def __iter__(self) -> Iterator[Utterance]:
        if _stamp(self.path) != self.stamp:
            raise InputError("changed during the run", where=self.path, fix="run the same command again")
        keep = self.keep
        return (utterance for _, utterance in listed(self.path, strict) if keep is None or keep(utterance))

    def filter(self, keep: Callable[[Utterance], bool]) -> ManifestStream:
        """Return the utterances for which ``keep`` is true (it is called in every pass), with their trials."""
        filtered = replace(self, keep=keep, count=None)
        trials = self.trials
        if trials is not None:
            compared = set(trials.utterance.tolist())
            trials = trials[np.isin(trials.utterance, [u.id for u in filtered if u.id in compared])]
        return replace(filtered, trials=trials)


def stream_manifest(path: Path) -> ManifestStream:
    """Read all lines once, and return the stream; the first fault is raised."""
    first = _stamp(path)
    lines = DiskDict()
    for line, utterance in listed(path, strict):
        if utterance.id in lines:
            strict(twice(path, line, utterance, int(lines[utterance.id])))
        lines[utterance.id] = str(line)
    trials = path.with_suffix(".trials.csv")
    return ManifestStream(path, first, len(lines), read_trials(trials, strict) if os.path.lexists(trials) else None)


def _stamp(path: Path) -> str:
    try:
        return file_stamp(path.stat())
    except OSError as error:
        raise InputError("no such file", where=path) from error
