"""What a recognizer of one's own learns from: whole utterances with MFCC, a vector of the utterance, and characters.

Instead of MFCC it may hear the content features of another network, and learn to make those of a third (its teacher).

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
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.dsp.kaldi import hires_mfcc
from voiceveil.models.asr.text_normalization import plain_words
from voiceveil.models.content.features import FRAME, Content, interpolated, normalized
from voiceveil.models.nets.ctc_attention import SUBSAMPLING
from voiceveil.run.cache import Cache
from voiceveil.run.extract import Evaluator, extract
from voiceveil.training.ctc_alignment import fewest_frames

__all__ = ["ALPHABET", "LONGEST", "RecognitionData", "SpeechBatch", "spelled"]

#: Output 0 is the blank, output i the i-th of these.
ALPHABET = " 'abcdefghijklmnopqrstuvwxyz"
#: Seconds; longer utterances are left out, they would make a batch of their own.
LONGEST = 17.0
Array = NDArray[np.float32]


class SpeechBatch(NamedTuple):
    """Samples of all utterances (N,), MFCC (B, T, 40), vectors (B, E), lengths in frames (B,), tokens of each.

    Where another network's features are heard, they stand for the MFCC, and the samples are zeros. ``taught``: for each
    utterance what the teacher hears at the frames of our content (rows, D), normalized; empty without a teacher.
    """

    samples: Array
    features: Array
    utterance: Array
    frames: NDArray[np.int64]
    tokens: tuple[NDArray[np.int64], ...]
    taught: tuple[Array, ...] = ()


def spelled(text: str) -> NDArray[np.int64]:
    """Return the text's characters as numbers of outputs, 1 and up; what is not in the alphabet is left out."""
    return np.array([ALPHABET.index(c) + 1 for c in plain_words(text).lower() if c in ALPHABET], dtype=np.int64)


class RecognitionData:
    """The utterances of a training; a twentieth is kept for validation.

    ``speaker``: gives the vector of an utterance, if one is needed; ``heard``: content features instead of MFCC;
    ``teacher``: content features to learn to make.
    """

    def __init__(
        self,
        utterances: Iterable[Utterance],
        speaker: Evaluator[Any] | None,
        cache: Cache,
        *,
        seed: int,
        heard: Content | None = None,
        teacher: Content | None = None,
        jobs: int = 1,
        quiet: bool = True,
    ) -> None:
        listed = [u for u in utterances if u.text and len(spelled(u.text))]
        if not listed:
            raise InputError("no utterances with text to learn from", fix="a recognizer needs transcripts")
        self._vectors: dict[str, Array] = {u.id: np.zeros(0, np.float32) for u in listed}
        if speaker is not None:
            vectors = extract(listed, speaker, cache=cache, jobs=jobs, quiet=quiet)
            self._vectors = {
                u.id: np.asarray(v / max(1e-9, np.linalg.norm(v)), np.float32) for u, v in _paired(listed, vectors)
            }
        self._keys = cache.keys("" if speaker is None else speaker.fingerprint(), listed)
        for part in filter(None, (heard, teacher)):
            extract(listed, part, cache=cache, jobs=jobs, quiet=quiet)
        self._cache, self._seed, self._heard, self._teacher = cache, seed, heard, teacher
        self._heard_keys = cache.keys(heard.fingerprint(), listed) if heard else {}
        self._teacher_keys = cache.keys(teacher.fingerprint(), listed) if teacher else {}
        order = np.random.default_rng([seed, 0]).permutation(len(listed))
        held = max(1, len(listed) // 20) if len(listed) > 1 else 0
        self.validation: Sequence[Utterance] = [listed[i] for i in order[:held]]
        self.training: Sequence[Utterance] = [listed[i] for i in order[held:]]

    def batch(self, step: int, size: int) -> SpeechBatch:
        """Return the utterances of a step, drawn anew each time."""
        rng = np.random.default_rng([self._seed, 1, step])
        found: list[_Item] = []
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

    def _read(self, utterance: Utterance) -> _Item | None:
        """Features and what goes with them; None if it is too long, or too short for its text."""
        tokens = spelled(str(utterance.text))
        if self._heard:
            features = np.asarray(self._cache.get(self._heard_keys[utterance.id]), dtype=np.float32)
            samples = np.broadcast_to(np.float32(0), round(len(features) * self._heard.hop))
            enough, hop, offset = len(features), self._heard.hop, self._heard.offset
        else:
            samples = load(utterance.path, rate=16000, start=utterance.start, duration=utterance.duration).samples
            features = hires_mfcc(samples)
            enough, hop, offset = -(-len(features) // 3), SUBSAMPLING * FRAME, SUBSAMPLING * FRAME / 2
        if enough < fewest_frames(tokens) or len(samples) > LONGEST * 16000:
            return None
        taught = None
        if self._teacher:
            theirs = normalized(np.asarray(self._cache.get(self._teacher_keys[utterance.id])))
            rows = len(features) if self._heard else -(-len(features) // SUBSAMPLING)
            at = (offset + hop * np.arange(rows) - self._teacher.offset) / self._teacher.hop
            taught = interpolated(theirs, np.clip(at, 0, len(theirs) - 1))
        return _Item(samples, features, self._vectors[utterance.id], tokens, taught)

    def _stacked(self, items: Sequence[_Item]) -> SpeechBatch:
        if not items:
            raise InputError(
                "no utterance is long enough for its text", fix="check that audio and texts belong together"
            )
        longest = max(len(item.features) for item in items)
        return SpeechBatch(
            np.concatenate([item.samples for item in items]),
            np.stack([np.pad(i.features, ((0, longest - len(i.features)), (0, 0)), mode="edge") for i in items]),
            np.stack([item.vector for item in items]),
            np.array([len(item.features) for item in items]),
            tuple(item.tokens for item in items),
            tuple(item.taught for item in items if item.taught is not None),
        )


class _Item(NamedTuple):
    """One utterance of a batch."""

    samples: Array
    features: Array
    vector: Array
    tokens: NDArray[np.int64]
    taught: Array | None


def _paired(utterances: Sequence[Utterance], vectors: Any) -> Iterable[tuple[Utterance, NDArray[Any]]]:
    return ((u, np.asarray(vectors[u.id])) for u in utterances)
