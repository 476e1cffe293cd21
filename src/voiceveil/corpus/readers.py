"""Open a corpus: the registry of readers, and the choice of the reader for a path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from voiceveil.audio import AUDIO_SUFFIXES
from voiceveil.core.errors import InputError
from voiceveil.core.files import exists
from voiceveil.core.registry import Registry, did_you_mean
from voiceveil.corpus.faults import Report, strict
from voiceveil.corpus.model import Corpus

__all__ = ["Reader", "corpora", "find_reader", "open_corpus"]


class Reader(Protocol):
    """A function that reads a corpus from a path and calls ``report`` for each fault (``strict`` raises the first)."""

    def __call__(self, path: Path, report: Report = strict, /) -> Corpus:
        """Read what is at ``path``."""


corpora: Registry[Reader] = Registry(
    "corpus",
    group="voiceveil.corpora",
    modules=(
        "voiceveil.corpus.commonvoice",
        "voiceveil.corpus.deepmine",
        "voiceveil.corpus.folder",
        "voiceveil.corpus.iemocap",
        "voiceveil.corpus.kaldi",
        "voiceveil.corpus.lhotse",
        "voiceveil.corpus.librispeech",
        "voiceveil.corpus.libritts",
        "voiceveil.corpus.manifest",
        "voiceveil.corpus.vctk",
        "voiceveil.corpus.voxceleb",
    ),
)


def open_corpus(spec: str | Path) -> Corpus:
    """Read a corpus; no audio file is opened.

    Parameters
    ----------
    spec
        One of

        * an audio file, or a folder of audio (speaker = first sub-folder);
        * a Kaldi data directory (it has ``wav.scp``);
        * a ``.csv`` or ``.jsonl`` manifest, or a Lhotse manifest ``.jsonl.gz``;
        * ``"NAME:PATH"``: a named corpus as it is distributed, see :data:`corpora`.

    Returns
    -------
    Corpus
        Its utterances, with speakers, texts and labels as far as they are known.

    Raises
    ------
    InputError
        The first fault; :func:`voiceveil.corpus.check` lists all.

    Examples
    --------
    >>> import numpy as np, voiceveil as vv
    >>> sha256 = vv.save("recordings/ann/hello.wav", vv.Waveform(np.zeros(8000), 16000))
    >>> [(utterance.id, utterance.speaker) for utterance in vv.open_corpus("recordings")]
    [('ann/hello', 'ann')]
    """
    name, path = find_reader(spec)
    return corpora[name](path, strict)


def find_reader(spec: str | Path) -> tuple[str, Path]:
    """Return the name of the reader, and the path, for a path or ``NAME:PATH``."""
    path = Path(spec)
    if not exists(path):
        name, colon, rest = str(spec).partition(":")
        if not colon or len(name) == 1 or "/" in name:  # one letter: a drive
            raise InputError("no such file or folder", where=path)
        if name not in corpora:
            raise InputError(f"unknown corpus {name!r}", where=str(spec), fix=did_you_mean(name, list(corpora)))
        if not exists(rest):
            raise InputError("no such file or folder", where=rest)
        return name, Path(rest)
    if path.is_dir():
        return ("kaldi" if os.path.lexists(path / "wav.scp") else "folder"), path
    return _by_suffix(path), path


def _by_suffix(path: Path) -> str:
    name = path.name.lower()
    if name.endswith((".csv", ".jsonl")):
        return "manifest"
    if name.endswith(".jsonl.gz"):
        return "lhotse"
    if path.suffix.lower() in AUDIO_SUFFIXES:
        return "folder"
    if name == "wav.scp":
        raise InputError("a file of a Kaldi directory", where=path, fix=f"give the directory, {path.parent}")
    raise InputError(
        "not a corpus",
        where=path,
        fix="give audio, a folder, a Kaldi directory, or a .csv, .jsonl or .jsonl.gz manifest",
    )
