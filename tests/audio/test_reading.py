"""Reading audio: formats, channels, segments, blocks, and files that cannot be read."""

from __future__ import annotations

import io
import math
import os
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.audio_files import AS_NOBODY, noise, run_python, tone
from voiceveil import audio
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import MixedDownWarning, Waveform, info, load, save
from voiceveil.core.errors import InputError

STEP = 1 / 32768


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000, 96000])
@pytest.mark.parametrize(
    ("container", "subtype", "error"),
    [
        ("WAV", "PCM_U8", 2**-7),
        ("WAV", "PCM_16", 2**-15),
        ("WAV", "PCM_24", 2**-23),
        ("WAV", "PCM_32", 2**-24),
        ("WAV", "FLOAT", 0),
        ("WAV", "DOUBLE", 0),
        ("WAVEX", "PCM_16", 2**-15),
        ("RF64", "PCM_16", 2**-15),
        ("AIFF", "PCM_16", 2**-15),
        ("FLAC", "PCM_16", 2**-15),
        ("FLAC", "PCM_24", 2**-23),
    ],
)
def test_lossless_formats_are_read_exactly(
    tmp_path: Path, container: str, subtype: str, error: float, rate: int
) -> None:
    samples = 0.9 * noise(rate // 10)
    soundfile.write(tmp_path / "a", samples, rate, format=container, subtype=subtype)
    wave = load(tmp_path / "a")
    assert wave.rate == rate
    assert wave.samples.dtype == np.float32
    assert wave.samples.shape == samples.shape
    assert np.abs(wave.samples - samples).max() <= 1.5 * error
    header = info(tmp_path / "a")
    assert (header.rate, header.channels, header.frames) == (rate, 1, len(samples))


@pytest.mark.parametrize(
    ("container", "subtype", "rates"),
    [
        ("OGG", "VORBIS", [8000, 16000, 44100]),
        ("OGG", "OPUS", [8000, 16000, 48000]),
        ("MP3", "MPEG_LAYER_III", [16000, 44100]),
    ],
)
def test_lossy_formats_are_read(tmp_path: Path, container: str, subtype: str, rates: list[int]) -> None:
    for rate in rates:
        original = tone(440, 1.0, rate)
        soundfile.write(tmp_path / "a", original.samples, rate, format=container, subtype=subtype)
        wave = load(tmp_path / "a")
        assert (wave.rate, len(wave)) == (rate, rate)
        middle = slice(rate // 4, 3 * rate // 4)
        assert np.corrcoef(wave.samples[middle], original.samples[middle])[0, 1] > 0.97


def test_real_opus_files_are_read_to_their_end() -> None:
    files = sorted(SPEECH.rglob("*.opus"))
    assert len(files) == 280
    for path in files[::2]:
        frames = info(path).frames
        assert frames > 0
    assert len(load(path)) == frames


@pytest.mark.parametrize("channels", [2, 3, 8])
def test_channels_are_averaged_with_a_warning(tmp_path: Path, channels: int) -> None:
    frames = noise(1000 * channels).reshape(1000, channels)
    soundfile.write(tmp_path / "a.wav", frames, 16000, subtype="FLOAT")
    with pytest.warns(MixedDownWarning, match=f"a.wav: {channels} channels mixed down") as caught:
        wave = load(tmp_path / "a.wav")
    assert caught[0].filename == __file__, "the warning points at the caller"
    slow = [sum(map(float, frame)) / channels for frame in frames]
    assert wave.samples == pytest.approx(slow, abs=1e-6)


def test_mono_gives_no_warning(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", tone(440))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(tmp_path / "a.wav").rate == 16000


def test_segment_equals_the_slice_of_the_file(tmp_path: Path) -> None:
    save(tmp_path / "a.flac", Waveform(noise(16000), 16000))
    whole = load(tmp_path / "a.flac").samples
    for start, duration, part in [
        (0.0, None, whole),
        (0.25, None, whole[4000:]),
        (0.25, 0.5, whole[4000:12000]),
        (0.1, 0.0, whole[:0]),
        (1.0, None, whole[:0]),
        (0.5, 0.505, whole[8000:]),  # metadata are rounded: 10 ms too much are forgiven
    ]:
        assert np.array_equal(load(tmp_path / "a.flac", start=start, duration=duration).samples, part)


@pytest.mark.parametrize(("start", "duration"), [(0.5, 0.52), (1.1, None), (0.0, 2.0), (3.0, 1.0)])
def test_segment_beyond_the_end_is_rejected(tmp_path: Path, start: float, duration: float | None) -> None:
    save(tmp_path / "a.wav", tone(440))
    with pytest.raises(InputError, match=r"has 1 s, but .* are asked for"):
        load(tmp_path / "a.wav", start=start, duration=duration)


@pytest.mark.parametrize(("start", "duration"), [(-1, None), (0, -1), (math.nan, None), (0, math.nan), (math.inf, 1)])
def test_impossible_segment_is_rejected(tmp_path: Path, start: float, duration: float | None) -> None:
    save(tmp_path / "a.wav", tone(440))
    with pytest.raises(InputError, match="no part of a recording"):
        load(tmp_path / "a.wav", start=start, duration=duration)


@pytest.mark.parametrize("size", [1, 7, 999, 1000, 1001])
def test_blocks_concatenate_to_the_file(tmp_path: Path, size: int) -> None:
    save(tmp_path / "a.wav", Waveform(noise(1000), 8000))
    with audio.open_audio(tmp_path / "a.wav") as file:
        blocks = list(audio.read_blocks(file, tmp_path / "a.wav", size=size))
    assert max(map(len, blocks)) <= size
    assert np.array_equal(np.concatenate(blocks), load(tmp_path / "a.wav").samples)


def encoded_bytes(container: str, subtype: str, samples: NDArray[np.float32]) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, 16000, format=container, subtype=subtype)
    return buffer.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("container", "subtype"),
    [
        ("WAV", "PCM_16"),
        ("WAV", "FLOAT"),
        ("WAVEX", "PCM_24"),
        ("RF64", "PCM_16"),
        ("AIFF", "PCM_16"),
        ("FLAC", "PCM_16"),
        ("OGG", "VORBIS"),
        ("OGG", "OPUS"),
    ],
)
def test_file_truncated_anywhere_is_rejected(tmp_path: Path, container: str, subtype: str) -> None:
    data = encoded_bytes(container, subtype, 0.3 * noise(48000))
    path = tmp_path / "a"
    path.write_bytes(data)
    assert len(load(path)) == 48000
    cuts = np.random.default_rng(0).integers(1, len(data) - 1, 60)
    for cut in [1, 3, 4, 11, 12, 13, 44, 60, len(data) - 2, *cuts.tolist()]:
        path.write_bytes(data[:cut])
        with pytest.raises(InputError) as caught:
            load(path)
        assert caught.value.where == str(path)


def ogg_pages(data: bytes) -> list[int]:
    """Where the pages of an Ogg file end."""
    ends, position = [], 0
    while position < len(data):
        assert data[position : position + 4] == b"OggS"
        segments = data[position + 26]
        position += 27 + segments + sum(data[position + 27 : position + 27 + segments])
        ends.append(position)
    return ends


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_ogg_cut_between_pages_is_rejected(tmp_path: Path, subtype: str) -> None:
    data = encoded_bytes("OGG", subtype, 0.3 * noise(160000))
    ends = ogg_pages(data)
    assert len(ends) > 4
    for end in ends[2:-1]:
        (tmp_path / "a.ogg").write_bytes(data[:end])
        with pytest.raises(InputError, match="truncated: the last page is missing"):
            load(tmp_path / "a.ogg")


def test_ogg_with_trailing_bytes_is_read(tmp_path: Path) -> None:
    data = encoded_bytes("OGG", "OPUS", 0.3 * noise(48000))
    for tail in (b"\0" * 10, b"TAG" + b" " * 125, b"OggS\x01garbage"):
        (tmp_path / "a.opus").write_bytes(data + tail)
        assert len(load(tmp_path / "a.opus")) == 48000


def test_truncated_real_opus_file_is_rejected(tmp_path: Path) -> None:
    data = next(iter(sorted(SPEECH.rglob("*.opus")))).read_bytes()
    for end in (*ogg_pages(data)[2:-1], len(data) // 2, len(data) - 1):
        (tmp_path / "a.opus").write_bytes(data[:end])
        with pytest.raises(InputError, match="truncated"):
            load(tmp_path / "a.opus")


def test_flac_cut_between_frames_is_rejected(tmp_path: Path) -> None:
    """A FLAC file without its last frame decodes without error: only the header knows that something is missing."""
    samples = 0.3 * noise(4 * 4096)
    whole, shorter = (encoded_bytes("FLAC", "PCM_16", samples[:n]) for n in (4 * 4096, 3 * 4096))
    (tmp_path / "a.flac").write_bytes(whole[: len(shorter)])  # a frame does not depend on those that follow
    assert whole[-4096:] != shorter[-4096:] == whole[: len(shorter)][-4096:]
    with pytest.raises(InputError, match=r"damaged or truncated: .*copy the file again"):
        load(tmp_path / "a.flac")


def test_flac_of_unknown_length_is_rejected_with_a_fix(tmp_path: Path) -> None:
    data = bytearray(encoded_bytes("FLAC", "PCM_16", 0.3 * noise(16000)))
    data[21] &= 0xF0  # the 36 bits of STREAMINFO that hold the number of samples
    data[22:26] = bytes(4)
    (tmp_path / "a.flac").write_bytes(data)
    with pytest.raises(InputError, match=r"does not say how long it is .*ffmpeg"):
        info(tmp_path / "a.flac")


@pytest.mark.parametrize("size", [0, 0x7FFFF000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF - 36, 0xFFFFFFFF])
@pytest.mark.parametrize("outer", [0, 8, 36, 0xFFFFFFFF, None])
def test_streamed_wav_is_read_to_its_end(tmp_path: Path, size: int, outer: int | None) -> None:
    """What SoX, ffmpeg and arecord write when they cannot go back to the header, and what a crash leaves."""
    samples = 0.3 * noise(5000)
    data = bytearray(encoded_bytes("WAV", "PCM_16", samples))
    data[40:44] = size.to_bytes(4, "little")
    outer = min(size + 36, 0xFFFFFFFF) if outer is None else outer
    data[4:8] = outer.to_bytes(4, "little")
    (tmp_path / "a.wav").write_bytes(data)
    wave = load(tmp_path / "a.wav")
    assert len(wave) == 5000
    assert np.abs(wave.samples - samples).max() <= STEP
    assert np.array_equal(load(tmp_path / "a.wav", start=0.1, duration=0.1).samples, wave.samples[1600:3200])


def test_wav_without_samples_is_empty(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", Waveform(np.zeros(0, dtype=np.float32), 16000))
    assert len(load(tmp_path / "a.wav")) == 0
    data = bytearray((tmp_path / "a.wav").read_bytes() + b"LIST\x04\0\0\0INFO")  # a chunk behind: still no samples
    data[4:8] = (len(data) - 8).to_bytes(4, "little")
    (tmp_path / "a.wav").write_bytes(data)
    assert len(load(tmp_path / "a.wav")) == 0


def test_garbage_after_a_wav_header_is_rejected_quickly(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"RIFF\0\0\0\0WAVE" + bytes(50_000_000))
    with pytest.raises(InputError, match="not readable as audio"):
        load(tmp_path / "a.wav")


@given(
    st.binary(min_size=1, max_size=200), st.sampled_from([b"", b"RIFF", b"RIFF\0\0\0\0WAVEfmt ", b"OggS\0", b"fLaC"])
)
@settings(max_examples=200, deadline=None)
def test_arbitrary_bytes_are_read_or_raise_input_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, magic: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.wav"
    path.write_bytes(magic + data)
    with suppress(InputError):
        assert np.isfinite(load(path).duration)


def test_error_names_the_file_and_its_fault(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav").write_text("This is not audio.\n" * 100)
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "loop.wav").symlink_to("loop.wav")
    os.mkfifo(tmp_path / "pipe.wav")
    for name, what in [
        ("empty.wav", r"the file is empty \(copy the file again"),
        ("text.wav", "not readable as audio: "),
        ("folder.wav", "a folder, not an audio file"),
        ("missing.wav", "no such audio file"),
        ("text.wav/below.wav", "a part of its path is not a folder"),
        ("loop.wav", "a symbolic link that leads back to itself"),
        ("pipe.wav", "a named pipe, not a regular file"),
        ("x" * 300, "the path is too long for a file"),
    ]:
        for read in (load, info):
            with pytest.raises(InputError, match=what) as caught:
                read(tmp_path / name)
            assert caught.value.where == str(tmp_path / name)


def test_unreadable_file_is_an_input_error(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", tone(440))
    (tmp_path / "a.wav").chmod(0)
    shut = tmp_path / "shut"
    save(shut / "a.wav", tone(440))
    for folder in (*tmp_path.parents[:2], tmp_path):
        folder.chmod(0o755)
    shut.chmod(0)
    code = """
from voiceveil.audio import load
for path in sys.argv[1:]:
    try: load(path)
    except ValueError as error: print(type(error).__name__, error)
"""
    said = run_python(f"import soundfile, voiceveil.audio\n{AS_NOBODY}{code}", tmp_path / "a.wav", shut / "a.wav")
    shut.chmod(0o700)
    assert said.splitlines() == [
        f"InputError {tmp_path / 'a.wav'}: no permission to read this file",
        f"InputError {shut / 'a.wav'}: no permission to read this file",
    ]


def test_exception_in_the_with_block_is_not_changed(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", tone(440))
    with pytest.raises(OSError, match="disk full"), audio.open_audio(tmp_path / "a.wav"):
        raise OSError(28, "disk full")
