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
from voiceveil.models.speaker.recognizer_layers import _field, _inner_names, _protobuf_outputs, layer_outputs
from voiceveil.models.speaker.recognizer_statistics import (
    CodeHistogram,
    FrameSample,
    LayerStatistics,
    RecognizerEncoder,
    learn_codebook,
)


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


def test_one_pass_gives_all_layers_of_single_passes() -> None:
    """Also for a recording that is processed in pieces: the outputs equal those of one session for each layer."""
    samples = np.tile(speech().samples, 4)  # 20 s
    for number, output in enumerate(layer_outputs(samples), start=1):
        single = MoonshineContent(number)(vv.Waveform(samples, 16000)).astype(np.float32)
        np.testing.assert_allclose(output, single, rtol=2e-3, atol=2e-3)  # a layer alone is rounded to 16 bits


def test_encoders_of_all_layers_share_one_result() -> None:
    statistics = LayerStatistics()(speech())
    assert statistics.shape == (6, 576)
    for layer in RecognizerEncoder().all_layers():
        assert layer.source() == LayerStatistics()
        np.testing.assert_array_equal(layer(speech()), statistics[layer.layer - 1])
    assert [layer.name for layer in RecognizerEncoder().all_layers()][1:4] == [
        "moonshine:2",
        "moonshine",
        "moonshine:4",
    ]


def test_outputs_appended_to_an_onnx_file_are_read_as_part_of_its_graph() -> None:
    """The appended bytes are a protobuf message of their own: model.graph.output[].name."""
    names = ["/layers.0/Add_1_output_0", "/layers.1/Add_1_output_0" + "x" * 200]
    data = _protobuf_outputs(names)
    assert data[0] == 7 << 3 | 2  # field graph
    assert _field(1, b"ab") == bytes([1 << 3 | 2, 2]) + b"ab"
    assert _field(12, b"y" * 300)[:3] == bytes([12 << 3 | 2, 300 % 128 + 128, 300 // 128])
    model = b"/layers.0/Add_1_output_0 /layers.1/Add_1_output_0 last_hidden_state"
    assert _inner_names(model) == ["/layers.0/Add_1_output_0", "last_hidden_state"]
    assert _inner_names(b"/layers.1/Add_1_output_0 last_hidden_state") == []


def test_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "encoder_model.onnx").write_bytes(
        b"/layers.0/Add_1_output_0 /layers.1/Add_1_output_0 last_hidden_state"
    )
    (tmp_path / "notes.txt").write_text("hello")
    assert RecognizerEncoder.parse(f"{tmp_path}/encoder_model.onnx@2") == RecognizerEncoder(
        2, f"{tmp_path}/encoder_model.onnx"
    )
    for name, problem in (("encoder_model.onnx@2", "cannot load"), ("notes.txt", "no encoder"), ("x.onnx", "no such")):
        with pytest.raises(InputError, match=problem):
            encoder(f"moonshine:{tmp_path / name}")


def test_code_histogram_equals_a_plain_count() -> None:
    wave = speech()
    codebook = learn_codebook([FrameSample()(wave), FrameSample()(speech(start=7))], 8)
    assert codebook.shape == (8, 288)
    histogram = CodeHistogram(codebook)
    loud = wave.samples * np.float32(0.06 / np.sqrt(np.mean(wave.samples**2)))
    vectors = layer_outputs(loud)[3].astype(np.float64)
    vectors = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
    counts = [0] * 8
    for vector in vectors:
        counts[min(range(8), key=lambda code: float(np.sum((vector - codebook[code]) ** 2)))] += 1
    np.testing.assert_allclose(histogram(wave) ** 2, np.array(counts) / len(vectors), atol=2.1 / len(vectors))
    assert histogram.fingerprint() != CodeHistogram(codebook[::-1]).fingerprint()
