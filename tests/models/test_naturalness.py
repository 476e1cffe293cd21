"""DNSMOS: windows against the official loop, stored figures, real speech, rejected audio."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import Waveform, load, save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, open_corpus
from voiceveil.models import DNSMOS, evaluate_naturalness
from voiceveil.models.naturalness import RATE, WINDOW, windows
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.testing import synthetic_voice

needs_model = pytest.mark.skipif(
    not importlib.util.find_spec("speechmos") or not importlib.util.find_spec("onnxruntime"),
    reason="speechmos or onnxruntime is not installed",
)


VOICE = {"sig": 3.28679, "bak": 3.83603, "ovr": 2.95599}
NOISE = {"sig": 1.17698, "bak": 1.09436, "ovr": 1.11422}


def official_windows(audio: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Return the windows by the loop of the official script, with its rounding."""
    length = int(9.01 * RATE)
    while len(audio) < length:
        audio = np.append(audio, audio)
    segments = []
    for idx in range(int(np.floor(len(audio) / RATE) - 9.01) + 1):
        segment = audio[int(idx * RATE) : int((idx + 9.01) * RATE)]
        if len(segment) >= length:
            segments.append(segment)
    return segments


@pytest.mark.parametrize("seconds", [0.3, 2.0, 4.6, 9.0, 9.01, 9.5, 10.0, 11.0, 11.9, 16.0, 17.5, 20.0, 35.0])
def test_windows_equal_the_official_script(seconds: float) -> None:
    samples = np.random.default_rng(0).standard_normal(round(seconds * RATE)).astype(np.float32)
    expected = official_windows(samples)
    own = list(windows(samples, "official"))
    assert len(own) == len(expected) > 0
    assert all(np.array_equal(a, b) for a, b in zip(own, expected, strict=True))
    everything = list(windows(samples))
    assert all(len(window) == WINDOW for window in everything)
    filled = seconds * 2 ** max(0, math.ceil(math.log2(9.01 / seconds)))
    assert len(everything) == max(1, math.floor(filled) - 9)
    assert (len(everything) > len(expected)) == (filled >= 17)


def test_official_skips_windows_that_rounding_shortens() -> None:
    samples = np.arange(40 * RATE, dtype=np.float32)
    starts = [int(window[0]) // RATE for window in windows(samples, "official")]
    assert starts == [*range(7), *range(24, 31)]
    assert [int(window[0]) // RATE for window in windows(samples)] == list(range(31))


@pytest.mark.slow
@needs_model
def test_ratings_equal_stored_figures() -> None:
    """Ratings from the network (speechmos 0.0.1.1, onnxruntime 1.31) through the official polynomials."""
    voice = DNSMOS()(synthetic_voice(1, seconds=3.0))
    assert voice == pytest.approx(VOICE, abs=0.01)
    noise = np.random.default_rng(0).standard_normal(WINDOW).astype(np.float32) * 0.1
    assert DNSMOS()(Waveform(noise, RATE)) == pytest.approx(NOISE, abs=0.01)
    assert all(1.0 <= rating <= 5.0 for rating in [*VOICE.values(), *NOISE.values()])


@needs_model
def test_real_speech_is_rated_high(tmp_path: Path) -> None:
    """Read speech gets 3.2 to 3.4 on average; noise 10 dB below it lowers the rating of the background most."""
    chosen = []
    for speaker, spoken in sorted(open_corpus(SPEECH / "demo_trials_f").by_speaker.items())[:3]:
        samples = np.concatenate([load(u.path, rate=RATE).samples for u in spoken])[: 10 * RATE]  # one window
        save(tmp_path / f"{speaker}.wav", Waveform(samples, RATE))
        chosen.append(Utterance(speaker, tmp_path / f"{speaker}.wav", speaker=speaker))
    cache = Cache(tmp_path / "cache")
    result = evaluate_naturalness(chosen, context=RunContext(cache))
    assert 2.9 < result.ovr.value < 3.7
    assert (result.ovr.of, result.ovr.n) == ("speakers", 3)
    assert result.ovr.value == pytest.approx(np.mean([result.by_utterance[u.id]["ovr"] for u in chosen]))
    assert evaluate_naturalness(chosen, context=RunContext(cache)).by_utterance == result.by_utterance
    cache.close()
    clean = load(chosen[0].path, rate=RATE)
    noise = np.random.default_rng(0).standard_normal(len(clean)) * clean.samples.std() / math.sqrt(10)
    noisy = DNSMOS()(Waveform(np.clip(clean.samples + noise, -1, 1).astype(np.float32), RATE))
    lost = {name: result.by_utterance[chosen[0].id][name] - rating for name, rating in noisy.items()}
    assert lost["bak"] > max(lost["sig"], 1.0)


def test_unratable_corpora_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown method"):
        DNSMOS("new")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no utterances"):
        evaluate_naturalness([])


@needs_model
def test_short_damaged_and_resampled_audio_is_rejected(tmp_path: Path) -> None:
    rate = DNSMOS()
    with pytest.raises(InputError, match=r"0\.200 s of audio at 16000 Hz cannot be rated"):
        rate(Waveform(np.zeros(3200, dtype=np.float32), RATE))
    with pytest.raises(InputError, match="at 8000 Hz cannot be rated"):
        rate(Waveform(np.zeros(8000, dtype=np.float32), 8000))
    with pytest.raises(InputError, match="not finite"):
        rate(Waveform(np.full(8000, np.nan, dtype=np.float32), RATE))
    save(tmp_path / "a.wav", Waveform(np.zeros(1600, dtype=np.float32), RATE))
    corpus = Corpus("short", (Utterance("a", tmp_path / "a.wav", speaker="s"),))
    with pytest.raises(InputError, match=r"utterance a has 0\.100 s, but at least 0\.25 s are needed"):
        evaluate_naturalness(corpus)


@needs_model
def test_without_speakers_the_interval_is_over_utterances(tmp_path: Path) -> None:
    listed = []
    for k in range(2):
        save(tmp_path / f"{k}.wav", synthetic_voice(k, seconds=2.4))  # doubled twice: one window
        listed.append(Utterance(str(k), tmp_path / f"{k}.wav"))
    result = evaluate_naturalness(listed)
    assert (result.sig.of, result.bak.n) == ("utterances", 2)
