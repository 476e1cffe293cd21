"""Words as a speaker encoder: people are known by what they say and how they phrase it, whatever voice says it.

An embedding counts the words and the sequences of three and four characters of a transcript. It is computed by a speech
recognizer from the audio that is attacked, so that words that the anonymization destroys are lost to the attacker too.
In corpora of read speech it mostly knows the book that a speaker reads.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.models.asr.recognition import Recognizer, recognizer
from voiceveil.models.speaker.encoders import Embedding, SpeakerEncoder, l2_normalized

__all__ = ["WordsEncoder", "text_vector"]

_SIZE = 1024


def text_vector(text: str) -> Embedding:
    """Return log counts of words and of sequences of three and four characters, hashed to (1024,), of length 1."""
    words = re.sub(r"[^\w' ]+", " ", text.lower()).split()
    spaced = f" {' '.join(words)} "
    items = Counter(f"word {word}" for word in words)
    items.update(spaced[i : i + size] for size in (3, 4) for i in range(len(spaced) - size + 1))
    vector = np.zeros(_SIZE)
    for item, count in items.items():
        vector[zlib.crc32(item.encode()) % _SIZE] += np.log1p(count)
    return l2_normalized(vector)


@dataclass(frozen=True)
class WordsEncoder(SpeakerEncoder):
    """Words of a transcript, see :func:`text_vector`.

    Parameters
    ----------
    recognizer : str
        Name of a recognizer, e.g. ``moonshine`` or ``whisper:FOLDER``.
    """

    recognizer: str = "moonshine"

    family: ClassVar[str] = "words"
    dimension: ClassVar[int] = _SIZE

    @property
    def name(self) -> str:
        """``words``, with the recognizer unless it is Moonshine."""
        return self.family if self.recognizer == "moonshine" else f"{self.family}:{self.recognizer}"

    @property
    def rate(self) -> int:
        """Sampling rate of the recognizer in Hz."""
        return self.source().rate

    @property
    def minimum(self) -> float:
        """Shortest utterance in seconds."""
        return self.source().minimum

    def fingerprint(self) -> str:
        """Return the version of the counts and the fingerprint of the recognizer."""
        return f"words 1 {self.source().fingerprint()}"

    def check(self) -> None:
        """Raise an ``InputError`` if the recognizer cannot be used; called before the work begins."""
        self.source()

    def source(self) -> Recognizer:
        """Return the recognizer, whose transcripts are cached."""
        return _recognizer(self.recognizer)

    def derive(self, result: str) -> Embedding:
        """Return the embedding of a transcript."""
        return text_vector(result)

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the embedding of one utterance."""
        return self.derive(self.source()(wave))


@lru_cache(maxsize=4)
def _recognizer(name: str) -> Recognizer:
    """Return a recognizer, whose files are checked once in each process."""
    return recognizer(name)
