"""A recognizer as a speaker encoder: its statistics, alone and with a back-end."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import voiceveil as vv
from voiceveil.core.errors import InputError
from voiceveil.models.asr import moonshine
from voiceveil.models.speaker.encoders import encoder

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
if importlib.util.find_spec("moonshine_voice") is None:  # found, not imported: its microphone code needs more libraries
    pytest.skip("moonshine-voice is not installed", allow_module_level=True)

from voiceveil.models.content.features import MoonshineContent
from voiceveil.models.speaker.recognizer_statistics import RecognizerEncoder


def speech(name: str = "two_cities.wav", start: int = 1) -> vv.Waveform:
    folder: Path = moonshine.model_file("tokenizer.bin").parent.parent
    wave = vv.load(folder / name, rate=16000)
    return vv.Waveform(wave.samples[start * 16000 : (start + 5) * 16000], 16000)


def test_statistics_equal_hand_computation() -> None:
    """Means and deviations of every feature, whatever the level of the recording was."""
    wave = speech()
    statistics = encoder("moonshine")
    assert statistics.dimension == 576
    vector = statistics(wave)
    loud = wave.samples * np.float32(0.06 / np.sqrt(np.mean(wave.samples**2)))
    content = MoonshineContent(3)(vv.Waveform(loud, 16000)).astype(np.float64)
    for feature in (0, 17, 287):
        column = content[:, feature]
        mean = sum(column) / len(column)
        assert vector[feature] == pytest.approx(mean, abs=1e-3)
        assert vector[288 + feature] == pytest.approx(np.sqrt(sum((column - mean) ** 2) / len(column)), abs=1e-3)
    quiet = statistics(vv.Waveform(wave.samples * np.float32(0.1), 16000))  # the network is quantized to 8 bits
    assert np.corrcoef(quiet, vector)[0, 1] > 0.999


def test_same_speaker_is_nearer_than_another() -> None:
    statistics = encoder("moonshine")
    first, same, other = statistics(speech()), statistics(speech(start=7)), statistics(speech("beckett.wav"))
    assert np.linalg.norm(first - same) < np.linalg.norm(first - other)


def test_layer_is_chosen_by_name() -> None:
    """There is an encoder for each of the six layers."""
    assert encoder("moonshine:4").fingerprint() != encoder("moonshine").fingerprint()
    assert encoder("moonshine:3") == RecognizerEncoder()
    for wrong in ("moonshine:7", "moonshine:x"):
        with pytest.raises(InputError, match="layer"):
            encoder(wrong)


def test_too_short_audio_is_rejected() -> None:
    statistics = encoder("moonshine")
    short = speech().samples[: int(statistics.minimum * 16000) + 1]
    assert np.isfinite(statistics(vv.Waveform(short, 16000))).all()
    with pytest.raises(InputError):
        statistics(vv.Waveform(short[:600], 16000))
