"""Write the metadata of a corpus in one of the formats that ``open_corpus`` reads. The audio stays where it is."""

from __future__ import annotations

from pathlib import Path

from voiceveil.corpus.kaldi import write_kaldi
from voiceveil.corpus.manifest import write_manifest
from voiceveil.corpus.model import Corpus
from voiceveil.errors import InputError

__all__ = ["FORMATS", "write_corpus"]

FORMATS = ("kaldi", "csv", "jsonl", "lhotse")


def write_corpus(corpus: Corpus, out: Path, to: str) -> list[Path]:
    """Write ``corpus``: kaldi and lhotse into the directory ``out``, csv and jsonl into the file ``out``."""
    if to == "kaldi":
        if (out / "wav.scp").exists() and corpus.root is not None and out.resolve() == corpus.root.resolve():
            raise InputError("this is the directory that is read", where=out, fix="name another one")
        write_kaldi(corpus, out)
        return [out]
    if to == "lhotse":
        from voiceveil.corpus.lhotse import write_lhotse

        return write_lhotse(corpus, out)
    if to not in FORMATS or out.suffix.lower() != f".{to}":
        raise InputError(f"cannot write {out.name} as {to}", where=out, fix=f"name the file {out.stem}.{to}")
    write_manifest(corpus, out)
    return [out]
