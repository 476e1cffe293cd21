"""Answers and submissions: ``answer.txt``, one LLR per line in the order of the trials, alone in a ZIP (section 7.4).

Conventions: no header, no blank line; numbers are finite, as C and Python write floats. The archive is not trusted, and
is read with the limits of :mod:`voiceveil.core.safe_archive`.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file, read_bytes
from voiceveil.core.safe_archive import Limits, read_members
from voiceveil.corpus.lines import write_lines

__all__ = ["NAME", "check_submission", "parse_answer", "read_answer", "write_answer", "write_submission"]

NAME = "answer.txt"
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_LARGEST, _MOST_TRIALS = 1 << 30, 50_000_000  # bytes and lines
_LONGEST_LINE = 100  # bytes of a score


def write_answer(path: str | Path, scores: ArrayLike) -> None:
    """Write scores (n,), one per line."""
    values = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"the score of trial {int((~np.isfinite(values)).argmax()) + 1} is not finite", where=path)
    write_lines(Path(path), [f"{value:.6f}" for value in values.tolist()])


def read_answer(path: str | Path, trials: int | None = None) -> NDArray[np.float64]:
    """Return the scores of an answer, shape (n,); ``trials`` is their required number."""
    return parse_answer(read_bytes(path, at_most=_largest(trials)), path, trials)


def _largest(trials: int | None) -> int:
    """Return the bytes that an answer may have."""
    return _LARGEST if trials is None else min(_LARGEST, _LONGEST_LINE * max(trials, 1000))


def parse_answer(data: bytes, where: str | Path, trials: int | None = None) -> NDArray[np.float64]:
    """Return the scores in the bytes of an answer, shape (n,).

    Raises
    ------
    InputError
        If a line is not a finite number, with the line, or the number of scores is wrong.
    """
    written = data.count(b"\n") + (not data.endswith(b"\n"))
    if written > (_MOST_TRIALS if trials is None else trials):
        problem = f"{written} scores for {trials} trials" if trials is not None else f"more than {_MOST_TRIALS} lines"
        raise InputError(problem, where=where, fix="give one score per trial")
    lines = data.split(b"\n")
    if lines and lines[-1] == b"":
        lines.pop()
    if not lines:
        raise InputError("no scores", where=where, fix="write one number per line")
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix(b"\r")
        if _NUMBER.fullmatch(text) is None or (b"e" in text.lower() and not np.isfinite(float(text))):
            problem, fix = _reason(text, number)
            raise InputError(problem, where=where, line=number, fix=fix)
    if trials is not None and len(lines) != trials:
        raise InputError(f"{len(lines)} scores for {trials} trials", where=where, fix="give one score per trial")
    return np.array([float(line) for line in lines])


def _reason(text: bytes, number: int) -> tuple[str, str]:
    shown = text[:40].decode("utf-8", "backslashreplace")
    if not text.strip():
        return "a blank line", "remove it: write one score per line, nothing else"
    if _NOT_FINITE.fullmatch(text.strip()) or _NUMBER.fullmatch(text):
        return f"{shown!r} is not a finite number", "repair the system: every trial needs a score"
    if len(text.split()) > 1:
        return f"{len(text.split())} columns: {shown!r}", "the scores alone, in the order of the trial file"
    if number == 1:
        return f"a header: {shown!r}", "remove it: the first line is the first score"
    return f"{shown!r} is not a number", "write floats such as -6.1284"


def write_submission(path: str | Path, answer: str | Path, trials: int) -> Path:
    """Write a ZIP file with an answer that fits the trials; the same answer gives the same bytes."""
    source, path = Path(answer), Path(path)
    if path.suffix.lower() != ".zip":
        raise InputError("a submission is a ZIP file", where=path, fix="end its name in .zip")
    read_answer(source, trials)
    entry = zipfile.ZipInfo(NAME, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(entry, read_bytes(source, at_most=_LARGEST))
    with atomic_path(path) as part:
        part.write_bytes(buffer.getbuffer())
    return path


def check_submission(path: str | Path, trials: int) -> NDArray[np.float64]:
    """Return the scores of a submission, shape (trials,).

    Raises
    ------
    InputError
        If the challenge would not accept the submission, with the reason.
    """
    path = Path(path)
    fix = f"pack {NAME} alone: `voiceveil tdsv submit {NAME} --trials TRIALS --out {path.name}`"
    with open_file(path) as file:
        start = file.read(4)
    if start not in (b"PK\x03\x04", b"PK\x05\x06"):
        raise InputError("not a ZIP file", where=path, fix=fix)
    answer: bytes | None = None
    for member in read_members(path, Limits(members=100, total=_largest(trials))):
        if "/" in member.name:
            raise InputError(f"{member.name}: a folder, where {NAME} must stand at the root", where=path, fix=fix)
        if member.name != NAME:
            raise InputError(f"{member.name}: a file that does not belong there", where=path, fix=fix)
        answer = b"".join(member.blocks())
    folders = _folders(path)
    if folders:
        raise InputError(f"{folders[0]}: a folder", where=path, fix=fix)
    if answer is None:
        raise InputError(f"no {NAME} in it", where=path, fix=fix)
    return parse_answer(answer, f"{path}/{NAME}", trials)


def _folders(path: Path) -> list[str]:
    """Return the entries of a checked archive that are folders."""
    with zipfile.ZipFile(path) as archive:
        return [entry.filename for entry in archive.infolist() if entry.is_dir()]
