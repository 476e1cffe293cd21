"""VoxCeleb 1 and 2 (robots.ox.ac.uk/~vgg/data/voxceleb) as they are distributed.

    vox1_dev_wav/wav/id10001/1zcIwhmdeo4/00001.wav     VoxCeleb 1
    vox2_dev_aac/aac/id00012/21Uxsk56VDQ/00001.m4a     VoxCeleb 2; a .wav or .flac beside it is taken instead
    vox1_meta.csv, vox2_meta.csv                       looked for upward; speaker and gender

The utterance id is ``<speaker>-<video>-<number>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from voiceveil.corpus.distributed import find_upward, sorted_corpus
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.folder import walk_files
from voiceveil.corpus.lines import gender_of, read_lines
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.readers import corpora

__all__ = ["read_voxceleb"]

_SPEAKER = re.compile(r"id\d{5}")


@corpora.register("voxceleb")
def read_voxceleb(path: Path, report: Report = strict) -> Corpus:
    """Read VoxCeleb 1 or 2, or a part of it."""
    genders: dict[str, str] = {}
    for name in ("vox1_meta.csv", "vox2_meta.csv"):
        meta = find_upward(path, name)
        if meta is not None:
            genders.update(_genders(meta, report))
    return sorted_corpus("voxceleb", path, _utterances(path, genders, report), "idXXXXX/<video>/NNNNN.wav", report)


def _utterances(path: Path, genders: dict[str, str], report: Report) -> Iterator[Utterance]:
    for file in walk_files(path, {".wav", ".flac", ".m4a"}, report):
        speaker, video = file.parents[1].name, file.parent.name
        if not _SPEAKER.fullmatch(speaker):
            report(Fault(file, None, "not below idXXXXX/<video>", fix="remove or move it"))
            continue
        if file.suffix == ".m4a" and any(file.with_suffix(suffix).exists() for suffix in (".wav", ".flac")):
            continue
        yield Utterance(f"{speaker}-{video}-{file.stem}", file, speaker=speaker, gender=genders.get(speaker))


def _genders(path: Path, report: Report) -> dict[str, str]:
    """Return speaker -> gender; columns id, other id, gender, separated by tabs (VoxCeleb 1) or commas (2)."""
    genders = {}
    for number, line in read_lines(path, report):
        fields = [field.strip() for field in re.split(r"[\t,]", line)]
        if not _SPEAKER.fullmatch(fields[0]):
            continue  # the header
        gender = gender_of(fields[2]) if len(fields) > 2 else None
        if gender is None:
            report(Fault(path, number, f"{fields[0]} has no gender", fix="write f or m in the third column"))
        else:
            genders[fields[0]] = gender
    return genders
