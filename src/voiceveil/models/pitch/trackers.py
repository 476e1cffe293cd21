"""The pitch trackers, by name; the contract is in :mod:`voiceveil.models.pitch.correlation`.

==================  ===================================================================================================
autocorrelation     Boersma (1993) at Praat's settings, 75 to 500 Hz: what the 2022 challenge measured ρ_F0 with.
                    The default: it needs no other package and is the quickest
praat               the same by Praat itself, through ``praat-parselmouth`` (GPL, never installed by us)
swift               SwiftF0, a small network, 60 to 600 Hz; made for every 16 ms, interpolated to 10
yaapt               pYAAPT of ``AMFM_decompy``, 60 to 600 Hz, frames of 35 ms: the F0 that B1 resynthesizes
==================  ===================================================================================================
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.dsp.pitch import PERIODS, track_pitch
from voiceveil.metrics.pitch import CEILING, FLOOR
from voiceveil.models.pitch.correlation import STEP, PitchTracker, Track, trackers
from voiceveil.run.ledger import sha256_file

__all__ = ["YAAPT", "Autocorrelation", "Praat", "Swift"]

_INSTALL = "pip install 'voiceveil[pitch]'"


@trackers.register("autocorrelation")
@dataclass(frozen=True)
class Autocorrelation:
    """Our own; the same voicing as Praat's and F0 within 0.1% of it, see :mod:`voiceveil.dsp.pitch`."""

    floor: float = FLOOR
    ceiling: float = CEILING
    rate: ClassVar[int] = 16000

    @property
    def minimum(self) -> float:
        """Three periods of the lowest pitch."""
        return PERIODS / self.floor

    def fingerprint(self) -> str:
        """Return the 1 is the version of the method."""
        return f"pitch autocorrelation 1 {self.floor} {self.ceiling}"

    def first(self, samples: int) -> float:
        """Frames are centered in the recording, as many as have room for their window."""
        duration = samples / self.rate
        frames = math.floor((duration - self.minimum) / STEP + 1e-9) + 1
        return 0.5 * (duration - (frames - 1) * STEP)

    def __call__(self, wave: Waveform) -> Track:
        """F0 in Hz."""
        _check(wave, self)
        return track_pitch(wave.samples, wave.rate, floor=self.floor, ceiling=self.ceiling, step=STEP).f0


@trackers.register("praat")
@dataclass(frozen=True)
class Praat(Autocorrelation):
    """Praat's ``To Pitch``, by parselmouth."""

    def __post_init__(self) -> None:
        if importlib.util.find_spec("parselmouth") is None:
            fix = "pip install praat-parselmouth (GPL), or use autocorrelation, which gives the same tracks"
            raise InputError("the package praat-parselmouth is not installed", fix=fix)

    def fingerprint(self) -> str:
        """With the version of Praat."""
        import parselmouth

        return f"pitch praat {parselmouth.PRAAT_VERSION} {self.floor} {self.ceiling}"

    def __call__(self, wave: Waveform) -> Track:
        """F0 in Hz."""
        import parselmouth

        _check(wave, self)
        sound = parselmouth.Sound(wave.samples.astype(np.float64), sampling_frequency=wave.rate)
        pitch = sound.to_pitch(time_step=STEP, pitch_floor=self.floor, pitch_ceiling=self.ceiling)
        return np.asarray(pitch.selected_array["frequency"], dtype=np.float64)


@trackers.register("swift")
@dataclass(frozen=True)
class Swift:
    """SwiftF0 0.3 (Nieradzik, 2025): a frame is voiced when the network's confidence is at least one half."""

    floor: float = 60.0
    ceiling: float = 600.0
    rate: ClassVar[int] = 16000
    minimum: ClassVar[float] = 0.032
    sha256: ClassVar[str] = "6385e8c2ebc3872e82c9ff5946228de44cd3be77a750ea53698b7dbfe94b0a22"

    def __post_init__(self) -> None:
        if importlib.util.find_spec("swift_f0") is None or importlib.util.find_spec("onnxruntime") is None:
            raise InputError("the package swift-f0 is not installed", fix=_INSTALL)

    def fingerprint(self) -> str:
        """Return the model's hash and the range."""
        return f"pitch swift {self.sha256[:16]} 1 {self.floor} {self.ceiling}"

    def first(self, samples: int) -> float:
        """Return the start of the recording."""
        return 0.0

    def __call__(self, wave: Waveform) -> Track:
        """F0 in Hz at 0, 10, 20 ms ...: between two voiced frames of the network interpolated, else the nearer one."""
        _check(wave, self)
        found = _swift().detect(wave.samples, wave.rate, fmin=self.floor, fmax=self.ceiling)
        f0 = np.where(found.confidence >= 0.5, found.pitch_hz, 0.0)
        return _every_step(f0, found.timestamps, wave.duration)


def _every_step(f0: Track, times: Track, duration: float) -> Track:
    """Return a track on another grid, brought to ours: pitch is interpolated, voicing is that of the nearest frame."""
    at = STEP * np.arange(max(1, int(duration / STEP + 1e-9)))
    period = times[1] - times[0] if len(times) > 1 else 1.0
    nearest = np.clip(np.ceil(at / period - 0.5).astype(np.int64), 0, len(f0) - 1)  # of two, the earlier
    if not f0.any():
        return np.zeros(len(at))
    left = np.clip((at / period).astype(np.int64), 0, len(f0) - 1)
    right = np.minimum(left + 1, len(f0) - 1)
    both = (f0[left] > 0) & (f0[right] > 0)
    return np.where(both, np.interp(at, times, f0), f0[nearest])


@lru_cache(maxsize=1)
def _swift() -> Any:
    import swift_f0

    path = Path(swift_f0.__file__).parent / "model.onnx"
    if not path.is_file() or sha256_file(path) != Swift.sha256:
        what = "not the model of swift-f0 0.3.0 that the figures hold for"
        raise InputError(what, where=path, fix=f"{_INSTALL} --force-reinstall")
    return swift_f0.SwiftF0(threads=1, spin=False)


@trackers.register("yaapt")
@dataclass(frozen=True)
class YAAPT:
    """pYAAPT (Zahorian and Hu, 2008; AMFM_decompy), the track before interpolation: slow, about 4 x real time.

    Its F0 is the rate over a whole number of samples, which it counts from one: 1% low at 150 Hz, 3% at 500 Hz.
    """

    floor: float = 60.0
    ceiling: float = 600.0
    rate: ClassVar[int] = 16000
    minimum: ClassVar[float] = 0.1  # with fewer than three frames the library fails
    frame: ClassVar[float] = 35.0  # ms

    def __post_init__(self) -> None:
        if importlib.util.find_spec("amfm_decompy") is None:
            raise InputError("the package AMFM_decompy is not installed", fix=_INSTALL)

    def fingerprint(self) -> str:
        """With the version of the package, on which the tracks depend a little."""
        from importlib.metadata import version

        return f"pitch yaapt {version('AMFM_decompy')} {self.floor} {self.ceiling} {self.frame}"

    def first(self, samples: int) -> float:
        """Return the middle of the first frame of 35 ms."""
        return self.frame / 2000

    def __call__(self, wave: Waveform) -> Track:
        """F0 in Hz. Digital silence is unvoiced; the library would divide by its energy."""
        from amfm_decompy import basic_tools, pYAAPT

        _check(wave, self)
        signal = basic_tools.SignalObj(wave.samples, wave.rate)
        settings = {
            "f0_min": self.floor,
            "f0_max": self.ceiling,
            "frame_length": self.frame,
            "frame_space": 1000 * STEP,
        }
        try:
            # Unvoiced recordings have it average nothing and divide by zero; what it returns then is all zeros.
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                f0 = np.asarray(pYAAPT.yaapt(signal, **settings).samp_values, dtype=np.float64)
        except (AssertionError, IndexError, ValueError, TypeError) as error:
            raise InputError(f"pYAAPT fails on this audio: {error}", fix="use the tracker autocorrelation") from error
        return np.where(np.isfinite(f0), f0, 0.0)


def _check(wave: Waveform, tracker: PitchTracker) -> None:
    if wave.rate != tracker.rate or wave.duration < tracker.minimum:
        what = f"{wave.duration:.3f} s at {wave.rate} Hz have no pitch track"
        raise InputError(what, fix=f"give at least {tracker.minimum:.3f} s at {tracker.rate} Hz")
    if not np.isfinite(wave.samples).all():
        raise InputError("samples that are not finite have no pitch", fix="repair the recording")
