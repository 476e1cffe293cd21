"""Draws that depend on a seed and on names alone: not on the order of files, nor on what else is drawn.

Items are put in the order of a hash of (seed, purpose, name). Taking the first n of them is a draw without
replacement, the draw of n + 1 contains that of n, and a new speaker changes nothing for the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from voiceveil.core.errors import InputError
from voiceveil.corpus.model import Corpus, Utterance

__all__ = ["SESSION_PATTERNS", "Sessions", "shuffled", "shuffled_utterances"]

#: Kind of corpus -> where an utterance's id tells the session: the chapter of a book, or a video.
SESSION_PATTERNS = {
    "librispeech": r"[^-]+-([^-]+)-",
    "libritts": r"[^_]+_([^_]+)_",
    "voxceleb": r"[^-]+-(.+)-[^-]+$",
}
_LIBRISPEECH_ID = re.compile(r"(\d+)-\d+-\d+")


def shuffled(names: Iterable[str], seed: int, purpose: str) -> list[str]:
    """The names in the order of the draw."""

    def place(name: str) -> bytes:
        return hashlib.sha256(f"{seed}\0{purpose}\0{name}".encode("utf-8", "surrogatepass")).digest()

    return sorted(names, key=place)


def shuffled_utterances(utterances: Iterable[Utterance], seed: int, purpose: str) -> list[Utterance]:
    """The utterances in the order of the draw of their ids."""
    by_id = {utterance.id: utterance for utterance in utterances}
    return [by_id[key] for key in shuffled(by_id, seed, purpose)]


class Sessions:
    """Which session of its speaker an utterance is of.

    ``rule`` is "auto" (known corpora, and ids like those of LibriSpeech), "none", or a regular expression whose first
    group, looked for from the start of the id, is the session.
    """

    def __init__(self, corpus: Corpus, rule: str = "auto") -> None:
        pattern = SESSION_PATTERNS.get(corpus.kind) if rule == "auto" else None if rule == "none" else rule
        if rule == "auto" and pattern is None and _all_like_librispeech(corpus):
            pattern = SESSION_PATTERNS["librispeech"]
        self.pattern = pattern
        try:
            self._match = re.compile(pattern).match if pattern is not None else None
        except re.error as error:
            raise InputError(f"{rule!r} is no regular expression: {error}", fix="e.g. '[^-]+-([^-]+)-'") from error
        if pattern is not None and re.compile(pattern).groups < 1:
            raise InputError(f"{pattern!r} has no group", fix="put the session in parentheses, e.g. '[^-]+-([^-]+)-'")

    def of(self, utterance: Utterance) -> str:
        """The session; without a rule each utterance is a session of its own."""
        if self._match is None:
            return utterance.id
        match = self._match(utterance.id)
        if match is None or match[1] is None:
            raise InputError(
                f"no session in the id {utterance.id!r}", fix=f"it does not match {self.pattern!r}; --session none"
            )
        return match[1]


def _all_like_librispeech(corpus: Corpus) -> bool:
    """Whether every id is ``<speaker>-<chapter>-<number>`` of its own speaker."""
    for utterance in corpus:
        match = _LIBRISPEECH_ID.fullmatch(utterance.id)
        if match is None or match[1] != utterance.speaker:
            return False
    return len(corpus) > 0
