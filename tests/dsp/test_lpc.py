"""Linear prediction in lanes against the slow, obvious twin: one frame at a time, numpy's own root finder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.signal import lfilter

from tests.support.paths import GOLDEN
from voiceveil.dsp.lpc import EPSILON, LANES, ORDER, PoleChange, burg, filter_frames, poles, polynomial
from voiceveil.testing import synthetic_voice

Array = NDArray[np.float64]


def slow_burg(frame: Array, order: int) -> Array:
    """Burg's method as the textbook has it: all sums written out, nothing updated."""
    forward, backward = frame[1:], frame[:-1]
    a = np.array([1.0])
    for _ in range(order):
        reflection = -2 * np.dot(forward, backward) / (np.dot(forward, forward) + np.dot(backward, backward))
        padded = np.append(a, 0.0)
        a = padded + reflection * padded[::-1]
        forward, backward = (forward + reflection * backward)[1:], (backward + reflection * forward)[:-1]
    return a


def slow_move(a: Array, alpha: float, radius: float = 1.0) -> Array:
    roots = np.roots(a)
    angle = np.angle(roots)
    moved = np.where(roots.imag != 0, np.sign(angle) * np.abs(angle) ** alpha, angle)
    return np.real(np.poly(radius * np.abs(roots) * np.exp(1j * moved)))


def lanes(frames: list[Array]) -> Array:
    return np.stack([frames[k % len(frames)] for k in range(LANES)], axis=1)


def run_burg(frames: Array, order: int = ORDER) -> Array:
    a = np.empty((order + 1, LANES))
    burg(frames, a, np.empty_like(frames), np.empty_like(frames))
    return a


def run_poles(a: Array) -> NDArray[np.complex128]:
    real, imag = np.empty((len(a) - 1, LANES)), np.empty((len(a) - 1, LANES))
    poles(a, real, imag)
    return real + 1j * imag


@pytest.fixture(scope="module")
def frames() -> Array:
    samples = synthetic_voice(3, seconds=2.0).samples.astype(np.float64)
    window = np.sqrt(np.hanning(320))
    starts = np.arange(40) * 700
    return np.stack([samples[s : s + 320] * window + EPSILON for s in starts], axis=1)


def test_burg_equals_the_textbook(frames: Array) -> None:
    for start in range(0, frames.shape[1], LANES):
        batch = np.ascontiguousarray(frames[:, start : start + LANES])
        fast = run_burg(batch)
        for k in range(LANES):
            np.testing.assert_allclose(fast[:, k], slow_burg(batch[:, k], ORDER), rtol=1e-6, atol=1e-8)


def test_burg_equals_the_official_frame() -> None:
    stored = np.load(GOLDEN / "mcadams.npz")
    fast = run_burg(lanes([stored["frame_windowed"] + EPSILON]))
    np.testing.assert_allclose(fast[:, 0], stored["frame_lpc"], rtol=0, atol=1e-8)
    actual, expected = np.sort_complex(run_poles(fast)[:, 0]), np.sort_complex(stored["frame_poles"])
    np.testing.assert_allclose(np.sort(np.abs(actual)), np.sort(np.abs(expected)), atol=1e-7)


def test_burg_of_a_known_resonator() -> None:
    """White noise through 1 / (1 - 1.6 z^-1 + 0.81 z^-2): the coefficients come back."""
    noise = np.random.default_rng(0).standard_normal(20000)
    a = run_burg(lanes([lfilter([1.0], [1.0, -1.6, 0.81], noise)]), order=2)
    np.testing.assert_allclose(a[:, 0], [1.0, -1.6, 0.81], atol=0.02)


@pytest.mark.parametrize("frequency", [50.0, 440.0, 3999.0])
def test_burg_of_a_pure_tone_is_stable(frequency: float) -> None:
    tone = np.sin(2 * np.pi * frequency * np.arange(320) / 16000)
    roots = np.roots(run_burg(lanes([tone]))[:, 0])
    assert np.abs(roots).max() < 1.01  # clustered roots are found to three digits


def test_burg_of_silence_is_the_identity() -> None:
    a = run_burg(np.zeros((320, LANES)))
    assert np.array_equal(a, np.eye(ORDER + 1, 1) * np.ones(LANES))


def test_lanes_are_independent(frames: Array) -> None:
    """Exactly: the same frame in any lane, beside anything, gives the same bits."""
    alone = run_burg(lanes([frames[:, 5].copy()]))
    among = run_burg(np.ascontiguousarray(frames[:, 1 : 1 + LANES]))
    assert np.array_equal(alone[:, 0], among[:, 4])
    assert np.array_equal(run_poles(alone)[:, 0], run_poles(among)[:, 4])


def test_poles_equal_numpys(frames: Array) -> None:
    a = run_burg(np.ascontiguousarray(frames[:, :LANES]))
    actual = run_poles(a)
    for k in range(LANES):
        expected = np.roots(a[:, k])
        distance = np.abs(actual[:, k][:, None] - expected[None, :])
        assert distance.min(axis=1).max() < 1e-7
        assert distance.min(axis=0).max() < 1e-7


@pytest.mark.slow
@given(
    radii=st.lists(st.floats(0.05, 0.99), min_size=1, max_size=8),
    angles=st.lists(st.floats(0.05, 3.09), min_size=8, max_size=8),
    reals=st.lists(st.floats(-0.98, 0.98), min_size=0, max_size=4),
)
@settings(max_examples=200, deadline=None)
def test_poles_of_any_polynomial_give_it_back(radii: list[float], angles: list[float], reals: list[float]) -> None:
    """The product over the poles that are found is the polynomial, however the poles cluster."""
    pairs = [r * np.exp(1j * angle) for r, angle in zip(radii, angles, strict=False)]
    a = np.real(np.poly([*pairs, *np.conj(pairs), *reals]))
    roots = run_poles(np.repeat(a[:, None], LANES, axis=1))
    np.testing.assert_allclose(np.poly(roots[:, 0]), a, atol=1e-6 * np.abs(a).max())  # four poles at one place: 4e-7


def test_poles_at_the_origin_fall_back_to_numpy() -> None:
    """z^4 has a fourfold root, where the iteration converges too slowly."""
    a = np.zeros((5, LANES))
    a[0] = 1.0
    assert np.abs(run_poles(a)).max() < 1e-3


@pytest.mark.parametrize(("alpha", "radius"), [(0.8, 1.0), (0.5, 1.0), (1.0, 1.0), (0.8, 0.975)])
def test_moved_poles_equal_numpys(frames: Array, alpha: float, radius: float) -> None:
    a = run_burg(np.ascontiguousarray(frames[:, :LANES]))
    roots = run_poles(a)
    b = np.empty_like(a)
    polynomial(np.ascontiguousarray(roots.real), np.ascontiguousarray(roots.imag), PoleChange(alpha, radius, np.inf), b)
    for k in range(LANES):
        slow = slow_move(a[:, k], alpha, radius)
        np.testing.assert_allclose(b[:, k], slow, atol=1e-6 * np.abs(slow).max())


def test_alpha_one_moves_nothing(frames: Array) -> None:
    a = run_burg(np.ascontiguousarray(frames[:, :LANES]))
    roots = run_poles(a)
    b = np.empty_like(a)
    polynomial(np.ascontiguousarray(roots.real), np.ascontiguousarray(roots.imag), PoleChange(1.0, 1.0, np.inf), b)
    np.testing.assert_allclose(b, a, atol=1e-9)


def test_real_poles_keep_their_angle() -> None:
    """A negative real pole has the angle pi; pi**alpha would throw it across the circle."""
    a = np.repeat(np.real(np.poly([0.9, -0.8]))[:, None], LANES, axis=1)
    roots = run_poles(a)
    b = np.empty_like(a)
    polynomial(np.ascontiguousarray(roots.real), np.ascontiguousarray(roots.imag), PoleChange(0.5, 1.0, np.inf), b)
    np.testing.assert_allclose(b, a, atol=1e-12)


def test_largest_angle_clips() -> None:
    a = np.repeat(np.real(np.poly([0.9 * np.exp(2j), 0.9 * np.exp(-2j)]))[:, None], LANES, axis=1)
    roots = run_poles(a)
    b = np.empty_like(a)
    polynomial(np.ascontiguousarray(roots.real), np.ascontiguousarray(roots.imag), PoleChange(2.0, 1.0, np.pi), b)
    np.testing.assert_allclose(b[:, 0], np.poly([-0.9, -0.9]), atol=1e-12)


def test_filters_equal_scipys(frames: Array) -> None:
    batch = np.ascontiguousarray(frames[:, :LANES])
    a = run_burg(batch)
    b = np.stack([slow_move(a[:, k], 0.8) for k in range(LANES)], axis=1)
    out = np.empty((len(batch) + ORDER, LANES))
    filter_frames(batch, a, b, out)
    for k in range(LANES):
        slow = lfilter([1.0], b[:, k], lfilter(a[:, k], [1.0], batch[:, k]))
        np.testing.assert_allclose(out[ORDER:, k], slow, atol=1e-9 * np.abs(slow).max())
