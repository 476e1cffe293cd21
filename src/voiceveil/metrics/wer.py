"""Preservation of words: word errors, counted and aligned; the word error rate of the VoicePrivacy Challenges.

Conventions: a transcript is a string of words separated by white space; ``refs`` and ``hyps`` are two sequences of
equal length, or two mappings from utterance id to transcript. Nothing is normalized unless asked:
:func:`normalize_text` is what the challenge did to its transcripts. Rates are fractions; WER may exceed 1.

The number of edits, hence the WER, does not depend on how ties between alignments are broken. How the edits split
into substitutions, deletions and insertions does. We break ties as Kaldi's ``compute-wer`` and SpeechBrain do, so
that the counts equal those in the challenge's result files: a step that consumes both words is taken only if it is
*strictly* cheaper, then a deletion only if strictly cheaper than an insertion. "A B" against "B C" is thus one
deletion, one hit, one insertion; jiwer and rapidfuzz call it two substitutions. Insertions minus deletions is the
same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.compiled import njit
from voiceveil.core.errors import InputError

__all__ = ["Edit", "WordErrors", "normalize_text", "word_errors"]

Transcripts = Sequence[str] | Mapping[str, str]
Operation = Literal["hit", "substitution", "deletion", "insertion"]

#: The columns of ``WordErrors.counts``, and the codes of the compiled alignment.
OPERATIONS: tuple[Operation, ...] = ("substitution", "deletion", "insertion", "hit")
_SUBSTITUTION, _DELETION, _INSERTION, _HIT = range(4)
_MOST_CELLS = 1_000_000_000  # of an alignment, a byte each: 30,000 words against 30,000
_PUNCTUATION = re.compile(r"[,!?.]")


@dataclass(frozen=True)
class Edit:
    """One word of an alignment: ``ref`` is None for an insertion, ``hyp`` is None for a deletion."""

    operation: Operation
    ref: str | None
    hyp: str | None


@dataclass(frozen=True, eq=False)
class WordErrors:
    """Word errors of each utterance and of all.

    Parameters
    ----------
    utterances
        Utterance ids.
    counts
        int64 (utterances, 4): substitutions, deletions, insertions, hits. A bootstrap over speakers re-weights the
        rows.
    alignments
        Alignment of each utterance.
    """

    utterances: tuple[str, ...]
    counts: NDArray[np.int64]
    alignments: tuple[tuple[Edit, ...], ...]

    @cached_property
    def _totals(self) -> tuple[int, int, int, int]:
        substitutions, deletions, insertions, hits = (int(total) for total in self.counts.sum(axis=0))
        return substitutions, deletions, insertions, hits

    @property
    def substitutions(self) -> int:
        """Return the number of reference words that were recognized as another word."""
        return self._totals[0]

    @property
    def deletions(self) -> int:
        """Return the number of reference words that are missing."""
        return self._totals[1]

    @property
    def insertions(self) -> int:
        """Return the number of words that are not in the reference."""
        return self._totals[2]

    @property
    def hits(self) -> int:
        """Return the number of reference words that were recognized."""
        return self._totals[3]

    @property
    def edits(self) -> int:
        """Return the number of substitutions, deletions and insertions."""
        return sum(self._totals[:3])

    @property
    def words(self) -> int:
        """Return the number of words in the references, N_ref."""
        return self.substitutions + self.deletions + self.hits

    @property
    def wer(self) -> float:
        """Return (N_sub + N_del + N_ins) / N_ref over the whole corpus."""
        return self.edits / self.words

    @property
    def sentence_error_rate(self) -> float:
        """Return the fraction of utterances with at least one edit."""
        return float((self.counts[:, :3].sum(axis=1) > 0).mean())


def normalize_text(text: str) -> str:
    """Return the transcript as the challenge scores it: ``, ! ? .`` become spaces, spaces are squeezed, upper case.

    Apostrophes, hyphens and digits stay.

    >>> normalize_text("Well, it's  fine. Isn't it?")
    "WELL IT'S FINE ISN'T IT"
    """
    return " ".join(_PUNCTUATION.sub(" ", text).split()).upper()


def word_errors(
    refs: Transcripts, hyps: Transcripts, *, normalize: bool = False, separator: str | None = None
) -> WordErrors:
    """Align each hypothesis with its reference and count the edits.

    Parameters
    ----------
    refs, hyps
        Transcripts: two sequences of equal length, or two mappings from utterance id.
    normalize
        Apply :func:`normalize_text` to both sides first.
    separator
        ``" "`` splits at single spaces, as the code of the 2024 challenge does: between two spaces in a row there is an
        empty word, and an empty transcript is one. By default any white space separates words.

    Raises
    ------
    InputError
        If the utterances differ, or the references have no word at all (a single empty one is fine).

    Examples
    --------
    >>> errors = word_errors(["the cat sat", "on the mat"], ["the hat sat", "on mat"])
    >>> errors.substitutions, errors.deletions, errors.insertions, errors.hits
    (1, 1, 0, 4)
    >>> round(errors.wer, 4)
    0.3333
    """
    ids, pairs = _paired(refs, hyps)
    vocabulary: dict[str, int] = {}
    counts = np.zeros((len(ids), 4), dtype=np.int64)
    alignments = []
    for row, (ref_text, hyp_text) in zip(counts, pairs, strict=True):
        ref = (normalize_text(ref_text) if normalize else ref_text).split(separator)
        hyp = (normalize_text(hyp_text) if normalize else hyp_text).split(separator)
        ref_codes, hyp_codes = (
            np.array([vocabulary.setdefault(word, len(vocabulary)) for word in words], dtype=np.int64)
            for words in (ref, hyp)
        )
        if (len(ref) + 1) * (len(hyp) + 1) > _MOST_CELLS:
            problem = f"{len(ref)} words of a reference and {len(hyp)} of a hypothesis are too many words to align"
            raise InputError(problem, fix="give a line for each utterance")
        operations = _align(ref_codes, hyp_codes)
        row[:] = np.bincount(operations, minlength=4)
        alignments.append(tuple(_edits(operations, ref, hyp)))
    if not counts[:, [_SUBSTITUTION, _DELETION, _HIT]].any():
        raise InputError("the references have no word", fix="check the transcripts: a WER needs at least one word")
    return WordErrors(ids, counts, tuple(alignments))


@njit(cache=True)
def _align(ref: NDArray[np.int64], hyp: NDArray[np.int64]) -> NDArray[np.int8]:
    """Return the operations of one cheapest alignment, first to last; both sides are word numbers.

    ``cost[j]`` is the edit distance between the words so far and the first j of ``hyp``; ``step`` remembers how each
    cell was reached.
    """
    step = np.empty((len(ref) + 1, len(hyp) + 1), dtype=np.int8)
    step[:, 0], step[0, 1:] = _DELETION, _INSERTION
    cost = np.arange(len(hyp) + 1)
    for i in range(1, len(ref) + 1):
        diagonal, cost[0] = cost[0], i
        for j in range(1, len(hyp) + 1):
            equal = ref[i - 1] == hyp[j - 1]
            both, deletion, insertion = diagonal + (0 if equal else 1), cost[j] + 1, cost[j - 1] + 1
            diagonal = cost[j]
            if both < insertion and both < deletion:
                cost[j], step[i, j] = both, _HIT if equal else _SUBSTITUTION
            elif deletion < insertion:
                cost[j], step[i, j] = deletion, _DELETION
            else:
                cost[j], step[i, j] = insertion, _INSERTION
    operations = np.empty(len(ref) + len(hyp), dtype=np.int8)
    i, j, k = len(ref), len(hyp), len(operations)
    while i or j:
        k -= 1
        operations[k] = step[i, j]
        if operations[k] != _INSERTION:
            i -= 1
        if operations[k] != _DELETION:
            j -= 1
    return operations[k:]


def _edits(operations: NDArray[np.int8], ref: list[str], hyp: list[str]) -> Iterator[Edit]:
    refs, hyps = iter(ref), iter(hyp)
    for code in operations:
        yield Edit(
            OPERATIONS[code],
            None if code == _INSERTION else next(refs),
            None if code == _DELETION else next(hyps),
        )


def _paired(refs: Transcripts, hyps: Transcripts) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """Return ids and (reference, hypothesis) of each utterance; refuse sides with different utterances."""
    if isinstance(refs, str) or isinstance(hyps, str):
        raise InputError("the transcripts are a single string", fix="give a list with one string for each utterance")
    if isinstance(refs, Mapping) and isinstance(hyps, Mapping):
        for utterance in [*(refs.keys() - hyps.keys()), *(hyps.keys() - refs.keys())]:
            side = "hypothesis" if utterance in refs else "reference"
            raise InputError(f"utterance {utterance!r} has no {side}", fix="score the same utterances on both sides")
        return tuple(refs), [(refs[utterance], hyps[utterance]) for utterance in refs]
    if isinstance(refs, Mapping) or isinstance(hyps, Mapping):
        raise InputError("one side is a mapping, the other a sequence", fix="give two mappings or two sequences")
    if len(refs) != len(hyps):
        raise InputError(
            f"{len(refs)} references but {len(hyps)} hypotheses", fix="give one hypothesis for each reference"
        )
    return tuple(str(index) for index in range(len(refs))), list(zip(refs, hyps, strict=True))
