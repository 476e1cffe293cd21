"""Pieces of utterances: several short recordings of each speaker from a few long ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from voiceveil.audio import info
from voiceveil.core.errors import InputError
from voiceveil.corpus.model import Utterance

__all__ = ["pieces_of_utterances"]


def pieces_of_utterances(utterances: Iterable[Utterance], seconds: float, most: int = 0) -> list[Utterance]:
    """Return the utterances cut into equal pieces.

    Parameters
    ----------
    utterances
        Utterances of known or unknown speakers.
    seconds
        Least length of a piece: an utterance becomes as many equal pieces as it holds pieces of this length, or stays
        whole if it is shorter than two of them.
    most
        Largest number of pieces of one speaker, which are then spread evenly over the speaker's pieces; 0: no limit.

    Returns
    -------
    list of Utterance
        Parts of the files, without text; ``ID-1``, ``ID-2``, ... of the utterance ``ID``.

    Raises
    ------
    InputError
        If ``seconds`` or ``most`` is out of range, or a file cannot be read.
    """
    if not 0 < seconds < np.inf or most < 0:
        raise InputError(f"pieces of {seconds} s, at most {most} a speaker", fix="give seconds above 0, and 0 or more")
    by_speaker: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        by_speaker[utterance.speaker or utterance.id] += _cut(utterance, seconds)
    return [piece for group in by_speaker.values() for piece in _spread(group, most)]


def _cut(utterance: Utterance, seconds: float) -> list[Utterance]:
    length = utterance.duration
    if length is None:
        length = info(utterance.path).duration - utterance.start
    count = int(length / seconds)
    if count < 2:
        return [utterance]
    length /= count
    return [
        replace(
            utterance,
            id=f"{utterance.id}-{number + 1}",
            start=utterance.start + number * length,
            duration=length,
            text=None,
            seconds=None,
        )
        for number in range(count)
    ]


def _spread(pieces: list[Utterance], most: int) -> list[Utterance]:
    """Return ``most`` of the pieces at equal distances, or all if there are no more."""
    if not most or len(pieces) <= most:
        return pieces
    return [pieces[int(row)] for row in (np.arange(most) + 0.5) * len(pieces) / most]
