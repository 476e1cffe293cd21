"""Checks of audio: noise, silence, copies of the original, swapped utterances."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.check_inputs import Samples, names, noise, spoken
from voiceveil.attack.checks import check_audio
from voiceveil.audio import Waveform, load, save
from voiceveil.corpus import Utterance
from voiceveil.dsp.degenerate import RATE, is_noise, is_silent, max_correlation, same_signal
from voiceveil.run.cache import Cache


def whispered(samples: Samples) -> Samples:
    """Noise with the spectral envelope of a voice, frame by frame."""
    from scipy.signal import istft, stft

    rng = np.random.default_rng(0)
    voice = stft(samples, 16000, nperseg=512)[2]
    noise = stft(rng.standard_normal(len(samples)), 16000, nperseg=512)[2]
    smooth = np.apply_along_axis(lambda column: np.convolve(column, np.hanning(15) / 7, "same"), 0, np.abs(voice))
    return np.asarray(istft(smooth * noise)[1], dtype=np.float32)


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("seconds", [0.6, 3.0])
def test_noise_of_any_color_is_detected(power: int, seconds: float) -> None:
    assert is_noise(noise(power, seconds))
    louder = np.linspace(0.1, 1.0, int(16000 * seconds), dtype=np.float32)
    assert is_noise(noise(power, seconds) * louder)


@pytest.mark.parametrize("number", range(5))
def test_voiced_and_whispered_speech_are_not_noise(number: int) -> None:
    assert not is_noise(spoken(number))
    assert not is_noise(whispered(spoken(number)))


def test_steady_tone_counts_as_noise_and_short_audio_is_not_judged() -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(32000) / 16000).astype(np.float32)
    assert is_noise(tone)
    assert not is_noise(tone[:4000])
    assert not is_noise(tone[:0])


def test_silence_is_detected() -> None:
    assert is_silent(np.zeros(16000, np.float32))
    assert is_silent(np.zeros(0, np.float32))
    assert is_silent(noise(0) * np.float32(1e-3))
    click = np.zeros(16000, np.float32)
    click[50] = 1.0
    assert is_silent(click)
    assert not is_silent(spoken() * np.float32(0.03))


COPIES: dict[str, Callable[[Samples], Samples]] = {
    "itself": lambda x: x,
    "gain": lambda x: np.float32(0.1) * x,
    "polarity": lambda x: -x,
    "16 bits": lambda x: (np.round(x * 32767) / 32768).astype(np.float32),
    "later": lambda x: np.concatenate([np.zeros(3000, np.float32), x]),
    "earlier": lambda x: x[3000:],
    "much later": lambda x: np.concatenate([np.zeros(40000, np.float32), x]),
    "backwards": lambda x: x[::-1].copy(),
    "noise": lambda x: (x + 0.02 * np.std(x) * np.random.default_rng(0).standard_normal(len(x))).astype(np.float32),
    "narrow": lambda x: load_again(x, 8000),
}


def load_again(samples: Samples, rate: int) -> Samples:
    return Waveform(Waveform(samples, 16000).resampled(rate).samples, rate).resampled(16000).samples


@pytest.mark.parametrize("how", list(COPIES))
def test_copy_is_the_same_signal(how: str) -> None:
    for number in range(3):
        assert same_signal(spoken(number), COPIES[how](spoken(number)))


@pytest.mark.parametrize("format_", ["OGG", "MP3"])
def test_lossy_copy_is_the_same_signal(format_: str, tmp_path: Path) -> None:
    import soundfile

    path = tmp_path / f"copy.{format_.lower()}"
    soundfile.write(path, spoken(2), 16000, format=format_)
    assert same_signal(spoken(2), load(path, rate=16000).samples)


def test_other_speech_and_anonymized_speech_are_not_the_same_signal() -> None:
    from voiceveil.dsp.mcadams import McAdams

    assert not any(same_signal(spoken(n), spoken(n + 7)) for n in range(4))
    for alpha in (0.5, 0.7, 0.9):
        assert not any(same_signal(spoken(n), McAdams(alpha)(spoken(n)).astype(np.float32)) for n in range(3))
    assert not same_signal(spoken(), np.zeros(48000, np.float32))
    assert not same_signal(np.zeros(48000, np.float32), spoken())
    assert not same_signal(spoken(), np.zeros(0, np.float32))


@pytest.fixture(scope="module")
def swappable(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Utterance], dict[str, Utterance]]:
    """Return eight utterances of three seconds and their versions by McAdams' coefficient."""
    from voiceveil.dsp.mcadams import McAdams

    folder = tmp_path_factory.mktemp("swappable")
    sides: tuple[dict[str, Utterance], dict[str, Utterance]] = ({}, {})
    for number in range(8):
        original = spoken(number)
        for side, samples in zip(sides, (original, McAdams(0.75)(original).astype(np.float32)), strict=True):
            path = folder / f"{len(side)}-{side is sides[0]}.wav"
            save(path, Waveform(samples, 16000))
            side[f"u{number}"] = Utterance(f"u{number}", path, speaker=f"s{number % 4}")
    return sides


def test_swapped_anonymized_speech_gives_a_warning(
    swappable: tuple[dict[str, Utterance], dict[str, Utterance]],
) -> None:
    originals, anonymized = swappable
    assert check_audio(anonymized, originals, Cache(None)) == []
    keys = list(anonymized)
    swapped = {key: anonymized[other] for key, other in zip(keys, [*keys[3:], *keys[:3]], strict=True)}
    (check,) = check_audio(swapped, originals, Cache(None))
    assert check.name == "swapped-audio"
    assert "8 of 8 utterances that do not follow their original in time follow that of another one" in check.seen
    few = {**anonymized, keys[0]: anonymized[keys[1]], keys[1]: anonymized[keys[0]]}
    assert names(check_audio(few, originals, Cache(None))) == ["swapped-audio"]


def test_swapped_original_speech_gives_a_warning(
    swappable: tuple[dict[str, Utterance], dict[str, Utterance]],
) -> None:
    originals, _ = swappable
    keys = list(originals)
    foreign = {key: originals[other] for key, other in zip(keys, [*keys[3:], *keys[:3]], strict=True)}
    assert names(check_audio(foreign, originals, Cache(None))) == ["swapped-audio"]


def test_speech_of_another_rhythm_is_not_swapped(
    swappable: tuple[dict[str, Utterance], dict[str, Utterance]], tmp_path: Path
) -> None:
    originals, _ = swappable
    spoken_anew = {}
    for number, key in enumerate(originals):
        save(tmp_path / f"{key}.wav", Waveform(spoken(50 + number), 16000))
        spoken_anew[key] = Utterance(key, tmp_path / f"{key}.wav", speaker=originals[key].speaker)
    assert check_audio(spoken_anew, originals, Cache(None)) == []


def test_quiet_parts_after_loud_ones_do_not_look_like_copies() -> None:
    """Sums in single precision lose quiet samples, which made the correlation with them far too large."""
    rng = np.random.default_rng(0)
    loud, other = (rng.normal(0, 0.3, 7 * RATE).astype(np.float32) for _ in range(2))
    quiet = rng.normal(0, 0.004, 3 * RATE).astype(np.float32)
    assert max_correlation(other, np.concatenate([loud, quiet])) < 0.1
