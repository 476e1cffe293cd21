"""VCTK 0.92 (datashare.ed.ac.uk/handle/10283/3443) as it is distributed.

    speaker-info.txt                                  <id> <age> <F or M> <accent> <region>
    wav48_silence_trimmed/p225/p225_001_mic2.flac
    txt/p225/p225_001.txt

The second microphone, as in the VoicePrivacy Challenges; speakers p280 and p315 have no recordings by it and come
from the first. ``subset`` is "common" for the utterances #1-24, which all speakers read, and "different" for the
others (VoicePrivacy 2020, section 2.2; 2022, section 4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from voiceveil.corpus.distributed import find_upward, read_text, sorted_corpus
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.folder import walk_files
from voiceveil.corpus.lines import gender_of, read_lines
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.readers import corpora

__all__ = ["COMMON", "WITHOUT_MIC2", "read_vctk"]

#: Numbers of the utterances that every speaker reads.
COMMON = range(1, 25)
WITHOUT_MIC2 = ("p280", "p315")
_NAME = re.compile(r"([a-z]\d+)_(\d{3})_mic([12])")


def read_vctk(path: Path, report: Report = strict, *, mic: int = 2) -> Corpus:
    """Read VCTK; ``mic`` is the microphone, 1 or 2."""
    audio = path / "wav48_silence_trimmed"
    utterances = _utterances(path, audio if audio.is_dir() else path, mic, report)
    return sorted_corpus("vctk", path, utterances, f"wav48_silence_trimmed/pXXX/pXXX_NNN_mic{mic}.flac", report)


corpora.register("vctk")(read_vctk)  # not as a decorator, which would hide the type of ``mic``


def _utterances(path: Path, audio: Path, mic: int, report: Report) -> Iterator[Utterance]:
    speakers = find_upward(path, "speaker-info.txt")
    genders = _genders(speakers, report) if speakers else {}
    for file in walk_files(audio, {".flac", ".wav"}, report):
        match = _NAME.fullmatch(file.stem)
        if match is None:
            report(Fault(file, None, "not named <speaker>_<number>_mic<1 or 2>", fix="remove or rename it"))
            continue
        speaker, number, microphone = match.groups()
        if int(microphone) != (1 if speaker in WITHOUT_MIC2 else mic):
            continue
        yield Utterance(
            file.stem,
            file,
            speaker=speaker,
            gender=genders.get(speaker),
            text=read_text(audio.parent / "txt" / speaker / f"{speaker}_{number}.txt", report),
            subset="common" if int(number) in COMMON else "different",
        )


def _genders(path: Path, report: Report) -> dict[str, str]:
    genders = {}
    for number, line in read_lines(path, report):
        fields = line.split()
        if not fields or fields[0] == "ID":
            continue
        gender = gender_of(fields[2]) if len(fields) > 2 else None
        if gender is None:
            report(Fault(path, number, "no gender in the third column", fix="write `<id> <age> <F or M> ...`"))
        else:
            genders[fields[0] if not fields[0].isdigit() else f"p{fields[0]}"] = gender
    return genders
