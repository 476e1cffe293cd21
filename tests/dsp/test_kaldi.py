"""Kaldi's features: against kaldi-native-fbank, against plain loops, and against figures written out."""

from __future__ import annotations

import time
from typing import Any

import kaldi_native_fbank as knf
import numpy as np
import pytest
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.dsp.kaldi import Framing, MelBands, energy_vad, fbank, mel_banks, mfcc, sentence_cmn, sliding_cmn
from voiceveil.testing import synthetic_voice

VOICE = synthetic_voice(3, 1, seconds=2.3).samples


def native(options: Any, online: Any, framing: Framing, samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """The frames of kaldi-native-fbank with the options of ``framing``."""
    frame = options.frame_opts
    frame.samp_freq, frame.dither = framing.rate, 0.0
    frame.window_type = {"hann": "hanning"}.get(framing.window, framing.window)  # its "hann" is not Kaldi's
    frame.frame_length_ms, frame.frame_shift_ms = framing.length, framing.shift
    frame.preemph_coeff, frame.remove_dc_offset = framing.preemphasis, framing.remove_dc
    frame.snip_edges = framing.snip_edges
    computer = online(options)
    computer.accept_waveform(framing.rate, (samples * 32768.0).tolist())
    computer.input_finished()
    return np.array([computer.get_frame(i) for i in range(computer.num_frames_ready)])


def assert_close(actual: NDArray[Any], expected: NDArray[Any]) -> None:
    """To 1e-3, and to 1e-2 where a bin is 80 dB below the loudest of its frame: there single precision ends."""
    quiet = expected < expected.max(axis=1, keepdims=True) - 18.0
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual[~quiet], expected[~quiet], atol=1e-3)
    np.testing.assert_allclose(actual[quiet], expected[quiet], atol=1e-2)


FRAMINGS = [
    Framing(),
    Framing(snip_edges=False),
    Framing(window="hamming", preemphasis=0.9),
    Framing(window="hann", remove_dc=False),
    Framing(window="rectangular", preemphasis=0.0),
    Framing(rate=8000, length=32.0, shift=8.0),
    Framing(length=20.0, shift=12.5, snip_edges=False, window="blackman"),
]


@pytest.mark.parametrize("framing", FRAMINGS, ids=str)
def test_fbank_equals_kaldi(framing: Framing) -> None:
    options = knf.FbankOptions()
    options.mel_opts.num_bins, options.mel_opts.low_freq, options.mel_opts.high_freq = 40, 60.0, -200.0
    actual = fbank(VOICE, framing, MelBands(40, 60.0, -200.0))
    expected = native(options, knf.OnlineFbank, framing, VOICE)
    assert actual.dtype == np.float32
    assert_close(actual, expected)
    assert_close(fbank(VOICE, framing, MelBands(40, 60.0, -200.0), dtype=np.float64), expected)


def test_fbank_with_energy_equals_kaldi() -> None:
    options = knf.FbankOptions()
    options.mel_opts.num_bins, options.use_energy, options.use_power = 80, True, True
    options.raw_energy, options.energy_floor, options.htk_compat = True, 0.0, False
    assert_close(fbank(VOICE, energy=True), native(options, knf.OnlineFbank, Framing(), VOICE))


@pytest.mark.parametrize(
    ("ceps", "bins", "lifter", "energy", "snip_edges"),
    [(13, 23, 22.0, True, True), (30, 30, 22.0, False, False), (40, 40, 0.0, False, True), (20, 64, 10.0, True, False)],
)
def test_mfcc_equals_kaldi(ceps: int, bins: int, lifter: float, energy: bool, snip_edges: bool) -> None:
    options = knf.MfccOptions()
    options.num_ceps, options.mel_opts.num_bins, options.cepstral_lifter = ceps, bins, lifter
    options.use_energy, options.mel_opts.low_freq, options.mel_opts.high_freq = energy, 20.0, 7600.0
    framing = Framing(snip_edges=snip_edges)
    actual = mfcc(VOICE, framing, MelBands(bins, high=7600.0), ceps=ceps, lifter=lifter, energy=energy)
    np.testing.assert_allclose(actual, native(options, knf.OnlineMfcc, framing, VOICE), atol=2e-3)


def plain_fbank(samples: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """The definition, a frame and a filter at a time, in double precision."""
    window = [(0.5 - 0.5 * np.cos(2 * np.pi * i / 399)) ** 0.85 for i in range(400)]

    def mel(hertz: float) -> float:
        return float(1127 * np.log(1 + hertz / 700))

    edges = [mel(20) + (mel(8000) - mel(20)) * k / (bins + 1) for k in range(bins + 2)]
    rows = []
    for start in range(0, len(samples) - 399, 160):
        frame = samples[start : start + 400] * 32768
        frame = frame - frame.mean()
        emphasised = [frame[i] - 0.97 * frame[max(i - 1, 0)] for i in range(400)]
        spectrum = np.fft.fft(np.array(emphasised) * window, 512)
        row = []
        for k in range(bins):
            total = 0.0
            for i in range(256):
                m = mel(i * 16000 / 512)
                if edges[k] < m < edges[k + 2]:
                    rise = (m - edges[k]) / (edges[k + 1] - edges[k])
                    fall = (edges[k + 2] - m) / (edges[k + 2] - edges[k + 1])
                    total += min(rise, fall) * abs(spectrum[i]) ** 2
            row.append(np.log(max(total, 1.1920929e-07)))
        rows.append(row)
    return np.array(rows)


def test_fbank_equals_the_plain_definition() -> None:
    actual = fbank(VOICE[:4000], mel=MelBands(30), dtype=np.float64)
    np.testing.assert_allclose(actual, plain_fbank(VOICE[:4000].astype(np.float64), 30), atol=1e-9)


def test_features_equal_stored_figures() -> None:
    """A 1 kHz tone at half scale, from kaldi-native-fbank 1.22.4: frame 0, bins 10, 20, 27, 32 of 80."""
    tone = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(8000) / 16000)
    row = fbank(tone.astype(np.float32))[0]
    np.testing.assert_allclose(row[[10, 20, 27, 32]], [8.356638, 11.738653, 27.053947, 13.712968], atol=1e-3)


def test_frame_counts() -> None:
    """Snipped: frames that fit; not snipped: one every 160 samples, rounded."""
    for size, snipped, all_frames in [(0, 0, 0), (399, 0, 2), (400, 1, 3), (559, 1, 3), (560, 2, 4), (16000, 98, 100)]:
        assert len(fbank(np.zeros(size, np.float32))) == snipped
        assert len(fbank(np.zeros(size, np.float32), Framing(snip_edges=False))) == all_frames


def test_short_signal_is_mirrored_repeatedly() -> None:
    samples = VOICE[5000:5100]
    options = knf.FbankOptions()
    options.mel_opts.num_bins = 80
    framing = Framing(snip_edges=False)
    assert_close(fbank(samples, framing), native(options, knf.OnlineFbank, framing, samples))


def test_silence_gives_the_energy_floor() -> None:
    assert np.unique(fbank(np.zeros(1600, np.float32))) == pytest.approx(np.log(np.finfo(np.float32).eps))


def test_result_does_not_depend_on_block_size() -> None:
    long = np.tile(VOICE, 10)  # 2,298 frames: several blocks
    whole = fbank(long)
    np.testing.assert_allclose(whole[2100:2110], fbank(long[2100 * 160 :])[:10], atol=1e-4)


def test_invalid_options_are_rejected() -> None:
    with pytest.raises(InputError, match="window"):
        Framing(window="kaiser")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="mel filters from"):
        fbank(VOICE, mel=MelBands(high=9000.0))
    with pytest.raises(InputError, match="too many"):
        mel_banks(16000, 128, 80, 20.0, 0.0)
    with pytest.raises(InputError, match="cepstral"):
        mfcc(VOICE, ceps=30)
    with pytest.raises(InputError, match="dimension"):
        fbank(VOICE[None])


def plain_vad(energy: list[float], threshold: float, scale: float, proportion: float, context: int) -> list[bool]:
    limit = threshold + scale * sum(energy) / len(energy)
    out = []
    for t in range(len(energy)):
        around = [energy[s] > limit for s in range(t - context, t + context + 1) if 0 <= s < len(energy)]
        out.append(sum(around) >= len(around) * proportion)
    return out


def test_vad_equals_the_plain_loop() -> None:
    rng = np.random.default_rng(0)
    for context, proportion in [(0, 0.6), (2, 0.12), (5, 0.5)]:
        energy = rng.normal(9.0, 4.0, 300)
        actual = energy_vad(energy, threshold=5.5, mean_scale=0.5, proportion=proportion, context=context)
        assert actual.tolist() == plain_vad(energy.tolist(), 5.5, 0.5, proportion, context)
    assert energy_vad(np.zeros(0)).shape == (0,)


def test_vad_finds_the_voice() -> None:
    samples = np.concatenate([1e-4 * np.random.default_rng(0).standard_normal(8000), VOICE]).astype(np.float32)
    speech = energy_vad(mfcc(samples)[:, 0], threshold=5.5, context=2, proportion=0.12)
    assert speech[:45].mean() < 0.1
    assert speech[50:].mean() > 0.5


def plain_sliding(features: NDArray[np.float64], window: int, least: int, center: bool, variance: bool) -> Any:
    """Frame by frame, as apply-cmvn-sliding moves its window."""
    out, count = np.zeros_like(features), len(features)
    for t in range(count):
        start, end = (t - window // 2, t - window // 2 + window) if center else (t - window, t + 1)
        if start < 0:
            start, end = 0, end - start
        if not center and end > t:
            end = max(t + 1, least)
        if end > count:
            start, end = max(0, start - (end - count)), count
        part = features[start:end]
        out[t] = features[t] - part.mean(axis=0)
        if variance:
            out[t] = 0.0 if len(part) == 1 else out[t] / np.sqrt(np.maximum(part.var(axis=0), 1e-10))
    return out


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("variance", [True, False])
@pytest.mark.parametrize(("count", "window", "least"), [(250, 60, 10), (250, 600, 100), (40, 60, 100), (1, 600, 100)])
def test_sliding_cmn_equals_the_plain_loop(center: bool, variance: bool, count: int, window: int, least: int) -> None:
    features = np.random.default_rng(count).normal(5.0, 2.0, (count, 4))
    actual = sliding_cmn(features, window=window, min_window=least, center=center, variance=variance)
    np.testing.assert_allclose(actual, plain_sliding(features, window, least, center, variance), atol=1e-9)


def test_sentence_cmn_subtracts_the_mean() -> None:
    features = np.random.default_rng(1).normal(5.0, 2.0, (100, 3))
    np.testing.assert_allclose(sentence_cmn(features).mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(sentence_cmn(features, variance=True).std(axis=0), 1.0, atol=1e-12)
    assert sentence_cmn(np.zeros((0, 3))).shape == (0, 3)


def test_fbank_is_fast() -> None:
    """At least 200 times real time; in truth some thousand times, so that a busy machine does not fail."""
    minute = np.tile(VOICE, 27)[: 60 * 16000]
    fbank(minute)
    start = time.process_time()
    fbank(minute)
    assert 60.0 / (time.process_time() - start) > 200.0
