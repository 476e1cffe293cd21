"""Audio in memory and in files: :class:`Waveform`, :func:`load`, :func:`save` and what they stand on.

Conventions: samples are float32, mono, nominally in [-1, 1], shape (n,); rates are in Hz.
"""

from voiceveil.audio.reading import AudioInfo, MixedDownWarning, info, load, open_audio, read_blocks
from voiceveil.audio.waveform import Samples, Waveform, check_waveform, mix_down, resample, to_int16
from voiceveil.audio.writing import Encoding, create_audio, encoded, save
from voiceveil.core.files import AUDIO_SUFFIXES

__all__ = [
    "AUDIO_SUFFIXES",
    "AudioInfo",
    "Encoding",
    "MixedDownWarning",
    "Samples",
    "Waveform",
    "check_waveform",
    "create_audio",
    "encoded",
    "info",
    "load",
    "mix_down",
    "open_audio",
    "read_blocks",
    "resample",
    "save",
    "to_int16",
]
