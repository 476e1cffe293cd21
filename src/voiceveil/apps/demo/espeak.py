"""Speech from text by eSpeak NG, whose library and voices come inside the wheel of ``espeakng-loader``.

eSpeak NG is under the GNU GPL (version 3): it is an extra that nothing else here needs, and only what it says at run
time is used. Its voices are formant synthesis: intelligible, and unlike any person.

Conventions: speed in words a minute, pitch from 0 to 99 (50 is the voice's own). Its noise is drawn anew each time: the
same text in the same voice gives other samples.
"""

from __future__ import annotations

import ctypes
import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError

__all__ = ["INSTALL", "is_installed", "speak"]

INSTALL = "pip install 'voiceveil[demo]'"
_SYNCHRONOUS = 2  # espeak_AUDIO_OUTPUT: samples go to a callback, and a call ends when all are there
_UTF8 = 1  # espeakCHARS_UTF8
_SPEED, _PITCH = 1, 3  # espeak_PARAMETER
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


def is_installed() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("espeakng_loader") is not None


def speak(text: str, voice: str, *, speed: int = 165, pitch: int = 50) -> Waveform:
    """A text in a voice such as ``en-us+f2``: language and variant."""
    return _engine().speak(text, voice, speed, pitch)


class _Engine:
    """The library, of which there is one in a process."""

    def __init__(self) -> None:
        if not is_installed():
            raise InputError("eSpeak NG is not installed", fix=INSTALL)
        import espeakng_loader

        path, data = espeakng_loader.get_library_path(), espeakng_loader.get_data_path()
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise InputError(f"eSpeak NG cannot be loaded: {error}", where=path, fix=INSTALL) from error
        self._rate = self._library.espeak_Initialize(_SYNCHRONOUS, 0, data.encode(), 0)
        if self._rate <= 0:
            raise InputError("eSpeak NG finds no voices", where=data, fix=INSTALL)
        self._variants = Path(data) / "voices" / "!v"
        self._heard: list[np.ndarray[Any, np.dtype[np.int16]]] = []
        self._callback = _CALLBACK(self._hear)  # kept: the library holds no reference of its own
        self._library.espeak_SetSynthCallback(self._callback)

    def _hear(self, samples: Any, count: int, events: Any) -> int:
        if samples and count > 0:
            self._heard.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0  # go on

    def speak(self, text: str, voice: str, speed: int, pitch: int) -> Waveform:
        self._heard.clear()
        variant = self._variants / voice.partition("+")[2]  # it takes another voice for one that it does not know
        if not variant.is_file() or self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise InputError(f"eSpeak NG has no voice {voice!r}")
        self._library.espeak_SetParameter(_SPEED, speed, 0)
        self._library.espeak_SetParameter(_PITCH, pitch, 0)
        data = text.encode()
        if self._library.espeak_Synth(data, ctypes.c_size_t(len(data) + 1), 0, 1, 0, _UTF8, None, None) != 0:
            raise InputError(f"eSpeak NG cannot say {text!r}")
        samples = np.concatenate([*self._heard, np.zeros(0, dtype=np.int16)])
        return Waveform(samples.astype(np.float32) / 32768.0, int(self._rate))


@lru_cache(maxsize=1)
def _engine() -> _Engine:
    return _Engine()
