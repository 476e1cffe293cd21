"""LibriSpeech (openslr.org/12) as it is distributed.

    LibriSpeech/SPEAKERS.TXT                          <id> | <F or M> | <subset> | <minutes> | <name>
    LibriSpeech/dev-clean/1272/128104/1272-128104-0000.flac
    LibriSpeech/dev-clean/1272/128104/1272-128104.trans.txt     <utterance> <TEXT>

The path is the whole corpus or one subset; ``SPEAKERS.TXT`` is looked for upward. ``subset`` is e.g. "dev-clean".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from voiceveil.core.files import resolved
from voiceveil.corpus.distributed import find_upward, sorted_corpus
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.folder import walk_files
from voiceveil.corpus.lines import gender_of, read_lines, read_table
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.readers import corpora

__all__ = ["read_librispeech", "read_speakers"]


@corpora.register("librispeech")
def read_librispeech(path: Path, report: Report = strict) -> Corpus:
    """Read LibriSpeech, or one of its subsets."""
    speakers = find_upward(path, "SPEAKERS.TXT")
    genders = read_speakers(speakers, report) if speakers else {}
    return sorted_corpus(
        "librispeech", path, _utterances(path, genders, report), "<subset>/<speaker>/<chapter>/*.flac", report
    )


def _utterances(path: Path, genders: dict[str, str], report: Report) -> Iterator[Utterance]:
    texts: dict[Path, dict[str, str]] = {}
    for file in walk_files(path, {".flac", ".wav"}, report):
        speaker, _, rest = file.stem.partition("-")
        if rest.count("-") != 1:
            report(Fault(file, None, "not named <speaker>-<chapter>-<number>", fix="remove or rename it"))
            continue
        if file.parent not in texts:
            transcript = file.with_name(f"{file.stem.rpartition('-')[0]}.trans.txt")
            texts[file.parent] = read_table(transcript, report).values if transcript.is_file() else {}
        yield Utterance(
            file.stem,
            file,
            speaker=speaker,
            gender=genders.get(speaker),
            text=texts[file.parent].get(file.stem),
            subset=resolved(file).parents[2].name,
        )


def read_speakers(path: Path, report: Report) -> dict[str, str]:
    """Return speaker -> gender from a ``SPEAKERS.TXT``."""
    genders = {}
    for number, line in read_lines(path, report):
        if line.startswith(";"):
            continue
        fields = [field.strip() for field in line.split("|")]
        gender = gender_of(fields[1]) if len(fields) > 1 else None
        if gender is None:
            report(Fault(path, number, "no gender", fix="write `<speaker> | F or M | <subset> | <minutes> | <name>`"))
        else:
            genders[fields[0]] = gender
    return genders
