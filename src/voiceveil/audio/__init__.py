"""Audio in memory and in files: :class:`Waveform`, :func:`load`, :func:`save` and what they stand on.

Conventions: samples are float32, mono, nominally in [-1, 1], shape (n,); rates are in Hz.
"""

from voiceveil.audio.formats import (
    VIDEO_SUFFIXES,
    WRITABLE_SUFFIXES,
    AudioFormat,
    Encoding,
    format_like,
    is_writable,
    usual_suffix,
)
from voiceveil.audio.reading import AudioInfo, MixedDownWarning, info, load, open_audio, read_blocks
from voiceveil.audio.waveform import Samples, Waveform, check_waveform, mix_down, resample, to_int16
from voiceveil.audio.writing import AudioWriter, create_audio, save
from voiceveil.core.files import AUDIO_SUFFIXES

__all__ = [
    "AUDIO_SUFFIXES",
    "VIDEO_SUFFIXES",
    "WRITABLE_SUFFIXES",
    "AudioFormat",
    "AudioInfo",
    "AudioWriter",
    "Encoding",
    "MixedDownWarning",
    "Samples",
    "Waveform",
    "check_waveform",
    "create_audio",
    "format_like",
    "info",
    "is_writable",
    "load",
    "mix_down",
    "open_audio",
    "read_blocks",
    "resample",
    "save",
    "to_int16",
    "usual_suffix",
]
