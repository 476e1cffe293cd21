"""Training data of recognizers: whole utterances with features, an embedding of the utterance, and characters.

The features are MFCCs, or the content features of another network. With a teacher, each utterance also has the
teacher's content features, which the recognizer learns to imitate.

Conventions: 16 kHz, frames of 10 ms; MFCCs of high resolution as in Kaldi's recipes (40 from 40 mel bands, 20 to 7,600
Hz). Shorter utterances of a batch are padded by their last frame. The batch of a step depends on the seed and the
number of the step alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import load
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.dsp.kaldi import hires_mfcc
from voiceveil.models.asr.ctc_alignment import fewest_frames
from voiceveil.models.asr.text_normalization import plain_words
from voiceveil.models.content.features import FRAME, ContentEncoder, interpolate, normalize_content
from voiceveil.models.nets.ctc_attention import SUBSAMPLING
from voiceveil.run.context import RunContext
from voiceveil.run.extract import Evaluator

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ALPHABET", "LONGEST", "RecognitionData", "SpeechBatch", "encode_text", "stacked_features"]

#: Output 0 is the blank, output i the i-th of these characters.
ALPHABET = " 'abcdefghijklmnopqrstuvwxyz"
#: Longest utterance in seconds; longer ones are left out, as they would fill a batch of their own.
LONGEST = 17.0
Array = NDArray[np.float32]


class SpeechBatch(NamedTuple):
    """Utterances of a batch, float32.

    Attributes
    ----------
    samples
        Samples of all utterances, one after the other (N,); zeros if the features are not MFCCs.
    features
        MFCCs or content features (B, T, D), padded.
    utterance
        Embeddings of the utterances (B, E), L2-normalized; E is 0 without a speaker encoder.
    frames
        Lengths in frames (B,).
    tokens
        For each utterance the numbers of its characters; none if it has no text.
    teacher_content
        For each utterance the teacher's content (rows, D), normalized, at the frames of the recognizer's content; empty
        without a teacher.
    """

    samples: Array
    features: Array
    utterance: Array
    frames: NDArray[np.int64]
    tokens: tuple[NDArray[np.int64], ...]
    teacher_content: tuple[Array, ...] = ()


def encode_text(text: str) -> NDArray[np.int64]:
    """Return the numbers (from 1) of the characters of a text; characters outside the alphabet are left out."""
    return np.array([ALPHABET.index(c) + 1 for c in plain_words(text).lower() if c in ALPHABET], dtype=np.int64)


def stacked_features(batches: Iterable[SpeechBatch]) -> Tensor:
    """Return the features of all utterances without padding, one after the other (frames, D)."""
    import torch

    features = [rows[:n] for batch in batches for rows, n in zip(batch.features, batch.frames, strict=True)]
    return torch.from_numpy(np.concatenate(features))


class RecognitionData:
    """The utterances of a training; one in twenty is kept for validation.

    Parameters
    ----------
    utterances
        Utterances; those without text are left out, unless there are a teacher and a speaker encoder: they then serve
        imitation and masking.
    context
        Cache of the features, processes and progress.
    seed
        Of the division and of the batches.
    speaker
        Encoder of the utterance embeddings, if they are needed.
    input_features
        Content features that replace the MFCCs.
    teacher
        Content features to imitate.

    Raises
    ------
    InputError
        If no utterance has text.
    """

    def __init__(
        self,
        utterances: Iterable[Utterance],
        context: RunContext,
        *,
        seed: int,
        speaker: Evaluator[Any] | None = None,
        input_features: ContentEncoder | None = None,
        teacher: ContentEncoder | None = None,
    ) -> None:
        listed = list(utterances)
        with_text = [u for u in listed if u.text and len(encode_text(u.text))]
        if teacher is None or speaker is None:
            listed = with_text
        if not with_text:
            raise InputError("no utterance has text", fix="a recognizer needs transcripts: give a corpus with text")
        self._embeddings: dict[str, Array] = {u.id: np.zeros(0, np.float32) for u in listed}
        if speaker is not None:
            self._embeddings = {id_: _unit(vector) for id_, vector in context.extract(listed, speaker).items()}
        cache = context.cache
        self._keys = cache.keys("" if speaker is None else speaker.fingerprint(), listed)
        for model in filter(None, (input_features, teacher)):
            context.extract(listed, model)
        self._cache, self._seed, self._input_features, self._teacher = cache, seed, input_features, teacher
        self._input_keys = cache.keys(input_features.fingerprint(), listed) if input_features else {}
        self._teacher_keys = cache.keys(teacher.fingerprint(), listed) if teacher else {}
        order = np.random.default_rng([seed, 0]).permutation(len(listed))
        held_out = max(1, len(listed) // 20) if len(listed) > 1 else 0
        self.validation: Sequence[Utterance] = [listed[i] for i in order[:held_out]]
        self.training: Sequence[Utterance] = [listed[i] for i in order[held_out:]]

    def batch(self, step: int, size: int) -> SpeechBatch:
        """Return ``size`` utterances, drawn for this step without replacement."""
        rng = np.random.default_rng([self._seed, 1, step])
        items: list[_Item] = []
        for i in rng.permutation(len(self.training)):
            item = self._read(self.training[i])
            items += [item] if item else []
            if len(items) == size:
                break
        return _stacked(items)

    def validation_batches(self, size: int) -> Iterable[SpeechBatch]:
        """Yield the validation utterances, in the same batches every time."""
        usable = [item for u in self.validation if (item := self._read(u))]
        for first in range(0, len(usable), size):
            yield _stacked(usable[first : first + size])

    @property
    def speaker_dimension(self) -> int:
        """Dimension of the utterance embeddings."""
        return len(next(iter(self._embeddings.values())))

    def description(self) -> dict[str, Any]:
        """Return the numbers of utterances, and a hash of recordings and texts."""
        utterances = sorted([*self.training, *self.validation], key=lambda u: u.id)
        total = hashlib.sha256(b"".join(self._keys[u.id] + (u.text or "").encode() for u in utterances))
        return {
            "utterances": len(self.training),
            "validation_utterances": len(self.validation),
            "sha256": total.hexdigest(),
        }

    def _read(self, utterance: Utterance) -> _Item | None:
        """Return an utterance with its features; None if it is too long, or too short for its text."""
        tokens = encode_text(utterance.text or "")
        if self._input_features:
            features = np.asarray(self._cache.get(self._input_keys[utterance.id]), dtype=np.float32)
            samples = np.broadcast_to(np.float32(0), round(len(features) * self._input_features.hop))
            outputs = rows = len(features)
            hop, offset = self._input_features.hop, self._input_features.offset
        else:
            samples = load(utterance.path, rate=16000, start=utterance.start, duration=utterance.duration).samples
            features = hires_mfcc(samples)
            outputs, rows = -(-len(features) // 3), -(-len(features) // SUBSAMPLING)
            hop, offset = SUBSAMPLING * FRAME, SUBSAMPLING * FRAME / 2
        if outputs < fewest_frames(tokens) or len(samples) > LONGEST * 16000:
            return None
        teacher_content = None
        if self._teacher:
            source = normalize_content(np.asarray(self._cache.get(self._teacher_keys[utterance.id])))
            positions = (offset + hop * np.arange(rows) - self._teacher.offset) / self._teacher.hop
            teacher_content = interpolate(source, np.clip(positions, 0, len(source) - 1))
        return _Item(samples, features, self._embeddings[utterance.id], tokens, teacher_content)


class _Item(NamedTuple):
    """One utterance of a batch."""

    samples: Array
    features: Array
    embedding: Array
    tokens: NDArray[np.int64]
    teacher_content: Array | None


def _stacked(items: Sequence[_Item]) -> SpeechBatch:
    if not items:
        raise InputError("no utterance is long enough for its text", fix="check that audio and texts belong together")
    longest = max(len(item.features) for item in items)
    return SpeechBatch(
        np.concatenate([item.samples for item in items]),
        np.stack([np.pad(i.features, ((0, longest - len(i.features)), (0, 0)), mode="edge") for i in items]),
        np.stack([item.embedding for item in items]),
        np.array([len(item.features) for item in items]),
        tuple(item.tokens for item in items),
        tuple(item.teacher_content for item in items if item.teacher_content is not None),
    )


def _unit(vector: NDArray[Any]) -> Array:
    return np.asarray(vector / max(1e-9, np.linalg.norm(vector)), np.float32)
