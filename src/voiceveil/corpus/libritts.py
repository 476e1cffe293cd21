"""LibriTTS (openslr.org/60) as it is distributed.

    LibriTTS/SPEAKERS.txt                             <id> | <F or M> | <subset> | <minutes> | <name>
    LibriTTS/train-other-500/20/205/20_205_000000_000000.wav
    LibriTTS/train-other-500/20/205/20_205_000000_000000.normalized.txt
    LibriTTS/train-other-500/20/205/20_205.trans.tsv  <utterance> <original text> <normalized text>, tabs between

The text is the normalized one: from the ``.trans.tsv`` of the chapter, or else from the ``.normalized.txt``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from voiceveil.core.files import resolved
from voiceveil.corpus.distributed import find_upward, read_text, sorted_corpus
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.folder import walk_files
from voiceveil.corpus.librispeech import read_speakers
from voiceveil.corpus.lines import read_lines
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.readers import corpora

__all__ = ["read_libritts"]


@corpora.register("libritts")
def read_libritts(path: Path, report: Report = strict) -> Corpus:
    """Read LibriTTS, or one of its subsets."""
    speakers = find_upward(path, "SPEAKERS.txt", "SPEAKERS.TXT")
    genders = read_speakers(speakers, report) if speakers else {}
    return sorted_corpus(
        "libritts", path, _utterances(path, genders, report), "<subset>/<speaker>/<chapter>/*.wav", report
    )


def _utterances(path: Path, genders: dict[str, str], report: Report) -> Iterator[Utterance]:
    texts: dict[Path, dict[str, str]] = {}
    for file in walk_files(path, {".wav"}, report):
        parts = file.stem.split("_")
        if len(parts) != 4:
            report(Fault(file, None, "not named <speaker>_<chapter>_<segment>_<number>", fix="remove or rename it"))
            continue
        if file.parent not in texts:
            texts[file.parent] = _chapter(file.with_name(f"{parts[0]}_{parts[1]}.trans.tsv"), report)
        text = texts[file.parent].get(file.stem)
        yield Utterance(
            file.stem,
            file,
            speaker=parts[0],
            gender=genders.get(parts[0]),
            text=read_text(file.with_suffix(".normalized.txt"), report) if text is None else text,
            subset=resolved(file).parents[2].name,
        )


def _chapter(path: Path, report: Report) -> dict[str, str]:
    """Return utterance -> normalized text; empty if there is no such file."""
    rows = (line.split("\t") for _, line in read_lines(path, report)) if path.is_file() else ()
    return {row[0]: row[2].strip() for row in rows if len(row) == 3}
