"""Batches: complete, bounded by their padded length, and the same results as one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from voiceveil.audio import Waveform, save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.run import device as devices
from voiceveil.run import extract as extraction
from voiceveil.run.batches import group_by_length, group_equal
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

RATE = 16000


@dataclass(frozen=True)
class Level:
    """Measures the peak in percent; ``sizes`` records the utterances and samples of each call."""

    limit: int = 1000  # rows of a batch that the memory suffices for
    sizes: list[tuple[int, int]] = field(default_factory=list, compare=False)
    rate: int = RATE
    minimum: float = 0.01

    def fingerprint(self) -> str:
        return "level"

    def __call__(self, wave: Waveform) -> int:
        self.sizes.append((1, len(wave)))
        if not wave.samples.any():
            raise InputError("silence")
        return round(float(np.abs(wave.samples).max()) * 100)

    def batch(self, waves: Sequence[Waveform]) -> list[int]:
        if len(waves) > self.limit:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        values = [self(wave) for wave in waves]
        del self.sizes[-len(waves) :]
        self.sizes.append((len(waves), max(map(len, waves))))
        return values


@dataclass(frozen=True)
class InSets(Level):
    """Like a recognizer that pads utterances to the length of their batch."""

    def in_set(self, utterances: Sequence[Utterance]) -> dict[str, Level]:
        halves = Level(sizes=self.sizes), Level(sizes=self.sizes)
        return {u.id: halves[number % 2] for number, u in enumerate(utterances)}


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "available_devices", lambda: ("cpu", "cuda"))
    monkeypatch.setattr(extraction, "MAX_BATCH_SECONDS", 2.0)


def corpus(folder: Path, lengths: Sequence[float], silent: int | None = None) -> list[Utterance]:
    utterances = []
    for number, seconds in enumerate(lengths):
        level = 0.0 if number == silent else (number + 1) / 100
        path = folder / f"{number}.wav"
        save(path, Waveform(np.full(round(seconds * RATE), level, np.float32), RATE))
        utterances.append(Utterance(f"u{number}", path))
    return utterances


LENGTHS = (1.0, 0.5, 3.0, 0.5, 0.4, 0.9, 0.1)


def test_a_card_gets_batches_of_bounded_length(card: None, tmp_path: Path) -> None:
    utterances, level = corpus(tmp_path, LENGTHS), Level()
    results = RunContext(device="cuda").extract(utterances, level)
    assert list(results.items()) == [(f"u{number}", number + 1) for number in range(len(LENGTHS))]
    # 3.0 (longer than the bound: alone) | 1.0 0.9 | 0.5 0.5 0.4 0.1
    assert [(rows, samples / RATE) for rows, samples in level.sizes] == [(1, 3.0), (2, 1.0), (4, 0.5)]


def test_the_processor_gets_one_utterance_after_the_other(card: None, tmp_path: Path) -> None:
    utterances, level = corpus(tmp_path, LENGTHS), Level()
    RunContext(device="cpu").extract(utterances, level)
    assert [samples / RATE for _, samples in level.sizes] == list(LENGTHS)
    assert {rows for rows, _ in level.sizes} == {1}


def test_results_of_batches_are_in_the_same_cache(card: None, tmp_path: Path) -> None:
    utterances, level = corpus(tmp_path, LENGTHS), Level()
    cache = Cache(tmp_path / "cache.sqlite")
    alone = RunContext(cache, device="cpu").extract(utterances[:3], level)
    assert len(level.sizes) == 3
    together = RunContext(cache, device="cuda").extract(utterances, level)
    assert level.sizes[3:] == [(2, 14400), (2, 6400)]
    assert {name: together[name] for name in alone} == alone
    cache.close()


def test_a_batch_that_fails_is_halved(card: None, tmp_path: Path) -> None:
    """Too little memory: smaller batches. A recording that cannot be used: its name."""
    level = Level(limit=2)
    results = RunContext(device="cuda").extract(corpus(tmp_path, [0.1] * 7), level)
    assert list(results.values()) == [1, 2, 3, 4, 5, 6, 7]
    assert [rows for rows, _ in level.sizes] == [1, 2, 2, 2]
    with pytest.raises(InputError, match="silence") as caught:
        RunContext(device="cuda").extract(corpus(tmp_path, [0.1] * 7, silent=4), Level())
    assert caught.value.where == str(tmp_path / "4.wav")


def test_evaluators_of_a_set_are_not_mixed(card: None, tmp_path: Path) -> None:
    level = InSets()
    assert len(RunContext(device="cuda").extract(corpus(tmp_path, [0.1] * 7), level)) == 7
    assert [rows for rows, _ in level.sizes] == [4, 3]


def test_auto_uses_the_card_in_this_process(card: None, tmp_path: Path) -> None:
    """With more jobs, too: each would need memory of its own there."""
    level = Level()
    RunContext(jobs=2, device="auto").extract(corpus(tmp_path, [0.01] * 120), level)
    assert level.sizes == [(120, 160)]


def test_groups_are_complete_and_bounded() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        lengths = {f"u{i}": float(x) for i, x in enumerate(rng.exponential(5.0, rng.integers(0, 40)))}
        groups = list(group_by_length(lengths, 20.0))
        assert sorted(name for group in groups for name in group) == sorted(lengths)
        assert all(len(group) == 1 or max(lengths[n] for n in group) * len(group) <= 20.0 for group in groups)


def test_groups_of_equal_lengths_are_complete_and_bounded() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        lengths = rng.integers(0, 6, rng.integers(0, 40)).tolist()
        groups = list(group_equal(lengths, 10))
        assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
        assert all(len({lengths[i] for i in group}) == 1 for group in groups)
        assert all(len(group) == 1 or sum(lengths[i] for i in group) <= 10 for group in groups)
