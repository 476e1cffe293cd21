"""Content features: inner layers of Moonshine's encoder, their timing, and interpolation at synthesis frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import voiceveil as vv
from voiceveil.core.errors import InputError
from voiceveil.models.asr import moonshine
from voiceveil.models.content.features import (
    FRAME,
    MoonshineContent,
    at_speed,
    content_encoder,
    content_on_frames,
    normalize_content,
    prepared_content,
)
from voiceveil.models.pitch.trackers import Autocorrelation, f0_on_frames

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.fixture(scope="module")
def speech_of_the_wheel() -> vv.Waveform:
    """Six seconds of real speech that come with the model."""
    folder: Path = moonshine.model_file("tokenizer.bin").parent.parent
    return vv.Waveform(vv.load(folder / "two_cities.wav", rate=16000).samples[: 6 * 16000], 16000)


def test_last_layer_follows_from_the_inner_ones(speech_of_the_wheel: vv.Waveform) -> None:
    """Layer 6 is the output of the unchanged file; the earlier a layer, the less it correlates with it."""
    layers = [normalize_content(MoonshineContent(layer)(speech_of_the_wheel)) for layer in (1, 3, 5, 6)]
    assert {layer.shape for layer in layers} == {((96000 - 895) // 384 + 1, 288)}
    likeness = [abs(float(np.mean(layer * layers[-1]))) for layer in layers]
    assert likeness == sorted(likeness)
    assert likeness[-1] == pytest.approx(1.0, abs=1e-3)
    assert likeness[0] < 0.5


def test_pieces_of_a_long_recording_agree_with_the_whole(speech_of_the_wheel: vv.Waveform) -> None:
    whole = MoonshineContent(max_seconds=10.0)(speech_of_the_wheel)
    pieces = MoonshineContent(max_seconds=2.5)(speech_of_the_wheel)
    assert whole.shape == pieces.shape
    assert np.mean(normalize_content(whole) * normalize_content(pieces)) > 0.85


@pytest.mark.parametrize("speed", [0.85, 1.18])
def test_content_at_another_speed_keeps_its_time(speech_of_the_wheel: vv.Waveform, speed: float) -> None:
    """The correlation with speed 1 is largest without a shift."""
    frames = len(speech_of_the_wheel) // FRAME

    def content(at: float) -> np.ndarray:
        part = MoonshineContent(speed=at)
        return content_on_frames(normalize_content(part(speech_of_the_wheel)), part.hop, part.offset, frames)

    usual, other = content(1.0), content(speed)
    correlations = {
        lag: float(np.mean(usual[20:-20] * other[20 + lag : frames - 20 + lag])) for lag in (-3, -2, 0, 2, 3)
    }
    assert max(correlations, key=correlations.__getitem__) == 0
    assert correlations[0] > 0.8


@pytest.mark.parametrize(("spec", "message"), [("moonshine:7", "no layer 7"), ("moonshine:x", "'x' is no layer")])
def test_unknown_layer_is_rejected(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        content_encoder(spec)


def test_too_short_audio_is_rejected() -> None:
    with pytest.raises(InputError):
        MoonshineContent()(vv.Waveform(np.zeros(500, dtype=np.float32), 16000))


@given(
    arrays.arrays(np.float32, st.tuples(st.integers(1, 9), st.just(2)), elements=st.floats(-5, 5, width=32)),
    st.sampled_from([64.0, 160.0, 384.0, 453.12]),
    st.integers(1, 30),
    st.integers(0, 10),
)
def test_on_frames_interpolates(content: np.ndarray, hop: float, frames: int, first: int) -> None:
    offset = 100.0
    interpolated = content_on_frames(content, hop, offset, frames, first)
    centers = offset + hop * np.arange(len(content))
    for column in range(2):
        positions = (np.arange(first, first + frames) + 0.5) * FRAME
        np.testing.assert_allclose(
            interpolated[:, column], np.interp(positions, centers, content[:, column]), atol=1e-4
        )


@given(arrays.arrays(np.float32, (12, 3), elements=st.floats(-9, 9, width=32)), st.floats(0.5, 4), st.floats(-3, 3))
def test_normalized_content_is_invariant_to_offset_and_scale(content: np.ndarray, scale: float, shift: float) -> None:
    if (content.std(axis=0) < 0.1).any():
        return
    np.testing.assert_allclose(normalize_content(scale * content + shift), normalize_content(content), atol=1e-3)


def test_pitch_on_frames_is_the_nearest_value() -> None:
    tracker = Autocorrelation()
    samples = 16050
    track = np.arange(100.0, 197.0)  # of the 97 frames of this tracker
    f0 = f0_on_frames(track, tracker, samples)
    assert len(f0) == 101
    assert (f0 > 0).sum() == 97
    times = tracker.first(samples) + 0.01 * np.arange(len(track))
    for frame, value in enumerate(f0):
        distance = np.abs(times - (frame + 0.5) / 100)
        if distance.min() > 0.0051:
            assert value == 0
        elif distance.min() < 0.0049:
            assert value == track[distance.argmin()]


@pytest.mark.parametrize("name", ["moonshine", "phones"])
def test_content_at_another_speed_has_the_same_times(name: str, speech_of_the_wheel: vv.Waveform) -> None:
    """Vectors of a faster playback are farther apart in the recording, and say the same at the same times."""
    if name == "phones":
        pytest.importorskip("torch", reason="torch is not installed")
    plain = content_encoder(name)
    faster = at_speed(plain, 1.1)
    assert faster.hop == pytest.approx(1.1 * plain.hop)
    assert faster.fingerprint() != plain.fingerprint()
    tracks = [
        content_on_frames(prepared_content(encoder, encoder(speech_of_the_wheel)), encoder.hop, encoder.offset, 600)
        for encoder in (plain, faster)
    ]

    def agreement(delay: int) -> float:
        return float(np.corrcoef(tracks[0][delay:].ravel(), tracks[1][: 600 - delay].ravel())[0, 1])

    assert agreement(0) > max(0.5, 2 * agreement(20))


def test_content_without_speeds_is_rejected() -> None:
    with pytest.raises(InputError, match="only the content encoders moonshine and phones work at other speeds"):
        at_speed(object(), 1.1)  # type: ignore[arg-type]
