"""What a synthesizer learns from: crops of recordings with their content, F0 and speaker embedding.

The features are those of :class:`~voiceveil.models.feature_extractors.FeatureExtractors`, kept in a cache by content,
so that they are computed once for all trainings. The crops of a step depend on the seed and the step's number alone: a
training that goes on needs no state of a random generator.

Conventions: 16 kHz; frames of 160 samples; recordings are brought to a common level (root mean square 0.06).
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import load
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.content.features import FRAME, LEVEL, normalized, on_frames
from voiceveil.models.feature_extractors import FeatureExtractors
from voiceveil.models.pitch import contour as pitch_frames
from voiceveil.run.cache import Cache
from voiceveil.run.extract import Evaluator, extract

__all__ = ["Batch", "SynthesisData"]

Array = NDArray[np.float32]


class Batch(NamedTuple):
    """Crops of one length: samples (B, 160 T), content (B, T, D), F0 (B, T) in Hz, speaker (B, E), float32."""

    samples: Array
    content: Array
    f0: Array
    speaker: Array

    def exchanged(self) -> Batch:
        """The crops with the voices of one another: each has the speaker and the mean logarithm of F0 of the next."""
        voiced = self.f0 > 0
        logarithms = np.log(np.where(voiced, self.f0, 1.0))
        means = logarithms.sum(axis=1) / np.maximum(voiced.sum(axis=1), 1)
        heard = voiced.any(axis=1)
        shift = np.where(heard & np.roll(heard, -1), np.roll(means, -1) - means, 0.0)[:, None]
        f0 = np.where(voiced, np.clip(np.exp(logarithms + shift), 50.0, 600.0), 0.0).astype(np.float32)
        return self._replace(f0=f0, speaker=np.roll(self.speaker, -1, axis=0))


class SynthesisData:
    """The recordings of a training with their features; a twentieth is kept for validation.

    ``memory``: bytes of recordings and features that are kept; the rest is read when it is used.
    """

    def __init__(
        self,
        utterances: Iterable[Utterance],
        parts: FeatureExtractors,
        cache: Cache,
        *,
        frames: int,
        seed: int,
        jobs: int = 1,
        quiet: bool = True,
        memory: int = 4 << 30,
    ) -> None:
        listed = list(utterances)
        if not listed:
            raise InputError("no recordings to learn from")
        self._parts, self._cache, self._frames, self._seed = parts, cache, frames, seed
        self._memory = _Memory(memory)
        every: tuple[Evaluator[Any], ...] = (*parts.contents, parts.pitch, parts.speaker)
        for part in every:
            extract(listed, part, cache=cache, jobs=jobs, quiet=quiet)
        self._content_keys = [cache.keys(part.fingerprint(), listed) for part in parts.contents]
        self._pitch_keys = cache.keys(parts.pitch.fingerprint(), listed)
        vectors = extract(listed, parts.speaker, cache=cache)
        self._speaker = {u.id: _unit(vectors[u.id]) for u in listed}
        self._mean = _speaker_means(listed, self._speaker)
        order = np.random.default_rng([seed, 0]).permutation(len(listed))
        held = max(1, len(listed) // 20) if len(listed) > 1 else 0
        self.validation: Sequence[Utterance] = [listed[i] for i in order[:held]]
        self.training: Sequence[Utterance] = [listed[i] for i in order[held:]]
        lengths = np.array([max(1.0, self._pitch(u).size - frames) for u in self.training])
        self._weights = lengths / lengths.sum()

    def batch(self, step: int, size: int) -> Batch:
        """Return the crops of a step: recordings drawn by their length, one place each.

        Two of five times a crop comes with the mean embedding of its speaker instead of its own, and always with a
        little noise on it: so that a pseudo-speaker, which is no recording's embedding, is nothing new.
        """
        rng = np.random.default_rng([self._seed, 1, step])
        chosen = rng.choice(len(self.training), size=size, p=self._weights)
        return _stacked([self._crop(self.training[i], rng, vary=True) for i in chosen])

    def validation_batches(self, size: int) -> Iterable[Batch]:
        """The same crops every time: one of each recording that is kept for validation."""
        for first in range(0, len(self.validation), size):
            rng = np.random.default_rng([self._seed, 2, first])
            yield _stacked([self._crop(u, rng, vary=False) for u in self.validation[first : first + size]])

    @property
    def speaker_dimension(self) -> int:
        """Of the embeddings."""
        return len(next(iter(self._speaker.values())))

    def description(self) -> dict[str, Any]:
        """Numbers of speakers and utterances, and a hash of the recordings."""
        digest = hashlib.sha256(b"".join(sorted(self._content_keys[0].values()))).hexdigest()
        utterances = [*self.training, *self.validation]
        return {
            "speakers": len({u.speaker or u.id for u in utterances}),
            "utterances": len(self.training),
            "validation_utterances": len(self.validation),
            "sha256": digest,
        }

    def content_vectors(self, count: int) -> Array:
        """So many vectors of normalized content (count, D), or all; every recording gives the same number, at most."""
        rng = np.random.default_rng([self._seed, 3])
        share = -(-count // len(self.training))
        parts = []
        for utterance in self.training:
            vectors = self._content(utterance, int(rng.integers(len(self._parts.contents))))
            parts.append(vectors[rng.permutation(len(vectors))[:share]])
        return np.concatenate(parts).astype(np.float32)

    def statistics(self, count: int = 40_000) -> dict[str, tuple[Array, Array]]:
        """Mean and deviation of content (``count`` vectors) and speaker embeddings, for standardization."""
        content = self.content_vectors(count)
        speaker = np.stack([self._speaker[u.id] for u in self.training])
        return {
            "content": (content.mean(axis=0), content.std(axis=0)),
            "speaker": (speaker.mean(axis=0), speaker.std(axis=0)),
        }

    def _crop(self, utterance: Utterance, rng: np.random.Generator, *, vary: bool) -> tuple[Array, ...]:
        parts = self._parts.contents
        which = int(rng.integers(len(parts))) if vary else 0
        samples, content = self._samples(utterance), self._content(utterance, which)
        f0 = self._pitch(utterance, len(samples))
        total, frames = len(f0), self._frames
        first = int(rng.integers(max(1, total - frames + 1)))
        part = np.zeros(frames * FRAME, dtype=np.float32)
        piece = samples[first * FRAME : (first + frames) * FRAME]
        part[: len(piece)] = piece
        pitch = np.zeros(frames, dtype=np.float32)
        pitch[: len(f0[first : first + frames])] = f0[first : first + frames]
        voice = self._speaker[utterance.id]
        if vary:
            if rng.random() < 0.4:
                voice = self._mean[utterance.speaker or utterance.id]
            voice = _unit(voice + rng.normal(scale=0.3 / np.sqrt(len(voice)), size=len(voice)))
        return part, on_frames(content, parts[which].hop, parts[which].offset, frames, first), pitch, voice

    def _samples(self, utterance: Utterance) -> Array:
        """Return the recording at the common level."""

        def read() -> Array:
            wave = load(utterance.path, rate=16000, start=utterance.start, duration=utterance.duration)
            return wave.samples * np.float32(LEVEL / max(1e-6, float(np.sqrt(np.mean(wave.samples**2)))))

        return self._memory.get((utterance.id, "samples"), read)

    def _content(self, utterance: Utterance, which: int) -> NDArray[np.float16]:
        """Return one of the contents, normalized, at its own rate."""
        key = self._content_keys[which][utterance.id]
        return self._memory.get(
            (utterance.id, which),
            lambda: normalized(self._cache.get(key)).astype(np.float16),  # type: ignore[arg-type]
        )

    def _pitch(self, utterance: Utterance, samples: int | None = None) -> Array:
        track = np.asarray(self._cache.get(self._pitch_keys[utterance.id]))
        return track if samples is None else pitch_frames.on_frames(track, self._parts.pitch, samples)


class _Memory:
    """The arrays that were used last, up to a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit, self._used = limit, 0
        self._kept: OrderedDict[tuple[str, object], NDArray[Any]] = OrderedDict()

    def get(self, name: tuple[str, object], read: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name]
        array = self._kept[name] = read()
        self._used += array.nbytes
        while self._used > self._limit and len(self._kept) > 1:
            self._used -= self._kept.popitem(last=False)[1].nbytes
        return array


def _speaker_means(utterances: Iterable[Utterance], vectors: dict[str, Array]) -> dict[str, Array]:
    groups: dict[str, list[Array]] = defaultdict(list)
    for utterance in utterances:
        groups[utterance.speaker or utterance.id].append(vectors[utterance.id])
    return {speaker: _unit(np.mean(group, axis=0)) for speaker, group in groups.items()}


def _unit(vector: NDArray[Any]) -> Array:
    return np.asarray(vector / max(1e-9, float(np.linalg.norm(vector))), dtype=np.float32)


def _stacked(crops: Sequence[tuple[Array, ...]]) -> Batch:
    return Batch(*(np.stack(column) for column in zip(*crops, strict=True)))
