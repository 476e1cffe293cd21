"""Prefix beam search: the best text of a CTC network together with an n-gram model of words (Hannun et al. 2014).

Conventions: ``rows`` is an array (T, V) of natural log-probabilities of tokens, one row a frame. A text has the score

    log P_ctc(text) + weight * log P_lm(words, end) + bonus * number of words

A word ends at a token that separates words, or at the end. Prefixes are kept by the score of their ended words. With a
beam and a range of tokens that are wide enough, the result is the text of the highest score of all.

It is our own because ``pyctcdecode``, the usual package, needs numpy 1 and has had no release since 2022, and the
packages of ``flashlight-text`` bring KenLM with them, whose license (LGPL) we do not pass on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.models.asr.language_model import LanguageModel, language_model_hash, load_language_model

__all__ = ["BeamDecoder", "beam_search", "parse_decoder"]

_LEAST = -math.inf


@dataclass(frozen=True)
class BeamDecoder:
    """Decoding with a language model.

    Parameters
    ----------
    path
        The language model: a file in ARPA's format, or one of KenLM.
    weight, bonus
        Weight of the language model, and what each word adds to the score.
    beam
        Prefixes that are kept after each frame.
    least
        Log-probability that a token needs to be tried in a frame; the best token always is.
    """

    path: Path
    weight: float = 0.5
    bonus: float = 1.5
    beam: int = 100
    least: float = -5.0

    def __post_init__(self) -> None:
        if not (self.weight >= 0 and math.isfinite(self.weight) and math.isfinite(self.bonus)) or self.beam < 1:
            problem = f"a language model with weight {self.weight:g}, bonus {self.bonus:g}, beam {self.beam}"
            raise InputError(problem, fix="weight is 0 or more, beam 1 or more")

    def check(self) -> None:
        """Raise an ``InputError`` if the language model cannot be read."""
        self._model()

    def fingerprint(self) -> str:
        """Return the version, the hash of the language model, and the settings."""
        settings = f"{self.weight} {self.bonus} {self.beam} {self.least}"
        return f"beam 1 {language_model_hash(self.path)[:32]} {settings}"

    def decode(self, rows: NDArray[np.floating[Any]], tokens: Sequence[str], blank: int) -> str:
        """Return the text of log-probabilities (T, V).

        Parameters
        ----------
        rows
            Natural logarithms.
        tokens
            The text of each token; a blank at its beginning separates words; a token "" is never written.
        blank
            Number of the token of CTC that says nothing.
        """
        return beam_search(rows, tokens, blank, self._model(), self)

    def _model(self) -> LanguageModel:
        return load_language_model(self.path, language_model_hash(self.path))


class _Prefix:
    """A text so far: its last token, its ended words, and its probabilities up to the frame."""

    __slots__ = ("children", "ended", "letters", "parent", "state", "token", "words")

    def __init__(self, parent: _Prefix | None, token: int, words: float, state: Any, letters: str) -> None:
        self.parent = parent
        self.token = token
        self.words = words  # score of the ended words
        self.state = state  # of the language model after these
        self.letters = letters  # of the word that has not ended
        self.ended: float | None = None  # score of the words if the text ended here
        self.children: dict[int, _Prefix] = {}


def beam_search(
    rows: NDArray[np.floating[Any]], tokens: Sequence[str], blank: int, model: LanguageModel, settings: BeamDecoder
) -> str:
    """Return the text of the highest score; see :meth:`BeamDecoder.decode`."""
    writable = np.array([token for token, text in enumerate(tokens) if text or token == blank])
    root = _Prefix(None, -1, 0.0, model.start(), "")
    beam: dict[_Prefix, tuple[float, float]] = {root: (0.0, _LEAST)}  # log P ending in blank, and in the last token
    for row in rows:
        allowed = row[writable]
        after: dict[_Prefix, tuple[float, float]] = {}
        tried = writable[(allowed >= settings.least) | (allowed == allowed.max())].tolist()
        for prefix, (in_blank, in_token) in beam.items():
            both = _add(in_blank, in_token)
            for token in tried:
                p = float(row[token])
                if token == blank:
                    _increase(after, prefix, blank=both + p)
                    continue
                if token == prefix.token:
                    _increase(after, prefix, token=in_token + p)
                _increase(
                    after,
                    _child(prefix, token, tokens[token], model, settings),
                    token=(in_blank if token == prefix.token else both) + p,
                )
        kept = sorted(after.items(), key=lambda item: -(_add(*item[1]) + item[0].words))[: settings.beam]
        beam = dict(kept)
    best = max(beam, key=lambda prefix: _add(*beam[prefix]) + _ended(prefix, model, settings))
    return _text(best, tokens)


def _child(prefix: _Prefix, token: int, letter: str, model: LanguageModel, settings: BeamDecoder) -> _Prefix:
    """Return the prefix with one more token; one that begins with a blank ends the word before it."""
    child = prefix.children.get(token)
    if child is None:
        words, state, letters = prefix.words, prefix.state, prefix.letters + letter
        if letter.startswith(" "):
            letters = letter[1:]
            if prefix.letters:
                p, state = model.score(state, prefix.letters)
                words += settings.weight * p + settings.bonus
        child = prefix.children[token] = _Prefix(prefix, token, words, state, letters)
    return child


def _ended(prefix: _Prefix, model: LanguageModel, settings: BeamDecoder) -> float:
    """Return the score of the words of a whole text."""
    words, state = prefix.words, prefix.state
    if prefix.letters:
        p, state = model.score(state, prefix.letters)
        words += settings.weight * p + settings.bonus
    return words + settings.weight * model.end(state)


def _text(prefix: _Prefix, tokens: Sequence[str]) -> str:
    letters: list[str] = []
    place: _Prefix | None = prefix
    while place is not None and place.parent is not None:
        letters.append(tokens[place.token])
        place = place.parent
    return " ".join("".join(reversed(letters)).split())


def _increase(
    beam: dict[_Prefix, tuple[float, float]], prefix: _Prefix, *, blank: float = _LEAST, token: float = _LEAST
) -> None:
    in_blank, in_token = beam.get(prefix, (_LEAST, _LEAST))
    beam[prefix] = (_add(in_blank, blank), _add(in_token, token))


def _add(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    return a if b == _LEAST else a + math.log1p(math.exp(b - a))


def parse_decoder(text: str) -> BeamDecoder:
    """Return the decoder of ``FILE`` or ``FILE+weight=0.7+bonus=1+beam=50``, as users write it after ``+lm=``.

    >>> parse_decoder("3-gram.arpa+beam=50").beam
    50
    """
    file, *settings = text.split("+")
    values: dict[str, Any] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        kind = {"weight": float, "bonus": float, "beam": int}.get(name)
        try:
            values[name] = kind(value) if kind is not None else None
        except ValueError:
            values[name] = None
        if values[name] is None:
            fix = "write +lm=FILE+weight=0.5+bonus=1.5+beam=100"
            raise InputError(f"{setting!r} is no setting of a language model", fix=fix)
    return BeamDecoder(Path(file), **values)
