"""What a recogniser of one's own learns from: whole utterances with MFCC, a vector of the utterance, and characters.

Conventions: 16 kHz, frames of 10 ms; MFCC of high resolution as in Kaldi's recipes (40 of 40 mel bands, 20 to 7,600
Hz). Shorter utterances of a batch go on with their last frame, as the network goes on at the end of an utterance. The
batch of a step depends on the seed and the step's number alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import load
from voiceveil.corpus import Utterance
from voiceveil.dsp.kaldi import Framing, mfcc
from voiceveil.errors import InputError
from voiceveil.nn.ctc_alignment import fewest_frames
from voiceveil.run.cache import Cache
from voiceveil.run.extract import Evaluator, extract
from voiceveil.utility.words import plain_words

__all__ = ["ALPHABET", "LONGEST", "RecognitionData", "SpeechBatch", "hires_mfcc", "spelled"]

#: Output 0 is the blank, output i the i-th of these.
ALPHABET = " 'abcdefghijklmnopqrstuvwxyz"
#: Seconds; longer utterances are left out, they would make a batch of their own.
LONGEST = 17.0
Array = NDArray[np.float32]


class SpeechBatch(NamedTuple):
    """Samples of all utterances (N,), MFCC (B, T, 40), vectors (B, E), lengths in frames (B,), tokens of each."""

    samples: Array
    features: Array
    utterance: Array
    frames: NDArray[np.int64]
    tokens: tuple[NDArray[np.int64], ...]


def hires_mfcc(samples: Array) -> Array:
    """(n,) to (frames, 40)."""
    framing = Framing(snip_edges=False)
    return np.asarray(mfcc(samples, framing, ceps=40, bins=40, low=20.0, high=-400.0, energy=False), dtype=np.float32)


def spelled(text: str) -> NDArray[np.int64]:
    """The text's characters as numbers of outputs, 1 and up; what is not in the alphabet is left out."""
    return np.array([ALPHABET.index(c) + 1 for c in plain_words(text).lower() if c in ALPHABET], dtype=np.int64)


class RecognitionData:
    """The utterances of a training; a twentieth is kept for validation."""

    def __init__(
        self,
        utterances: Iterable[Utterance],
        speaker: Evaluator[Any],
        cache: Cache,
        *,
        seed: int,
        jobs: int = 1,
        quiet: bool = True,
    ) -> None:
        listed = [u for u in utterances if u.text and len(spelled(u.text))]
        if not listed:
            raise InputError("no utterances with text to learn from", fix="a recogniser needs transcripts")
        vectors = extract(listed, speaker, cache=cache, jobs=jobs, quiet=quiet)
        self._vectors = {
            u.id: np.asarray(v / max(1e-9, np.linalg.norm(v)), np.float32) for u, v in _paired(listed, vectors)
        }
        self._keys = cache.keys(speaker.fingerprint(), listed)
        self._seed = seed
        order = np.random.default_rng([seed, 0]).permutation(len(listed))
        held = max(1, len(listed) // 20) if len(listed) > 1 else 0
        self.validation: Sequence[Utterance] = [listed[i] for i in order[:held]]
        self.training: Sequence[Utterance] = [listed[i] for i in order[held:]]

    def batch(self, step: int, size: int) -> SpeechBatch:
        """The utterances of a step, drawn anew each time."""
        rng = np.random.default_rng([self._seed, 1, step])
        found: list[tuple[Array, Array, Utterance]] = []
        for i in rng.permutation(len(self.training)):
            item = self._read(self.training[i])
            found += [item] if item else []
            if len(found) == size:
                break
        return self._stacked(found)

    def validation_batches(self, size: int) -> Iterable[SpeechBatch]:
        """The same every time."""
        usable = [item for u in self.validation if (item := self._read(u))]
        for first in range(0, len(usable), size):
            yield self._stacked(usable[first : first + size])

    @property
    def speaker_dimension(self) -> int:
        """Of the vectors."""
        return len(next(iter(self._vectors.values())))

    def description(self) -> dict[str, Any]:
        """Numbers of utterances, and a hash of recordings and texts."""
        every = sorted([*self.training, *self.validation], key=lambda u: u.id)
        total = hashlib.sha256(b"".join(self._keys[u.id] + str(u.text).encode() for u in every))
        return {
            "utterances": len(self.training),
            "validation_utterances": len(self.validation),
            "sha256": total.hexdigest(),
        }

    def _read(self, utterance: Utterance) -> tuple[Array, Array, Utterance] | None:
        """Samples and MFCC; None if it is too long, or too short for its text at a third of the frames."""
        samples = load(utterance.path, rate=16000, start=utterance.start, duration=utterance.duration).samples
        features = hires_mfcc(samples)
        enough = -(-len(features) // 3) >= fewest_frames(spelled(str(utterance.text)))
        return (samples, features, utterance) if enough and len(samples) <= LONGEST * 16000 else None

    def _stacked(self, items: Sequence[tuple[Array, Array, Utterance]]) -> SpeechBatch:
        if not items:
            raise InputError(
                "no utterance is long enough for its text", fix="check that audio and texts belong together"
            )
        longest = max(len(features) for _, features, _ in items)
        return SpeechBatch(
            np.concatenate([samples for samples, _, _ in items]),
            np.stack([np.pad(f, ((0, longest - len(f)), (0, 0)), mode="edge") for _, f, _ in items]),
            np.stack([self._vectors[u.id] for _, _, u in items]),
            np.array([len(features) for _, features, _ in items]),
            tuple(spelled(str(u.text)) for _, _, u in items),
        )


def _paired(utterances: Sequence[Utterance], vectors: Any) -> Iterable[tuple[Utterance, NDArray[Any]]]:
    return ((u, np.asarray(vectors[u.id])) for u in utterances)
