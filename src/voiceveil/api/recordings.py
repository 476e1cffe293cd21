"""Recordings that functions of the API take and write."""

from __future__ import annotations

import os
from pathlib import Path

from voiceveil import audio
from voiceveil.core.output_guard import refuse_files

__all__ = ["as_waveform", "save"]


def as_waveform(recording: str | os.PathLike[str] | audio.Waveform) -> audio.Waveform:
    """Return a recording that is given as a file or as a :class:`~voiceveil.audio.Waveform`."""
    if isinstance(recording, str | os.PathLike):
        return audio.load(recording)
    audio.check_waveform(recording)
    return recording


def save(
    path: str | os.PathLike[str],
    wave: audio.Waveform,
    *,
    encoding: audio.Encoding = "int16",
    overwrite: bool = False,
) -> str:
    """Write a recording in the format of its suffix, without tags.

    Parameters
    ----------
    path
        A file name that ends in ``.wav``, ``.flac``, ``.mp3``, ``.ogg``, ``.m4a``, ...
    wave
        The recording; samples outside [-1, 1] are clipped.
    encoding
        ``"int16"`` or ``"int24"``.
    overwrite
        Replace the file if it exists.

    Returns
    -------
    str
        The sha256 of the file.

    Raises
    ------
    InputError
        If the file exists and ``overwrite`` is False, if samples are not finite, or if ``wave`` is no ``Waveform``.

    Examples
    --------
    >>> import numpy as np, voiceveil as vv
    >>> tone = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    >>> sha256 = vv.save("tone.wav", vv.Waveform(tone, 16000))
    >>> vv.load("tone.wav").duration
    1.0
    """
    refuse_files([Path(path)], overwrite=overwrite, audio=True)
    return audio.save(path, wave, encoding=encoding)
