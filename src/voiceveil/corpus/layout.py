"""What the readers of distributed corpora share: files looked for upward, one-line texts, an end with no utterance."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from voiceveil.corpus.faults import Fault, Report
from voiceveil.corpus.lines import read_lines
from voiceveil.corpus.model import Corpus, Utterance

__all__ = ["find_upward", "finished", "read_text"]


def find_upward(path: Path, *names: str) -> Path | None:
    """The first file with one of the names in ``path`` or in one of the three folders above it."""
    here = path.resolve()
    for folder in (here, *here.parents[:3]):
        for name in names:
            if (folder / name).is_file():
                return folder / name
    return None


def read_text(path: Path, report: Report) -> str | None:
    """A file of text as one line; None if there is no such file."""
    return " ".join(line.strip() for _, line in read_lines(path, report)) if path.is_file() else None


def finished(kind: str, path: Path, utterances: Iterable[Utterance], expected: str, report: Report) -> Corpus:
    """The corpus, sorted by id; ids that are there twice and an empty corpus are reported."""
    found: dict[str, Utterance] = {}
    for utterance in utterances:
        if utterance.id in found:
            what = f"{utterance.id} is there twice, also as {found[utterance.id].path}"
            report(Fault(utterance.path, None, what, "remove one of them"))
        found.setdefault(utterance.id, utterance)
    if not found:
        report(Fault(path, None, f"no utterance of {kind} found here", fix=f"expected {expected}"))
    return Corpus(path.resolve().name, tuple(found[key] for key in sorted(found)), kind=kind, root=path)
