"""Augmentation of training speech: copies with reverberation, noise, music and babble.

Conventions: samples are float32 at 16 kHz; a copy has as many samples as its original. SNRs are in dB, of the whole
utterance to the added sound. Every choice depends on the seed, the kind of the copy and the samples themselves, never
on the order or the number of processes.

Kinds, and the ranges of SNRs in Kaldi's recipes for x-vectors (egs/voxceleb/v2, sre16/v2) and SpeechBrain's for
ECAPA-TDNN (recipes/VoxCeleb):

==========  ==========================================================  ==================  ===================
kind        added sound                                                 Kaldi               SpeechBrain
==========  ==========================================================  ==================  ===================
``reverb``  none: the speech is convolved with the response of a room
``noise``   short noises one after the other, 1 s apart                 15, 10, 5, 0        0 to 15, uniform
``music``   one piece in the background                                 15, 10, 8, 5        0 to 15, uniform
``babble``  three to seven speakers in the background, each             20, 17, 15, 13      0 to 15, uniform, at once
==========  ==========================================================  ==================  ===================

Sounds come from a folder with the layout of MUSAN (``noise``, ``music`` and ``speech`` in it), room responses from one
like RIRS_NOISES: every audio file below it counts, but of RIRS_NOISES itself only the rooms ``smallroom`` and
``mediumroom``, as in Kaldi's recipes. Without a folder rooms are simulated (:mod:`voiceveil.dsp.rooms`), of the same
sizes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, info, load
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.dsp.rooms import Room, high_pass, room_response

__all__ = [
    "KINDS",
    "RATE",
    "Augmentation",
    "Augmenter",
    "CopyKind",
    "SnrRanges",
    "draw_room",
    "mix",
    "parse_kinds",
    "reverberate",
]

RATE = 16000
CopyKind = Literal["reverb", "noise", "music", "babble"]
SnrRanges = Literal["kaldi", "speechbrain"]
#: Kinds of copies, in the order of Kaldi's recipes.
KINDS: tuple[CopyKind, ...] = get_args(CopyKind)

_FOLDERS: Mapping[CopyKind, str] = {"noise": "noise", "music": "music", "babble": "speech"}
_KALDI_SNRS: Mapping[CopyKind, tuple[float, ...]] = {
    "noise": (15.0, 10.0, 5.0, 0.0),
    "music": (15.0, 10.0, 8.0, 5.0),
    "babble": (20.0, 17.0, 15.0, 13.0),
}
_SPEECHBRAIN_SNRS = (0.0, 15.0)
_PAUSE = 1.0  # seconds between two short noises
_SPEAKERS = (3, 7)  # of babble
_ROOMS = 400  # that are simulated
_LONGEST_RESPONSE = 2.0  # seconds
_SUFFIXES = (".wav", ".flac")
_USED_ROOMS = ("smallroom", "mediumroom")


@dataclass(frozen=True)
class Augmentation:
    """Settings of the noise and rooms that are added to training speech.

    Parameters
    ----------
    kinds : tuple of str
        Each gives one more copy of every training utterance.
    noise : Path, optional
        Folder of sounds, like MUSAN; all kinds but ``reverb`` need it.
    rirs : Path, optional
        Folder of room responses, like RIRS_NOISES (default: simulated rooms).
    snrs : {"kaldi", "speechbrain"}
        Ranges of SNRs.
    seed : int
        Of all choices.

    Raises
    ------
    InputError
        If a kind is unknown or repeated, or a folder is missing or not needed.
    """

    kinds: tuple[CopyKind, ...]
    noise: Path | None = None
    rirs: Path | None = None
    snrs: SnrRanges = "kaldi"
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise InputError(f"--augment {','.join(self.kinds)}", fix=f"name each once: {', '.join(KINDS)}")
        for kind in self.kinds:
            if kind not in KINDS:
                raise InputError(f"--augment: unknown kind {kind!r}", fix=did_you_mean(kind, list(KINDS)))
        sounds = [kind for kind in self.kinds if kind != "reverb"]
        if sounds and self.noise is None:
            raise InputError(f"--augment {sounds[0]} needs sounds", fix="give a folder like MUSAN: --noise DIR")
        if self.noise is not None and not sounds:
            raise InputError(
                "--noise is not used by --augment reverb", fix="add noise, music or babble, or leave it out"
            )
        if self.rirs is not None and "reverb" not in self.kinds:
            raise InputError("--rirs is not used without --augment reverb", fix="add reverb, or leave it out")


def parse_kinds(text: str) -> tuple[CopyKind, ...]:
    """Return the kinds of ``reverb,noise`` or ``all``; they are checked by :class:`Augmentation`.

    >>> parse_kinds("noise, reverb")
    ('noise', 'reverb')
    """
    if text.strip() == "all":
        return KINDS
    return tuple(part.strip() for part in text.split(","))  # type: ignore[misc]


class Augmenter:
    """Makes copies of utterances; it can be sent to other processes.

    Parameters
    ----------
    augmentation : Augmentation
        Kinds, folders and seed.

    Raises
    ------
    InputError
        If a folder has no usable audio.
    """

    def __init__(self, augmentation: Augmentation) -> None:
        self.augmentation = augmentation
        self._files: dict[CopyKind, tuple[Path, ...]] = {}
        for kind in augmentation.kinds:
            if kind != "reverb":
                assert augmentation.noise is not None  # noqa: S101 -- checked by Augmentation
                self._files[kind] = _sounds(augmentation.noise, kind)
            elif augmentation.rirs is not None:
                self._files[kind] = _responses(augmentation.rirs)

    def fingerprint(self, kind: CopyKind) -> str:
        """Return a hash that changes whenever copies of a kind would: seed, SNRs, names and sizes of the files."""
        own = self.augmentation
        root = own.rirs if kind == "reverb" else own.noise
        digest = hashlib.sha256(f"augmentation 1 {kind} {own.snrs} {own.seed}".encode())
        for path in self._files.get(kind, ()):
            digest.update(f"{path.relative_to(root or path.parent)}\0{path.stat().st_size}\n".encode())
        return digest.hexdigest()[:16]

    def record(self) -> dict[str, Any]:
        """Return what a training record says about the copies."""
        own = self.augmentation
        return {
            "kinds": list(own.kinds),
            "snrs": own.snrs,
            "files": {kind: len(files) for kind, files in self._files.items()},
            "fingerprints": {kind: self.fingerprint(kind) for kind in own.kinds},
        }

    def __call__(self, samples: Samples, kind: CopyKind) -> Samples:
        """Return a copy (n,) of an utterance (n,) at 16 kHz, with the sounds that its samples and the seed draw."""
        digest = hashlib.sha256(np.ascontiguousarray(samples, dtype=np.float32).tobytes())
        digest.update(f"{self.augmentation.seed} {kind}".encode())
        rng = np.random.default_rng(np.frombuffer(digest.digest(), dtype=np.uint32))
        if kind == "reverb":
            return reverberate(samples, self._response(rng))
        return mix(samples, list(self._added(len(samples), kind, rng)))

    def _response(self, rng: np.random.Generator) -> NDArray[np.float64]:
        files = self._files.get("reverb")
        if files is None:
            return _simulated(self.augmentation.seed, int(rng.integers(_ROOMS)))
        return _file_response(files[rng.integers(len(files))])

    def _added(self, size: int, kind: CopyKind, rng: np.random.Generator) -> Iterator[tuple[int, Samples, float]]:
        """Yield place, samples and SNR of each sound that is added to an utterance of ``size`` samples."""
        files = self._files[kind]
        if kind == "noise":
            place = 0
            while place < size:
                sound = _excerpt(files[rng.integers(len(files))], size - place, rng, loop=False)
                yield place, sound, self._snr(kind, rng)
                place += len(sound) + round(_PAUSE * RATE)
            return
        count = 1 if kind == "music" else int(rng.integers(_SPEAKERS[0], _SPEAKERS[1] + 1))
        sounds = [_excerpt(files[rng.integers(len(files))], size, rng, loop=True) for _ in range(count)]
        if self.augmentation.snrs == "speechbrain":
            yield 0, np.sum(sounds, axis=0, dtype=np.float32), self._snr(kind, rng)
            return
        for sound in sounds:
            yield 0, sound, self._snr(kind, rng)

    def _snr(self, kind: CopyKind, rng: np.random.Generator) -> float:
        if self.augmentation.snrs == "speechbrain":
            return float(rng.uniform(*_SPEECHBRAIN_SNRS))
        return float(rng.choice(_KALDI_SNRS[kind]))


def mix(samples: Samples, added: Sequence[tuple[int, Samples, float]]) -> Samples:
    """Return speech (n,) with sounds at their places, each scaled to its SNR in dB.

    The powers of the speech and of the sound are means over their own lengths; silent sounds, and all sounds beside
    silent speech, are left out.
    """
    mixed = samples.astype(np.float64)
    power = float(np.mean(mixed**2)) if len(mixed) else 0.0
    for place, sound, snr in added:
        own = float(np.mean(np.square(sound, dtype=np.float64))) if len(sound) else 0.0
        if own > 0.0 and power > 0.0:
            end = min(len(mixed), place + len(sound))
            mixed[place:end] += math.sqrt(power / own * 10.0 ** (-snr / 10.0)) * sound[: end - place]
    return mixed.astype(np.float32)


def reverberate(samples: Samples, response: NDArray[np.float64]) -> Samples:
    """Return speech (n,) in a room, with the power and the place in time that it had.

    The strongest peak of the response is taken for the direct sound, and the delay until then is removed.
    """
    from scipy.signal import fftconvolve

    speech = samples.astype(np.float64)
    if not len(speech) or not np.any(speech):
        return samples.astype(np.float32)
    peak = int(np.argmax(np.abs(response)))
    wet = fftconvolve(speech, response)[peak : peak + len(speech)]
    power = float(np.mean(wet**2))
    return (wet * math.sqrt(float(np.mean(speech**2)) / power) if power > 0.0 else speech).astype(np.float32)


def draw_room(rng: np.random.Generator) -> Room:
    """Return a random room, small or medium-sized, with source and microphone up to 5 m from each other."""
    low, high = ((2.0, 10.0), (10.0, 30.0))[int(rng.integers(2))]
    width, depth, height = rng.uniform(low, high), rng.uniform(low, high), rng.uniform(2.0, 5.0)
    size = (float(width), float(depth), float(height))
    while True:
        source, microphone = (tuple(float(rng.uniform(0.3, side - 0.3)) for side in size) for _ in range(2))
        if 0.3 <= math.dist(source, microphone) <= 5.0:
            break
    return Room(size, float(rng.uniform(0.2, 0.8)), source, microphone)  # type: ignore[arg-type]


@lru_cache(maxsize=_ROOMS)
def _simulated(seed: int, number: int) -> NDArray[np.float64]:
    return high_pass(room_response(draw_room(np.random.default_rng([seed, number])), RATE), RATE)


def _audio_files(folder: Path) -> list[Path]:
    """Return the audio files below a folder, sorted by their names in it."""
    return sorted((p for p in folder.rglob("*") if p.suffix.lower() in _SUFFIXES and p.is_file()), key=str)


def _sounds(folder: Path, kind: CopyKind) -> tuple[Path, ...]:
    place = folder / _FOLDERS[kind]
    files = _audio_files(place) if place.is_dir() else []
    if not files:
        raise InputError(
            f"no sounds for --augment {kind}", where=place, fix="give a folder like MUSAN, with noise, music and speech"
        )
    return tuple(files)


def _responses(folder: Path) -> tuple[Path, ...]:
    files = _audio_files(folder) if folder.is_dir() else []
    chosen = [path for path in files if any(room in path.parts for room in _USED_ROOMS)] or files
    if not chosen:
        raise InputError("no room responses", where=folder, fix="give a folder like RIRS_NOISES, or leave --rirs out")
    return tuple(chosen)


@lru_cache(maxsize=512)
def _file_response(path: Path) -> NDArray[np.float64]:
    whole = load(path, rate=RATE).samples
    response = whole[: round(_LONGEST_RESPONSE * RATE)].astype(np.float64)
    if not np.any(response):
        raise InputError("a room response without sound", where=path, fix="remove it")
    return response


def _excerpt(path: Path, size: int, rng: np.random.Generator, *, loop: bool) -> Samples:
    """Return at most ``size`` samples of a sound from a random place; ``loop`` repeats a shorter one to ``size``."""
    header = info(path)
    seconds = header.frames / header.rate
    wanted = size / RATE
    start = float(rng.uniform(0.0, max(0.0, seconds - wanted)))
    sound = load(path, rate=RATE, start=start, duration=min(wanted, seconds - start)).samples
    if not len(sound):
        raise InputError("an empty recording", where=path, fix="remove it")
    return np.resize(sound, size) if loop else sound[:size]
