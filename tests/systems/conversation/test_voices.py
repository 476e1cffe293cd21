"""The choice of voices: as distinct as an exhaustive search finds them, and no more draws than are needed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.conversation import voices
from voiceveil.systems.conversation.voices import MOST_SIMILAR, draw_voices, most_distinct

Draws = dict[str, list[NDArray[np.float32]]]


def draws(speakers: int, count: int, seed: int) -> Draws:
    rng = np.random.default_rng(seed)
    points = rng.normal((2, 0, 0, 0), size=(speakers, count, 4))
    points /= np.linalg.norm(points, axis=2, keepdims=True)
    return {f"s{index}": list(rows.astype(np.float32)) for index, rows in enumerate(points)}


def slow_best(embeddings: Draws, fixed: list[NDArray[np.float32]]) -> float:
    """Every combination."""
    best = np.inf
    for chosen in product(*embeddings.values()):
        pairs = [float(a @ b) for i, a in enumerate(chosen) for b in (*chosen[:i], *fixed)]
        best = min(best, max(pairs))
    return best


@pytest.mark.parametrize(("speakers", "count"), [(1, 5), (2, 6), (4, 4)])
@pytest.mark.parametrize("seed", range(6))
def test_the_most_distinct_draws_are_chosen(speakers: int, count: int, seed: int) -> None:
    embeddings = draws(speakers, count, seed)
    fixed = draws(1, 1, seed + 100)["s0"] if seed % 2 or speakers == 1 else []
    choice, similarity = most_distinct(embeddings, fixed)
    assert similarity == pytest.approx(slow_best(embeddings, fixed))
    chosen = [embeddings[name][index] for name, index in choice.items()]
    pairs = [float(a @ b) for i, a in enumerate(chosen) for b in (*chosen[:i], *fixed)]
    assert similarity == pytest.approx(max(pairs))


def test_many_speakers_take_no_longer() -> None:
    embeddings = draws(20, 10, 0)
    choice, similarity = most_distinct(embeddings, [])
    assert len(choice) == 20
    assert similarity < 1


@dataclass(frozen=True)
class Tone(Anonymizer):
    """A constant that is drawn: the test's encoder reads it."""

    name = "tone"

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Return the constant."""
        return np.full_like(samples, rng.random())


class AngleEncoder:
    """The first sample, from 0 to 1, is an angle from 0 to 180 degrees."""

    calls = 0

    def __call__(self, wave: Waveform) -> NDArray[np.float32]:
        """Return the direction."""
        AngleEncoder.calls += 1
        return np.array([np.cos(np.pi * wave.samples[0]), np.sin(np.pi * wave.samples[0])], dtype=np.float32)


def test_drawing_ends_when_voices_are_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voices, "_encoder", AngleEncoder)
    speech = {name: np.ones(16000, dtype=np.float32) for name in ("a", "b")}
    for seed in range(10):
        AngleEncoder.calls = 0
        result = draw_voices(Tone(), speech, [], np.random.default_rng(seed))
        first, second = (AngleEncoder()(Waveform(voice.convert(speech["a"]), 16000)) for voice in result.values())
        assert result["a"].similarity == pytest.approx(float(first @ second), abs=1e-5)
        assert float(first @ second) <= MOST_SIMILAR
        assert AngleEncoder.calls - 2 <= 40


def test_kept_voices_are_avoided_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voices, "_encoder", AngleEncoder)
    kept = np.full(16000, 0.5, dtype=np.float32)
    for seed in range(5):
        (voice,) = draw_voices(
            Tone(), {"a": np.ones(9000, dtype=np.float32)}, [kept], np.random.default_rng(seed)
        ).values()
        assert voice.similarity is not None
        assert voice.similarity <= MOST_SIMILAR


def test_one_voice_alone_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voices, "_encoder", AngleEncoder)
    AngleEncoder.calls = 0
    (voice,) = draw_voices(Tone(), {"a": np.ones(9000, dtype=np.float32)}, [], np.random.default_rng(0)).values()
    assert voice.similarity is None
    assert AngleEncoder.calls == 0
