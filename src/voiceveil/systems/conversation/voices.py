"""New voices for the speakers of a conversation: each the same throughout, and unlike the others.

Pseudo-speakers are drawn for all speakers together, and tried on a few seconds of their speech. Of all draws, those are
taken whose voices are least similar to each other and to the voices of speakers who are kept; drawing ends as soon as
they are distinct enough. Similarity is the cosine of CAM++ embeddings of the converted speech.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.campplus import CamPlusPlus
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.conversation.sample_file import RATE

__all__ = ["MOST_SIMILAR", "Voice", "draw_voices", "most_distinct"]

#: Largest cosine between two voices of a conversation that ends the drawing. Over minutes of speech it is higher than
#: over the seconds that are tried, by up to 0.1.
MOST_SIMILAR = 0.45
_ROUNDS, _MOST_ROUNDS = 20, 60  # draws for each speaker; more of them as long as voices are more similar than this:
_TOLERABLE = 0.49
_MOST_STEPS = 20_000  # of the search for the most distinct draws
_TRIED = 12 * RATE  # samples of speech that a draw is tried on


@dataclass(frozen=True)
class Voice:
    """A new voice: the system for a source speaker, and the seed of all its draws.

    ``similarity``: largest cosine between voices of the conversation; None: there is one only, or it was not measured.
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
    systems = {name: _for_speaker(system, samples) for name, samples in speech.items()}
    encoder = _encoder()
    measured = [name for name, samples in speech.items() if encoder is not None and samples.any()]
    fixed = [_embedding(encoder, samples) for samples in kept if samples.any()] if encoder is not None else []
    voices: dict[str, list[Voice]] = {name: [] for name in speech}
    embeddings: dict[str, list[NDArray[np.float32]]] = {name: [] for name in measured}
    choice, similarity = dict.fromkeys(speech, 0), -1.0
    for number in range(_MOST_ROUNDS):
        for name in speech:
            voices[name].append(Voice(systems[name], tuple(rng.integers(2**32, size=8).tolist())))
        if encoder is None or not measured or len(measured) + len(fixed) < 2:
            return {name: drawn[0] for name, drawn in voices.items()}
        for name in measured:
            embeddings[name].append(_embedding(encoder, voices[name][-1].convert(speech[name][:_TRIED])))
        chosen, similarity = most_distinct(embeddings, fixed)
        choice |= chosen
        if similarity <= (MOST_SIMILAR if number + 1 < _ROUNDS else _TOLERABLE):
            break
    return {name: replace(drawn[choice[name]], similarity=similarity) for name, drawn in voices.items()}


def _for_speaker(system: Anonymizer, samples: Samples) -> Anonymizer:
    """Return the system for a source speaker."""
    source = system.source_embedding(Waveform(samples, RATE)) if system.uses_source_embedding else None
    return system if source is None else system.with_source_embedding(source)


def most_distinct(
    embeddings: Mapping[str, Sequence[NDArray[np.float32]]], fixed: Sequence[NDArray[np.float32]]
) -> tuple[dict[str, int], float]:
    """Return speaker -> which of its draws, so that the most similar two voices are least similar, and their cosine.

    Depth first, speaker by speaker, the most distinct draw first; what cannot be better than the best is left out. With
    very many speakers the search ends at a limit, with the best so far.

    Parameters
    ----------
    embeddings
        Speaker -> embedding (d,) of each draw, L2-normalized.
    fixed
        Embeddings of voices that are there already.
    """
    best: tuple[float, tuple[int, ...]] = (np.inf, ())
    waiting: list[tuple[float, tuple[int, ...]]] = [(-1.0, ())]
    draws = [np.stack(rows) for rows in embeddings.values()]
    for _ in range(_MOST_STEPS):
        if not waiting:
            break
        similarity, chosen = waiting.pop()
        if similarity >= best[0]:
            continue
        if len(chosen) == len(draws):
            best = similarity, chosen
            continue
        others = [*fixed, *(draws[speaker][draw] for speaker, draw in enumerate(chosen))]
        nearest = (draws[len(chosen)] @ np.stack(others).T).max(axis=1) if others else np.full(len(draws[0]), -1.0)
        for draw in np.argsort(-nearest, kind="stable").tolist():  # the last is looked at first
            waiting.append((max(similarity, float(nearest[draw])), (*chosen, draw)))
    return dict(zip(embeddings, best[1], strict=True)), best[0]


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
