"""Random draws that depend only on a seed and on names, not on the order of files or on other draws.

Items are sorted by a hash of (seed, purpose, name). The first n of them are a draw without replacement, the draw of
n + 1 contains that of n, and a new speaker changes nothing for the others.
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
    """Return the names in a random order that depends on seed and purpose, not on the given order.

    Examples
    --------
    >>> shuffled(["a", "b", "c"], 0, "trials") == shuffled(["c", "b", "a"], 0, "trials")
    True
    """

    def key(name: str) -> bytes:
        return hashlib.sha256(f"{seed}\0{purpose}\0{name}".encode("utf-8", "surrogatepass")).digest()

    return sorted(names, key=key)


def shuffled_utterances(utterances: Iterable[Utterance], seed: int, purpose: str) -> list[Utterance]:
    """Return the utterances in the random order of their ids, see :func:`shuffled`."""
    by_id = {utterance.id: utterance for utterance in utterances}
    return [by_id[key] for key in shuffled(by_id, seed, purpose)]


class Sessions:
    """The recording sessions of a corpus, by the ids of its utterances.

    Parameters
    ----------
    corpus
        The corpus; its kind and ids decide about "auto".
    rule
        ``"auto"`` (known corpora, and ids like those of LibriSpeech), ``"none"`` (each utterance is a session of its
        own), or a regular expression that is matched from the start of an id and whose first group is the session.

    Raises
    ------
    InputError
        If the rule is no regular expression, or has no group.
    """

    def __init__(self, corpus: Corpus, rule: str = "auto") -> None:
        pattern = SESSION_PATTERNS.get(corpus.kind) if rule == "auto" else None if rule == "none" else rule
        if rule == "auto" and pattern is None and _all_like_librispeech(corpus):
            pattern = SESSION_PATTERNS["librispeech"]
        self.pattern = pattern
        try:
            self._match = re.compile(pattern).match if pattern is not None else None
        except re.error as error:
            raise InputError(
                f"the session rule {rule!r} is not a regular expression: {error}", fix="e.g. '[^-]+-([^-]+)-'"
            ) from error
        if pattern is not None and re.compile(pattern).groups < 1:
            raise InputError(
                f"the session rule {pattern!r} has no group",
                fix="put the session in parentheses, e.g. '[^-]+-([^-]+)-'",
            )

    def of(self, utterance: Utterance) -> str:
        """Return the session of an utterance; without a rule, its id."""
        if self._match is None:
            return utterance.id
        match = self._match(utterance.id)
        if match is None or match[1] is None:
            raise InputError(
                f"no session in the id {utterance.id!r}: it does not match {self.pattern!r}", fix="--session none"
            )
        return match[1]


def _all_like_librispeech(corpus: Corpus) -> bool:
    """Return whether every id is ``<speaker>-<chapter>-<number>`` of its own speaker."""
    for utterance in corpus:
        match = _LIBRISPEECH_ID.fullmatch(utterance.id)
        if match is None or match[1] != utterance.speaker:
            return False
    return len(corpus) > 0
