"""Anonymization with bad files, settings, names and output folders: errors, and partial results."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.batch_corpora import anonymize, make_folder, make_kaldi
from voiceveil.audio import save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance, open_corpus
from voiceveil.corpus.model import Corpus
from voiceveil.testing import synthetic_voice


def test_bad_file_is_reported_and_the_rest_is_done(tmp_path: Path) -> None:
    source = make_kaldi(tmp_path)
    bad = tmp_path / "audio" / "s0" / "s0-u1.wav"
    bad.write_bytes(bad.read_bytes()[:2000])
    summary = anonymize(source, tmp_path / "data", seed=1)
    assert [failure.id for failure in summary.failures] == ["s0-u1"]
    assert "truncated" in summary.failures[0].error
    assert str(bad) in summary.failures[0].error
    after = open_corpus(summary.output)
    assert [u.id for u in after] == ["s0-u0", "s1-u0", "s1-u1"]
    assert after.trials is not None
    assert after.trials.utterance.tolist() == ["s0-u0", "s1-u0", "s1-u1"]  # no trial without its audio
    assert not (summary.output / "wav" / "s0-u1.wav").exists()


def test_file_that_became_bad_leaves_no_old_output(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", seed=1)
    (source / "s0" / "s0-u0.wav").write_text("no audio at all")
    assert len(anonymize(source, tmp_path / "out", seed=1).failures) == 1
    assert not (tmp_path / "out" / "s0" / "s0-u0.wav").exists()


def test_output_inside_the_input_is_rejected(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    for out in (source, source / "out", source / "s0" / "deeper"):
        with pytest.raises(InputError, match=r"inside the input|is the input"):
            anonymize(source, out, seed=1)
    with pytest.raises(InputError, match="replace the input"):
        anonymize(source / "s0" / "s0-u0.wav", source / "s0" / "s0-u0.wav", seed=1, overwrite=True)
    assert sorted(p.name for p in source.iterdir()) == ["s0", "s1"]


@pytest.mark.parametrize("options", [{"seed": 1}, {"draws": "official"}, {"draws": "official", "system": "b2-2020"}])
def test_speaker_level_needs_speakers(tmp_path: Path, options: dict[str, object]) -> None:
    save(tmp_path / "in" / "a.wav", synthetic_voice(1, seconds=0.2))
    with pytest.raises(InputError, match="has no speaker"):
        anonymize(tmp_path / "in", tmp_path / "out", level="speaker", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"draws": "offical"},
        {"level": "word"},
        {"encoding": "float"},
        {"format": "ape"},
        {"rate": 44100.5},
        {"rate": 3},
        {"seed": "abc"},
        {"jobs": "2"},
        {"jobs": 0},
        {"suffix": "/../../x"},
        {"seed": 1, "draws": "official"},
        {"seed": 1, "key_file": "k"},
    ],
)
def test_invalid_settings_are_rejected_before_writing(tmp_path: Path, wrong: dict[str, object]) -> None:
    source = make_folder(tmp_path / "in", 1, 1)
    with pytest.raises(InputError):
        anonymize(source, tmp_path / "out", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_unusual_file_names_are_handled(tmp_path: Path) -> None:
    """Newlines, bytes that are not UTF-8, blanks, other scripts, and a file that cannot be read."""
    source = make_folder(tmp_path / "in", 1, 1)
    wave = synthetic_voice(1, seconds=0.2)
    names = ["new\nline", os.fsdecode(b"bad\xff"), "two  blanks ", "Größe", "話す"]
    for name in names:
        save(source / f"{name}.wav", wave)
    (source / "phone.m4a").write_bytes(b"\0\0\0\x1cftypM4A not really")
    summary = anonymize(source, tmp_path / "out", seed=1)
    assert [failure.id for failure in summary.failures] == ["phone"]
    assert "not readable as audio" in summary.failures[0].error
    assert all((tmp_path / "out" / f"{name}.wav").exists() for name in names)


def test_too_long_id_is_reported(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", synthetic_voice(1, seconds=0.2))
    ids = ("x" * 300, "good")
    corpus = Corpus("c", tuple(Utterance(id, tmp_path / "a.wav") for id in ids), kind="kaldi")
    summary = anonymize(corpus, tmp_path / "out", seed=1)
    assert (summary.done, [failure.id for failure in summary.failures]) == (1, ["x" * 300])


def test_unwritable_format_is_rejected(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", synthetic_voice(1, seconds=0.2))
    with pytest.raises(InputError, match=r"cannot write \.ape"):
        anonymize(tmp_path / "a.wav", tmp_path / "b.ape")
    assert [p.name for p in tmp_path.iterdir()] == ["a.wav"]


def test_id_cannot_leave_the_output_folder(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", synthetic_voice(1, seconds=0.2))
    for id in ("../../x", "/tmp/x", "a/../../x"):
        with pytest.raises(InputError, match="leads out"):
            anonymize(Corpus("c", (Utterance(id, tmp_path / "a.wav"),), kind="kaldi"), tmp_path / "out")


def test_pipe_in_wav_scp_is_rejected_and_not_run(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "wav.scp").write_text(f"u1 touch {tmp_path}/ran; cat a.wav |\n")
    (directory / "utt2spk").write_text("u1 s1\n")
    with pytest.raises(InputError) as caught:
        anonymize(directory, tmp_path / "out")
    assert caught.value.line == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_full_disk_is_reported(tmp_path: Path) -> None:
    """On a file system of 100 kB: a clear error, finished files stay, no partial file, and the run can be resumed."""
    source = make_folder(tmp_path / "in", 1, 10, seconds=1.0)
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(small)], check=False).returncode:
        pytest.skip("cannot mount a file system here")
    try:
        with pytest.raises(InputError, match="No space left"):
            anonymize(source, small / "out", seed=1)
        assert not list(small.rglob(".voiceveil-part-*"))
        assert 0 < len(list(small.rglob("*.wav"))) < 10
        subprocess.run(["mount", "-o", "remount,size=10m", str(small)], check=True)
        assert anonymize(source, small / "out", seed=1).failures == ()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_missing_permission_is_reported(tmp_path: Path) -> None:
    """A folder of the kernel, in which even root cannot write."""
    source = make_folder(tmp_path / "in", 1, 1)
    with pytest.raises(InputError, match="cannot write"):
        anonymize(source, Path("/proc/voiceveil/out"), seed=1)
