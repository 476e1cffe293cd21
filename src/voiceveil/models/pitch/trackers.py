"""Pitch trackers: their contract, the registry, and those that come with the package.

Conventions: a track is a float64 array (frames,) of F0 in Hz, one frame every 10 ms, 0 where unvoiced. The time
of frame 0 and the number of frames depend on the tracker (:meth:`PitchTracker.first`); only tracks of the same tracker
can be compared.

==================  ===================================================================================================
autocorrelation     Boersma (1993) with Praat's settings, 75 to 500 Hz, as the 2022 challenge measured ρ_F0.
                    The default: it needs no other package and is the fastest
praat               the method of Praat itself, through ``praat-parselmouth`` (GPL, never installed with this package)
swift               SwiftF0, a small network, 60 to 600 Hz; a value every 16 ms, interpolated to 10 ms
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
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry
from voiceveil.dsp.excitation import FRAME, RATE
from voiceveil.dsp.pitch import PERIODS, track_pitch
from voiceveil.metrics.pitch import CEILING, FLOOR
from voiceveil.run.ledger import sha256_file

__all__ = [
    "STEP",
    "YAAPT",
    "Autocorrelation",
    "PitchTracker",
    "Praat",
    "Swift",
    "Track",
    "f0_on_frames",
    "tracker",
    "trackers",
]

Track = NDArray[np.float64]

_INSTALL = "pip install 'voiceveil[pitch]'"

#: Seconds between frames.
STEP = 0.01


class PitchTracker(Protocol):
    """An :class:`~voiceveil.run.extract.Evaluator` that returns F0 tracks: ``tracker("yaapt")(wave)``."""

    @property
    def rate(self) -> int:
        """Sampling rate of the input in Hz."""
        ...

    @property
    def minimum(self) -> float:
        """Shortest audio in seconds."""
        ...

    def fingerprint(self) -> str:
        """Return name, version and settings."""
        ...

    def first(self, samples: int) -> float:
        """Return the time in seconds at the center of frame 0 of a recording of ``samples`` samples."""
        ...

    def __call__(self, wave: Waveform) -> Track:
        """Return F0 in Hz every 10 ms, 0 where unvoiced."""
        ...


#: Name -> tracker class.
trackers: Registry[type[PitchTracker]] = Registry("pitch tracker", group="voiceveil.trackers")


def tracker(name: str = "autocorrelation") -> PitchTracker:
    """Return the pitch tracker of a name; an ``InputError`` if it is unknown or its package is not installed."""
    return trackers[name]()


def f0_on_frames(track: Track, tracker: PitchTracker, samples: int) -> NDArray[np.float32]:
    """Return F0 in Hz at the frames of synthesis, shape (ceil(samples / 160),), 0 where unvoiced.

    A frame gets the value of the track nearest to its center. Frames beyond the ends of the track are unvoiced.

    Parameters
    ----------
    track
        Of ``tracker``, on a recording of ``samples`` samples at 16 kHz.
    tracker
        It tells the time of the track's first frame.
    samples
        Length of the recording.
    """
    frames = -(-samples // FRAME)
    centers = (np.arange(frames) + 0.5) * FRAME / RATE
    nearest = np.round((centers - tracker.first(samples)) / STEP).astype(np.int64)
    inside = (nearest >= 0) & (nearest < len(track))
    values = np.zeros(frames, dtype=np.float32)
    values[inside] = track[nearest[inside]]
    return values


@trackers.register("autocorrelation")
@dataclass(frozen=True)
class Autocorrelation:
    """The method of :mod:`voiceveil.dsp.pitch`; its voicing equals that of Praat, its F0 is within 0.1%."""

    floor: float = FLOOR
    ceiling: float = CEILING
    rate: ClassVar[int] = 16000

    @property
    def minimum(self) -> float:
        """Shortest audio in seconds: three periods of the lowest F0."""
        return PERIODS / self.floor

    def fingerprint(self) -> str:
        """Return the name, the version (1) of the method, and the range."""
        return f"pitch autocorrelation 1 {self.floor} {self.ceiling}"

    def first(self, samples: int) -> float:
        """Return the time of frame 0; the frames whose windows fit are centered in the recording."""
        duration = samples / self.rate
        frames = math.floor((duration - self.minimum) / STEP + 1e-9) + 1
        return 0.5 * (duration - (frames - 1) * STEP)

    def __call__(self, wave: Waveform) -> Track:
        """Return F0 in Hz."""
        _check(wave, self)
        return track_pitch(wave.samples, wave.rate, floor=self.floor, ceiling=self.ceiling, step=STEP).f0


@trackers.register("praat")
@dataclass(frozen=True)
class Praat(Autocorrelation):
    """``To Pitch`` of Praat, through parselmouth."""

    def __post_init__(self) -> None:
        if importlib.util.find_spec("parselmouth") is None:
            fix = "pip install praat-parselmouth (GPL), or use autocorrelation, which gives the same tracks"
            raise InputError("the package praat-parselmouth is not installed", fix=fix)

    def fingerprint(self) -> str:
        """Return the name, the version of Praat, and the range."""
        import parselmouth

        return f"pitch praat {parselmouth.PRAAT_VERSION} {self.floor} {self.ceiling}"

    def __call__(self, wave: Waveform) -> Track:
        """Return F0 in Hz."""
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
    name: ClassVar[str] = "SwiftF0"
    sha256: ClassVar[str] = "6385e8c2ebc3872e82c9ff5946228de44cd3be77a750ea53698b7dbfe94b0a22"

    def __post_init__(self) -> None:
        if importlib.util.find_spec("swift_f0") is None or importlib.util.find_spec("onnxruntime") is None:
            raise InputError("the package swift-f0 is not installed", fix=_INSTALL)

    def fingerprint(self) -> str:
        """Return the hash of the model, the version (1) of the interpolation, and the range."""
        return f"pitch swift {self.sha256[:16]} 1 {self.floor} {self.ceiling}"

    def first(self, samples: int) -> float:
        """Return 0: the first frame is at the start of the recording."""
        return 0.0

    def __call__(self, wave: Waveform) -> Track:
        """Return F0 in Hz at 0, 10, 20 ms ..., interpolated between two voiced frames of the network."""
        _check(wave, self)
        detected = _swift().detect(wave.samples, wave.rate, fmin=self.floor, fmax=self.ceiling)
        f0 = np.where(detected.confidence >= 0.5, detected.pitch_hz, 0.0)
        return _resample_track(f0, detected.timestamps, wave.duration)


def _resample_track(f0: Track, times: Track, duration: float) -> Track:
    """Return a track, given at equally spaced times, on frames of 10 ms.

    F0 is interpolated between two voiced values; elsewhere a frame gets the nearest value, the earlier of two.
    """
    frame_times = STEP * np.arange(max(1, int(duration / STEP + 1e-9)))
    period = times[1] - times[0] if len(times) > 1 else 1.0
    nearest = np.clip(np.ceil(frame_times / period - 0.5).astype(np.int64), 0, len(f0) - 1)
    if not f0.any():
        return np.zeros(len(frame_times))
    left = np.clip((frame_times / period).astype(np.int64), 0, len(f0) - 1)
    right = np.minimum(left + 1, len(f0) - 1)
    both_voiced = (f0[left] > 0) & (f0[right] > 0)
    return np.where(both_voiced, np.interp(frame_times, times, f0), f0[nearest])


@lru_cache(maxsize=1)
def _swift() -> Any:
    import swift_f0

    path = Path(swift_f0.__file__).parent / "model.onnx"
    if not path.is_file() or sha256_file(path) != Swift.sha256:
        problem = "the model is missing, or differs from that of swift-f0 0.3.0"
        raise InputError(problem, where=path, fix=f"{_INSTALL} --force-reinstall")
    return swift_f0.SwiftF0(threads=1, spin=False)


@trackers.register("yaapt")
@dataclass(frozen=True)
class YAAPT:
    """pYAAPT (Zahorian and Hu, 2008; AMFM_decompy), the track before interpolation; slow, about four times real time.

    Its F0 is the rate divided by a whole number of samples that is one too large: 1% low at 150 Hz, 3% at 500 Hz.
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
        """Return the name, the version of the package, on which tracks depend slightly, and the settings."""
        from importlib.metadata import version

        return f"pitch yaapt {version('AMFM_decompy')} {self.floor} {self.ceiling} {self.frame}"

    def first(self, samples: int) -> float:
        """Return the center of the first frame of 35 ms."""
        return self.frame / 2000

    def __call__(self, wave: Waveform) -> Track:
        """Return F0 in Hz."""
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
            # On unvoiced recordings it averages empty arrays and divides by zero, but then returns zeros.
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                f0 = np.asarray(pYAAPT.yaapt(signal, **settings).samp_values, dtype=np.float64)
        except (AssertionError, IndexError, ValueError, TypeError) as error:
            raise InputError(f"pYAAPT fails on this audio: {error}", fix="use the tracker autocorrelation") from error
        return np.where(np.isfinite(f0), f0, 0.0)


def _check(wave: Waveform, tracker: PitchTracker) -> None:
    if wave.rate != tracker.rate or wave.duration < tracker.minimum:
        problem = f"the pitch of {wave.duration:.3f} s of audio at {wave.rate} Hz cannot be tracked"
        raise InputError(problem, fix=f"give at least {tracker.minimum:.3f} s at {tracker.rate} Hz")
    if not np.isfinite(wave.samples).all():
        raise InputError("the audio has a sample that is not finite", fix="repair the recording")
