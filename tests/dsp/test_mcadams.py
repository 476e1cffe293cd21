"""McAdams' transformation: equal to the official code's output, whole at the edges, the same block by block."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.signal import lfilter

from tests.dsp.test_lpc import slow_burg, slow_move
from tests.support.paths import GOLDEN
from voiceveil.dsp.lpc import EPSILON
from voiceveil.dsp.mcadams import McAdams, McAdamsStream
from voiceveil.testing import synthetic_voice

OFFICIAL = {
    "v1": {"whole": False, "clip_angle": True, "skip_first": True, "double": True},  # 2020 and 2022
    "v2": {"whole": False},  # 2024
}
# The official code's int16 output for the noise below: sha256 of the samples (little endian), and the first ones.
NOISE_SHA256 = {
    ("v1", 0.6): "ee2e66c1cf66294806ee9f0b920d8cd542f922cbb0e85cff07c8489a845d5123",
    ("v1", 0.8): "28bd9b8f77795e73ceea1eb286b1d198edf2968bb7bec84878c6206651c7ba72",
    ("v2", 0.6): "29004a8630da8b4c496b6ccaa04b0e554b2c38e4b3910034e29984ec6cdc7be2",
    ("v2", 0.8): "b0fb3f20d7fffe54fa2237761b62a25270c8b4fd56290d2725f5083ec1f4a662",
}


TONE = 0.5 * np.sin(2 * np.pi * 440 * np.arange(5000) / 16000)


def noise() -> NDArray[np.float32]:
    return (np.random.default_rng(0).standard_normal(16000) * 0.1).astype(np.float32)


def slow_mcadams(samples: NDArray[np.float32], alpha: float) -> NDArray[np.float64]:
    """Frame by frame with scipy and numpy, frames as in the official 2024 code."""
    hann = np.hanning(320)
    window = np.sqrt(hann / (hann.sum() / 160))
    signal = samples + np.float32(EPSILON)
    out = np.zeros(len(signal))
    for start in range(0, len(signal) - 319, 160):
        frame = signal[start : start + 320] * window
        a = slow_burg(frame + EPSILON, 20)
        out[start : start + 320] += lfilter([1.0], slow_move(a, alpha), lfilter(a, [1.0], frame)) * window
    return out


def int16(raw: NDArray[np.floating]) -> NDArray[np.int16]:
    steps: NDArray[np.floating] = np.trunc(raw / np.abs(raw).max() * 32766)
    return steps.astype(np.int16)


@pytest.mark.parametrize("variant", ["v1", "v2"])
@pytest.mark.parametrize("alpha", [0.6, 0.8])
@pytest.mark.parametrize("signal", ["voice", "noise"])
def test_equals_the_official_output(signal: str, alpha: float, variant: str) -> None:
    """Float output to 1e-6 relative, 16-bit output to the last bit."""
    stored = np.load(GOLDEN / "mcadams.npz")
    samples = noise() if signal == "noise" else stored["voice_int16"] / np.float32(32768)
    raw = McAdams(alpha, **OFFICIAL[variant])(samples)
    official = stored[f"{signal}_a{alpha}_{variant}_float"]
    assert raw.dtype == (np.float64 if variant == "v1" else np.float32)
    assert np.abs(raw - official).max() <= 1e-6 * np.abs(official).max()
    assert np.array_equal(int16(raw), stored[f"{signal}_a{alpha}_{variant}_int16"])


@pytest.mark.parametrize(("variant", "alpha"), NOISE_SHA256)
def test_equals_the_official_output_on_noise(variant: str, alpha: float) -> None:
    out = int16(McAdams(alpha, **OFFICIAL[variant])(noise()))
    assert hashlib.sha256(out.astype("<i2").tobytes()).hexdigest() == NOISE_SHA256[variant, alpha]


@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9])
def test_equals_the_slow_twin(alpha: float) -> None:
    samples = synthetic_voice(2, seconds=1.0).samples
    fast, slow = McAdams(alpha, whole=False, double=True)(samples), slow_mcadams(samples, alpha)
    np.testing.assert_allclose(fast, slow, atol=1e-6 * np.abs(slow).max())


def test_whole_variant_equals_the_official_one_away_from_the_edges() -> None:
    samples = synthetic_voice(2, seconds=1.0).samples
    whole, official = McAdams(0.8, double=True)(samples), McAdams(0.8, whole=False, double=True)(samples)
    np.testing.assert_allclose(whole[160:15840], official[160:15840], atol=1e-9)


@pytest.mark.parametrize("length", [1, 100, 319, 320, 321, 16000, 16123])
def test_whole_variant_covers_the_signal_to_the_last_sample(length: int) -> None:
    """With alpha = 1 the transformation is the identity but for the ripple of the window (0.3%): up to the last
    sample in the whole variant, while the official framing loses the tail."""
    samples = (0.1 + 0.05 * np.random.default_rng(1).standard_normal(length)).astype(np.float32)
    assert np.abs(McAdams(1.0)(samples) / samples - 1).max() < 0.02
    assert McAdams(1.0, whole=False)(samples)[-1] == pytest.approx(0.0, abs=1e-3)


@given(cuts=st.lists(st.integers(0, 3000), max_size=12), whole=st.booleans(), skip=st.booleans())
@settings(max_examples=40, deadline=None)
def test_stream_equals_the_whole_for_any_blocks(cuts: list[int], whole: bool, skip: bool) -> None:
    """However a signal is cut, the stream gives the same bits as the whole, and as many samples as went in."""
    samples = synthetic_voice(4, seconds=0.4).samples
    transform = McAdams(0.7, whole=whole, skip_first=skip)
    stream = McAdamsStream(transform)
    pieces = [stream.push(piece) for piece in np.split(samples, np.sort(np.minimum(cuts, len(samples))))]
    streamed = np.concatenate([*pieces, stream.close()])
    assert np.array_equal(streamed, transform(samples))


@pytest.mark.parametrize(
    "samples", [np.zeros(0), np.zeros(5000), np.full(5000, 0.5), np.sign(noise()), 1e-6 * noise(), TONE]
)
@pytest.mark.parametrize("alpha", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("whole", [True, False])
def test_output_is_finite_for_any_input(samples: NDArray[np.float64], alpha: float, whole: bool) -> None:
    out = McAdams(alpha, whole=whole, double=True)(samples.astype(np.float32))
    assert len(out) == len(samples)
    assert np.isfinite(out).all()
