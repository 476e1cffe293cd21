"""The compact source-filter decoder: its sources, its filters against a plain twin, and that it learns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import hilbert

from voiceveil.dsp.excitation import DEFAULT_F0, continuous_f0, pulse_train

torch = pytest.importorskip("torch", reason="torch is not installed")

from voiceveil.dsp.excitation import FRAME  # noqa: E402
from voiceveil.models.content.features import LEVEL  # noqa: E402
from voiceveil.models.nets.soft_codes import SoftCodes, k_means  # noqa: E402
from voiceveil.models.nets.source_filter import (  # noqa: E402
    GAINS,
    POINTS,
    WINDOW,
    Excitation,
    SourceFilter,
    SourceFilterSize,
    attenuate_pauses,
    excitation,
    mel_to_linear,
    minimum_phase,
)
from voiceveil.testing.voices import synthetic_voice  # noqa: E402
from voiceveil.training.source_filter_task import SourceFilterTask  # noqa: E402
from voiceveil.training.synthesis_data import SynthesisBatch  # noqa: E402

SMALL = SourceFilterSize(content=12, speaker=6, width=32, blocks=1, fine_blocks=1)


@given(st.lists(st.one_of(st.just(0.0), st.floats(60, 600)), min_size=1, max_size=30))
def test_continuous_f0_keeps_voiced_frames_and_fills_the_others(values: list[float]) -> None:
    f0 = np.array(values)
    filled = continuous_f0(f0)
    voiced = f0 > 0
    assert (filled > 0).all()
    if voiced.any():
        np.testing.assert_allclose(filled[voiced], f0[voiced], rtol=1e-6)
        assert filled.min() >= f0[voiced].min() * (1 - 1e-6)
        assert filled.max() <= f0[voiced].max() * (1 + 1e-6)
    else:
        assert (filled == DEFAULT_F0).all()


def test_pulse_train_is_the_sum_of_its_harmonics() -> None:
    f0 = np.linspace(90, 310, 40)
    centers = (np.arange(40) + 0.5) * FRAME - 0.5
    pitch = np.interp(np.arange(40 * FRAME), centers, f0)
    phase = 2 * np.pi * (0.3 + np.cumsum(pitch) / 16000)
    harmonics = np.floor(8000 / pitch)
    slow = np.ones(len(pitch))
    for k in range(1, int(harmonics.max()) + 1):
        slow += 2 * np.where(k <= harmonics, np.cos(k * phase), 0.0)
    np.testing.assert_allclose(pulse_train(f0, 0.3), slow / np.sqrt(2 * harmonics + 1), atol=2e-4)


@pytest.mark.parametrize("f0", [60.0, 111.0, 201.0, 333.0, 601.0])
def test_pulse_train_has_unit_power_at_every_pitch(f0: float) -> None:
    assert np.mean(pulse_train(np.full(400, f0)) ** 2) == pytest.approx(1.0, abs=0.02)


def test_phase_does_not_drift_in_a_long_recording() -> None:
    """After an hour of 100 Hz, the pulses have the same phase as at the beginning."""
    long = pulse_train(np.full(60_000, 100.0))
    np.testing.assert_allclose(long[: 160 * 10], long[-160 * 10 :], atol=1e-3)


def test_gains_are_interpolated_to_the_bins() -> None:
    spread = mel_to_linear(POINTS)
    np.testing.assert_allclose(spread.sum(axis=0), 1.0, atol=1e-6)
    assert spread.shape == (GAINS, POINTS // 2 + 1)
    assert spread[0, 0] == 1.0
    assert spread[-1, -1] == pytest.approx(1.0)


def test_unit_filters_return_the_source() -> None:
    """With log gains of 0 for the noise and no pulses, overlap-add returns the noise unchanged."""
    network = SourceFilter(SMALL)
    rng = np.random.default_rng(0)
    source = excitation(np.full((1, 30), 120.0, dtype=np.float32), rng)
    with torch.no_grad():
        network.gains.weight.zero_()
        network.gains.bias[:GAINS] = -40.0
        network.gains.bias[GAINS:] = 0.0
        result = network.waveform(torch.zeros(1, 30, 12), torch.full((1, 30), 120.0), torch.ones(1, 6), source)
    inside = slice(WINDOW, -WINDOW)
    np.testing.assert_allclose(result[0, inside], source.noise[0, inside], atol=1e-5)


def test_synthesis_equals_a_plain_twin() -> None:
    """A plain implementation in numpy, frame by frame: window, transform, filter, inverse transform, overlap-add."""
    torch.manual_seed(0)
    network = SourceFilter(SMALL)
    rng = np.random.default_rng(1)
    frames = 17
    f0 = np.where(np.arange(frames) % 5 == 0, 0, 140).astype(np.float32)[None]
    content = rng.standard_normal((1, frames, 12)).astype(np.float32)
    voice = rng.standard_normal((1, 6)).astype(np.float32)
    source = excitation(f0, rng)
    inputs = tuple(torch.from_numpy(x) for x in (content, f0, voice))
    with torch.no_grad():
        pulses, noise = (x[0].double().numpy() for x in network(*inputs))
        fast = network.waveform(inputs[0], inputs[1], inputs[2], source)[0].numpy()
    spread = mel_to_linear(POINTS).astype(np.float64)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    margin = POINTS
    slow = np.zeros(frames * FRAME + 2 * margin)
    for excite, gains in ((source.pulses, pulses), (source.noise, noise)):
        padded = np.pad(excite[0].double().numpy(), margin)
        for j in range(frames):
            start = margin + j * FRAME + FRAME // 2 - WINDOW // 2
            filtered = np.fft.rfft(padded[start : start + WINDOW] * hann, POINTS) * _minimum_phase(gains[j] @ spread)
            slow[start : start + POINTS] += np.fft.irfft(filtered, POINTS) / 2
    np.testing.assert_allclose(fast, slow[margin:-margin], atol=1e-5)


def _minimum_phase(logarithmic: np.ndarray) -> np.ndarray:
    """The definition: the phase is the negated Hilbert transform of the log magnitude."""
    analytic = hilbert(np.concatenate([logarithmic, logarithmic[-2:0:-1]]))
    return np.asarray(np.exp(logarithmic - 1j * analytic.imag[: len(logarithmic)]))


def test_minimum_phase_rings_after_the_pulse() -> None:
    logarithmic = 2 * np.cos(np.linspace(0, 9, POINTS // 2 + 1))
    spectrum = minimum_phase(torch.from_numpy(logarithmic)[None])[0].numpy()
    np.testing.assert_allclose(np.abs(spectrum), np.exp(logarithmic), rtol=1e-9)
    np.testing.assert_allclose(spectrum, _minimum_phase(logarithmic), rtol=1e-9)
    response = np.fft.irfft(spectrum)
    assert (response[: POINTS // 2] ** 2).sum() > 0.999 * (response**2).sum()


def test_only_pauses_are_attenuated() -> None:
    """Levels of 0, 2.9 and 3 nepers below the loudest frame stay; 4 becomes 5."""
    levels = torch.tensor([0.0, -2.9, -3.0, -4.0])[None, :, None].expand(1, 4, GAINS)
    pulses, noise = attenuate_pauses(levels, levels - 40)
    np.testing.assert_allclose(pulses[0, :, 0], [0.0, -2.9, -3.0, -5.0], atol=1e-5)
    np.testing.assert_allclose(noise + 40, pulses, atol=1e-5)


def test_odd_numbers_of_frames_and_single_frames() -> None:
    network = SourceFilter(SMALL)
    for frames in (1, 2, 7):
        pulses, noise = network(torch.zeros(2, frames, 12), torch.full((2, frames), 100.0), torch.ones(2, 6))
        assert pulses.shape == noise.shape == (2, frames, GAINS)


def test_soft_codes_equal_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    codes, vectors = rng.standard_normal((20, 5)).astype(np.float32), rng.standard_normal((9, 5)).astype(np.float32)
    soft = SoftCodes(20, 5, nearest=3)
    soft.load_state_dict({"codes": torch.from_numpy(codes)})
    means = soft(torch.from_numpy(vectors)).numpy()
    for vector, mean in zip(vectors, means, strict=True):
        distances = [float(((vector - code) ** 2).sum()) for code in codes]
        chosen = sorted(range(20), key=lambda i: distances[i])[:3]
        weights = [1 / distances[i] for i in chosen]
        slow = sum(w * codes[i] for w, i in zip(weights, chosen, strict=True)) / sum(weights)
        np.testing.assert_allclose(mean, slow, atol=1e-4)


def test_bottleneck_strength_interpolates_to_the_codes() -> None:
    vectors = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    codes = SoftCodes(8, 4, nearest=2)
    codes.codes = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    quantized = codes(vectors)
    codes.strength = 0.25
    torch.testing.assert_close(codes(vectors), 0.75 * vectors + 0.25 * quantized)
    codes.strength = 0.0
    assert codes(vectors) is vectors


@pytest.mark.parametrize("mean_removal", [0.0, 0.5, 1.0])
def test_codes_are_shifted_to_the_mean_of_the_recording(mean_removal: float) -> None:
    """The mean is removed for each recording; differences between frames stay."""
    vectors = torch.randn(3, 50, 4, generator=torch.Generator().manual_seed(0)) + torch.arange(3.0)[:, None, None]
    codes = SoftCodes(8, 4, nearest=2)
    codes.codes = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    plain = codes(vectors)
    codes.mean_removal = mean_removal
    shifted = codes(vectors)
    for recording, before, after in zip(vectors, plain, shifted, strict=True):
        wanted = (1 - mean_removal) * before.mean(dim=0) + mean_removal * recording.mean(dim=0)
        torch.testing.assert_close(after.mean(dim=0), wanted)
        torch.testing.assert_close(after.diff(dim=0), before.diff(dim=0))


def test_crops_can_exchange_their_speakers() -> None:
    """Voicing and intervals stay, the mean F0 is that of the next crop, unless that is unvoiced."""
    f0 = np.array([[100, 0, 400], [150, 150, 0], [0, 0, 0]], dtype=np.float32)
    speaker = np.eye(3, dtype=np.float32)
    nothing = np.zeros((3, 1), dtype=np.float32)
    other = SynthesisBatch(nothing, nothing, f0, speaker).with_swapped_voices()
    np.testing.assert_allclose(other.f0, [[75, 0, 300], [150, 150, 0], [0, 0, 0]], rtol=1e-5)
    np.testing.assert_array_equal(other.speaker, speaker[[1, 2, 0]])


def test_one_nearest_code_is_quantization() -> None:
    soft = SoftCodes(4, 2, nearest=1)
    soft.load_state_dict({"codes": torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])})
    quantized = soft(torch.tensor([[[0.9, 0.2], [0.1, 0.4]]]))
    np.testing.assert_allclose(quantized[0], [[1.0, 0.0], [0.0, 0.0]])


def test_k_means_finds_separate_groups() -> None:
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0], [10, 0], [0, 10], [10, 10]], dtype=np.float32)
    vectors = (centers[rng.integers(4, size=400)] + 0.1 * rng.standard_normal((400, 2))).astype(np.float32)
    codes = k_means(vectors, 12, rng)
    for center in centers:
        assert np.sqrt(((codes - center) ** 2).sum(axis=1)).min() < 0.3


def _bands(samples: np.ndarray) -> np.ndarray:
    """Mean magnitudes of 40 bands of 200 Hz."""
    spectra = np.abs(np.fft.rfft(samples.reshape(-1, 640) * np.hanning(640), axis=1))[:, :320]
    return np.asarray(spectra.reshape(-1, 40, 8).mean(axis=(0, 2)))


def test_overfits_two_utterances() -> None:
    """After training, the synthesized waveform has the spectrum of the recording."""
    frames = 60
    waves = np.stack([synthetic_voice(s, 0, seconds=0.6).samples[: frames * FRAME] for s in (1, 2)])
    waves *= LEVEL / np.sqrt((waves**2).mean(axis=1, keepdims=True))
    rng = np.random.default_rng(0)
    content = rng.standard_normal((2, frames, 12)).astype(np.float32)
    f0 = np.full((2, frames), 130.0, dtype=np.float32)
    batch = SynthesisBatch(waves, content, f0, np.eye(2, 6, dtype=np.float32))
    task = SourceFilterTask(SMALL, seed=0)
    for group in task.optimizer.param_groups:
        group["lr"] = 1e-2
    first = task.step(batch, np.random.default_rng(0))
    for number in range(150):
        last = task.step(batch, np.random.default_rng(number))
    assert last < 0.4 * first
    with torch.no_grad():
        inputs = tuple(torch.from_numpy(x) for x in (content, f0, batch.speaker))
        synthetic = task.network.waveform(
            inputs[0], inputs[1], inputs[2], excitation(f0, np.random.default_rng(7))
        ).numpy()
    for real, copy in zip(waves, synthetic, strict=True):
        a, b = (np.log(_bands(x)) for x in (real, copy))
        assert np.corrcoef(a, b)[0, 1] > 0.9
        assert 0.4 < np.sqrt((copy**2).mean()) / LEVEL < 2.5


def test_excitation_depends_on_the_generator_only() -> None:
    f0 = np.full((1, 5), 100.0, dtype=np.float32)
    first, again, other = (excitation(f0, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert torch.equal(first.pulses, again.pulses)
    assert torch.equal(first.noise, again.noise)
    assert not torch.equal(first.pulses, other.pulses)
    assert isinstance(first, Excitation)
