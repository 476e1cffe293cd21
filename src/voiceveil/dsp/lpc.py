"""Linear prediction of many frames at once: Burg's method, poles, filters, and all three in `move_poles`.

Conventions: frames are processed side by side in *lanes*: every array ends in an axis of length ``LANES``, so that the
innermost loop runs over frames and compiles to vector instructions. Frames do not influence each other: the result does
not depend on which frames share a batch. All arithmetic is in float64.

A predictor of order p is a monic polynomial ``a`` of shape (p + 1, LANES), ``a[0] = 1``; its poles have shape
(p, LANES) and come as real and imaginary parts.

All compiled functions are in this one file: numba's cache notices a change in the file of a function, but not in
the files of the functions it calls.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.compiled import njit

__all__ = [
    "EPSILON",
    "LANES",
    "ORDER",
    "PoleChange",
    "burg",
    "filter_frames",
    "move_poles",
    "pole_angles",
    "poles",
    "polynomial",
]

Array = NDArray[np.float64]

#: Frames in a batch. Eight doubles are one AVX-512 or two AVX2 registers.
LANES = 8
#: Order of the predictor in `move_poles`.
ORDER = 20
#: Added to every sample, and once more before the prediction, as the official code does: no frame is all zeros.
EPSILON = float(np.finfo(np.float32).eps)

# Contraction to fused multiply-add changes the last bit only; nothing else is relaxed (NaN and inf keep their meaning).
_FAST = {"contract"}
_TINY = np.finfo(np.float64).tiny
_MAX_ITERATIONS = 40


class PoleChange(NamedTuple):
    """McAdams' transformation of poles.

    A pole with angle phi != 0 is moved to the angle phi**alpha, at most ``largest`` (radians); a real pole keeps its
    angle; all radii are multiplied by ``radius``.
    """

    alpha: float
    radius: float
    largest: float


@njit(cache=True, fastmath=_FAST)
def burg(frames: Array, a: Array, forward: Array, backward: Array) -> None:
    """Compute Burg's predictor of each frame, as ``librosa.lpc`` defines it.

    The denominator is updated from order to order, as there. If it becomes nearly zero (a pure tone is predicted almost
    perfectly), that update is mostly rounding error and may even be negative, which would make the filter unstable; it
    is then summed again from the prediction errors.

    Parameters
    ----------
    frames
        (n, LANES).
    a
        (p + 1, LANES), receives the predictors.
    forward, backward
        (n, LANES), work space.
    """
    n = frames.shape[0]
    order = a.shape[0] - 1
    numerator = np.zeros(LANES)
    denominator = np.zeros(LANES)
    reflection = np.zeros(LANES)
    a[:] = 0.0
    a[0] = 1.0
    previous = np.zeros_like(a)
    for t in range(n - 1):
        for k in range(LANES):
            f, b = frames[t + 1, k], frames[t, k]
            forward[t + 1, k] = f
            backward[t, k] = b
            numerator[k] += f * b
            denominator[k] += f * f + b * b
    smallest = 1e-8 * denominator
    for i in range(order):
        for k in range(LANES):
            reflection[k] = min(max(-2.0 * numerator[k] / (denominator[k] + _TINY), -1.0), 1.0)
            numerator[k] = 0.0
        previous[: i + 2] = a[: i + 2]
        for j in range(1, i + 2):
            for k in range(LANES):
                a[j, k] = previous[j, k] + reflection[k] * previous[i + 1 - j, k]
        # The errors of this order live in forward[i + 1 :] and backward[: n - 1 - i]; update them in place and gather
        # the numerator of the next order (forward error at t times backward error at t - 1) in the same sweep.
        count = n - 1 - i
        for k in range(LANES):
            f, b = forward[i + 1, k], backward[0, k]
            forward[i + 1, k] = f + reflection[k] * b
            backward[0, k] = b + reflection[k] * f
        for t in range(1, count):
            for k in range(LANES):
                f, b = forward[i + 1 + t, k], backward[t, k]
                new = f + reflection[k] * b
                forward[i + 1 + t, k] = new
                backward[t, k] = b + reflection[k] * f
                numerator[k] += new * backward[t - 1, k]
        for k in range(LANES):
            f, b = forward[i + 1, k], backward[count - 1, k]
            denominator[k] = (1.0 - reflection[k] ** 2) * denominator[k] - b * b - f * f
            if denominator[k] < smallest[k]:
                denominator[k] = 0.0
                for t in range(1, count):
                    denominator[k] += forward[i + 1 + t, k] ** 2 + backward[t - 1, k] ** 2


@njit(cache=True, fastmath=_FAST)
def poles(a: Array, real: Array, imag: Array) -> None:
    """Compute the roots of each monic polynomial by the Ehrlich-Aberth method.

    Every frame starts from the same circle and stops when it has converged, so that its result depends only on its own
    polynomial. The start is not symmetric about the real axis: a symmetric one could never turn two real iterates into
    a conjugate pair. Frames that do not converge are left to ``np.roots``. ``a`` (p + 1, LANES) are the polynomials;
    ``real`` and ``imag`` (p, LANES) receive the roots.
    """
    order = a.shape[0] - 1
    p_re, p_im = np.empty(LANES), np.empty(LANES)
    d_re, d_im = np.empty(LANES), np.empty(LANES)
    s_re, s_im = np.empty(LANES), np.empty(LANES)
    active = np.ones(LANES)  # 1.0 while the frame has not converged
    largest = np.empty(LANES)  # the squared step of this sweep
    _set_to_circle(real, imag)
    for _ in range(_MAX_ITERATIONS):
        largest[:] = 0.0
        for i in range(order):
            for k in range(LANES):  # Horner's scheme for p and its derivative
                p_re[k], p_im[k] = real[i, k] + a[1, k], imag[i, k]
                d_re[k], d_im[k] = 1.0, 0.0
            for j in range(2, order + 1):
                for k in range(LANES):
                    x, y = real[i, k], imag[i, k]
                    t = d_re[k] * x - d_im[k] * y + p_re[k]
                    d_im[k] = d_re[k] * y + d_im[k] * x + p_im[k]
                    d_re[k] = t
                    t = p_re[k] * x - p_im[k] * y + a[j, k]
                    p_im[k] = p_re[k] * y + p_im[k] * x
                    p_re[k] = t
            s_re[:] = 0.0
            s_im[:] = 0.0
            for j in range(order):
                if j != i:
                    for k in range(LANES):  # sum of 1 / (z_i - z_j)
                        x, y = real[i, k] - real[j, k], imag[i, k] - imag[j, k]
                        inverse = 1.0 / (x * x + y * y + _TINY)
                        s_re[k] += x * inverse
                        s_im[k] -= y * inverse
            for k in range(LANES):  # z_i -= p / (p' - p * sum)
                x = d_re[k] - (p_re[k] * s_re[k] - p_im[k] * s_im[k])
                y = d_im[k] - (p_re[k] * s_im[k] + p_im[k] * s_re[k])
                inverse = active[k] / (x * x + y * y + _TINY)
                step_re = (p_re[k] * x + p_im[k] * y) * inverse
                step_im = (p_im[k] * x - p_re[k] * y) * inverse
                real[i, k] -= step_re
                imag[i, k] -= step_im
                largest[k] = max(largest[k], step_re * step_re + step_im * step_im)
        converged = True
        for k in range(LANES):  # convergence is cubic: after a step below 1e-8 only rounding errors are left
            active[k] = 0.0 if largest[k] < 1e-16 else 1.0
            converged = converged and active[k] == 0.0
        if converged:
            return
    for k in range(LANES):
        if active[k] != 0.0:
            _eigenvalue_roots(a, k, real, imag)


@njit(cache=True)
def _set_to_circle(real: Array, imag: Array) -> None:
    """Set the initial iterates: points on a circle, not symmetric about the real axis."""
    for i in range(len(real)):
        angle = 2.0 * math.pi * (i + 0.37) / len(real)
        real[i] = 0.9 * math.cos(angle)
        imag[i] = 0.9 * math.sin(angle)


@njit(cache=True)
def _eigenvalue_roots(a: Array, k: int, real: Array, imag: Array) -> None:
    """Compute the roots of the polynomial in lane ``k`` by ``np.roots``."""
    roots = np.roots(a[:, k].astype(np.complex128))
    real[:, k] = 0.0  # np.roots leaves out zeros at the origin
    imag[:, k] = 0.0
    real[: len(roots), k] = roots.real
    imag[: len(roots), k] = roots.imag


@njit(cache=True)
def polynomial(real: Array, imag: Array, change: PoleChange, a: Array) -> None:
    """Move the poles (p, LANES) and compute the real polynomials ``a`` (p + 1, LANES) that have the new ones.

    Poles are unordered: the conjugate of a pole is the one nearest to its mirror image, and a pole that is its own
    mirror image is real.
    """
    order = real.shape[0]
    taken = np.empty(order, dtype=np.bool_)
    for k in range(LANES):
        taken[:] = False
        a[:, k] = 0.0
        a[0, k] = 1.0
        degree = 0
        for i in range(order):
            if taken[i]:
                continue
            x, y = real[i, k], imag[i, k]
            mate, nearest = i, 4.0 * y * y
            for j in range(order):
                if j != i and not taken[j]:
                    distance = (real[j, k] - x) ** 2 + (imag[j, k] + y) ** 2
                    if distance < nearest:
                        mate, nearest = j, distance
            taken[i] = True
            if mate == i:
                _multiply(a, k, degree, -x * change.radius, 0.0)
                degree += 1
                continue
            taken[mate] = True
            x, y = 0.5 * (x + real[mate, k]), 0.5 * abs(y - imag[mate, k])
            modulus = change.radius * math.sqrt(x * x + y * y)
            angle = min(math.atan2(y, x) ** change.alpha, change.largest)
            _multiply(a, k, degree, -2.0 * modulus * math.cos(angle), modulus * modulus)
            degree += 2


@njit(cache=True, inline="always")
def _multiply(a: Array, k: int, degree: int, b: float, c: float) -> None:
    """Multiply lane ``k`` of ``a``, of the given degree, by 1 + b z^-1 + c z^-2."""
    top = min(degree + 2, a.shape[0] - 1)
    for j in range(top, 1, -1):
        a[j, k] += b * a[j - 1, k] + c * a[j - 2, k]
    if top >= 1:
        a[1, k] += b * a[0, k]


@njit(cache=True, fastmath=_FAST)
def filter_frames(frames: Array, a: Array, b: Array, out: Array) -> None:
    """Filter each frame with ``a``, then with 1 / ``b``.

    Parameters
    ----------
    frames
        (n, LANES).
    a, b
        Predictors of analysis and synthesis (p + 1, LANES).
    out
        (n + p, LANES); ``out[:p]`` is the zero state before the frame, ``out[p:]`` the result.
    """
    n = frames.shape[0]
    order = a.shape[0] - 1
    total = np.empty(LANES)
    out[:order] = 0.0
    for t in range(n):
        for k in range(LANES):
            total[k] = frames[t, k]
        for j in range(1, min(order, t) + 1):
            for k in range(LANES):
                total[k] += a[j, k] * frames[t - j, k]
        for j in range(1, order + 1):
            for k in range(LANES):
                total[k] -= b[j, k] * out[order + t - j, k]
        for k in range(LANES):
            out[order + t, k] = total[k]


@njit(cache=True)
def move_poles(
    samples: NDArray[np.float32],
    window: Array,
    first: int,
    change: PoleChange,
    out: NDArray[np.floating[Any]],
) -> None:
    """Transform the frames of a signal, which overlap by half, and add them to ``out``.

    Parameters
    ----------
    samples
        Signal, with EPSILON added already.
    window
        Window (n,) for analysis and synthesis.
    first
        Number of the first frame to transform.
    change
        New places of the poles.
    out
        Receives the sum of the transformed frames.
    """
    length = window.shape[0]
    hop = length // 2
    frames, shifted = np.empty((length, LANES)), np.empty((length, LANES))
    forward, backward = np.empty((length, LANES)), np.empty((length, LANES))
    a, b = np.empty((ORDER + 1, LANES)), np.empty((ORDER + 1, LANES))
    real, imag = np.empty((ORDER, LANES)), np.empty((ORDER, LANES))
    result = np.empty((length + ORDER, LANES))
    count = 1 + (len(samples) - length) // hop
    for start in range(first, count, LANES):
        for k in range(LANES):
            offset = min(start + k, count - 1) * hop  # the last batch repeats its last frame
            for t in range(length):
                frames[t, k] = samples[offset + t] * window[t]
                shifted[t, k] = frames[t, k] + EPSILON
        burg(shifted, a, forward, backward)
        poles(a, real, imag)
        polynomial(real, imag, change, b)
        filter_frames(frames, a, b, result)
        for k in range(min(LANES, count - start)):
            offset = (start + k) * hop
            for t in range(length):
                out[offset + t] += result[ORDER + t, k] * window[t]


@njit(cache=True)
def pole_angles(samples: NDArray[np.float32], window: Array, angles: Array, power: Array) -> None:
    """Measure the pole angles of the frames of ``samples``; frames overlap by half.

    ``angles`` (frames, ORDER) receives the angles of the poles in the upper half plane in radians, and 0 in the place
    of all others; ``power`` (frames,) the mean square of each windowed frame.
    """
    length = window.shape[0]
    hop = length // 2
    count = angles.shape[0]
    frames = np.empty((length, LANES))
    forward, backward = np.empty((length, LANES)), np.empty((length, LANES))
    a = np.empty((ORDER + 1, LANES))
    real, imag = np.empty((ORDER, LANES)), np.empty((ORDER, LANES))
    for start in range(0, count, LANES):
        for k in range(LANES):
            offset = min(start + k, count - 1) * hop  # the last batch repeats its last frame
            for t in range(length):
                frames[t, k] = samples[offset + t] * window[t] + EPSILON
        burg(frames, a, forward, backward)
        poles(a, real, imag)
        for k in range(min(LANES, count - start)):
            total = 0.0
            for t in range(length):
                total += frames[t, k] ** 2
            power[start + k] = total / length
            for i in range(ORDER):
                upper = imag[i, k] > 1e-6
                angles[start + k, i] = math.atan2(imag[i, k], real[i, k]) if upper else 0.0
