"""DeepMine in the layout of the TdSV Challenge 2024 (evaluation plan, sections 2.5 to 3).

    docs/train_labels.txt                  train-file-id speaker-id phrase-id ("FT": free text)
    docs/{dev,eval}_model_enrollment.txt   model-id [phrase-id] gender enroll-file-id ...  (phrase-id in task 1 only)
    docs/{dev,eval}_trials.txt             model-id evaluation-file-id
    wav/{train,enrollment,evaluation}/*.wav

All files have a header line. The speaker of an enrollment utterance is its model; that of a trial is what the
challenge asks, so it is not known and the trials have no labels. ``subset`` is "dev" or "eval".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from voiceveil.corpus.distributed import sorted_corpus
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.lines import gender_of, is_id, read_lines
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.readers import corpora

__all__ = ["evaluated_speakers", "read_deepmine"]


@corpora.register("deepmine")
def read_deepmine(path: Path, report: Report = strict) -> Corpus:
    """Read the folder that holds ``docs`` and ``wav``."""
    return sorted_corpus("deepmine", path, _utterances(path, report), "docs/train_labels.txt and wav/", report)


def evaluated_speakers(path: Path, report: Report = strict) -> frozenset[str]:
    """Return the speakers whom ``docs/{dev,eval}_keys.txt`` name as enrolled or tested; none without keys.

    Participants have the keys of the development set at most; organizers, and challenges of one's own, have all.
    """
    speakers: set[str] = set()
    for subset in ("dev", "eval"):
        file = path / "docs" / f"{subset}_keys.txt"
        header = next((line.split() for _, line in read_lines(file, report)), []) if file.is_file() else []
        columns = [header.index(name) for name in ("speaker-id", "test-speaker-id") if name in header]
        for _, _, fields in _rows(file, report):
            speakers.update(fields[column] for column in columns if column < len(fields) and fields[column] != "-")
    return frozenset(speakers)


def _utterances(path: Path, report: Report) -> Iterator[Utterance]:
    yield from _train(path, report)
    for subset in ("dev", "eval"):
        yield from _enrollment(path, subset, report)
    seen: set[str] = set()
    for subset in ("dev", "eval"):
        for file, number, fields in _rows(path / "docs" / f"{subset}_trials.txt", report):
            if len(fields) != 2:
                report(Fault(file, number, "not a trial", fix="write `<model> <evaluation file>`"))
            elif fields[1] not in seen:
                seen.add(fields[1])
                audio = path / "wav" / "evaluation" / f"{fields[1]}.wav"
                yield Utterance(fields[1], audio, role="trial", subset=subset)


def _train(path: Path, report: Report) -> Iterator[Utterance]:
    for file, number, fields in _rows(path / "docs" / "train_labels.txt", report):
        if len(fields) != 3:
            report(Fault(file, number, "not a label", fix="write `<file> <speaker> <phrase>`"))
            continue
        key, speaker, phrase = fields
        yield Utterance(key, path / "wav" / "train" / f"{key}.wav", speaker=speaker, phrase=phrase, role="train")


def _enrollment(path: Path, subset: str, report: Report) -> Iterator[Utterance]:
    file = path / "docs" / f"{subset}_model_enrollment.txt"
    header = next((line.split() for _, line in read_lines(file, report)), []) if file.is_file() else []
    with_phrase = "phrase-id" in header
    owner: dict[str, str] = {}
    for _, number, fields in _rows(file, report):
        model, phrase = fields[0], fields[1] if with_phrase and len(fields) > 1 else None
        gender = gender_of(fields[1 + with_phrase]) if len(fields) > 1 + with_phrase else None
        keys = fields[2 + with_phrase :]
        if gender is None or not keys:
            report(Fault(file, number, "not a model", fix="write `<model> [<phrase>] <gender> <file> ...`"))
            continue
        for key in keys:
            if key in owner:
                problem = f"{key} is in {owner[key]} and in {model}: it is listed under the first"
                report(Fault(file, number, problem, note=True))
                continue
            owner[key] = model
            audio = path / "wav" / "enrollment" / f"{key}.wav"
            yield Utterance(key, audio, speaker=model, gender=gender, phrase=phrase, role="enroll", subset=subset)


def _rows(file: Path, report: Report) -> Iterator[tuple[Path, int, list[str]]]:
    """Yield the fields of each line after the header; nothing if there is no such file."""
    for number, line in read_lines(file, report) if file.is_file() else ():
        fields = line.split()
        if number == 1:
            continue
        if all(is_id(field) and "/" not in field for field in fields):
            yield file, number, fields
        else:
            report(Fault(file, number, "unprintable characters or slashes", fix="restore the file"))
