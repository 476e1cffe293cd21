"""Pitch: autocorrelation against tracks of Praat and plain sums; the other trackers; ρ_F0 of corpora."""

from __future__ import annotations

import importlib.util
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.paths import GOLDEN
from voiceveil.audio import Waveform, save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.dsp import pitch as dsp
from voiceveil.dsp.pitch import track_pitch
from voiceveil.metrics import pitch_correlation
from voiceveil.models import evaluate_pitch, tracker, trackers
from voiceveil.models.pitch.trackers import _resample_track
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.testing import synthetic_voice

Array = NDArray[np.float64]
INSTALLED = [
    name
    for name, package in {
        "autocorrelation": "numpy",
        "praat": "parselmouth",
        "swift": "swift_f0",
        "yaapt": "amfm_decompy",
    }.items()
    if importlib.util.find_spec(package)
]


def voice(f0: Array, rate: int = 16000) -> Waveform:
    """Harmonics up to 4 kHz, falling by 12 dB per octave, of an F0 in Hz that is given sample by sample."""
    phase = 2 * np.pi * np.cumsum(f0) / rate
    samples = sum(np.where(k * f0 < 4000, np.sin(k * phase + k) / k**2, 0.0) for k in range(1, 40))
    return Waveform((0.3 * np.asarray(samples)).astype(np.float32), rate)


def glide(low: float, high: float, seconds: float) -> Array:
    return np.geomspace(low, high, int(seconds * 16000))


# --- the method


def official_voice(name: str) -> Waveform:
    """Return the synthetic voice of the golden files (`orig`), or its official anonymization with an alpha."""
    data = np.load(GOLDEN / "mcadams.npz")
    return Waveform(data["voice_int16" if name == "orig" else f"voice_{name}_v1_int16"] / np.float32(32768), 16000)


@pytest.mark.parametrize("name", ["orig", "a0.6", "a0.8"])
def test_tracks_equal_those_of_praat(name: str) -> None:
    praat = np.load(GOLDEN / "pitch.npz")[f"voice_{name}"]
    f0 = track_pitch(official_voice(name).samples, 16000).f0
    assert np.array_equal(f0 > 0, praat > 0)
    np.testing.assert_allclose(f0, praat, rtol=1e-3)
    assert np.median(np.abs(f0 / np.where(praat > 0, praat, 1) - 1)[praat > 0]) < 5e-5


@pytest.mark.parametrize("f0", [80.0, 123.4, 220.0, 400.0, 490.0])
def test_steady_tone_has_its_pitch(f0: float) -> None:
    track = track_pitch(voice(np.full(8000, f0)).samples, 16000)
    np.testing.assert_allclose(track.f0, f0, rtol=1e-3)
    assert track.periodicity.min() > 0.99


def test_track_is_invariant_to_level_and_offset() -> None:
    samples = synthetic_voice(3, seconds=1.0).samples.astype(np.float64)
    plain, other = track_pitch(samples, 16000), track_pitch(1e-3 * samples + 0.2, 16000)
    assert np.array_equal(plain.f0 > 0, other.f0 > 0)
    np.testing.assert_allclose(plain.f0, other.f0, rtol=1e-9)


def test_silence_and_noise_have_no_pitch() -> None:
    assert not track_pitch(np.zeros(8000), 16000).f0.any()
    noise = np.random.default_rng(0).standard_normal(16000)
    assert (track_pitch(noise, 16000).f0 > 0).mean() < 0.1


def test_periodicity_is_the_power_ratio_of_the_periodic_part() -> None:
    """Boersma (1993), eq. 4: r = H / (H + N)."""
    tone = voice(np.full(32000, 150.0)).samples
    noise = np.random.default_rng(1).standard_normal(32000)
    noise *= np.sqrt((tone**2).mean() / (noise**2).mean() / 10)  # 10 dB below
    track = track_pitch(tone + noise, 16000)
    r = track.periodicity[track.f0 > 0].mean()
    assert 10 * np.log10(r / (1 - r)) == pytest.approx(10.0, abs=0.7)


def test_autocorrelation_equals_a_plain_sum() -> None:
    frame = np.random.default_rng(2).standard_normal((1, 100))
    autocorrelation = dsp._autocorrelation(frame, 256, 40)[0]
    power = np.abs([frame[0] @ np.exp(-2j * np.pi * k * np.arange(100) / 256) for k in range(256)]) ** 2
    for step, value in enumerate(autocorrelation):
        lag = step / 4
        signed = [k if k < 128 else k - 256 for k in range(256)]
        total = sum(p * np.cos(2 * np.pi * k * lag / 256) for p, k in zip(power, signed, strict=True) if k != -128)
        # The bin at half the rate is counted once by the transform of a zero-padded spectrum, not twice.
        total += 2 * power[128] * np.cos(np.pi * lag)
        everything = sum(power) + power[128]
        assert value == pytest.approx(total / everything, abs=1e-9)
    for lag in range(10):  # whole lags: the definition itself, but for that bin
        direct = frame[0, : 100 - lag] @ frame[0, lag:] / (frame[0] @ frame[0])
        assert autocorrelation[4 * lag] == pytest.approx(direct, abs=0.02)


def test_cheapest_path_equals_the_best_of_all_paths() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        count = rng.integers(0, 3, size=6)
        frequency, strength = rng.uniform(80, 450, count.sum()), rng.uniform(0.3, 1.0, count.sum())
        unvoiced = rng.uniform(0.4, 0.9, 6)
        starts = np.concatenate([[0], np.cumsum(count)])
        options = [
            [(0.0, unvoiced[t])] + [(frequency[i], strength[i]) for i in range(starts[t], starts[t + 1])]
            for t in range(6)
        ]

        def gain(path: tuple[tuple[float, float], ...]) -> float:
            total = sum(s - (0.01 * np.log2(500 / f) if f else 0.0) for f, s in path)
            for (f, _), (g, _) in itertools.pairwise(path):
                total -= 0.14 if bool(f) != bool(g) else 0.35 * abs(np.log2(f / g)) if f else 0.0
            return float(total)

        best = max(itertools.product(*options), key=gain)
        f0, periodicity = dsp._cheapest_path(count, frequency, strength, unvoiced, 500.0, 1.0)
        assert f0.tolist() == [f for f, _ in best]
        assert periodicity.tolist() == [s if f else 0.0 for f, s in best]


def test_invalid_audio_is_rejected() -> None:
    with pytest.raises(InputError, match=r"too short for a pitch: 0\.030 s"):
        track_pitch(np.ones(480), 16000)
    with pytest.raises(InputError, match="impossible range of F0"):
        track_pitch(np.ones(16000), 16000, floor=500, ceiling=75)


# --- the trackers


def test_trackers_are_found_by_name() -> None:
    assert list(trackers) == ["autocorrelation", "praat", "swift", "yaapt"]
    with pytest.raises(InputError, match=r"unknown pitch tracker 'yapt'.*did you mean yaapt"):
        tracker("yapt")


@pytest.mark.parametrize("name", INSTALLED)
def test_frames_are_at_the_stated_times(name: str) -> None:
    """A glide of an octave a second: an error of 10 ms changes F0 by 0.7%."""
    wave = voice(glide(110, 220, 1.0))
    follow = tracker(name)
    f0 = follow(wave)
    times = follow.first(len(wave)) + 0.01 * np.arange(len(f0))
    assert f0.dtype == np.float64
    assert abs(len(f0) - 100) <= 5
    inside = (f0 > 0) & (times > 0.1) & (times < 0.9)
    assert inside.sum() > 70
    ratio = f0[inside] / (110 * 2 ** times[inside])
    if name == "yaapt":  # it takes the n-th lag for n + 1 samples
        ratio *= 1 + f0[inside] / 16000
    assert abs(np.median(ratio) - 1) < 0.006
    assert (np.abs(ratio - 1) < 0.04).mean() > 0.95


@pytest.mark.parametrize("name", INSTALLED)
def test_silence_is_unvoiced_without_warnings(name: str) -> None:
    """Warnings are errors here; pYAAPT divides by the energy of its input."""
    assert not tracker(name)(Waveform(np.zeros(16000, dtype=np.float32), 16000)).any()


@pytest.mark.parametrize("name", INSTALLED)
def test_too_short_audio_and_other_rates_are_rejected(name: str) -> None:
    follow = tracker(name)
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="cannot be tracked"):
        follow(Waveform(np.zeros(int(follow.minimum * 16000) - 1, dtype=np.float32), 16000))
    with pytest.raises(InputError, match="at 8000 Hz cannot be tracked"):
        follow(Waveform(np.zeros(8000, dtype=np.float32), 8000))
    with pytest.raises(InputError, match="not finite"):
        follow(Waveform(np.full(8000, np.nan, dtype=np.float32), 16000))
    shortest = rng.standard_normal(int(np.ceil(follow.minimum * 16000))).astype(np.float32) * 0.1
    assert np.isfinite(follow(Waveform(shortest, 16000))).all()


def test_yaapt_nearly_equals_the_official_version() -> None:
    """Nine of 298 frames differ, four of them by more than one lag of the search.

    pYAAPT subtracts means from overlapping frames in place; its tracks change a little with its version.
    """
    f0 = tracker("yaapt")(official_voice("orig"))
    official = np.load(GOLDEN / "pitch.npz")["voice_yaapt"]
    assert len(f0) == len(official)
    assert (f0 == official).mean() > 0.96
    assert ((f0 > 0) != (official > 0)).sum() <= 1
    both = (f0 > 0) & (official > 0)
    assert (np.abs(f0[both] / official[both] - 1) > 0.012).sum() <= 4


def test_missing_praat_names_the_package_to_install() -> None:
    if "praat" in INSTALLED:
        pytest.skip("praat-parselmouth is installed")
    with pytest.raises(InputError, match=r"praat-parselmouth is not installed \(pip install praat-parselmouth"):
        tracker("praat")


def test_autocorrelation_agrees_with_installed_praat() -> None:
    pytest.importorskip("parselmouth", reason="praat-parselmouth (GPL) is not installed")
    wave = synthetic_voice(1, seconds=2.0)
    own, praat = tracker("autocorrelation")(wave), tracker("praat")(wave)
    assert ((own > 0) == (praat > 0)).mean() > 0.99
    both = (own > 0) & (praat > 0)
    np.testing.assert_allclose(own[both], praat[both], rtol=2e-3)


def test_other_frame_grids_are_interpolated_within_voiced_speech() -> None:
    f0 = np.array([0.0, 100.0, 116.0, 0.0, 0.0])
    times = 0.016 * np.arange(5, dtype=np.float64)
    track = _resample_track(f0, times, 0.07)
    # at                           0    10     20     30     40     50   60 ms; 40 ms are as near to 32 as to 48
    assert track == pytest.approx([0.0, 100.0, 104.0, 114.0, 116.0, 0.0, 0.0])
    assert not _resample_track(np.zeros(3), times[:3], 0.05).any()


# --- corpora


def corpus(folder: Path, waves: dict[str, Waveform], speakers: bool = True) -> Corpus:
    for name, wave in waves.items():
        save(folder / f"{name}.wav", wave)
    listed = (Utterance(n, folder / f"{n}.wav", speaker=n.split("-")[0] if speakers else None) for n in waves)
    return Corpus(folder.name, tuple(listed), root=folder)


def test_correlations_equal_the_official_code_without_praat(tmp_path: Path) -> None:
    """The correlations of the 2022 challenge's own code, from audio to number."""
    figures = json.loads((GOLDEN / "pitch.json").read_text())
    alphas = ("a0.6", "a0.8")
    original = corpus(tmp_path / "o", {f"{alpha}-x": official_voice("orig") for alpha in alphas})
    anonymized = corpus(tmp_path / "a", {f"{alpha}-x": official_voice(alpha) for alpha in alphas})
    result = evaluate_pitch(original, anonymized, method="official")
    for alpha in alphas:
        assert result.by_utterance[f"{alpha}-x"] == pytest.approx(figures[f"voice_{alpha}"], abs=1e-4)
    values = [figures[f"voice_{alpha}"] for alpha in alphas]
    assert result.rho.value == pytest.approx(np.mean(values), abs=1e-4)
    assert result.std == pytest.approx(np.std(values), abs=1e-4)


def test_correlation_of_corpora_has_interval_and_cache(tmp_path: Path) -> None:
    waves = {f"s{s}-{u}": synthetic_voice(s, u, seconds=1.0) for s in range(3) for u in range(2)}
    other = {name: synthetic_voice(9, int(name[-1]), seconds=1.0) for name in waves}
    original, shifted = corpus(tmp_path / "o", waves), corpus(tmp_path / "a", other)
    same = evaluate_pitch(original, original)
    assert same.rho.value == pytest.approx(1.0)
    cache = Cache(tmp_path / "cache")
    result = evaluate_pitch(original, shifted, context=RunContext(cache))
    follow = tracker()
    for name, wave in waves.items():  # int16 in between: the tracks may move a little
        direct = pitch_correlation(follow(wave), follow(other[name]))
        assert result.by_utterance[name] == pytest.approx(direct, abs=0.05)
    assert result.rho.n == 3
    assert result.rho.of == "speakers"
    assert result.rho.value == pytest.approx(np.mean(list(result.by_utterance.values())))
    assert result.std == pytest.approx(np.std(list(result.by_utterance.values())))
    assert result.rho.low < result.rho.value < result.rho.high <= 1.0
    assert evaluate_pitch(original, shifted, context=RunContext(cache)).by_utterance == result.by_utterance
    cache.close()


def test_without_speakers_the_interval_is_over_utterances(tmp_path: Path) -> None:
    waves = {f"u{u}": synthetic_voice(1, u, seconds=0.5) for u in range(3)}
    nobody = corpus(tmp_path / "o", waves, speakers=False)
    result = evaluate_pitch(nobody, nobody)
    assert (result.rho.of, result.rho.n) == ("utterances", 3)


def test_mismatched_pairs_are_rejected(tmp_path: Path) -> None:
    original = corpus(tmp_path / "o", {"s0-0": synthetic_voice(0, seconds=0.5)})
    strange = corpus(tmp_path / "a", {"s0-1": synthetic_voice(0, seconds=0.5)})
    short = corpus(tmp_path / "b", {"s0-0": synthetic_voice(0, seconds=0.03)})
    with pytest.raises(InputError, match=r"1 utterance\(s\) are not in the original corpus, e.g. s0-1"):
        evaluate_pitch(original, strange)
    with pytest.raises(InputError, match=r"s0-0 has 0\.030 s, but at least 0\.04 s"):
        evaluate_pitch(original, short)
    with pytest.raises(InputError, match="no utterances"):
        evaluate_pitch(original, original.filter(lambda u: False))
    with pytest.raises(InputError, match="unknown method 'new'"):
        evaluate_pitch(original, original, method="new")  # type: ignore[arg-type]
