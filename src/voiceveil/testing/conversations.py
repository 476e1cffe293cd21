"""Synthetic conversations: utterances of several speakers after and over each other, so that the turns are known.

Conventions: times in seconds, samples float32 at 16 kHz.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.corpus.turns import Turn, merge_turns

__all__ = ["Conversation", "ConversationStyle", "make_conversation", "speech_spans"]

RATE = 16000
_HOP = 160  # samples of a frame of energy
_RANGE = 35.0  # dB below the loudest frames of an utterance that are speech
_PAUSE = 0.5  # seconds: shorter pauses belong to a turn


@dataclass(frozen=True)
class ConversationStyle:
    """How people take turns.

    Parameters
    ----------
    gap
        Mean and standard deviation in seconds of the pause between utterances; below 0 they overlap.
    level
        Standard deviation in dB of the speakers' levels.
    noise
        Level of white noise in dB relative to full scale.
    """

    gap: tuple[float, float] = (0.0, 0.6)
    level: float = 3.0
    noise: float = -65.0


@dataclass(frozen=True)
class Conversation:
    """A conversation: the mixture, who speaks when, and each speaker's part alone (same length)."""

    wave: Waveform
    turns: list[Turn]
    parts: Mapping[str, Samples]


def make_conversation(
    utterances: Mapping[str, Sequence[Samples]],
    rng: np.random.Generator,
    style: ConversationStyle = ConversationStyle(),  # noqa: B008 -- immutable
) -> Conversation:
    """Return a conversation in which every utterance is said once, in a random order of the speakers.

    Parameters
    ----------
    utterances
        Speaker -> recordings at 16 kHz, which are said in their order.
    rng
        Draws order, pauses, levels and noise.
    style
        How people take turns.
    """
    order = rng.permutation(np.repeat(list(utterances), [len(said) for said in utterances.values()])).tolist()
    gains = {name: 0.05 * 10 ** (rng.normal(0, style.level) / 20) for name in utterances}
    waiting = {name: iter(said) for name, said in utterances.items()}
    placed, end, free = [], 0, dict.fromkeys(utterances, 0)
    for name in order:
        samples = _without_edges(next(waiting[name]))
        gap = round(rng.normal(*style.gap) * RATE)
        start = max(free[name], end + gap, 0)
        placed.append((name, start, np.asarray(samples * gains[name] / _rms(samples), dtype=np.float32)))
        end = free[name] = start + len(samples)
    length = max(start + len(samples) for _, start, samples in placed)
    parts = {name: np.zeros(length, dtype=np.float32) for name in utterances}
    turns = []
    for name, start, samples in placed:
        parts[name][start : start + len(samples)] += samples
        turns += [Turn(name, (start + a) / RATE, (start + b) / RATE) for a, b in speech_spans(samples)]
    mixture = sum(parts.values(), rng.normal(0, 10 ** (style.noise / 20), length))
    mixture = mixture / max(1.0, float(np.abs(mixture).max()))
    return Conversation(Waveform(mixture.astype(np.float32), RATE), merge_turns(turns, _PAUSE), parts)


def speech_spans(samples: Samples) -> list[tuple[int, int]]:
    """Return the ranges of samples of a clean recording that are not pauses, by their energy."""
    energy = np.square(samples[: len(samples) // _HOP * _HOP], dtype=np.float64).reshape(-1, _HOP).mean(axis=1)
    smooth = np.convolve(energy, np.ones(5) / 5, mode="same")
    active: NDArray[np.bool_] = smooth > np.percentile(smooth, 95) * 10 ** (-_RANGE / 10)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], active, [False]])))
    return [(int(a) * _HOP, int(b) * _HOP) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= 5]


def _without_edges(samples: Samples) -> Samples:
    """Return a recording from its first to its last sound."""
    spans = speech_spans(samples)
    return samples[spans[0][0] : spans[-1][1]] if spans else samples


def _rms(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) or 1.0
