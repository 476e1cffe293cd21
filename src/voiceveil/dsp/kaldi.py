"""Filterbank and cepstral features by Kaldi's definition, energy VAD, and cepstral mean normalization.

Conventions: ``samples`` are mono in [-1, 1], shape (n,); Kaldi works on 16-bit steps, hence they are multiplied by
32768 (``scale``). Features have shape (frames, dimensions), natural logarithms. ``dtype`` is the precision of the
computation and of the result. Defaults are Kaldi's own, but for the number of bins and the dither, which is 0: the
same audio always gives the same features. A signal shorter than one frame gives no frames with ``snip_edges``.

* ``fbank``        log mel filterbank energies                     (compute-fbank-feats)
* ``mfcc``         mel-frequency cepstral coefficients             (compute-mfcc-feats)
* ``energy_vad``   which frames are speech, from their log energy  (compute-vad)
* ``sliding_cmn``  mean normalization in a moving window           (apply-cmvn-sliding)
* ``sentence_cmn`` mean normalization over the utterance
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from voiceveil.core.errors import InputError

__all__ = ["Framing", "analysis_window", "energy_vad", "fbank", "mel_banks", "mfcc", "sentence_cmn", "sliding_cmn"]

Features = NDArray[Any]
Window = Literal["povey", "hamming", "hann", "rectangular", "blackman"]

_EPSILON = float(np.finfo(np.float32).eps)  # the floor of every logarithm, in Kaldi's single precision
_BLOCK = 512  # frames at once: fits the cache, and memory stays flat for hours of audio


@dataclass(frozen=True)
class Framing:
    """How a signal becomes windowed frames: lengths in milliseconds, ``dither`` in 16-bit steps."""

    rate: int = 16000
    length: float = 25.0
    shift: float = 10.0
    window: Window = "povey"
    preemphasis: float = 0.97
    remove_dc: bool = True
    snip_edges: bool = True
    dither: float = 0.0
    scale: float = 32768.0

    def __post_init__(self) -> None:
        if self.window not in _WINDOWS:
            raise InputError(f"unknown window {self.window!r}", fix=f"known: {', '.join(_WINDOWS)}")
        if not 0.0 <= self.preemphasis <= 1.0:
            raise InputError(f"a preemphasis of {self.preemphasis}", fix="give a factor in [0, 1]")
        if self.size < 2 or self.step < 1:
            raise InputError(f"frames of {self.size} samples every {self.step}", fix="use longer frames")

    @property
    def size(self) -> int:
        """Samples in a frame."""
        return int(self.rate * 0.001 * self.length)

    @property
    def step(self) -> int:
        """Samples from one frame to the next."""
        return int(self.rate * 0.001 * self.shift)

    @property
    def padded(self) -> int:
        """Length of the Fourier transform: the next power of two."""
        return 1 << (self.size - 1).bit_length()

    def count(self, samples: int) -> int:
        """Return the number of frames of a signal: those that fit, or, without ``snip_edges``, one every ``step``."""
        if self.snip_edges:
            return 0 if samples < self.size else 1 + (samples - self.size) // self.step
        return (samples + self.step // 2) // self.step


_WINDOWS = ("povey", "hamming", "hann", "rectangular", "blackman")


def fbank(
    samples: ArrayLike,
    framing: Framing = Framing(),  # noqa: B008 -- frozen
    *,
    bins: int = 80,
    low: float = 20.0,
    high: float = 0.0,
    power: bool = True,
    energy: bool = False,
    raw_energy: bool = True,
    energy_floor: float = 0.0,
    rng: np.random.Generator | None = None,
    dtype: DTypeLike = np.float32,
) -> Features:
    """Log mel filterbank energies, shape (frames, bins), or (frames, 1 + bins) with the log ``energy`` in front.

    ``low`` and ``high`` are the limits of the mel filters in Hz, a ``high`` of 0 or less counting down from half the
    rate. ``power``: sum powers, not magnitudes. ``raw_energy``: the energy before preemphasis and window.
    """
    banks = _sparse_banks(framing.rate, framing.padded, bins, low, high, np.dtype(dtype).name)
    width = bins + energy
    count, blocks = _blocks(samples, framing, rng, dtype)
    features = np.empty((count, width), dtype=dtype)
    done = 0
    for frames in blocks:
        part = features[done : done + len(frames)]
        windowed, log_energy = _windowed(frames, framing, raw_energy, energy_floor)
        _log_mel(windowed, framing, banks, power, part[:, int(energy) :])
        if energy:
            part[:, 0] = log_energy
        done += len(frames)
    return features


def mfcc(
    samples: ArrayLike,
    framing: Framing = Framing(),  # noqa: B008 -- frozen
    *,
    ceps: int = 13,
    bins: int = 23,
    low: float = 20.0,
    high: float = 0.0,
    lifter: float = 22.0,
    energy: bool = True,
    raw_energy: bool = True,
    energy_floor: float = 0.0,
    rng: np.random.Generator | None = None,
    dtype: DTypeLike = np.float32,
) -> Features:
    """Mel-frequency cepstral coefficients, shape (frames, ceps); ``energy`` puts the log energy in place of C0.

    ``lifter`` Q scales coefficient i by ``1 + Q/2 sin(pi i / Q)``; 0 leaves them as they are.
    """
    if not 1 <= ceps <= bins:
        raise InputError(f"{ceps} cepstral coefficients of {bins} mel bins", fix="use at most as many as bins")
    columns = fbank(
        samples,
        framing,
        bins=bins,
        low=low,
        high=high,
        energy=True,
        raw_energy=raw_energy,
        energy_floor=energy_floor,
        rng=rng,
        dtype=dtype,
    )
    features: Features = columns[:, 1:] @ _cepstral_transform(ceps, bins, lifter).astype(dtype)
    if energy:
        features[:, 0] = columns[:, 0]
    return features


def _blocks(
    samples: ArrayLike, framing: Framing, rng: np.random.Generator | None, dtype: DTypeLike
) -> tuple[int, Iterator[Features]]:
    """Return the number of frames, and an iterator over blocks of frames (some, size), DC included."""
    signal = np.asarray(samples, dtype=dtype)
    if signal.ndim != 1:
        raise InputError(f"a signal has one dimension, not shape {signal.shape}")
    if framing.dither and rng is None:
        raise InputError("dither needs a random generator", fix="give rng=np.random.default_rng(seed)")
    count = framing.count(len(signal))
    signal = signal * np.asarray(framing.scale, dtype=dtype)
    if not framing.snip_edges and count:  # frames are centered on their step; the ends are mirrored
        before = framing.size // 2 - framing.step // 2
        after = (count - 1) * framing.step + framing.size - before - len(signal)
        signal = np.pad(signal[max(-before, 0) :], (max(before, 0), max(after, 0)), mode="symmetric")
    views = np.lib.stride_tricks.sliding_window_view(signal, framing.size)[:: framing.step] if count else signal[:0]

    def blocks() -> Iterator[Features]:
        for start in range(0, count, _BLOCK):
            frames = views[start : min(start + _BLOCK, count)]
            if rng is not None and framing.dither:
                frames = frames + framing.dither * rng.standard_normal(frames.shape).astype(dtype)
            yield frames

    return count, blocks()


def _windowed(frames: Features, framing: Framing, raw_energy: bool, floor: float) -> tuple[Features, Features]:
    """Frames without DC, preemphasized and windowed, zero-padded to ``framing.padded``; and their log energy."""
    size = framing.size
    frames = frames - frames.mean(axis=1, keepdims=True) if framing.remove_dc else frames
    out = np.zeros((len(frames), framing.padded), dtype=frames.dtype)
    # x[t] - c x[t - 1]; the first sample has no predecessor but itself
    out[:, 1:size] = frames[:, 1:] - frames.dtype.type(framing.preemphasis) * frames[:, :-1]
    out[:, 0] = frames[:, 0] * frames.dtype.type(1.0 - framing.preemphasis)
    out[:, :size] *= analysis_window(framing.window, size).astype(frames.dtype)
    energy = np.square(frames if raw_energy else out).sum(axis=1)
    log_energy = np.log(np.maximum(energy, _EPSILON))
    return out, np.maximum(log_energy, math.log(floor)) if floor > 0.0 else log_energy


def _log_mel(windowed: Features, framing: Framing, banks: Any, power: bool, out: Features) -> None:
    from scipy.fft import rfft  # keeps single precision single, unlike numpy's of older versions

    spectrum = rfft(windowed, axis=1)[:, : framing.padded // 2]  # Kaldi's banks do not see the Nyquist bin
    powers = np.square(spectrum.real) + np.square(spectrum.imag)
    if not power:
        np.sqrt(powers, out=powers)
    np.log(np.maximum((banks @ powers.T).T, _EPSILON), out=out)


@lru_cache(maxsize=32)
def mel_banks(rate: int, padded: int, bins: int, low: float, high: float) -> NDArray[np.float64]:
    """Triangles on the mel scale ``1127 ln(1 + f / 700)``, shape (padded / 2, bins)."""
    nyquist = rate / 2
    top = high if high > 0.0 else nyquist + high
    if not 0.0 <= low < top <= nyquist:
        raise InputError(f"mel filters from {low:g} to {top:g} Hz at {rate} Hz", fix=f"stay within 0 to {nyquist:g} Hz")
    edges = np.linspace(_mel(low), _mel(top), bins + 2)
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    mel = _mel(np.arange(padded // 2) * rate / padded)[:, None]
    banks = np.maximum(0.0, np.minimum((mel - left) / (center - left), (right - mel) / (right - center)))
    if not banks.any(axis=0).all():
        raise InputError(f"{bins} mel filters are too many for a transform of {padded} points", fix="use fewer bins")
    banks.setflags(write=False)
    return banks


@lru_cache(maxsize=32)
def _sparse_banks(rate: int, padded: int, bins: int, low: float, high: float, dtype: str) -> Any:
    """The filters as rows of a sparse matrix: each frequency is in two filters, and no thread of BLAS is woken."""
    from scipy.sparse import csr_array

    return csr_array(mel_banks(rate, padded, bins, low, high).T.astype(dtype))


def _mel(hertz: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(1127.0 * np.log1p(np.asarray(hertz, dtype=np.float64) / 700.0))


@lru_cache(maxsize=32)
def analysis_window(kind: Window, size: int) -> NDArray[np.float64]:
    """Return the window that a frame is multiplied by, shape (size,)."""
    cosine = np.cos(2.0 * np.pi * np.arange(size) / (size - 1))
    if kind == "povey":  # a Hann window that goes to zero more gently, by Kaldi's author
        return np.asarray((0.5 - 0.5 * cosine) ** 0.85)
    if kind == "hann":
        return np.asarray(0.5 - 0.5 * cosine)
    if kind == "hamming":
        return np.asarray(0.54 - 0.46 * cosine)
    if kind == "blackman":
        return np.asarray(0.42 - 0.5 * cosine + 0.08 * np.cos(4.0 * np.pi * np.arange(size) / (size - 1)))
    return np.ones(size)


@lru_cache(maxsize=32)
def _cepstral_transform(ceps: int, bins: int, lifter: float) -> NDArray[np.float64]:
    """Return the orthonormal DCT-II with the liftering, shape (bins, ceps)."""
    k = np.arange(ceps)
    transform: NDArray[np.float64] = np.sqrt(2.0 / bins) * np.cos(np.pi / bins * np.outer(np.arange(bins) + 0.5, k))
    transform[:, 0] = np.sqrt(1.0 / bins)
    if lifter:
        transform *= 1.0 + 0.5 * lifter * np.sin(np.pi * k / lifter)
    return transform


def energy_vad(
    log_energy: ArrayLike,
    *,
    threshold: float = 5.0,
    mean_scale: float = 0.5,
    proportion: float = 0.6,
    context: int = 0,
) -> NDArray[np.bool_]:
    """Which frames are speech, shape (frames,), from their log energy (C0 or log energy of 16-bit samples).

    A frame is speech if at least ``proportion`` of the frames within ``context`` of it have more than ``threshold``
    plus ``mean_scale`` times the mean log energy.
    """
    values = np.asarray(log_energy, dtype=np.float64)
    if values.ndim != 1:
        raise InputError(f"log energies have one dimension, not shape {values.shape}")
    if not len(values):
        return np.zeros(0, dtype=np.bool_)
    loud = values > threshold + mean_scale * values.mean()
    before = np.concatenate([[0], np.cumsum(loud)])
    t = np.arange(len(values))
    start, end = np.maximum(t - context, 0), np.minimum(t + context + 1, len(values))
    return np.asarray(before[end] - before[start] >= proportion * (end - start))


def sentence_cmn(features: Features, *, variance: bool = False) -> Features:
    """Features minus their mean over the utterance; with ``variance`` also divided by their standard deviation."""
    centered = features - features.mean(axis=0, keepdims=True) if len(features) else features
    if variance and len(features):
        centered = centered / np.sqrt(np.maximum(np.square(centered).mean(axis=0, keepdims=True), 1e-20))
    return centered


def sliding_cmn(
    features: Features, *, window: int = 600, min_window: int = 100, center: bool = False, variance: bool = False
) -> Features:
    """Features minus the mean of a moving window of frames.

    The window ends with the frame (and takes in what follows until it holds ``min_window`` frames), or, with
    ``center``, has the frame in its middle. At the ends of the utterance it is shifted, not shortened.
    """
    if window < 1 or min_window < 1:
        raise InputError(f"a window of {window} frames, at least {min_window}", fix="use positive numbers")
    count = len(features)
    t = np.arange(count)
    start = t - window // 2 if center else t - window
    end = start + window if center else np.maximum(t + 1, np.where(start < 0, min_window, 0))
    end = np.where(center & (start < 0), end - start, end)
    start = np.maximum(np.maximum(start, 0) - np.maximum(end - count, 0), 0)
    end = np.minimum(end, count)
    length = (end - start)[:, None]

    def moving_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
        return np.asarray((sums[end] - sums[start]) / length)

    wide = np.asarray(features, dtype=np.float64)
    mean = moving_mean(wide)
    out = wide - mean
    if variance:
        spread = np.maximum(moving_mean(np.square(wide)) - np.square(mean), 1e-10)
        out = np.where(length == 1, 0.0, out / np.sqrt(spread))
    return out.astype(features.dtype)


def hires_mfcc(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return Kaldi's high-resolution MFCC (frames, 40) of samples (n,) at 16 kHz: 40 mel bands from 20 to 7,600 Hz."""
    framing = Framing(snip_edges=False)
    return np.asarray(mfcc(samples, framing, ceps=40, bins=40, low=20.0, high=-400.0, energy=False), dtype=np.float32)
