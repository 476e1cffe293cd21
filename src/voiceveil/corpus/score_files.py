"""Score files and trial lists, read fast and checked line by line.

Conventions: text, one trial a line, fields separated by blanks; blank lines are skipped, and so is a byte order mark;
lines count from 1.

* a trial list (key): ``<enrolled speaker> <utterance> target|nontarget``, as Kaldi and the challenges write it
* a score file: ``<enrolled speaker> <utterance> <score>``, in any order, with exactly the trials of its list
* a labeled score file: ``<score> target|nontarget``, without a list (1 and 0 are read as well)

Names become numbers while they are read, so that 3.5 million lines take seconds and no table of strings is kept. Every
fault is an :class:`~voiceveil.core.errors.InputError` with file and line.
"""

from __future__ import annotations

import codecs
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.files import LONGEST_LINE, open_file

__all__ = ["TrialKey", "read_key", "read_labeled", "read_scores", "read_speakers"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
FilePath = str | PathLike[str]

_LABELS = {b"target": 1.0, b"nontarget": 0.0, b"1": 1.0, b"0": 0.0}
_LABEL_FIX = "write target or nontarget"
_IS_BLANK = np.isin(np.arange(256), list(b" \t\n\r\v\f"))  # what bytes.split() splits at
_CHUNK = 1 << 22  # bytes read at once: large enough for speed, small enough for memory


@dataclass(frozen=True, eq=False)
class TrialKey:
    """A trial list in the order of its file: indices of speakers and utterances, and ``target``, shape (n,)."""

    path: Path
    enroll: Codes
    utterance: Codes
    target: NDArray[np.bool_]
    speakers: tuple[str, ...]  # the name of each enrolled speaker's number
    utterances: tuple[str, ...]  # the name of each utterance's number

    def __len__(self) -> int:
        return len(self.target)

    @property
    def pair(self) -> Codes:
        """Return one number for each pair of speaker and utterance."""
        return self.enroll * len(self.utterances) + self.utterance


def read_key(path: FilePath) -> TrialKey:
    """Read a trial list; a pair that is listed twice or a list without both classes is a fault."""
    file = Path(path)
    speakers, utterances = _numbering(), _numbering()
    columns = _read(file, "<speaker> <utterance> target|nontarget", (_number(speakers), _number(utterances), _label))
    enroll, utterance = columns[0].astype(np.int64), columns[1].astype(np.int64)
    key = TrialKey(file, enroll, utterance, columns[2] == 1.0, _names(speakers, file), _names(utterances, file))
    _refuse_twice(key.pair, file)
    _need_both(key.target, file)
    return key


def read_scores(path: FilePath, key: TrialKey) -> Floats:
    """Return the scores of a file in the order of the key, shape (n,); each trial must have exactly one."""
    file = Path(path)
    speakers = {name.encode(): number for number, name in enumerate(key.speakers)}
    utterances = {name.encode(): number for number, name in enumerate(key.utterances)}
    parsers = (_look_up(speakers), _look_up(utterances), _score)
    enroll, utterance, score = _read(file, "<speaker> <utterance> <score>", parsers)
    known = (enroll >= 0) & (utterance >= 0)
    pair = np.where(known, enroll * len(key.utterances) + utterance, -1.0).astype(np.int64)
    pairs = key.pair
    if np.array_equal(pair, pairs):
        return score
    expected_order, given_order = np.argsort(pairs), np.argsort(pair)
    if not np.array_equal(pairs[expected_order], pair[given_order]):
        _explain_mismatch(file, pair, key)
    aligned = np.empty(len(key))
    aligned[expected_order] = score[given_order]
    return aligned


def _explain_mismatch(file: Path, pair: Codes, key: TrialKey) -> NoReturn:
    """Raise an ``InputError`` that names a score or trial without counterpart, or one that occurs twice."""
    stranger = ~np.isin(pair, key.pair)
    if stranger.any():
        _fail(file, int(stranger.argmax()), f"a score without a trial in {key.path}", "remove it, or use its own list")
    _refuse_twice(pair, file)
    missing = ~np.isin(key.pair, pair)
    i = int(missing.argmax())
    trial = f"{key.speakers[key.enroll[i]]} {key.utterances[key.utterance[i]]}"
    where = f"line {_line_of(key.path, i)} of {key.path}"
    raise InputError(f"{int(missing.sum())} trial(s) have no score, the first is {trial!r} ({where})", where=file)


def read_labeled(path: FilePath) -> tuple[Floats, Floats]:
    """Return the target and the nontarget scores of a file of ``<score> target|nontarget`` lines."""
    file = Path(path)
    score, label = _read(file, "<score> target|nontarget", (_score, _label))
    target = label == 1.0
    _need_both(target, file)
    return score[target], score[~target]


def read_speakers(key: TrialKey, utt2spk: FilePath | None = None) -> tuple[Codes, int]:
    """Return the index of the speaker of each trial utterance, shape (n,), and the number of unknown speakers.

    Numbers below ``len(key.speakers)`` are enrolled speakers. With ``utt2spk`` (lines ``<utterance> <speaker>``) the
    rest are the other speakers, and all are known. Without it a target trial tells who speaks; utterances that are
    nobody's target are counted as a speaker each, since nothing tells them apart or together.
    """
    speakers = np.full(len(key.utterances), -1, dtype=np.int64)
    speakers[key.utterance[key.target]] = key.enroll[key.target]
    if utt2spk is None:
        unknown = np.flatnonzero(speakers < 0)
        speakers[unknown] = len(key.speakers) + np.arange(len(unknown))
    else:
        unknown = np.empty(0, dtype=np.int64)
        speakers = _speakers_by_list(key, Path(utt2spk))
    speaker = speakers[key.utterance]
    wrong = key.target != (key.enroll == speaker)
    if wrong.any():
        i = int(wrong.argmax())
        other = "target trials of two speakers" if utt2spk is None else f"another speaker in {utt2spk}"
        _fail(
            key.path, i, f"utterance {key.utterances[key.utterance[i]]!r} has {other}", "mend the label or the speaker"
        )
    return speaker, len(unknown)


def _speakers_by_list(key: TrialKey, file: Path) -> Codes:
    numbers = _numbering()
    for name in key.speakers:
        numbers[name.encode()]
    utterances = {name.encode(): number for number, name in enumerate(key.utterances)}
    utterance, speaker = _read(file, "<utterance> <speaker>", (_look_up(utterances), _number(numbers)))
    listed = utterance >= 0
    _refuse_twice(np.where(listed, utterance, -1 - np.arange(len(utterance))).astype(np.int64), file)
    speakers = np.full(len(key.utterances), -1, dtype=np.int64)
    speakers[utterance[listed].astype(np.int64)] = speaker[listed].astype(np.int64)
    if (speakers < 0).any():
        name = key.utterances[int((speakers < 0).argmax())]
        raise InputError(f"{int((speakers < 0).sum())} trial utterance(s) have no speaker, e.g. {name!r}", where=file)
    return speakers


Parser = Callable[[list[bytes]], list[float]]


def _read(file: Path, form: str, parsers: tuple[Parser, ...]) -> list[Floats]:
    """Return each column of the file as numbers, converted by its parser, shape (records,)."""
    parts: list[list[Floats]] = [[] for _ in parsers]
    done = 0
    for columns in _chunks(file, form, len(parsers)):
        for part, parser, column in zip(parts, parsers, columns, strict=True):
            try:
                part.append(np.array(parser(column), dtype=np.float64))
            except (ValueError, KeyError):
                _blame(file, done, column, parser)
        done += len(columns[0])
    if not done:
        raise InputError("no lines", where=file, fix=f"write `{form}`")
    return [np.concatenate(part) for part in parts]


def _chunks(file: Path, form: str, width: int) -> Iterator[list[list[bytes]]]:
    """Yield the columns of a few megabytes of the file at a time."""
    line = 0
    try:
        with open_file(file) as stream:
            while chunk := stream.read(_CHUNK):
                rest = stream.readline(LONGEST_LINE)
                if len(rest) == LONGEST_LINE:
                    problem = f"a line of more than {LONGEST_LINE >> 20} MiB"
                    raise InputError(problem, where=file, line=line + chunk.count(b"\n") + 1, fix=f"write `{form}`")
                chunk += rest
                if line == 0:
                    chunk = chunk.removeprefix(codecs.BOM_UTF8)
                fields = _fields_by_line(chunk)
                wrong = (fields != width) & (fields != 0)
                if wrong.any():
                    i = int(wrong.argmax())
                    problem = f"{fields[i]} field(s) instead of {width}"
                    raise InputError(problem, where=file, line=line + i + 1, fix=f"write `{form}`")
                line += len(fields)
                words = chunk.split()
                if words:
                    yield [words[k::width] for k in range(width)]
    except OSError as error:
        raise InputError(f"cannot read this file: {error.strerror or error}", where=file) from None


def _fields_by_line(chunk: bytes) -> Codes:
    """Return the number of fields of each line of a chunk; one split of all lines does not give it, but is fast."""
    text = np.frombuffer(chunk if chunk.endswith(b"\n") else chunk + b"\n", dtype=np.uint8)
    blank = _IS_BLANK[text]
    starts = ~blank
    starts[1:] &= blank[:-1]
    so_far: Codes = np.cumsum(starts, dtype=np.int64)[text == ord("\n")]
    return np.diff(so_far, prepend=0)


def _blame(file: Path, done: int, column: list[bytes], parser: Parser) -> NoReturn:
    """Return the fault of the first field that the parser cannot read."""
    for i, field in enumerate(column):
        try:
            parser([field])
        except (ValueError, KeyError):
            problem, fix = (
                ("unknown label", _LABEL_FIX) if parser is _label else ("not a score:", "write a number, not NaN")
            )
            _fail(file, done + i, f"{problem} {field.decode(errors='replace')!r}", fix)
    raise AssertionError("the parser fails on the column but on no field")


def _numbering() -> defaultdict[bytes, int]:
    """Return a dictionary that numbers its keys in the order of their first lookup."""
    numbers: defaultdict[bytes, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers


def _number(numbers: defaultdict[bytes, int]) -> Parser:
    return lambda column: list(map(numbers.__getitem__, column))


def _look_up(numbers: dict[bytes, int]) -> Parser:
    """Return the numbers of known names, and -1 for others."""
    return lambda column: [numbers.get(name, -1) for name in column]


def _label(column: list[bytes]) -> list[float]:
    return list(map(_LABELS.__getitem__, column))


def _score(column: list[bytes]) -> list[float]:
    scores = list(map(float, column))
    if np.isnan(scores).any() or b"_" in b" ".join(column):  # to Python, not to anybody else, 1_0 is a number
        raise ValueError("not a score")
    for i in np.flatnonzero(np.isinf(scores)):
        if b"inf" not in column[i].lower():  # 1e400, say: too large to tell from another one
            raise ValueError("not a score")
    return scores


def _names(numbers: dict[bytes, int], file: Path) -> tuple[str, ...]:
    try:
        return tuple(name.decode() for name in numbers)
    except UnicodeDecodeError:
        raise InputError("a name is not UTF-8", where=file, fix="convert the file to UTF-8") from None


def _refuse_twice(pair: Codes, file: Path) -> None:
    order = np.argsort(pair, kind="stable")
    again = np.flatnonzero(np.diff(pair[order]) == 0)
    if len(again):
        first, second = min((int(order[i + 1]), int(order[i])) for i in again)[::-1]
        _fail(file, second, f"the same as line {_line_of(file, first)}", "keep one of them")


def _need_both(target: NDArray[np.bool_], file: Path) -> None:
    for present, name in ((target.any(), "target"), ((~target).any(), "nontarget")):
        if not present:
            raise InputError(f"no {name} trials", where=file, fix="error rates need both classes")


def _fail(file: Path, record: int, problem: str, fix: str = "") -> NoReturn:
    raise InputError(problem, where=file, line=_line_of(file, record), fix=fix)


def _line_of(file: Path, record: int) -> int:
    """Return the line of a record (from 0), by reading the file again: only faults need it."""
    with open_file(file) as stream:
        filled = (number for number, line in enumerate(stream, start=1) if line.removeprefix(codecs.BOM_UTF8).strip())
        return next(number for i, number in enumerate(filled) if i == record)
