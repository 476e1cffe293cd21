"""Writing audio: formats, exact bytes, atomic replacement, and places that cannot be written."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from tests.support.audio_files import AS_NOBODY, noise, run_python, tone
from voiceveil import audio
from voiceveil.audio import Waveform, create_audio, load, open_audio, read_blocks, save
from voiceveil.audio.formats import AudioFormat, format_of
from voiceveil.core.atomic_files import PART_PREFIX
from voiceveil.core.errors import InputError, OutputError

WAV = AudioFormat(".wav", "PCM_16", 16000)

STEP = 1 / 32768


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
    with audio.create_audio(path, format_of(path, 16000)) as out:
        out.write(load(path).samples)
    assert path.read_bytes() == data, "block-wise writing gives the same file"


def test_non_finite_samples_are_rejected(tmp_path: Path) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match="not finite"):
            save(tmp_path / "a.wav", Waveform(np.array([0.0, bad]), 16000))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "what"), [("a.ape", "cannot write .ape"), ("a", "cannot write a file without")])
def test_other_output_formats_are_rejected(tmp_path: Path, name: str, what: str) -> None:
    with pytest.raises(InputError, match=f"{what}.*use one of .*flac"):
        save(tmp_path / name, tone(440))
    assert list(tmp_path.iterdir()) == []


def test_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    digest = save(tmp_path / "a.wav", tone(440))
    with pytest.raises(ZeroDivisionError), audio.create_audio(tmp_path / "a.wav", WAV) as out:  # noqa: PT012
        out.write(np.zeros(100_000, dtype=np.float32))
        assert len(list(tmp_path.iterdir())) == 2
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]
    assert hashlib.sha256((tmp_path / "a.wav").read_bytes()).hexdigest() == digest


def test_file_appears_only_when_complete(tmp_path: Path) -> None:
    with audio.create_audio(tmp_path / "a.wav", WAV) as out:
        out.write(np.zeros(100_000, dtype=np.float32))
        assert [path.name.startswith(PART_PREFIX) for path in tmp_path.iterdir()] == [True]
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]
    assert len(load(tmp_path / "a.wav")) == 100_000


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_follow_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        save(tmp_path / "a.wav", tone(440))
        with audio.create_audio(tmp_path / "b.wav", WAV):
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
from pathlib import Path
from voiceveil.audio import Waveform, create_audio, load, save
from voiceveil.audio.formats import format_of
samples = np.random.default_rng(0).uniform(-1, 1, 200_000).astype(np.float32)
path = sys.argv[1]
if sys.argv[3] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
try:
    if sys.argv[2] == "save":
        save(path, Waveform(samples, 16000))
    else:
        with create_audio(path, format_of(Path(path), 16000)) as out:
            for block in np.split(samples, 20):
                out.write(block)
except ValueError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("how", ["save", "create"])
@pytest.mark.parametrize("suffix", [".wav", ".flac", ".mka"])
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


@pytest.mark.parametrize("suffix", [".wav", ".mka"])
def test_channels_are_written_each(tmp_path: Path, suffix: str) -> None:
    frames = np.random.default_rng(0).uniform(-0.5, 0.5, (4000, 2)).astype(np.float32)
    path = tmp_path / f"a{suffix}"
    codec = {".wav": "PCM_16", ".mka": "flac"}[suffix]
    with create_audio(path, AudioFormat(suffix, codec, 16000, channels=2)) as file:
        file.write(frames[:1000])
        file.write(frames[1000:])
    with open_audio(path) as written:
        blocks = list(read_blocks(written, path, mix_channels=False))
    np.testing.assert_allclose(np.concatenate(blocks), frames, atol=1.01 / 32768)


def test_other_numbers_of_channels_are_refused(tmp_path: Path) -> None:
    format = AudioFormat(".wav", "PCM_16", 16000, channels=2)
    with pytest.raises(InputError, match="3 channels"), create_audio(tmp_path / "a.wav", format) as file:
        file.write(np.zeros((10, 3), dtype=np.float32))
    assert not list(tmp_path.iterdir())
