"""Functions that the readers of corpora as they are distributed share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from voiceveil.corpus.faults import Fault, Report
from voiceveil.corpus.lines import read_lines
from voiceveil.corpus.model import Corpus, Utterance

__all__ = ["find_upward", "read_text", "sorted_corpus"]


def find_upward(path: Path, *names: str) -> Path | None:
    """Return the first file with one of the names in ``path`` or in one of the three folders above it, or None."""
    start = path.resolve()
    for folder in (start, *start.parents[:3]):
        for name in names:
            if (folder / name).is_file():
                return folder / name
    return None


def read_text(path: Path, report: Report) -> str | None:
    """Return the lines of a text file joined by blanks; None if there is no such file."""
    return " ".join(line.strip() for _, line in read_lines(path, report)) if path.is_file() else None


def sorted_corpus(kind: str, path: Path, utterances: Iterable[Utterance], expected: str, report: Report) -> Corpus:
    """Return the corpus, sorted by id; report ids that occur twice, and a corpus without utterances.

    Parameters
    ----------
    kind, path
        The name of the reader, and the folder that was read.
    utterances
        In any order; the first of several with one id is kept.
    expected
        The files that the reader looked for, for the error message.
    """
    by_id: dict[str, Utterance] = {}
    for utterance in utterances:
        if utterance.id in by_id:
            problem = f"the id {utterance.id} occurs twice, also as {by_id[utterance.id].path}"
            report(Fault(utterance.path, None, problem, "remove one of them"))
        by_id.setdefault(utterance.id, utterance)
    if not by_id:
        report(Fault(path, None, f"no utterance of {kind} found here", fix=f"expected {expected}"))
    return Corpus(path.resolve().name, tuple(by_id[key] for key in sorted(by_id)), kind=kind, root=path)
