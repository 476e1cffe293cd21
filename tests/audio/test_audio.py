"""Audio in and out: formats, rates, channels, segments; exact rounding; atomic files without tags."""

from __future__ import annotations

import hashlib
import io
import math
import os
import stat
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from voiceveil import audio
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import MixedDownWarning, Waveform, info, load, resample, save
from voiceveil.core.atomic_files import PART_PREFIX
from voiceveil.core.errors import InputError, OutputError

STEP = 1 / 32768


def tone(frequency: float, seconds: float = 1.0, rate: int = 16000, level: float = 0.5) -> Waveform:
    time = np.arange(round(seconds * rate)) / rate
    return Waveform((level * np.sin(2 * np.pi * frequency * time)).astype(np.float32), rate)


def noise(count: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(-1, 1, count).astype(np.float32)


# --- Reading ------------------------------------------------------------------------------------------------------


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
    assert info(tmp_path / "a") == audio.AudioInfo(rate, 1, len(samples))


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


# --- What cannot be read ------------------------------------------------------------------------------------------


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
        ("text.wav", "not readable as audio: Format not recognised$"),
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


def run_python(code: str, *args: object) -> str:
    """Run code in another process; its output."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


# As root there is no permission that could be missing: become nobody.
AS_NOBODY = "import os, sys\nif os.geteuid() == 0: os.setgid(65534), os.setuid(65534)\n"


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


# --- Samples and rates --------------------------------------------------------------------------------------------


def slow_int16(sample: float) -> int:
    """Nearest whole number of steps, ties to even, within the range."""
    return max(-32768, min(32767, round(sample * 32768)))


@given(st.lists(st.floats(-3, 3, width=32), min_size=1, max_size=50))
def test_int16_rounds_and_clips_as_a_plain_loop(samples: list[float]) -> None:
    assert Waveform(np.array(samples), 16000).int16().tolist() == [slow_int16(x) for x in samples]


def test_int16_equals_the_plain_loop_at_every_half_step() -> None:
    halves = (np.arange(-65540, 65541) / 65536).astype(np.float32)
    assert Waveform(halves, 16000).int16().tolist() == [slow_int16(x) for x in halves.tolist()]


@pytest.mark.parametrize("rate", [0, -16000, 16000.5, math.nan, math.inf])
def test_invalid_rates_are_rejected(rate: float) -> None:
    with pytest.raises(InputError, match="positive whole number of Hz"):
        Waveform(np.zeros(3), rate)  # type: ignore[arg-type]


def test_invalid_samples_are_rejected() -> None:
    with pytest.raises(InputError, match=r"one dimension, not shape \(3, 2\)"):
        Waveform(np.zeros((3, 2), dtype=np.float32), 16000)
    with pytest.raises(InputError, match=r"not int16 \(divide int16 by 32768"):
        Waveform(np.zeros(3, dtype=np.int16), 16000)


def test_waveform_has_length_and_duration() -> None:
    wave = Waveform(np.zeros(8000), np.int64(16000))  # type: ignore[arg-type]
    assert (len(wave), wave.duration, type(wave.rate)) == (8000, 0.5, int)
    assert wave.samples.dtype == np.float32
    assert wave.resampled(16000) is wave


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100])
@pytest.mark.parametrize("new_rate", [8000, 16000, 24000, 44100, 48000])
def test_resampling_keeps_a_tone(rate: int, new_rate: int) -> None:
    wave = tone(1000, 2.0, rate).resampled(new_rate)
    assert abs(len(wave) - 2 * new_rate) <= 1
    middle = wave.samples[new_rate // 2 : 3 * new_rate // 2]  # one second: bins of 1 Hz
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle))))
    assert np.argmax(spectrum) == 1000
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.5 / np.sqrt(2), rel=1e-3)
    outside = np.delete(spectrum, slice(990, 1011))
    assert outside.max() < 1e-4 * spectrum.max()  # -80 dB


def test_resampling_removes_content_above_the_new_nyquist() -> None:
    wave = tone(6000, 1.0, 16000)
    assert np.abs(wave.resampled(8000).samples[400:-400]).max() < 1e-4, "6 kHz cannot be had at 8 kHz, not even folded"
    up = Waveform(0.3 * noise(8000), 8000).resampled(48000).samples
    spectrum = np.abs(np.fft.rfft(up * np.hanning(len(up)))) ** 2
    assert spectrum[4200:].sum() < 1e-6 * spectrum.sum()


@pytest.mark.parametrize("count", [0, 1, 2, 5, 100])
def test_resampling_works_on_few_samples(count: int) -> None:
    assert abs(len(resample(np.ones(count), 16000, 44100)) - round(count * 44100 / 16000)) <= 1


def test_load_resamples(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", tone(440, 1.0, 44100))
    assert (load(tmp_path / "a.wav", rate=16000).rate, len(load(tmp_path / "a.wav", rate=16000))) == (16000, 16000)


# --- Writing ------------------------------------------------------------------------------------------------------


@given(
    hnp.arrays(np.float32, st.integers(0, 300), elements=st.floats(-1, 1, width=32)),
    st.sampled_from([".wav", ".flac", ".WAV"]),
    st.sampled_from([8000, 16000, 44100]),
)
@settings(max_examples=60, deadline=None)
def test_round_trip_within_half_a_step(
    tmp_path_factory: pytest.TempPathFactory, samples: NDArray[np.float32], suffix: str, rate: int
) -> None:
    path = tmp_path_factory.getbasetemp() / f"round{suffix}"
    if suffix == ".flac" and not len(samples):
        with pytest.raises(InputError, match="FLAC cannot hold a recording of no samples"):
            save(path, Waveform(samples, rate))
        return
    save(path, Waveform(samples, rate))
    wave = load(path)
    assert wave.rate == rate
    expected = np.minimum(samples, 1 - STEP)  # 1.0 itself is not in the range of 16 bits
    assert np.abs(wave.samples - expected).max(initial=0.0) <= STEP / 2
    first = path.read_bytes()
    save(path, wave)
    assert path.read_bytes() == first, "what has been rounded once stays as it is"


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_writes_24_bits(tmp_path: Path, suffix: str) -> None:
    samples = np.concatenate([noise(5000), [0.0, 0.5, -1.0, 1.0, 1.5, -2.0]]).astype(np.float32)
    save(tmp_path / f"a{suffix}", Waveform(samples, 16000), encoding="int24")
    assert soundfile.info(tmp_path / f"a{suffix}").subtype == "PCM_24"
    steps = [max(-(2**23), min(2**23 - 1, round(x * 2**23))) for x in samples.tolist()]
    assert np.array_equal(load(tmp_path / f"a{suffix}").samples, np.array(steps, dtype=np.float32) / 2**23)


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_default_is_16_bits_and_returns_the_sha256(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "new" / "folders" / f"a{suffix}"
    digest = save(path, tone(440))
    assert soundfile.info(path).subtype == "PCM_16"
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_same_samples_same_bytes(tmp_path: Path) -> None:
    for suffix, encoding in [(".wav", "int16"), (".flac", "int16"), (".wav", "int24"), (".flac", "int24")]:
        first = save(tmp_path / f"a{suffix}", tone(440), encoding=encoding)  # type: ignore[arg-type]
        assert save(tmp_path / "b" / f"other{suffix}", tone(440), encoding=encoding) == first  # type: ignore[arg-type]


def test_wav_bytes_are_as_specified(tmp_path: Path) -> None:
    """Header and samples written out: 44 bytes as in the WAV specification, then little-endian numbers."""
    save(tmp_path / "a.wav", Waveform(np.array([0.0, 0.5, -1.0, 1.0]), 16000))
    header = "52494646 2c000000 57415645 666d7420 10000000 0100 0100 803e0000 007d0000 0200 1000 64617461 08000000"
    assert (tmp_path / "a.wav").read_bytes() == bytes.fromhex(header + "0000 0040 0080 ff7f")


def chunks(data: bytes) -> list[bytes]:
    names, position = [], 12
    while position < len(data):
        names.append(data[position : position + 4])
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        position += 8 + size + size % 2
    return names


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_tags_are_not_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    with soundfile.SoundFile(path, "w", samplerate=16000, channels=1) as file:
        file.title, file.artist, file.comment = "Ada's diary", "Ada", "recorded at home"
        file.write(tone(440).samples)
    assert b"Ada" in path.read_bytes()
    save(path, load(path))
    data = path.read_bytes()
    assert b"Ada" not in data
    assert b"home" not in data
    assert soundfile.SoundFile(path).copy_metadata() == {}
    if suffix == ".wav":
        assert chunks(data) == [b"fmt ", b"data"]
    with audio.create_audio(path, 16000) as out:
        out.write(audio.encoded(load(path).samples, "int16"))
    assert path.read_bytes() == data, "block-wise writing gives the same file"


def test_non_finite_samples_are_rejected(tmp_path: Path) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match="not finite"):
            save(tmp_path / "a.wav", Waveform(np.array([0.0, bad]), 16000))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "what"), [("a.mp3", "cannot write .mp3"), ("a", "cannot write a file without")])
def test_other_output_formats_are_rejected(tmp_path: Path, name: str, what: str) -> None:
    with pytest.raises(InputError, match=f"{what}.*use .wav or .flac"):
        save(tmp_path / name, tone(440))
    assert list(tmp_path.iterdir()) == []


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    digest = save(tmp_path / "a.wav", tone(440))
    with pytest.raises(ZeroDivisionError), audio.create_audio(tmp_path / "a.wav", 16000) as out:  # noqa: PT012
        out.write(np.zeros(100_000, dtype=np.int16))
        assert len(list(tmp_path.iterdir())) == 2
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]
    assert hashlib.sha256((tmp_path / "a.wav").read_bytes()).hexdigest() == digest


def test_file_appears_only_when_complete(tmp_path: Path) -> None:
    with audio.create_audio(tmp_path / "a.wav", 16000) as out:
        out.write(np.zeros(100_000, dtype=np.int16))
        assert [path.name.startswith(PART_PREFIX) for path in tmp_path.iterdir()] == [True]
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]
    assert len(load(tmp_path / "a.wav")) == 100_000


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_follow_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        save(tmp_path / "a.wav", tone(440))
        with audio.create_audio(tmp_path / "b.wav", 16000):
            pass
        assert os.umask(mask) == mask, "the mask is as it was"
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {mode}


def test_unwritable_places_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.wav" / "full").mkdir(parents=True)
    for name in ("file/a.wav", "folder.wav"):
        with pytest.raises(OutputError, match="cannot write") as caught:
            save(tmp_path / name, tone(440))
        assert caught.value.where == str(tmp_path / name)
    with pytest.raises(InputError, match="cannot be the name of a file") as caught_name:
        save(tmp_path / ("x" * 300 + ".wav"), tone(440))
    assert not isinstance(caught_name.value, OutputError), "other files can be written all the same"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.wav"]


def test_unwritable_folder_is_an_output_error(tmp_path: Path) -> None:
    for folder in (*tmp_path.parents[:2], tmp_path):
        folder.chmod(0o755)
    code = """
try: save(sys.argv[1] + "/a.wav", Waveform(np.zeros(9), 16000))
except ValueError as error: print(type(error).__name__, error)
"""
    start = "import numpy as np, soundfile\nfrom voiceveil.audio import Waveform, save\n"
    tmp_path.chmod(0o555)
    said = run_python(start + AS_NOBODY + code, tmp_path)
    assert said == f"OutputError {tmp_path}/a.wav: cannot write: Permission denied\n"


NO_SPACE = """
import resource, sys
import numpy as np
from voiceveil.audio import Waveform, create_audio, encoded, load, save
samples = np.random.default_rng(0).uniform(-1, 1, 200_000).astype(np.float32)
path = sys.argv[1]
if sys.argv[3] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
try:
    if sys.argv[2] == "save":
        save(path, Waveform(samples, 16000))
    else:
        with create_audio(path, 16000) as out:
            for block in np.split(samples, 20):
                out.write(encoded(block, "int16"))
except ValueError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("how", ["save", "create"])
@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_no_space_left_is_an_output_error(tmp_path: Path, how: str, suffix: str) -> None:
    """The file may not grow beyond 64 KiB: what fits is not kept."""
    said = run_python(NO_SPACE, tmp_path / f"a{suffix}", how, "limit")
    assert said.startswith(f"OutputError {tmp_path / f'a{suffix}'}: cannot write: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["save", "create"])
@pytest.mark.parametrize("suffix", [".wav", ".flac"])
@pytest.mark.parametrize("kilobytes", [0, 64, 380])  # 380: only the last blocks do not fit
def test_full_disk_leaves_no_partial_file(tmp_path: Path, how: str, suffix: str, kilobytes: int) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", disk], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("no permission to mount a small disk")
    try:
        (disk / "filler").write_bytes(bytes((512 - kilobytes) * 1024))
        said = run_python(NO_SPACE, disk / f"a{suffix}", how, "disk")
        left = [path.name for path in disk.iterdir()]
    finally:
        subprocess.run(["umount", disk], check=True)
    assert said.startswith(f"OutputError {disk / f'a{suffix}'}: cannot write: ")
    assert "space left" in said
    assert left == ["filler"]
