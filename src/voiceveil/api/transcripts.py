"""Transcripts of recordings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voiceveil.audio import Waveform
from voiceveil.core.tables import Table, Tabular
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.models.asr import recognition
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.device import use_device
from voiceveil.run.executor import Jobs, check_jobs

__all__ = ["Transcripts", "transcribe"]


@dataclass(frozen=True)
class Transcripts(Tabular, Mapping[str, str]):
    """Utterance id -> transcript; prints the transcripts."""

    by_id: dict[str, str]

    def __getitem__(self, id: str) -> str:
        return self.by_id[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def text(self) -> str:
        """All transcripts, one per line."""
        return "\n".join(self.by_id.values())

    def records(self) -> list[dict[str, Any]]:
        """Return one record per utterance."""
        return [{"utterance": id, "text": text} for id, text in self.by_id.items()]

    def table(self) -> Table:
        """Return utterances and their transcripts."""
        return Table(("utterance", "text"), tuple(self.by_id.items()))


def transcribe(
    source: str | os.PathLike[str] | Waveform | Corpus,
    *,
    recognizer: str = "moonshine",
    jobs: Jobs = 1,
    device: str = "auto",
    cache: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Transcripts:
    """Recognize the words of a recording or a corpus.

    Parameters
    ----------
    source
        A recording, or a corpus as :func:`voiceveil.open_corpus` reads it.
    recognizer
        ``"moonshine"`` (English, installed with ``voiceveil[asr]``), ``"pocketsphinx"``, or a model, see
        :func:`voiceveil.models.recognizer`.
    jobs
        Number of processes, or an executor.
    device
        Where networks run: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
    cache
        SQLite file that keeps transcripts for the next call.
    progress
        Show progress on the standard error output.

    Returns
    -------
    Transcripts
        Utterance id -> transcript. A ``Waveform`` has the id ``"recording"``.

    Examples
    --------
    >>> vv.transcribe("interview.wav").text                       # doctest: +SKIP
    'The quick brown fox jumps over the lazy dog.'
    """
    check_jobs(jobs)
    model = recognition.recognizer(recognizer)
    if isinstance(source, Waveform):
        with use_device(device):
            return Transcripts({"recording": model(source.resampled(model.rate))})
    corpus = (
        source
        if isinstance(source, Corpus)
        else open_corpus(Path(source) if isinstance(source, os.PathLike) else source)
    )
    with closing(Cache(None if cache is None else Path(cache))) as store:
        return Transcripts(recognition.transcribe(corpus, model, RunContext(store, jobs, device, progress)))
