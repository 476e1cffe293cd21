"""Formats of output files: which library writes a suffix, and which codec, rate and channels follow from an input.

The suffix of the output decides the container. The codec is that of the input where the container takes it and an
encoder exists, else the usual one of the container. Rates are in Hz.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from voiceveil.core.errors import InputError

if TYPE_CHECKING:
    from voiceveil.audio.reading import AudioInfo

__all__ = [
    "VIDEO_SUFFIXES",
    "WRITABLE_SUFFIXES",
    "AudioFormat",
    "Encoding",
    "format_like",
    "format_of",
    "is_writable",
    "usual_suffix",
]

Encoding = Literal["int16", "int24"]

#: Suffix -> libsndfile's format, and the subtypes that are written, the usual one first.
#: No floating-point files: libsndfile puts a time stamp into them (the PEAK chunk).
SNDFILE: dict[str, tuple[str, tuple[str, ...]]] = {
    ".wav": ("WAV", ("PCM_16", "PCM_24", "ULAW", "ALAW")),
    ".flac": ("FLAC", ("PCM_16", "PCM_24")),
    ".mp3": ("MP3", ("MPEG_LAYER_III",)),
    ".ogg": ("OGG", ("VORBIS",)),
    ".oga": ("OGG", ("VORBIS",)),
    ".aiff": ("AIFF", ("PCM_16", "PCM_24")),
    ".aif": ("AIFF", ("PCM_16", "PCM_24")),
    ".au": ("AU", ("PCM_16", "PCM_24", "ULAW", "ALAW")),
    ".caf": ("CAF", ("PCM_16", "PCM_24")),
    ".w64": ("W64", ("PCM_16", "PCM_24")),
}
#: Suffix -> FFmpeg's muxer, and the codecs that are written, the usual one first.
FFMPEG: dict[str, tuple[str, tuple[str, ...]]] = {
    ".opus": ("opus", ("opus",)),
    ".m4a": ("ipod", ("aac", "alac")),
    ".m4b": ("ipod", ("aac", "alac")),
    ".aac": ("adts", ("aac",)),
    ".amr": ("amr", ("amr_nb",)),
    ".wma": ("asf", ("wmav2",)),
    ".mka": ("matroska", ("aac", "opus", "flac", "mp3", "ac3", "alac", "pcm_s16le", "pcm_s24le")),
    ".mp4": ("mp4", ("aac", "alac", "mp3", "opus", "ac3")),
    ".m4v": ("mp4", ("aac", "ac3")),
    ".mov": ("mov", ("aac", "alac", "mp3", "ac3", "pcm_s16le", "pcm_s24le", "pcm_s16be", "pcm_s24be")),
    ".3gp": ("3gp", ("aac", "amr_nb")),
    ".3g2": ("3g2", ("aac", "amr_nb")),
    ".webm": ("webm", ("opus",)),
    ".mkv": ("matroska", ("aac", "opus", "flac", "mp3", "mp2", "ac3", "alac", "pcm_s16le", "pcm_s24le")),
    ".avi": ("avi", ("mp3", "mp2", "ac3", "pcm_s16le")),
    ".wmv": ("asf", ("wmav2",)),
    ".mts": ("mpegts", ("aac", "ac3", "mp2", "mp3")),
    ".m2ts": ("mpegts", ("aac", "ac3", "mp2", "mp3")),
    ".flv": ("flv", ("aac", "mp3")),
}
#: Suffixes of files that can hold a picture.
VIDEO_SUFFIXES = frozenset(
    {".mp4", ".m4v", ".mov", ".3gp", ".3g2", ".webm", ".mkv", ".avi", ".wmv", ".mts", ".m2ts", ".flv"}
)
#: Suffixes of files that can be written.
WRITABLE_SUFFIXES = frozenset(SNDFILE | FFMPEG)
#: Codec -> encoder, where their names differ.
ENCODERS = {"opus": "libopus", "mp3": "libmp3lame", "amr_nb": "libopencore_amrnb"}
_LOSSLESS = {"alac", "flac"}
_BIT_RATES = (64_000, 320_000)  # of lossy codecs: what was lost once is not to be lost again
#: libsndfile's subtypes that have more than 16 bits.
_DEEP = {"PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAC_20", "ALAC_24", "ALAC_32", "pcm_s24le", "pcm_s32le", "pcm_f32le"}


@dataclass(frozen=True)
class AudioFormat:
    """Format of an output file.

    ``suffix``: of its name; ``codec``: libsndfile's subtype or FFmpeg's codec; ``rate`` in Hz; ``channels``: all carry
    the same sound; ``bit_rate`` in bits per second, 0 where the codec decides.
    """

    suffix: str
    codec: str
    rate: int
    channels: int = 1
    bit_rate: int = 0

    @property
    def is_media(self) -> bool:
        """True if FFmpeg writes it, not libsndfile."""
        return self.suffix not in SNDFILE or self.codec == "opus"

    @property
    def muxer(self) -> str:
        """FFmpeg's name of the container."""
        return FFMPEG[self.suffix][0] if self.suffix in FFMPEG else "ogg"


#: libsndfile's format or FFmpeg's demuxer -> usual suffix, without and with a picture.
_USUAL = {
    "WAV": (".wav", ""), "WAVEX": (".wav", ""), "RF64": (".wav", ""), "FLAC": (".flac", ""), "MP3": (".mp3", ""),
    "OGG": (".ogg", ""), "AIFF": (".aiff", ""), "AU": (".au", ""), "CAF": (".caf", ""), "W64": (".w64", ""),
    "mov": (".m4a", ".mp4"), "webm": (".webm", ".webm"), "matroska": (".mka", ".mkv"), "asf": (".wma", ".wmv"),
    "aac": (".aac", ""), "amr": (".amr", ""), "avi": (".wav", ".avi"), "mpegts": (".m4a", ".mts"),
    "flv": (".m4a", ".flv"),
}  # fmt: skip


def usual_suffix(source: AudioInfo) -> str:
    """Return the suffix that files of a format usually have; that of WAV for formats that cannot be written."""
    if source.container == "OGG" and source.codec == "OPUS":
        return ".opus"
    sound, video = _USUAL.get(source.container, (".wav", ""))
    return (video if source.has_picture else sound) or ".wav"


def is_writable(path: Path) -> bool:
    """Return whether a file of this name can be written."""
    return path.suffix.lower() in WRITABLE_SUFFIXES


def format_of(path: Path, rate: int, *, encoding: Encoding = "int16") -> AudioFormat:
    """Return the usual format for a name: mono, and of 16 or 24 bits where it is PCM."""
    suffix = _writable(path)
    if suffix in SNDFILE:
        subtypes = SNDFILE[suffix][1]
        wanted = {"int16": "PCM_16", "int24": "PCM_24"}[encoding]
        return AudioFormat(suffix, wanted if wanted in subtypes else subtypes[0], rate)
    codec = FFMPEG[suffix][1][0]
    return AudioFormat(suffix, codec, _allowed_rate(codec, rate), bit_rate=_bit_rate(codec, 0))


def format_like(path: Path, source: AudioInfo, *, encoding: Encoding | None = None) -> AudioFormat:
    """Return the format for a name that is nearest to that of a source: its codec, rate and channels.

    Parameters
    ----------
    path
        The output; its suffix decides the container.
    source
        Header of the input.
    encoding
        Depth of PCM (default: that of the source, 16 or 24 bits).

    Raises
    ------
    InputError
        If no file of this suffix can be written, or the codec of the source has no encoder and no fair replacement.
    """
    suffix = _writable(path)
    if suffix in SNDFILE and not (source.codec.lower() == "opus" and SNDFILE[suffix][0] == "OGG"):
        subtypes = SNDFILE[suffix][1]
        deep = encoding == "int24" if encoding else source.codec in _DEEP
        wanted = source.codec if source.codec in subtypes and not encoding else "PCM_24" if deep else "PCM_16"
        return AudioFormat(suffix, wanted if wanted in subtypes else subtypes[0], source.rate, source.channels)
    if source.codec == "amr_wb" and suffix == ".amr":
        raise InputError("AMR-WB can be read but not written", where=path, fix="--format m4a, or another format")
    codecs = FFMPEG[suffix][1] if suffix in FFMPEG else ("opus",)
    codec = source.codec.lower() if source.codec.lower() in codecs else codecs[0]
    channels = (
        1 if codec == "amr_nb" else min(source.channels, 2) if codec in {"wmav2", "mp3", "mp2"} else source.channels
    )
    return AudioFormat(suffix, codec, _allowed_rate(codec, source.rate), channels, _bit_rate(codec, source.bit_rate))


def _writable(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in WRITABLE_SUFFIXES:
        known = " ".join(sorted(WRITABLE_SUFFIXES))
        raise InputError(f"cannot write {suffix or 'a file without suffix'}", where=path, fix=f"use one of {known}")
    return suffix


def _allowed_rate(codec: str, rate: int) -> int:
    """Return the rate that is nearest from above to one that the encoder may not know."""
    from voiceveil.audio.media import encoder_rates

    rates = encoder_rates(ENCODERS.get(codec, codec))
    return rate if not rates or rate in rates else min((known for known in rates if known > rate), default=max(rates))


def _bit_rate(codec: str, rate: int) -> int:
    if codec in _LOSSLESS or codec.startswith("pcm_"):
        return 0
    return 12_200 if codec == "amr_nb" else min(max(rate, _BIT_RATES[0]), _BIT_RATES[1])
