"""Training data of synthesizers: crops of recordings with their content, F0 and speaker embedding.

The features are those of :class:`~voiceveil.models.feature_extractors.FeatureExtractors`; a cache keeps them, so that
they are computed once for all trainings. The crops of a step depend on the seed and the number of the step alone: a
training that is resumed needs no state of a random generator.

Conventions: 16 kHz; frames of 160 samples; recordings are scaled to a common level (root mean square 0.06).
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
from voiceveil.models.content.features import FRAME, LEVEL, content_on_frames, prepared_content
from voiceveil.models.feature_extractors import FeatureExtractors
from voiceveil.models.pitch.trackers import f0_on_frames
from voiceveil.run.context import RunContext

__all__ = ["SynthesisBatch", "SynthesisData"]

Array = NDArray[np.float32]


class SynthesisBatch(NamedTuple):
    """Crops of one length, float32: samples (B, 160 T), content (B, T, D), F0 (B, T) in Hz, speakers (B, E)."""

    samples: Array
    content: Array
    f0: Array
    speaker: Array

    def with_swapped_voices(self) -> SynthesisBatch:
        """Return the crops with speaker embedding and mean ln F0 of the next crop of the batch."""
        voiced = self.f0 > 0
        log_f0 = np.log(np.where(voiced, self.f0, 1.0))
        means = log_f0.sum(axis=1) / np.maximum(voiced.sum(axis=1), 1)
        has_pitch = voiced.any(axis=1)
        shift = np.where(has_pitch & np.roll(has_pitch, -1), np.roll(means, -1) - means, 0.0)[:, None]
        f0 = np.where(voiced, np.clip(np.exp(log_f0 + shift), 50.0, 600.0), 0.0).astype(np.float32)
        return self._replace(f0=f0, speaker=np.roll(self.speaker, -1, axis=0))


class SynthesisData:
    """The recordings of a training with their features; one in twenty is kept for validation.

    Parameters
    ----------
    utterances
        Recordings; speakers are used where they are known.
    extractors
        Models of content, pitch and speaker.
    context
        Cache of the features, processes and progress.
    frames
        Length of a crop in frames of 10 ms.
    seed
        Of the division and of the crops.
    memory
        Bytes of recordings and features that are kept in memory.

    Raises
    ------
    InputError
        If there are no recordings.
    """

    def __init__(
        self,
        utterances: Iterable[Utterance],
        extractors: FeatureExtractors,
        context: RunContext,
        *,
        frames: int,
        seed: int,
        memory: int = 4 << 30,
    ) -> None:
        listed = list(utterances)
        if not listed:
            raise InputError("the corpora hold no recordings", fix="give a corpus with recordings")
        self._extractors, self._cache, self._frames, self._seed = extractors, context.cache, frames, seed
        self._memory = _Memory(memory)
        for model in extractors.content_encoders:
            context.extract(listed, model)
        context.extract(listed, extractors.pitch)
        self._content_keys = [context.cache.keys(model.fingerprint(), listed) for model in extractors.content_encoders]
        self._pitch_keys = context.cache.keys(extractors.pitch.fingerprint(), listed)
        vectors = context.extract(listed, extractors.speaker)
        self._speaker = {u.id: _unit(vectors[u.id]) for u in listed}
        self._mean = _speaker_means(listed, self._speaker)
        order = np.random.default_rng([seed, 0]).permutation(len(listed))
        held_out = max(1, len(listed) // 20) if len(listed) > 1 else 0
        self.validation: Sequence[Utterance] = [listed[i] for i in order[:held_out]]
        self.training: Sequence[Utterance] = [listed[i] for i in order[held_out:]]
        lengths = np.array([max(1.0, self._pitch(u).size - frames) for u in self.training])
        self._weights = lengths / lengths.sum()

    def batch(self, step: int, size: int) -> SynthesisBatch:
        """Return the crops of a step: recordings drawn in proportion to their length, one random place each.

        Two of five crops have the mean embedding of their speaker instead of their own, and all embeddings get a
        little noise: a pseudo-speaker's embedding, too, is not that of any recording.
        """
        rng = np.random.default_rng([self._seed, 1, step])
        chosen = rng.choice(len(self.training), size=size, p=self._weights)
        return _stacked([self._crop(self.training[i], rng, vary=True) for i in chosen])

    def validation_batches(self, size: int) -> Iterable[SynthesisBatch]:
        """Yield one crop of each validation recording, the same every time."""
        for first in range(0, len(self.validation), size):
            rng = np.random.default_rng([self._seed, 2, first])
            yield _stacked([self._crop(u, rng, vary=False) for u in self.validation[first : first + size]])

    @property
    def speaker_dimension(self) -> int:
        """Dimension of the speaker embeddings."""
        return len(next(iter(self._speaker.values())))

    def description(self) -> dict[str, Any]:
        """Return the numbers of speakers and utterances, and a hash of the recordings."""
        digest = hashlib.sha256(b"".join(sorted(self._content_keys[0].values()))).hexdigest()
        utterances = [*self.training, *self.validation]
        return {
            "speakers": len({u.speaker or u.id for u in utterances}),
            "utterances": len(self.training),
            "validation_utterances": len(self.validation),
            "sha256": digest,
        }

    def content_vectors(self, count: int) -> Array:
        """Return about ``count`` vectors of normalized content (n, D), the same number from each recording."""
        rng = np.random.default_rng([self._seed, 3])
        share = -(-count // len(self.training))
        chosen = []
        for utterance in self.training:
            vectors = self._content(utterance, int(rng.integers(len(self._extractors.content_encoders))))
            chosen.append(vectors[rng.permutation(len(vectors))[:share]])
        return np.concatenate(chosen).astype(np.float32)

    def _crop(self, utterance: Utterance, rng: np.random.Generator, *, vary: bool) -> tuple[Array, ...]:
        """Return samples, content, F0 and embedding of a random crop; ``vary`` draws speed and embedding as well."""
        contents = self._extractors.content_encoders
        which = int(rng.integers(len(contents))) if vary else 0
        samples, content = self._samples(utterance), self._content(utterance, which)
        f0 = self._pitch(utterance, len(samples))
        total, frames = len(f0), self._frames
        first = int(rng.integers(max(1, total - frames + 1)))
        crop = np.zeros(frames * FRAME, dtype=np.float32)
        available = samples[first * FRAME : (first + frames) * FRAME]
        crop[: len(available)] = available
        pitch = np.zeros(frames, dtype=np.float32)
        pitch[: len(f0[first : first + frames])] = f0[first : first + frames]
        voice = self._speaker[utterance.id]
        if vary:
            if rng.random() < 0.4:
                voice = self._mean[utterance.speaker or utterance.id]
            voice = _unit(voice + rng.normal(scale=0.3 / np.sqrt(len(voice)), size=len(voice)))
        return (
            crop,
            content_on_frames(content, contents[which].hop, contents[which].offset, frames, first),
            pitch,
            voice,
        )

    def _samples(self, utterance: Utterance) -> Array:
        """Return the recording at the common level."""

        def read() -> Array:
            wave = load(utterance.path, rate=16000, start=utterance.start, duration=utterance.duration)
            return wave.samples * np.float32(LEVEL / max(1e-6, float(np.sqrt(np.mean(wave.samples**2)))))

        return self._memory.get((utterance.id, "samples"), read)

    def _content(self, utterance: Utterance, which: int) -> NDArray[np.float16]:
        """Return the content of one of the extractors, normalized, at its own frame rate."""
        key, encoder = self._content_keys[which][utterance.id], self._extractors.content_encoders[which]
        return self._memory.get(
            (utterance.id, which),
            lambda: prepared_content(encoder, np.asarray(self._cache.get(key))).astype(np.float16),
        )

    def _pitch(self, utterance: Utterance, samples: int | None = None) -> Array:
        track = np.asarray(self._cache.get(self._pitch_keys[utterance.id]))
        return track if samples is None else f0_on_frames(track, self._extractors.pitch, samples)


class _Memory:
    """The most recently used arrays, up to a number of bytes."""

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


def _stacked(crops: Sequence[tuple[Array, ...]]) -> SynthesisBatch:
    return SynthesisBatch(*(np.stack(column) for column in zip(*crops, strict=True)))
