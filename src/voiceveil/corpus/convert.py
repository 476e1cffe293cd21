"""Write the metadata of a corpus in one of the formats that ``open_corpus`` reads. The audio stays where it is."""

from __future__ import annotations

from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.corpus.kaldi import kaldi_files, write_kaldi
from voiceveil.corpus.manifest import manifest_files, write_manifest
from voiceveil.corpus.model import Corpus

__all__ = ["FORMATS", "write_corpus"]

FORMATS = ("kaldi", "csv", "jsonl", "lhotse")


def write_corpus(corpus: Corpus, out: Path, to: str, *, overwrite: bool = False) -> list[Path]:
    """Write the metadata of a corpus, and return the paths of the files.

    Parameters
    ----------
    corpus
        The corpus.
    out
        A directory for ``kaldi`` and ``lhotse``, a file for ``csv`` and ``jsonl``.
    to
        The format.
    overwrite
        Replace existing files; otherwise one is an ``InputError`` before anything is written.
    """
    from voiceveil.core.output_guard import refuse_files, replacing

    if to == "kaldi":
        refuse_files(kaldi_files(out), overwrite=overwrite)
        with replacing(out, overwrite=overwrite):
            write_kaldi(corpus, out)
        return [out]
    if to == "lhotse":
        from voiceveil.corpus.lhotse import lhotse_files, write_lhotse

        refuse_files(lhotse_files(out), overwrite=overwrite)
        with replacing(out, overwrite=overwrite):
            return write_lhotse(corpus, out)
    if to not in FORMATS or out.suffix.lower() != f".{to}":
        raise InputError(f"cannot write {out.name} as {to}", where=out, fix=f"name the file {out.stem}.{to}")
    refuse_files(manifest_files(out), overwrite=overwrite)
    with replacing(out.parent, overwrite=overwrite):
        write_manifest(corpus, out)
    return [out]
