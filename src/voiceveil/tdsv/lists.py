"""The text files of the challenge, one reader and one writer each (evaluation plan, sections 2.6, 2.7, 3).

    *_model_enrollment.txt   model-id phrase-id gender file file file            (task 1)
                             model-id gender file file file free-text-file ...   (task 2: three of the passphrase first)
    *_trials.txt             model-id evaluation-file-id
    train_labels.txt         train-file-id speaker-id phrase-id                  ("FT": free text)
    *_keys.txt               model-id evaluation-file-id trial-type [further columns]

All have a header line and one space between fields. The plan does not define keys; here they are trials with their
type, and the header names further columns: speakers, gender, phrase and language ("-": unknown).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.lines import gender_of, is_id, read_lines, write_lines

__all__ = [
    "TRIAL_TYPES",
    "Label",
    "TdsvKey",
    "TdsvModel",
    "Trial",
    "read_keys",
    "read_labels",
    "read_models",
    "read_trials",
    "write_keys",
    "write_labels",
    "write_models",
    "write_trials",
]

#: Target or impostor, correct or wrong phrase; only the first is to be accepted (section 2.1.1).
TRIAL_TYPES = ("TC", "TW", "IC", "IW")
UNKNOWN = "-"
_ENROLLED = 3  # utterances of the passphrase
_FURTHER = ("speaker-id", "test-speaker-id", "gender", "phrase-id", "language")


@dataclass(frozen=True, slots=True)
class TdsvModel:
    """An enrolled speaker: ids of the enrollment files, and the line of the list."""

    id: str
    gender: str
    passphrase: tuple[str, ...]
    free_text: tuple[str, ...] = ()
    phrase: str | None = None
    line: int = 0

    @property
    def files(self) -> tuple[str, ...]:
        """All enrollment files."""
        return self.passphrase + self.free_text


@dataclass(frozen=True, slots=True)
class Trial:
    """The claim that the evaluation file ``test`` is the passphrase of ``model``, by the same speaker."""

    model: str
    test: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Label:
    """Speaker and phrase (an id, or "FT" for free text) of a training file."""

    file: str
    speaker: str
    phrase: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class TdsvKey:
    """The truth about a trial: its type, one of :data:`TRIAL_TYPES`, and other facts, None if unknown."""

    model: str
    test: str
    type: str
    speaker: str | None = None
    test_speaker: str | None = None
    gender: str | None = None
    phrase: str | None = None
    language: str | None = None
    line: int = 0


Record = TypeVar("Record", TdsvModel, Trial, Label, TdsvKey)


def read_models(path: Path, report: Report = strict) -> tuple[int, dict[str, TdsvModel]]:
    """Return the task, 1 or 2, from the header, and the models by id."""
    task = 0
    models: dict[str, TdsvModel] = {}
    for line, fields in _rows(path, "model-id", report):
        if not task:
            task = 1 if "phrase-id" in fields[:2] else 2
            continue
        model = _model(path, line, fields, task, report)
        if model is None:
            continue
        if model.id in models:
            fault = f"model {model.id} is there twice, first on line {models[model.id].line}"
            report(Fault(path, line, fault, fix="keep one"))
            continue
        models[model.id] = model
    return task, models


def _model(path: Path, line: int, fields: list[str], task: int, report: Report) -> TdsvModel | None:
    start = 3 if task == 1 else 2
    gender = gender_of(fields[start - 1]) if len(fields) >= start else None
    form = (
        "<model> <phrase> <m|f> <file> <file> <file>" if task == 1 else "<model> <m|f> <file> <file> <file> <file>..."
    )
    files = fields[start:]
    if gender is None:
        report(Fault(path, line, f"not a model of task {task}", fix=f"write `{form}`"))
        return None
    counted = f"model {fields[0]} has {len(files)} enrollment file{'s' * (len(files) != 1)}"
    if len(files) < _ENROLLED or (task == 1 and len(files) > _ENROLLED):
        report(Fault(path, line, f"{counted}, not three", fix=f"write `{form}`"))
        return None
    if task == 2 and len(files) == _ENROLLED:
        report(Fault(path, line, f"{counted}: the passphrase, but no free text", fix=f"write `{form}`"))
        return None
    again = next((file for number, file in enumerate(files) if file in files[:number]), None)
    if again is not None:
        report(Fault(path, line, f"model {fields[0]} has {again} twice", fix="enroll with different recordings"))
        return None
    phrase = fields[1] if task == 1 else None
    return TdsvModel(fields[0], gender, tuple(files[:_ENROLLED]), tuple(files[_ENROLLED:]), phrase, line)


def read_trials(path: Path, report: Report = strict) -> tuple[Trial, ...]:
    """Return the trials in their order; a repeated trial is a fault."""
    return _distinct(
        path,
        (
            Trial(fields[0], fields[1], line)
            for line, fields in _body(path, "model-id", 2, "<model> <evaluation file>", report)
        ),
        lambda trial: f"{trial.model} {trial.test}",
        report,
    )


def read_labels(path: Path, report: Report = strict) -> tuple[Label, ...]:
    """Return the labels of the training files in their order."""
    return _distinct(
        path,
        (
            Label(fields[0], fields[1], fields[2], line)
            for line, fields in _body(path, "train-file-id", 3, "<file> <speaker> <phrase>", report)
        ),
        lambda label: label.file,
        report,
    )


def read_keys(path: Path, report: Report = strict) -> tuple[TdsvKey, ...]:
    """Return the keys in their order."""
    return _distinct(path, _keys(path, report), lambda key: f"{key.model} {key.test}", report)


def _keys(path: Path, report: Report) -> Iterator[TdsvKey]:
    columns: dict[str, int] = {}
    for line, fields in _rows(path, "model-id", report):
        if not columns:
            columns = {name: number for number, name in enumerate(fields)}
            if "trial-type" not in columns:
                report(Fault(path, line, "no column trial-type", fix="name it in the header"))
                return
            if len(columns) != len(fields) or columns["trial-type"] < 2:
                fault = "a column is named twice, or trial-type stands before the trial"
                report(Fault(path, line, fault, fix="start with `model-id evaluation-file-id trial-type`"))
                return
            continue
        if len(fields) != len(columns):
            fault = f"{len(fields)} fields, but the header has {len(columns)}"
            report(Fault(path, line, fault, fix=f"write `{' '.join(f'<{name}>' for name in columns)}`"))
            continue
        kind = fields[columns["trial-type"]]
        if kind not in TRIAL_TYPES:
            report(Fault(path, line, f"{kind!r} is no type of trial", fix=f"use {', '.join(TRIAL_TYPES)}"))
            continue
        known = {n: fields[columns[n]] for n in _FURTHER if n in columns and fields[columns[n]] != UNKNOWN}
        gender = known.get("gender")
        yield TdsvKey(
            fields[0],
            fields[1],
            kind,
            known.get("speaker-id"),
            known.get("test-speaker-id"),
            gender_of(gender) if gender else None,
            known.get("phrase-id"),
            known.get("language"),
            line,
        )


def _body(path: Path, header: str, columns: int, form: str, report: Report) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows after the header that have the given number of fields."""
    rows = _rows(path, header, report)
    next(rows, None)
    for line, fields in rows:
        if len(fields) == columns:
            yield line, fields
        else:
            report(Fault(path, line, f"{len(fields)} fields, not {columns}", fix=f"write `{form}`"))


def _rows(path: Path, header: str, report: Report) -> Iterator[tuple[int, list[str]]]:
    """Yield number and fields of each line, the header first; malformed lines are faults."""
    first = True
    for number, line in read_lines(path, report):
        fields = line.split(" ")
        if first:
            first = False
            if fields[0] != header:
                report(Fault(path, number, "no header line", fix=f"the first line starts with `{header}`"))
                yield number, [header]
            else:
                yield number, fields
                continue
        if "" in fields or "\t" in line:
            report(Fault(path, number, "fields are separated by one space", fix="remove other blanks", note=True))
            fields = line.split()
        if all(is_id(field) and "/" not in field for field in fields):
            yield number, fields
        else:
            report(Fault(path, number, "unprintable characters or slashes", fix="restore the file"))
    if first:
        report(Fault(path, None, "the file is empty", fix=f"its first line starts with `{header}`"))


def _distinct(
    path: Path, records: Iterable[Record], name: Callable[[Record], str], report: Report
) -> tuple[Record, ...]:
    kept: dict[str, Record] = {}
    for record in records:
        first = kept.setdefault(name(record), record)
        if first is not record:
            report(Fault(path, record.line, f"{name(record)}: the same as line {first.line}", fix="keep one of them"))
    return tuple(kept.values())


def write_models(path: Path, models: Iterable[TdsvModel]) -> None:
    """Write the enrollment list; models with a phrase are those of task 1."""
    listed = list(models)
    if listed and listed[0].phrase is not None:
        head = "model-id phrase-id gender enroll-file-id1 enroll-file-id2 enroll-file-id3"
        rows = [f"{m.id} {m.phrase} {m.gender} {' '.join(m.files)}" for m in listed]
    else:
        head = "model-id gender enroll-file-ids ..."
        rows = [f"{m.id} {m.gender} {' '.join(m.files)}" for m in listed]
    write_lines(path, [head, *rows])


def write_trials(path: Path, trials: Iterable[Trial]) -> None:
    """Write the trial list."""
    write_lines(path, ["model-id evaluation-file-id", *(f"{t.model} {t.test}" for t in trials)])


def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """Write the training labels."""
    rows = (f"{label.file} {label.speaker} {label.phrase}" for label in labels)
    write_lines(path, ["train-file-id speaker-id phrase-id", *rows])


def write_keys(path: Path, keys: Iterable[TdsvKey]) -> None:
    """Write the keys with all known facts."""

    def row(key: TdsvKey) -> Sequence[str | None]:
        return (key.model, key.test, key.type, key.speaker, key.test_speaker, key.gender, key.phrase, key.language)

    head = " ".join(("model-id", "evaluation-file-id", "trial-type", *_FURTHER))
    write_lines(path, [head, *(" ".join(value or UNKNOWN for value in row(key)) for key in keys)])
