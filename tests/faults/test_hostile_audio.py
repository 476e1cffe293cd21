"""Audio that is read only in part unless somebody looks: truncated, joined, with headers that say what cannot be."""

from __future__ import annotations

import io
import resource
import struct
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voiceveil.audio import MixedDownWarning, info, load
from voiceveil.core.errors import InputError

RATE = 16000
TONE = (0.5 * np.sin(np.arange(3 * RATE) / 20)).astype(np.float32)
FORMATS = {
    "wav": ("WAV", "PCM_16"), "wavex": ("WAVEX", "FLOAT"), "rf64": ("RF64", "PCM_16"), "w64": ("W64", "PCM_16"),
    "au": ("AU", "PCM_16"), "aiff": ("AIFF", "PCM_16"), "caf": ("CAF", "PCM_16"), "flac": ("FLAC", "PCM_16"),
    "ogg": ("OGG", "VORBIS"), "opus": ("OGG", "OPUS"), "mp3": ("MP3", None),
}  # fmt: skip


def encoded(name: str, samples: np.ndarray = TONE, rate: int = RATE, **more: object) -> bytes:
    format, subtype = FORMATS[name]
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate, format=format, subtype=subtype, **more)
    return buffer.getvalue()


@pytest.mark.parametrize("name", FORMATS)
def test_complete_file_is_read(name: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{name}").write_bytes(encoded(name))
    assert info(tmp_path / f"a.{name}").frames == len(TONE)
    assert len(load(tmp_path / f"a.{name}")) == len(TONE)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("name", FORMATS)
def test_truncated_file_is_rejected(name: str, share: float, tmp_path: Path) -> None:
    data = encoded(name)
    (tmp_path / f"a.{name}").write_bytes(data[: int(share * len(data))])
    with pytest.raises(InputError):
        load(tmp_path / f"a.{name}")


@pytest.mark.parametrize("second", [len(TONE), len(TONE) // 2, 2000])
@pytest.mark.parametrize("name", FORMATS)
def test_concatenated_recordings_are_read_completely_or_rejected(name: str, second: int, tmp_path: Path) -> None:
    """As `cat a.mp3 b.mp3 > c.mp3` makes them; the same recording twice has the same serial number in Ogg."""
    (tmp_path / f"a.{name}").write_bytes(encoded(name) + encoded(name, TONE[:second]))
    with pytest.raises(InputError):
        load(tmp_path / f"a.{name}")


def test_mp3_of_constant_bit_rate_without_header_is_read_completely(tmp_path: Path) -> None:
    """Its length is known from its size, also when it was joined."""
    data = _frames(encoded("mp3", compression_level=0.5, bitrate_mode="CONSTANT"))
    (tmp_path / "a.mp3").write_bytes(data)
    once = len(load(tmp_path / "a.mp3"))
    (tmp_path / "a.mp3").write_bytes(data + data)
    assert abs(len(load(tmp_path / "a.mp3")) - 2 * once) < 3000


def test_streamed_w64_is_read_to_its_end(tmp_path: Path) -> None:
    """ffmpeg writes the largest number as the size if it cannot go back to the header."""
    data = bytearray(encoded("w64"))
    at = data.index(b"data") + 16
    data[at : at + 8] = struct.pack("<Q", 2**63 - 1)
    (tmp_path / "a.w64").write_bytes(data)
    assert len(load(tmp_path / "a.w64")) == len(TONE)


def test_mp3_longer_than_its_estimated_length_is_rejected(tmp_path: Path) -> None:
    """Loud, then quiet, at a varying bit rate and without the header that counts the frames."""
    noise = np.random.default_rng(0).uniform(-0.9, 0.9, 5 * RATE)
    sound = np.concatenate([noise, np.zeros(40 * RATE)])
    data = encoded("mp3", sound, compression_level=0.5, bitrate_mode="VARIABLE")
    (tmp_path / "a.mp3").write_bytes(data)
    assert len(load(tmp_path / "a.mp3")) == len(sound)
    (tmp_path / "a.mp3").write_bytes(_frames(data))
    with pytest.raises(InputError, match=r"it holds .* samples, but its header or size promises"):
        load(tmp_path / "a.mp3")


def _frames(data: bytes) -> bytes:
    """The MP3 file without its first frame, which holds no sound but counts the others."""
    assert b"Xing" in data[:100] or b"Info" in data[:100]
    return data[data.index(data[:2], 4) :]


@pytest.mark.parametrize("tag", [b"TAG" + b" " * 125, b"ID3\4\0\0\0\0\0\x0a" + b" " * 10, b"\0" * 100])
@pytest.mark.parametrize("name", ["wav", "mp3", "ogg", "flac"])
def test_trailing_tags_are_ignored(name: str, tag: bytes, tmp_path: Path) -> None:
    (tmp_path / f"a.{name}").write_bytes(encoded(name) + tag)
    assert len(load(tmp_path / f"a.{name}")) == len(TONE)


def test_samples_beyond_the_header_count_are_rejected(tmp_path: Path) -> None:
    """A recorder that crashed before it wrote the size."""
    for name, size_at in (("wav", 40), ("au", 8)):
        data = bytearray(encoded(name, np.random.default_rng(0).uniform(-1, 1, 3 * RATE)))
        data[size_at : size_at + 4] = struct.pack("<I" if name == "wav" else ">I", 2000)
        (tmp_path / f"a.{name}").write_bytes(data)
        with pytest.raises(InputError, match="follow the samples that its header counts"):
            load(tmp_path / f"a.{name}")


@pytest.mark.parametrize("length", [100, 4096, 20_000, len(TONE)])
@pytest.mark.parametrize("tail", [b"", b"TAG" + b" " * 125])
def test_flac_header_with_too_few_samples_is_rejected(length: int, tail: bytes, tmp_path: Path) -> None:
    data = bytearray(encoded("flac", TONE[:length]) + tail)
    (tmp_path / "a.flac").write_bytes(data)
    assert len(load(tmp_path / "a.flac")) == length
    total = int.from_bytes(data[21:26]) & (1 << 36) - 1
    assert total == length
    data[22:26] = (total - 1).to_bytes(4)
    (tmp_path / "a.flac").write_bytes(data)
    with pytest.raises(InputError, match=f"it has {length} samples, but its header counts {length - 1}"):
        load(tmp_path / "a.flac")


def _wav(rate: int, channels: int, samples: bytes) -> bytes:
    align = 2 * channels
    head = struct.pack("<HHIIHH", 1, channels, rate, min(rate * align, 2**32 - 1), align, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("rate", [1, 999, 384_001, 1_000_000_000, 2**31 - 1])
def test_implausible_sampling_rates_are_rejected(rate: int, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(_wav(rate, 1, bytes(2000)))
    for read in (info, load):
        with pytest.raises(InputError, match=r"sampling rate|not readable"):
            read(tmp_path / "a.wav")


@pytest.mark.parametrize("rate", [1000, 384_000])
def test_sampling_rates_at_the_limits_are_read(rate: int, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(_wav(rate, 1, bytes(2000)))
    assert load(tmp_path / "a.wav").rate == rate


@pytest.mark.parametrize("channels", [65, 1024])
def test_too_many_channels_are_rejected(channels: int, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(_wav(RATE, channels, bytes(2000 * channels)))
    with pytest.raises(InputError, match=f"{channels} channels; up to 64 can be read"):
        load(tmp_path / "a.wav")


def test_many_channels_are_read_in_little_memory(tmp_path: Path) -> None:
    """64 channels of 500,000 samples are 128 MB as floats; only the average of them is held."""
    with (tmp_path / "a.wav").open("wb") as file:
        file.write(_wav(RATE, 64, b"")[:-4] + struct.pack("<I", 64_000_000))
        file.truncate(file.tell() + 64_000_000)
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MixedDownWarning)
            assert len(load(tmp_path / "a.wav")) == 500_000
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_audio_too_long_for_the_memory_is_rejected_at_once(tmp_path: Path) -> None:
    """A sparse file of 8 GB; a small FLAC file of silence can hold as much."""
    with (tmp_path / "a.w64").open("wb") as file:
        head = bytearray(encoded("w64", TONE[:0]))
        size = 8 << 30
        head[16:24] = struct.pack("<Q", size + len(head))
        head[-8:] = struct.pack("<Q", size + 24)
        file.write(head)
        file.truncate(len(head) + size)
    with pytest.raises(InputError, match=r"hours of audio are too long to be held in memory \(cut it into parts\)"):
        load(tmp_path / "a.w64")


def test_audio_larger_than_the_memory_is_rejected(tmp_path: Path) -> None:
    with (tmp_path / "a.wav").open("wb") as file:
        file.write(_wav(RATE, 1, b"")[:-4] + struct.pack("<I", 128_000_000))
        file.truncate(file.tell() + 128_000_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 200_000_000, hard))
    try:
        with pytest.raises(InputError, match=r"1\.1 hours of audio are too long to be held in memory"):
            load(tmp_path / "a.wav")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_headerless_bytes_are_rejected_whatever_their_name(tmp_path: Path) -> None:
    """libsndfile takes them for eight-bit sound of 8 kHz if the name ends in .au."""
    for name in ("a.au", "a.snd", "a.gsm", "a.vox", "a.wav"):
        (tmp_path / name).write_bytes(np.random.default_rng(1).bytes(5000))
        with pytest.raises(InputError, match="not readable as audio"):
            load(tmp_path / name)
