"""New voices for the speakers of a conversation: each the same throughout, and unlike the others.

A pseudo-speaker is drawn for each speaker in turn, and tried on a few seconds of speech. A draw whose voice is too
similar to another voice of the result is rejected: to the new voice of another speaker, or to that of a speaker who is
kept. Similarity is the cosine of CAM++ embeddings of the converted speech.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.campplus import CamPlusPlus
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.systems.contract import Anonymizer

__all__ = ["MOST_SIMILAR", "RATE", "Voice", "draw_voices"]

RATE = 16000
#: Largest cosine between two voices of a conversation that a draw is accepted with.
MOST_SIMILAR = 0.5
_ATTEMPTS = 12
_TRIED = 8 * RATE  # samples of speech that a draw is tried on


@dataclass(frozen=True)
class Voice:
    """A new voice: the system for a source speaker, and the seed of all its draws.

    ``similarity``: largest cosine with the other voices; None: there are none, or it could not be measured.
    """

    system: Anonymizer
    seed: tuple[int, ...]
    similarity: float | None = None

    def convert(self, samples: Samples) -> Samples:
        """Return speech (n,) at 16 kHz in this voice, (n,) as well."""
        if not len(samples):
            return samples
        result = self.system.convert(Waveform(samples, RATE), np.random.default_rng(self.seed)).resampled(RATE).samples
        if abs(len(result) - len(samples)) > RATE // 50:
            fix = "choose another --system"
            raise InputError(f"{self.system.name} does not keep the length of speech", fix=fix)
        return np.pad(result[: len(samples)], (0, max(0, len(samples) - len(result))))


def draw_voices(
    system: Anonymizer, speech: Mapping[str, Samples], kept: Sequence[Samples], rng: np.random.Generator
) -> dict[str, Voice]:
    """Return speaker -> new voice.

    Parameters
    ----------
    system
        The system, for speaker level and with timing kept.
    speech
        Speaker -> some speech (n,) of theirs at 16 kHz, of those who need a new voice.
    kept
        Speech of those who keep their voices.
    rng
        The only source of randomness.
    """
    encoder = _encoder()
    others = [] if encoder is None else [_embedding(encoder, samples) for samples in kept if samples.any()]
    voices: dict[str, Voice] = {}
    for speaker, samples in speech.items():
        source = system.source_embedding(Waveform(samples, RATE)) if system.uses_source_embedding else None
        own = system if source is None else system.with_source_embedding(source)
        seeds = [tuple(rng.integers(2**32, size=8).tolist()) for _ in range(_ATTEMPTS)]
        if encoder is None or not samples.any():
            voices[speaker] = Voice(own, seeds[0])
            continue
        voices[speaker], embedding = _most_distinct(own, seeds, samples[:_TRIED], others, encoder)
        others.append(embedding)
    return voices


def _most_distinct(
    system: Anonymizer,
    seeds: Sequence[tuple[int, ...]],
    samples: Samples,
    others: Sequence[NDArray[np.float32]],
    encoder: CamPlusPlus,
) -> tuple[Voice, NDArray[np.float32]]:
    """Return the first voice that is distinct enough from the others, or else the most distinct; and its embedding."""
    best: tuple[float, Voice, NDArray[np.float32]] | None = None
    for seed in seeds:
        voice = Voice(system, seed)
        embedding = _embedding(encoder, voice.convert(samples))
        similarity = max((float(embedding @ other) for other in others), default=-1.0)
        if best is None or similarity < best[0]:
            best = similarity, Voice(system, seed, similarity if others else None), embedding
        if similarity <= MOST_SIMILAR:
            break
    assert best is not None  # noqa: S101 -- there is a seed
    return best[1], best[2]


def _encoder() -> CamPlusPlus | None:
    """Return the speaker encoder, or None where it is not installed."""
    encoder = CamPlusPlus()
    try:
        encoder.check()
    except (ImportError, InputError):
        return None
    return encoder


def _embedding(encoder: CamPlusPlus, samples: Samples) -> NDArray[np.float32]:
    padded = np.pad(samples, (0, max(0, RATE // 2 - len(samples))))
    return l2_normalized(encoder(Waveform(padded, RATE)))
