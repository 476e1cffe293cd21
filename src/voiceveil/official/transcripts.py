"""Transcripts and word errors as the scripts of 2024 write them below ``exp/asr``.

    asr/<set>/text    <utterance> <words>, sorted
    asr/<set>/wer     %WER 9.99 [ 3 / 30, 1 ins, 1 del, 1 sub ]; sentence errors; then each utterance aligned

Conventions: rates in the file are percent. In an alignment the words of the reference stand above the recognized
words, with ``=``, ``S``, ``D`` or ``I`` between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from voiceveil.core.atomic_files import atomic_path
from voiceveil.metrics.wer import Edit, WordErrors
from voiceveil.official.source import Line

__all__ = ["parse_wer", "text_of", "wer_text", "write_transcripts"]

_SIGNS = {"hit": "=", "substitution": "S", "deletion": "D", "insertion": "I"}
_EMPTY = "<eps>"
_RULE = "=" * 80
_WER = re.compile(r"%WER (\S+) \[ (\d+) / (\d+), \d+ ins, \d+ del, \d+ sub \]", re.ASCII)


def write_transcripts(folder: Path, errors: WordErrors) -> list[Path]:
    """Write ``text`` and ``wer``, and return their paths."""
    for name, text in (("text", text_of(errors)), ("wer", wer_text(errors))):
        with atomic_path(folder / name) as file:
            file.write_text(text, encoding="utf-8")
    return [folder / "text", folder / "wer"]


def text_of(errors: WordErrors) -> str:
    """Return the transcripts, one utterance per line, sorted."""
    rows = zip(errors.utterances, errors.alignments, strict=True)
    transcripts = {key: " ".join([key, *(edit.hyp for edit in edits if edit.hyp is not None)]) for key, edits in rows}
    return "".join(f"{transcripts[key]}\n" for key in sorted(transcripts))


def wer_text(errors: WordErrors) -> str:
    """Return the summary and the alignments."""
    wrong = round(errors.sentence_error_rate * len(errors.utterances))
    lines = [
        _rate(errors.counts.sum(axis=0).tolist()),
        f"%SER {100 * errors.sentence_error_rate:.2f} [ {wrong} / {len(errors.utterances)} ]",
        f"Scored {len(errors.utterances)} sentences, 0 not present in hyp.",
        _RULE,
        "ALIGNMENTS",
    ]
    for key, row, edits in zip(errors.utterances, errors.counts.tolist(), errors.alignments, strict=True):
        lines += [_RULE, f"{key}, {_rate(row)}", *_aligned(edits)]
    return "".join(f"{line}\n" for line in lines)


def _rate(counts: list[int]) -> str:
    substitutions, deletions, insertions, hits = counts
    edits, words = substitutions + deletions + insertions, substitutions + deletions + hits
    rate = 100 * edits / words if words else float("inf") if edits else 0.0
    return f"%WER {rate:.2f} [ {edits} / {words}, {insertions} ins, {deletions} del, {substitutions} sub ]"


def _aligned(edits: tuple[Edit, ...]) -> Iterator[str]:
    columns = [
        (_EMPTY if edit.ref is None else edit.ref, _SIGNS[edit.operation], _EMPTY if edit.hyp is None else edit.hyp)
        for edit in edits
    ]
    for row in range(3):
        yield " ; ".join(column[row].center(max(map(len, column))) for column in columns)


def parse_wer(path: Path) -> tuple[Line, int, int]:
    """Return the first line of a ``wer`` file, its errors and its words; the rate must agree with them."""
    with path.open("rb") as file:  # the alignments below it may be long
        first = Line(path, 1, file.readline(1000).decode("utf-8", "replace").rstrip("\r\n"))
    match = _WER.fullmatch(first.text.rstrip())
    if match is None:
        fix = "expected `%WER <percent> [ <errors> / <words>, <n> ins, <n> del, <n> sub ]`"
        raise first.error(f"not a WER: {first.text[:60]!r}", fix)
    errors, words = (int(first.value(number, "a count", most=1e12)) for number in match.groups()[1:])
    rate = first.percent(match[1], "WER", most=1e6)
    if not words or abs(rate - errors / words) > 0.000051:
        raise first.error(f"{errors} errors in {words} words is not a WER of {match[1]}%")
    return first, errors, words
