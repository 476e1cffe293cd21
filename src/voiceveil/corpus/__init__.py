"""Corpora: utterances with their metadata, readers and writers, checks, and the design of trials.

``open_corpus`` reads an audio file, a folder of audio, a Kaldi data directory, a ``.csv`` or ``.jsonl`` manifest, a
Lhotse manifest, or a named corpus (``"librispeech:/data/LibriSpeech/dev-clean"``). ``check`` lists the faults of
a corpus. A reader for another corpus is a function with the decorator ``@corpora.register("name")``.
"""

from __future__ import annotations

from voiceveil.corpus.checking import check
from voiceveil.corpus.faults import Fault
from voiceveil.corpus.kaldi import read_kaldi, write_kaldi
from voiceveil.corpus.manifest import read_manifest, write_manifest
from voiceveil.corpus.manifest_stream import stream_corpus
from voiceveil.corpus.model import Corpus, CorpusLike, Trials, Utterance
from voiceveil.corpus.readers import corpora, open_corpus

__all__ = [
    "Corpus",
    "CorpusLike",
    "Fault",
    "Trials",
    "Utterance",
    "check",
    "corpora",
    "open_corpus",
    "read_kaldi",
    "read_manifest",
    "stream_corpus",
    "write_kaldi",
    "write_manifest",
]
