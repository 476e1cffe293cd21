"""Filterbank and cepstral features by Kaldi's definition, energy VAD, and cepstral mean normalization.

Conventions: ``samples`` are mono in [-1, 1], shape (n,); Kaldi works on 16-bit steps, hence they are multiplied by
32768 (``scale``). Features have shape (frames, dimensions), natural logarithms. Defaults are Kaldi's own, except the
number of mel bins, and that no dither is added, so that the same audio always gives the same features. With
``snip_edges`` a signal shorter than one frame has no frames.

* ``fbank``        log mel filterbank energies                     (compute-fbank-feats)
* ``mfcc``         mel-frequency cepstral coefficients             (compute-mfcc-feats)
* ``energy_vad``   speech frames, by their log energy              (compute-vad)
* ``sliding_cmn``  mean normalization in a moving window           (apply-cmvn-sliding)
* ``sentence_cmn`` mean normalization over the utterance
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from voiceveil.core.errors import InputError

__all__ = [
    "Framing",
    "MelBands",
    "analysis_window",
    "energy_vad",
    "fbank",
    "hires_mfcc",
    "mel_banks",
    "mfcc",
    "sentence_cmn",
    "sliding_cmn",
]

Features = NDArray[Any]
Window = Literal["povey", "hamming", "hann", "rectangular", "blackman"]

_EPSILON = float(np.finfo(np.float32).eps)  # the floor of every logarithm, in Kaldi's single precision
_BLOCK = 512  # frames at once: fits the cache, and memory stays flat for hours of audio


@dataclass(frozen=True)
class Framing:
    """Division of a signal into windowed frames; ``length`` and ``shift`` in milliseconds, ``rate`` in Hz."""

    rate: int = 16000
    length: float = 25.0
    shift: float = 10.0
    window: Window = "povey"
    preemphasis: float = 0.97
    remove_dc: bool = True
    snip_edges: bool = True
    scale: float = 32768.0

    def __post_init__(self) -> None:
        if self.window not in _WINDOWS:
            raise InputError(f"unknown window {self.window!r}", fix=f"known: {', '.join(_WINDOWS)}")
        if not 0.0 <= self.preemphasis <= 1.0:
            raise InputError(f"preemphasis = {self.preemphasis} is out of range", fix="give a factor in [0, 1]")
        if self.size < 2 or self.step < 1:
            raise InputError(f"frames of {self.size} samples every {self.step} are too short", fix="use longer frames")

    @property
    def size(self) -> int:
        """Return the samples in a frame."""
        return int(self.rate * 0.001 * self.length)

    @property
    def step(self) -> int:
        """Return the samples from one frame to the next."""
        return int(self.rate * 0.001 * self.shift)

    @property
    def padded(self) -> int:
        """Return the length of the Fourier transform: the next power of two."""
        return 1 << (self.size - 1).bit_length()

    def count(self, samples: int) -> int:
        """Return the number of frames of a signal: those that fit, or, without ``snip_edges``, one every ``step``."""
        if self.snip_edges:
            return 0 if samples < self.size else 1 + (samples - self.size) // self.step
        return (samples + self.step // 2) // self.step


_WINDOWS = ("povey", "hamming", "hann", "rectangular", "blackman")


@dataclass(frozen=True)
class MelBands:
    """Triangular filters on the mel scale: their number, and their limits in Hz.

    ``high`` of 0 or less counts down from half the sampling rate.
    """

    bins: int = 80
    low: float = 20.0
    high: float = 0.0


def fbank(
    samples: ArrayLike,
    framing: Framing = Framing(),  # noqa: B008 -- frozen
    mel: MelBands = MelBands(),  # noqa: B008
    *,
    energy: bool = False,
    dtype: DTypeLike = np.float32,
) -> Features:
    """Return log mel filterbank energies.

    Parameters
    ----------
    samples
        Signal (n,) in [-1, 1].
    framing, mel
        Frames and filters.
    energy
        Prepend the log energy of the frame before preemphasis and windowing.
    dtype
        Precision of the computation and of the result.

    Returns
    -------
    ndarray
        (frames, bins), or (frames, 1 + bins) with ``energy``.
    """
    banks = _sparse_banks(framing.rate, framing.padded, mel, np.dtype(dtype).name)
    frames = _frames(samples, framing, dtype)
    features = np.empty((len(frames), mel.bins + energy), dtype=dtype)
    for start in range(0, len(frames), _BLOCK):
        part = features[start : start + _BLOCK]
        windowed, log_energy = _windowed(frames[start : start + _BLOCK], framing)
        _log_mel(windowed, framing, banks, part[:, int(energy) :])
        if energy:
            part[:, 0] = log_energy
    return features


def mfcc(
    samples: ArrayLike,
    framing: Framing = Framing(),  # noqa: B008 -- frozen
    mel: MelBands = MelBands(23),  # noqa: B008
    *,
    ceps: int = 13,
    lifter: float = 22.0,
    energy: bool = True,
) -> Features:
    """Return mel-frequency cepstral coefficients (frames, ceps), float32.

    Parameters
    ----------
    samples
        Signal (n,) in [-1, 1].
    framing, mel
        Frames and filters.
    ceps
        Number of coefficients, at most the number of filters.
    lifter
        Q in the scale ``1 + Q/2 sin(pi i / Q)`` of coefficient i; 0: no scaling.
    energy
        Replace C0 by the log energy of the frame.
    """
    if not 1 <= ceps <= mel.bins:
        raise InputError(f"{ceps} cepstral coefficients of {mel.bins} mel bins", fix="use at most as many as bins")
    columns = fbank(samples, framing, mel, energy=True)
    features: Features = columns[:, 1:] @ _cepstral_transform(ceps, mel.bins, lifter).astype(np.float32)
    if energy:
        features[:, 0] = columns[:, 0]
    return features


def _frames(samples: ArrayLike, framing: Framing, dtype: DTypeLike) -> Features:
    """Return a view of the scaled signal as overlapping frames (frames, size)."""
    signal = np.asarray(samples, dtype=dtype)
    if signal.ndim != 1:
        raise InputError(f"a signal has one dimension, not shape {signal.shape}")
    count = framing.count(len(signal))
    if not count:
        return np.zeros((0, framing.size), dtype=dtype)
    signal = signal * np.asarray(framing.scale, dtype=dtype)
    if not framing.snip_edges:  # frames are centered on their step; the ends are mirrored
        before = framing.size // 2 - framing.step // 2
        after = (count - 1) * framing.step + framing.size - before - len(signal)
        signal = np.pad(signal[max(-before, 0) :], (max(before, 0), max(after, 0)), mode="symmetric")
    return np.lib.stride_tricks.sliding_window_view(signal, framing.size)[:: framing.step][:count]


def _windowed(frames: Features, framing: Framing) -> tuple[Features, Features]:
    """Return the frames without DC, preemphasized, windowed and zero-padded; and their log energy before that."""
    size = framing.size
    frames = frames - frames.mean(axis=1, keepdims=True) if framing.remove_dc else frames
    out = np.zeros((len(frames), framing.padded), dtype=frames.dtype)
    # x[t] - c x[t - 1]; the first sample has no predecessor but itself
    out[:, 1:size] = frames[:, 1:] - frames.dtype.type(framing.preemphasis) * frames[:, :-1]
    out[:, 0] = frames[:, 0] * frames.dtype.type(1.0 - framing.preemphasis)
    out[:, :size] *= analysis_window(framing.window, size).astype(frames.dtype)
    return out, np.log(np.maximum(np.square(frames).sum(axis=1), _EPSILON))


def _log_mel(windowed: Features, framing: Framing, banks: Any, out: Features) -> None:
    """Write the log mel energies of windowed frames into ``out``."""
    from scipy.fft import rfft  # keeps single precision single, unlike numpy's of older versions

    spectrum = rfft(windowed, axis=1)[:, : framing.padded // 2]  # Kaldi's filters do not use the Nyquist bin
    powers = np.square(spectrum.real) + np.square(spectrum.imag)
    np.log(np.maximum((banks @ powers.T).T, _EPSILON), out=out)


@lru_cache(maxsize=32)
def mel_banks(rate: int, padded: int, bins: int, low: float, high: float) -> NDArray[np.float64]:
    """Return triangular filters on the mel scale ``1127 ln(1 + f / 700)``.

    Parameters
    ----------
    rate
        Sampling rate in Hz.
    padded
        Length of the Fourier transform.
    bins, low, high
        See :class:`MelBands`.

    Returns
    -------
    ndarray
        (padded / 2, bins), read-only.
    """
    nyquist = rate / 2
    top = high if high > 0.0 else nyquist + high
    if not 0.0 <= low < top <= nyquist:
        raise InputError(
            f"mel filters from {low:g} to {top:g} Hz are impossible at {rate} Hz",
            fix=f"stay within 0 to {nyquist:g} Hz",
        )
    edges = np.linspace(_mel(low), _mel(top), bins + 2)
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    mel = _mel(np.arange(padded // 2) * rate / padded)[:, None]
    banks = np.maximum(0.0, np.minimum((mel - left) / (center - left), (right - mel) / (right - center)))
    if not banks.any(axis=0).all():
        raise InputError(f"{bins} mel filters are too many for a transform of {padded} points", fix="use fewer bins")
    banks.setflags(write=False)
    return banks


@lru_cache(maxsize=32)
def _sparse_banks(rate: int, padded: int, mel: MelBands, dtype: str) -> Any:
    """Return the filters as rows of a sparse matrix, as each frequency is in two filters only."""
    from scipy.sparse import csr_array

    return csr_array(mel_banks(rate, padded, mel.bins, mel.low, mel.high).T.astype(dtype))


def _mel(hertz: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(1127.0 * np.log1p(np.asarray(hertz, dtype=np.float64) / 700.0))


@lru_cache(maxsize=32)
def analysis_window(kind: Window, size: int) -> NDArray[np.float64]:
    """Return an analysis window, shape (size,)."""
    cosine = np.cos(2.0 * np.pi * np.arange(size) / (size - 1))
    if kind == "povey":  # a Hann window with a gentler slope at its ends, by Kaldi's author
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
    """Return which frames are speech.

    A frame is speech if at least ``proportion`` of the frames around it have a log energy above ``threshold`` plus
    ``mean_scale`` times the mean.

    Parameters
    ----------
    log_energy
        C0 or log energy (frames,) of 16-bit samples.
    threshold, mean_scale
        Threshold, and weight of the mean log energy.
    proportion
        Fraction of the frames around a frame that must be loud.
    context
        Number of frames on either side.
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
    """Subtract the mean over the utterance; with ``variance`` also divide by the standard deviation."""
    centered = features - features.mean(axis=0, keepdims=True) if len(features) else features
    if variance and len(features):
        centered = centered / np.sqrt(np.maximum(np.square(centered).mean(axis=0, keepdims=True), 1e-20))
    return centered


def sliding_cmn(
    features: Features, *, window: int = 600, min_window: int = 100, center: bool = False, variance: bool = False
) -> Features:
    """Subtract the mean of a moving window of frames.

    Parameters
    ----------
    features
        (frames, dimensions).
    window
        Frames in the window. At the ends of the utterance it is shifted, not shortened.
    min_window
        Without ``center``, the window also includes later frames until it holds this many.
    center
        The frame is in the middle of the window instead of at its end.
    variance
        Also divide by the standard deviation in the window.
    """
    if window < 1 or min_window < 1:
        raise InputError(f"window = {window} and min_window = {min_window} must be positive", fix="use at least 1")
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
    return np.asarray(mfcc(samples, framing, MelBands(40, high=-400.0), ceps=40, energy=False), dtype=np.float32)
