"""N-gram language models of words: text files in ARPA's format, and KenLM's binary files where ``kenlm`` is installed.

Conventions: logarithms are natural ones. A state is what a model remembers of the words so far. Words are looked up in
the letter case that the model has: a model whose words are all upper case is asked for upper-case words.

The reader of ARPA files is our own: KenLM, which is far smaller in memory and faster, has no binary packages and a
license (LGPL) that this package does not bring along. It is used where it is installed.
"""

from __future__ import annotations

import gzip
import importlib.util
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from voiceveil.core.errors import InputError
from voiceveil.run.ledger import sha256_file

__all__ = ["ArpaModel", "LanguageModel", "language_model_hash", "load_language_model", "read_arpa"]

_LN10 = math.log(10.0)
_UNKNOWN = -10.0 * _LN10  # of a word that the model does not know, if it has no <unk>
_MOST = 50_000_000  # n-grams that are held in memory
_FIX = "give an n-gram model in ARPA's format: .arpa or .arpa.gz"
State = Any


class LanguageModel(Protocol):
    """Log-probabilities of words, one after the other."""

    def start(self) -> State:
        """Return the state at the beginning of a sentence."""
        ...

    def score(self, state: State, word: str) -> tuple[float, State]:
        """Return the log-probability of the next word, and the state after it."""
        ...

    def end(self, state: State) -> float:
        """Return the log-probability that the sentence ends."""
        ...


@dataclass(frozen=True, eq=False)
class ArpaModel:
    """A back-off model: n-gram, with words joined by blanks -> its log-probability and back-off weight."""

    ngrams: dict[str, tuple[float, float]]
    order: int
    upper: bool | None  # case of all words; None: both occur

    def start(self) -> tuple[str, ...]:
        """Return the state at the beginning of a sentence."""
        return ("<s>",) if self.order > 1 else ()

    def score(self, state: tuple[str, ...], word: str) -> tuple[float, tuple[str, ...]]:
        """Return the log-probability of the next word, and the words that the next one depends on."""
        if self.upper is not None:
            word = word.upper() if self.upper else word.lower()
        if word not in self.ngrams:
            word = "<unk>"
        history = (*state, word)[-(self.order - 1) :] if self.order > 1 else ()
        return self._log_probability(state, word), history

    def end(self, state: tuple[str, ...]) -> float:
        """Return the log-probability that the sentence ends."""
        return self._log_probability(state, "</s>")

    def _log_probability(self, history: tuple[str, ...], word: str) -> float:
        """Return log P(word | history) of the longest n-gram that is known, with the weights of backing off to it."""
        weight = 0.0
        for start in range(len(history) + 1):
            entry = self.ngrams.get(" ".join((*history[start:], word)))
            if entry is not None:
                return weight + entry[0]
            weight += self.ngrams.get(" ".join(history[start:]), (0.0, 0.0))[1]
        return weight + _UNKNOWN


def read_arpa(path: Path) -> ArpaModel:
    """Read a model in ARPA's format, which may be compressed by gzip.

    Raises
    ------
    InputError
        If the file is none, or has other numbers of n-grams than it says.
    """
    counts: dict[int, int] = {}
    ngrams: dict[str, tuple[float, float]] = {}
    order = 0
    for number, line in _lines(path):
        if line.startswith("\\"):
            order = _section(line, path, number, order)
            if order < 0:
                break
        elif order == 0:
            if line.startswith("ngram "):
                n, _, count = line.removeprefix("ngram ").partition("=")
                if not (n.strip().isdecimal() and count.strip().isdecimal()):
                    raise InputError(f"line {number}: {line[:60]!r}", where=path, fix=_FIX)
                counts[int(n)] = int(count)
                if sum(counts.values()) > _MOST:
                    fix = "use a pruned model, or install kenlm and give a binary model"
                    raise InputError(f"more than {_MOST:,} n-grams", where=path, fix=fix)
        else:
            fields = line.split()
            if not order + 1 <= len(fields) <= order + 2:
                raise InputError(f"line {number}: no {order}-gram: {line[:60]!r}", where=path, fix=_FIX)
            try:
                values = [_LN10 * float(fields[i]) for i in (0, order + 1) if i < len(fields)]
            except ValueError as error:
                raise InputError(f"line {number}: no {order}-gram: {line[:60]!r}", where=path, fix=_FIX) from error
            ngrams[" ".join(fields[1 : order + 1])] = (values[0], values[1] if len(values) > 1 else 0.0)
    if order >= 0 or len(ngrams) != sum(counts.values()) or not counts:
        said = sum(counts.values())
        raise InputError(f"{len(ngrams)} n-grams, but it says {said}, or no end", where=path, fix=_FIX)
    return ArpaModel(ngrams, max(counts), _upper(ngrams))


def _section(line: str, path: Path, number: int, before: int) -> int:
    r"""Return the order of the n-grams below ``\2-grams:``, 0 below ``\data\``, -1 at the end."""
    if line == "\\data\\":
        return 0
    if line == "\\end\\":
        return -1
    order = line[1:].removesuffix("-grams:")
    if not order.isdecimal() or int(order) != before + 1:
        raise InputError(f"line {number}: {line[:60]!r}", where=path, fix=_FIX)
    return int(order)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines from ``\\data\\`` on that are not empty, with their numbers."""
    if not path.is_file():
        raise InputError("no such language model", where=path, fix=_FIX)
    opened = gzip.open if path.suffix == ".gz" else open
    has_begun = False
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            for number, raw in enumerate(file, 1):
                line = raw.strip()
                has_begun = has_begun or line == "\\data\\"
                if number > 100 and not has_begun:
                    raise InputError("no \\data\\ in the first 100 lines", where=path, fix=_FIX)
                if line and has_begun:
                    yield number, line
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise InputError("not a text file", where=path, fix=_FIX) from error


def _upper(ngrams: dict[str, tuple[float, float]]) -> bool | None:
    """Return the case of all words, without marks such as ``<s>``; None if both occur."""
    words = "".join(words for words in ngrams if "<" not in words)
    has_upper, has_lower = words != words.lower(), words != words.upper()
    return None if has_upper == has_lower else has_upper


@dataclass(frozen=True, eq=False)
class _KenLM:
    """A model of ``kenlm``; an unknown word has the probability of its ``<unk>``."""

    model: Any
    module: Any
    upper: bool | None

    def start(self) -> Any:
        state = self.module.State()
        self.model.BeginSentenceWrite(state)
        return state

    def score(self, state: Any, word: str) -> tuple[float, Any]:
        if self.upper is not None:
            word = word.upper() if self.upper else word.lower()
        after = self.module.State()
        return _LN10 * self.model.BaseScore(state, word, after), after

    def end(self, state: Any) -> float:
        return float(_LN10 * self.model.BaseScore(state, "</s>", self.module.State()))


@lru_cache(maxsize=1)
def load_language_model(path: Path, sha256: str) -> LanguageModel:
    """Return the model of a file, loaded once per process; ``sha256`` is its hash (:func:`language_model_hash`)."""
    if path.name.endswith((".arpa", ".arpa.gz")):
        if importlib.util.find_spec("kenlm") is None or path.suffix == ".gz":
            return read_arpa(path)
    elif importlib.util.find_spec("kenlm") is None:
        fix = "give an .arpa or .arpa.gz file, or install kenlm for its binary files"
        raise InputError("not a language model that can be read without kenlm", where=path, fix=fix)
    import kenlm

    try:
        model = kenlm.Model(str(path))
    except OSError as error:
        raise InputError("kenlm cannot read it", where=path, fix=_FIX) from error
    known = [case for case in (True, False) if ("THE" if case else "the") in model]
    return _KenLM(model, kenlm, known[0] if len(known) == 1 else None)


def language_model_hash(path: Path) -> str:
    """Return the hash of a language model's file, computed once while the file does not change."""
    if not path.is_file():
        raise InputError("no such language model", where=path, fix=_FIX)
    status = path.stat()
    return _hash(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=8)
def _hash(path: Path, size: int, modified: int) -> str:
    return sha256_file(path)
