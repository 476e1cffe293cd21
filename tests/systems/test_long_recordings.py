"""Recordings that are converted in blocks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

import voiceveil as vv
from tests.support.batch_corpora import anonymize
from tests.support.media_files import make_media, packets
from voiceveil.audio import MixedDownWarning
from voiceveil.core.errors import InputError
from voiceveil.systems.worker import LONG
from voiceveil.testing import synthetic_voice


def long_file(path: Path, seconds: int, rate: int = 16000, channels: int = 1) -> None:
    block = synthetic_voice(1, seconds=10.0, rate=rate).int16()
    path.parent.mkdir(parents=True, exist_ok=True)
    with soundfile.SoundFile(path, "w", samplerate=rate, channels=channels) as file:
        for _ in range(seconds // 10):
            file.write(np.stack([block] * channels, axis=1))


@pytest.mark.parametrize("name", ["b2", "identity"])
def test_streamed_conversion_equals_the_whole(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversion in blocks and in memory agree to one 16-bit step, at other input and output rates."""
    long_file(tmp_path / "in" / "a.wav", 30, rate=22050, channels=2)
    anonymize(tmp_path / "in", tmp_path / "memory", system=name, seed=1, rate=8000)
    monkeypatch.setattr("voiceveil.systems.worker.LONG", 1.0)
    monkeypatch.setattr("voiceveil.systems.worker._BLOCK", 50000)
    anonymize(tmp_path / "in", tmp_path / "blocks", system=name, seed=1, rate=8000)
    memory, blocks = (load_mixed(tmp_path / kind / "a.wav") for kind in ("memory", "blocks"))
    assert len(memory) == len(blocks) == 240000
    assert np.abs(memory - blocks).max() <= 2.01 / 32768


def test_long_media_file_is_converted_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a picture, whose packets go between the blocks: the same bytes as in memory."""
    source = make_media(tmp_path / "a.mp4", seconds=4.0)
    anonymize(source, tmp_path / "memory.mp4", system="identity")
    monkeypatch.setattr("voiceveil.systems.worker.LONG", 1.0)
    monkeypatch.setattr("voiceveil.systems.worker._BLOCK", 20000)
    anonymize(source, tmp_path / "blocks.mp4", system="identity")
    memory, blocks = (load_mixed(tmp_path / f"{kind}.mp4") for kind in ("memory", "blocks"))
    assert np.abs(memory - blocks).max() < 0.02
    assert packets(tmp_path / "blocks.mp4") == packets(source)


def load_mixed(path: Path) -> np.ndarray:
    with pytest.warns(MixedDownWarning):
        return vv.load(path).samples


@pytest.mark.slow
def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    """An hour needs the same memory as a quarter of an hour, to a few MB; in memory it would need 460 MB more."""
    peaks = {}
    for minutes in (15, 60):
        long_file(tmp_path / f"{minutes}.flac", 60 * minutes)
        assert minutes * 60 > LONG
        code = (
            "import sys, voiceveil as vv\nfrom voiceveil.testing.memory import peak_memory\n"
            "vv.anonymize(sys.argv[1], sys.argv[2], seed=1, system='b2')\n"
            "print(peak_memory())"
        )
        command = [sys.executable, "-c", code, str(tmp_path / f"{minutes}.flac"), str(tmp_path / f"{minutes}.wav")]
        peaks[minutes] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert peaks[60] < peaks[15] + 30, peaks
    assert soundfile.info(tmp_path / "60.wav").frames == 3600 * 16000


def test_non_finite_samples_in_a_long_recording_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voiceveil.systems.worker.LONG", 1.0)
    samples = synthetic_voice(1, seconds=3.0).samples.copy()
    samples[32000] = np.nan
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    with pytest.raises(InputError, match=r"2\.000 s"):
        anonymize(tmp_path / "a.wav", tmp_path / "b.wav")
    assert [p.name for p in tmp_path.iterdir()] == ["a.wav"]
