"""Pitch correlation: the official figures, plain loops as twins, and what each of the two methods measures."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.paths import GOLDEN
from voiceveil import InputError, metrics

Track = NDArray[np.float64]
frames = st.lists(st.one_of(st.just(0.0), st.floats(60, 520)), min_size=1, max_size=30).map(np.array)


def contour(seed: int, n: int = 400) -> Track:
    """A smooth F0 between 100 and 250 Hz with unvoiced stretches."""
    rng = np.random.default_rng(seed)
    f0 = 175 + 60 * np.sin(np.cumsum(rng.normal(0.05, 0.05, n)))
    f0[np.repeat(rng.random(n // 20 + 1) < 0.4, 20)[:n]] = 0
    return f0


def slow_official(a: Track, b: Track) -> float:
    """The definition in loops: every circular shift is one raw sum of products without wrapping."""
    n = max(len(a), len(b))
    a, b = (np.interp(np.linspace(1, len(x), n), np.linspace(1, len(x), len(x)), x) for x in (a, b))
    a, b = (np.where((x < 75) | (x > 500), 0, x) for x in (a, b))
    sums = {lag: sum(a[t] * b[t - lag] for t in range(n) if 0 <= t - lag < n) for lag in range(-n + 1, n)}
    lag = max(sums, key=lambda k: (sums[k], -k))
    b = np.array([b[(t - lag) % n] for t in range(n)])
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def slow_published(a: Track, b: Track, max_lag: int) -> float:
    """For tracks of one length: the best Pearson over the lags, of the frames voiced in both."""
    n, voiced_pairs = len(a), []
    for lag in range(-max_lag, max_lag + 1):
        pairs = [(a[t], b[t - lag]) for t in range(n) if 0 <= t - lag < n and a[t] > 0 and b[t - lag] > 0]
        voiced_pairs.append(np.array(pairs).reshape(-1, 2))
    enough = max(2.0, max(map(len, voiced_pairs)) / 2)
    rho = [
        0.0 if np.ptp(p, axis=0).min() == 0 else float(np.corrcoef(p.T)[0, 1]) for p in voiced_pairs if len(p) >= enough
    ]
    return max(rho, default=0.0)


@pytest.mark.parametrize(("n", "m"), [(60, 60), (60, 57), (50, 61)])
@pytest.mark.parametrize("seed", range(4))
def test_official_equals_the_loops(seed: int, n: int, m: int) -> None:
    a, b = contour(seed, n), contour(seed + 100, m)
    assert metrics.pitch_correlation(a, b, method="official") == pytest.approx(slow_official(a, b), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("max_lag", [0, 3, 20])
def test_published_equals_the_loops(seed: int, max_lag: int) -> None:
    a, b = contour(seed, 80), contour(seed + 100, 80)
    assert metrics.pitch_correlation(a, b, max_lag=max_lag) == pytest.approx(slow_published(a, b, max_lag), abs=1e-12)


def test_published_finds_the_lag() -> None:
    a = contour(1)
    delayed = np.r_[np.zeros(7), a[:-7]]
    assert metrics.pitch_correlation(a, 1.3 * delayed) == pytest.approx(1.0)
    assert metrics.pitch_correlation(a, 1.3 * delayed, max_lag=3) < 0.99


def test_official_method_measures_voicing_and_published_measures_pitch() -> None:
    """A monotone voice with the right voicing has lost its intonation; the official figure hardly notices."""
    a = contour(2)
    monotone = np.where(a > 0, 150.0, 0.0)
    assert metrics.pitch_correlation(a, monotone) == 0.0
    assert metrics.pitch_correlation(a, monotone, method="official") > 0.8


@settings(deadline=None)
@given(frames, frames)
def test_result_is_within_minus_one_and_one(a: Track, b: Track) -> None:
    for method in ("official", "published"):
        assert -1.0 <= metrics.pitch_correlation(a, b, method=method) <= 1.0


@settings(deadline=None)
@given(st.integers(0, 50), st.floats(0.5, 2.0))
def test_published_is_invariant_to_the_register(seed: int, factor: float) -> None:
    a, b = contour(seed, 100), contour(seed + 1, 100)
    assert metrics.pitch_correlation(a, factor * b) == pytest.approx(metrics.pitch_correlation(a, b), abs=1e-9)


def test_degenerate_tracks_have_correlation_zero() -> None:
    for method in ("official", "published"):
        assert metrics.pitch_correlation([0, 0, 0], [100, 110, 120], method=method) == 0.0
        assert metrics.pitch_correlation([120], [130], method=method) == 0.0
        assert metrics.pitch_correlation([120.1] * 9, [100, 110, 90] * 3, method=method) == 0.0
    nan = [np.nan, 100, 110, 120, np.nan]
    assert metrics.pitch_correlation(nan, [0, 200, 220, 240, 0]) == 1.0
    assert metrics.pitch_correlation([0, 100, 110, 120], [100, 0, 0, 0], max_lag=0) == 0.0


@pytest.mark.parametrize("bad", [[], [[100.0]], [-1.0], [np.inf]])
def test_invalid_tracks_are_rejected(bad: list[float]) -> None:
    with pytest.raises(InputError, match="f0_b"):
        metrics.pitch_correlation([100.0], bad)


def test_unknown_options_are_rejected() -> None:
    with pytest.raises(InputError, match="method"):
        metrics.pitch_correlation([100.0], [100.0], method="praat")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="max_lag"):
        metrics.pitch_correlation([100.0], [100.0], max_lag=-1)


def test_equals_the_official_figures() -> None:
    tracks = np.load(GOLDEN / "pitch.npz")
    official = json.loads((GOLDEN / "pitch.json").read_text())
    for name in ("a0.6", "a0.8"):
        a, b = tracks["speech_orig"], tracks[f"speech_{name}"]
        assert metrics.pitch_correlation(a, b, method="official") == pytest.approx(official[f"speech_{name}"], abs=1e-9)
        assert metrics.pitch_correlation(a, b, max_lag=0) == pytest.approx(
            official[f"speech_{name}_voiced_only_nolag"], abs=1e-9
        )


def test_faster_than_the_official_code() -> None:
    """29 ms for an utterance of 4 s; ours, the best of some, for one of 15 s."""
    a, b = contour(3, 1500), contour(4, 1480)
    for method in ("official", "published"):
        times = []
        for _ in range(5):
            start = time.process_time()
            metrics.pitch_correlation(a, b, method=method)
            times.append(time.process_time() - start)
        assert min(times) < 0.029
