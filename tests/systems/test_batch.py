"""The batch runner: shapes of output, resuming, bad input."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import soundfile

import voiceveil as vv
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Trials, Utterance, open_corpus, write_kaldi
from voiceveil.corpus.model import Corpus
from voiceveil.systems import batch
from voiceveil.systems.keys import Key, keyed_rng
from voiceveil.systems.worker import LONG
from voiceveil.testing import synthetic_voice

anonymize = partial(batch.anonymize, system="b2")


def make_folder(root: Path, speakers: int = 2, utterances: int = 2, seconds: float = 0.3) -> Path:
    for speaker in range(speakers):
        for utterance in range(utterances):
            wave = synthetic_voice(speaker, utterance, seconds=seconds)
            save(root / f"s{speaker}" / f"s{speaker}-u{utterance}.wav", wave)
    return root


def make_kaldi(root: Path, role: str = "trial") -> Path:
    folder = make_folder(root / "audio")
    utterances = tuple(
        Utterance(path.stem, path, speaker=path.parent.name, gender="f", text="HELLO", role=role)
        for path in sorted(folder.rglob("*.wav"))
    )
    names = [u.id for u in utterances]
    trials = Trials(np.array(["s0"] * 4), np.array(names), np.array([True, True, False, False]))
    directory = root / f"toy_{role}s"
    write_kaldi(Corpus("toy", utterances, trials if role == "trial" else None), directory)
    return directory


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def audio(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(root).items() if name.endswith(".wav")}


def test_folder_keeps_its_tree(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    before = tree(source)
    summary = anonymize(source, tmp_path / "out", seed=1)
    assert (summary.done, summary.failures) == (4, ())
    assert list(audio(tmp_path / "out")) == list(before)
    assert tree(source) == before
    for path in (tmp_path / "out").rglob("*.wav"):
        assert vv.load(path).duration == pytest.approx(0.3)


def test_draws_follow_the_keyed_rule(tmp_path: Path) -> None:
    """A file holds what ``convert`` gives with the generator of its utterance."""
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", seed=5)
    for utterance in open_corpus(source):
        rng = keyed_rng(Key.from_seed(5), "utterance", utterance)
        expected = vv.system("b2").convert(vv.load(utterance.path), rng)
        assert np.array_equal(vv.load(tmp_path / "out" / f"{utterance.id}.wav").samples, expected.samples)


def test_runs_without_a_key_differ(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    for name in "ab":
        anonymize(source, tmp_path / name)
    assert all(audio(tmp_path / "a")[name] != audio(tmp_path / "b")[name] for name in audio(tmp_path / "a"))


def test_speaker_level_draws_one_pseudo_speaker_per_role(tmp_path: Path) -> None:
    """One pseudo-speaker a speaker and role; enrollment and trial of one speaker differ."""
    key = Key.from_seed(1)

    def draw(speaker: str, role: str, utterance: str) -> float:
        item = Utterance(utterance, Path("x.wav"), speaker=speaker, role=role)
        return float(keyed_rng(key, "speaker", item).uniform())

    assert draw("s0", "trial", "a") == draw("s0", "trial", "b")
    assert draw("s0", "trial", "a") != draw("s0", "enroll", "a")
    assert draw("s0", "trial", "a") != draw("s1", "trial", "a")


def test_speaker_level_gives_equal_files_for_equal_audio(tmp_path: Path) -> None:
    """Two utterances of a speaker share their coefficient: the same audio under two ids becomes the same file."""
    wave = synthetic_voice(0, seconds=0.3)
    for speaker in ("s0", "s1"):
        for utterance in ("a", "b"):
            save(tmp_path / "in" / speaker / f"{utterance}.wav", wave)
    anonymize(tmp_path / "in", tmp_path / "spk", level="speaker", seed=1)
    anonymize(tmp_path / "in", tmp_path / "utt", level="utterance", seed=1)
    shared, own = audio(tmp_path / "spk"), audio(tmp_path / "utt")
    assert shared["s0/a.wav"] == shared["s0/b.wav"] != shared["s1/a.wav"]
    assert len(set(own.values())) == 4


def test_kaldi_directory_is_written(tmp_path: Path) -> None:
    source = make_kaldi(tmp_path)
    summary = anonymize(source, tmp_path / "data", seed=1)
    assert summary.output == tmp_path / "data" / "toy_trials_b2"
    before, after = open_corpus(source), open_corpus(summary.output)
    assert [u.id for u in after] == [u.id for u in before]
    assert [(u.speaker, u.gender, u.text, u.role) for u in after] == [
        (u.speaker, u.gender, u.text, u.role) for u in before
    ]
    assert after.trials == before.trials
    assert (summary.output / "wav.scp").read_text().splitlines()[0] == "s0-u0 wav/s0-u0.wav"
    for name in ("utt2spk", "spk2utt", "spk2gender", "text", "trials"):
        assert (summary.output / name).read_bytes() == (source / name).read_bytes()


def test_suffix_names_the_output(tmp_path: Path) -> None:
    source = make_kaldi(tmp_path)
    assert anonymize(source, tmp_path / "data", seed=1, suffix="_mcadams").output.name == "toy_trials_mcadams"


def test_official_draws_follow_wav_scp(tmp_path: Path) -> None:
    source = make_kaldi(tmp_path)
    out = anonymize(source, tmp_path / "data", draws="official", system=vv.system("b2", edges="official")).output
    first = vv.load(next(iter(open_corpus(source))).path)
    expected = vv.system("b2", alpha=0.6875880725850418, edges="official").convert(first, np.random.default_rng(0))
    assert np.array_equal(vv.load(out / "wav" / "s0-u0.wav").samples, expected.samples)


def test_manifest_is_written(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "in")
    rows = [{"id": p.stem, "path": str(p), "speaker": p.parent.name} for p in sorted(folder.rglob("*.wav"))]
    with (tmp_path / "list.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    anonymize(tmp_path / "list.csv", tmp_path / "out", seed=1)
    after = open_corpus(tmp_path / "out" / "list.csv")
    assert [(u.id, u.speaker) for u in after] == [(r["id"], r["speaker"]) for r in rows]
    assert all(u.path.is_relative_to(tmp_path / "out") and u.path.exists() for u in after)


def test_segments_become_files(tmp_path: Path) -> None:
    save(tmp_path / "long.wav", synthetic_voice(1, seconds=2.0))
    utterances = tuple(
        Utterance(f"u{i}", tmp_path / "long.wav", speaker="s", start=0.5 * i, duration=0.5) for i in range(3)
    )
    anonymize(Corpus("cut", utterances, kind="kaldi"), tmp_path / "out", system="identity")
    whole = vv.load(tmp_path / "long.wav").samples
    for i in range(3):
        part = vv.load(tmp_path / "out" / "cut_identity" / "wav" / f"u{i}.wav").samples
        assert np.array_equal(part, whole[8000 * i : 8000 * (i + 1)])


def test_single_file_is_anonymized(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", synthetic_voice(1, seconds=0.3))
    summary = anonymize(tmp_path / "a.wav", tmp_path / "b.wav", seed=1)
    assert summary.output == tmp_path / "b.wav"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.wav", "b.wav"]
    with pytest.raises(InputError, match="exists"):
        anonymize(tmp_path / "a.wav", tmp_path / "b.wav", seed=1)
    anonymize(tmp_path / "a.wav", tmp_path / "b.wav", seed=2, overwrite=True)
    assert anonymize(tmp_path / "a.wav", tmp_path / "folder", seed=1).output == tmp_path / "folder" / "a.wav"


@pytest.mark.parametrize(("rate", "format", "encoding"), [(8000, "wav", "int16"), (22050, "flac", "int24")])
def test_rate_and_format_are_set(tmp_path: Path, rate: int, format: str, encoding: str) -> None:
    source = make_folder(tmp_path / "in", 1, 1)
    anonymize(source, tmp_path / "out", seed=1, rate=rate, format=format, encoding=encoding)  # type: ignore[arg-type]
    with soundfile.SoundFile(tmp_path / "out" / "s0" / f"s0-u0.{format}") as file:
        assert (file.samplerate, file.subtype) == (rate, {"int16": "PCM_16", "int24": "PCM_24"}[encoding])
        assert file.frames == pytest.approx(0.3 * rate, abs=2)


def test_channels_are_mixed_down_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    soundfile.write(tmp_path / "in" / "a.wav", np.stack([synthetic_voice(1).samples] * 3, axis=1), 16000)
    assert anonymize(tmp_path / "in", tmp_path / "out", seed=1).mixed_down == 1


# --- Resuming -----------------------------------------------------------------------------------------------------


def test_second_run_does_nothing(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", seed=1)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.wav")}
    summary = anonymize(source, tmp_path / "out", seed=1)
    assert (summary.done, summary.already_done) == (0, 4)
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*.wav")}


def test_only_changed_files_are_redone(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", seed=1)
    undisturbed = audio(tmp_path / "out")
    (tmp_path / "out" / "s0" / "s0-u0.wav").unlink()
    (tmp_path / "out" / "s0" / "s0-u1.wav").unlink()
    (tmp_path / "out" / "s0" / ".voiceveil-part-left").write_bytes(b"by a killed run")
    assert anonymize(source, tmp_path / "out", seed=1).done == 2
    assert audio(tmp_path / "out") == undisturbed
    assert not list((tmp_path / "out").rglob(".voiceveil-part-*"))
    save(source / "s1" / "s1-u0.wav", synthetic_voice(9, 9, seconds=0.4))
    assert anonymize(source, tmp_path / "out", seed=1).done == 1
    assert vv.load(tmp_path / "out" / "s1" / "s1-u0.wav").duration == pytest.approx(0.4)


@pytest.mark.parametrize("change", [{"seed": 2}, {"system": "d1"}, {"level": "speaker"}, {"rate": 8000}])
def test_other_settings_are_rejected(tmp_path: Path, change: dict[str, object]) -> None:
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", seed=1)
    before = tree(tmp_path / "out")
    with pytest.raises(InputError, match="another run"):
        anonymize(source, tmp_path / "out", **{"seed": 1, **change})  # type: ignore[arg-type]
    assert tree(tmp_path / "out") == before
    anonymize(source, tmp_path / "out", overwrite=True, **{"seed": 1, **change})  # type: ignore[arg-type]


def test_speaker_level_without_a_key_cannot_be_resumed(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", level="speaker")
    assert anonymize(source, tmp_path / "out", level="speaker").already_done == 4  # nothing is left to draw
    save(source / "s0" / "new.wav", synthetic_voice(0, 7, seconds=0.3))
    with pytest.raises(InputError, match="second pseudo-speakers"):
        anonymize(source, tmp_path / "out", level="speaker")


def test_outputs_of_removed_inputs_are_named(tmp_path: Path) -> None:
    """Somebody may have withdrawn a recording: its output must not stay unnoticed."""
    source = make_folder(tmp_path / "in")
    anonymize(source, tmp_path / "out", seed=1)
    (source / "s1" / "s1-u1.wav").unlink()
    for _ in range(2):
        summary = anonymize(source, tmp_path / "out", seed=1)
        assert (summary.already_done, summary.left_over) == (3, ("s1/s1-u1",))
    (tmp_path / "out" / "s1" / "s1-u1.wav").unlink()
    assert anonymize(source, tmp_path / "out", seed=1).left_over == ()


def test_leftovers_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    source = make_kaldi(tmp_path)
    out = anonymize(source, tmp_path / "data", seed=1).output
    undisturbed = tree(out)
    for folder in (out, out / "wav", out / ".voiceveil"):
        (folder / ".voiceveil-part-abc").write_text("cut off")
    anonymize(source, tmp_path / "data", seed=1)
    assert tree(out) == undisturbed


@pytest.mark.slow
def test_output_does_not_depend_on_the_number_of_jobs(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", 3, 3)
    for jobs in (1, 2, 3):
        anonymize(source, tmp_path / str(jobs), seed=1, jobs=jobs)
    assert tree(tmp_path / "1") == tree(tmp_path / "2") == tree(tmp_path / "3")


SEEDED = ("--system", "b2", "--seed", "1")


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_run_resumes_to_the_same_output(tmp_path: Path, jobs: str) -> None:
    """SIGKILL four times, at moments that lie all over the run; then let it finish."""
    source = make_folder(tmp_path / "in", 4, 25, seconds=4.0)
    anonymize(source, tmp_path / "undisturbed", seed=1)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "voiceveil.cli.main", "anonymize", str(source), str(out), *SEEDED]
    ledger = out / ".voiceveil" / "ledger.jsonl"
    kills = 0
    for goal in (3, 25, 50, 75):
        process = subprocess.Popen([*command, "--jobs", jobs], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if ledger.exists() and ledger.read_bytes().count(b"\n") >= goal:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.001)
        kills += process.wait() == -signal.SIGKILL
    assert kills >= 2
    assert subprocess.run([*command, "--jobs", jobs], capture_output=True, check=False).returncode == 0
    assert tree(out) == tree(tmp_path / "undisturbed")


@pytest.mark.slow
def test_interrupted_run_can_be_resumed(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", 4, 25, seconds=4.0)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "voiceveil.cli.main", "anonymize", str(source), str(out), *SEEDED]
    process = subprocess.Popen([*command, "--jobs", "2"], stderr=subprocess.PIPE, text=True)
    ledger = out / ".voiceveil" / "ledger.jsonl"
    while process.poll() is None and not (ledger.exists() and ledger.read_bytes().count(b"\n") >= 10):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "the same command resumes the run" in said
    assert "Traceback" not in said
    assert not list(out.rglob(".voiceveil-part-*"))
    again = subprocess.run([*command, "--json", "--quiet"], capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["already_done"] >= 9


# --- Bad input ----------------------------------------------------------------------------------------------------


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
        {"format": "mp3"},
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
    """A line end, a byte that is no text, blanks, other scripts, a format that cannot be read."""
    source = make_folder(tmp_path / "in", 1, 1)
    wave = synthetic_voice(1, seconds=0.2)
    names = ["new\nline", os.fsdecode(b"bad\xff"), "two  blanks ", "Größe", "話す"]
    for name in names:
        save(source / f"{name}.wav", wave)
    (source / "phone.m4a").write_bytes(b"\0\0\0\x1cftypM4A not really")
    summary = anonymize(source, tmp_path / "out", seed=1)
    assert [failure.id for failure in summary.failures] == ["phone"]
    assert "ffmpeg -i phone.m4a phone.wav" in summary.failures[0].error
    assert all((tmp_path / "out" / f"{name}.wav").exists() for name in names)


def test_too_long_id_is_reported(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", synthetic_voice(1, seconds=0.2))
    ids = ("x" * 300, "good")
    corpus = Corpus("c", tuple(Utterance(id, tmp_path / "a.wav") for id in ids), kind="kaldi")
    summary = anonymize(corpus, tmp_path / "out", seed=1)
    assert (summary.done, [failure.id for failure in summary.failures]) == (1, ["x" * 300])


def test_unwritable_format_is_rejected(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", synthetic_voice(1, seconds=0.2))
    with pytest.raises(InputError, match=r"cannot write \.mp3"):
        anonymize(tmp_path / "a.wav", tmp_path / "b.mp3")
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
    """On a file system of 100 kB: a clear error, what is finished stays, nothing half-written, and it can go on."""
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
    """Where not even root can write: among the files of the kernel."""
    source = make_folder(tmp_path / "in", 1, 1)
    with pytest.raises(InputError, match="cannot write"):
        anonymize(source, Path("/proc/voiceveil/out"), seed=1)


# --- Long recordings ----------------------------------------------------------------------------------------------


def long_file(path: Path, seconds: int, rate: int = 16000, channels: int = 1) -> None:
    block = synthetic_voice(1, seconds=10.0, rate=rate).int16()
    path.parent.mkdir(parents=True, exist_ok=True)
    with soundfile.SoundFile(path, "w", samplerate=rate, channels=channels) as file:
        for _ in range(seconds // 10):
            file.write(np.stack([block] * channels, axis=1))


@pytest.mark.parametrize("name", ["b2", "identity"])
def test_streamed_conversion_equals_the_whole(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block and in memory, at another rate in and out: the same to one step of 16 bits."""
    long_file(tmp_path / "in" / "a.wav", 30, rate=22050, channels=2)
    anonymize(tmp_path / "in", tmp_path / "memory", system=name, seed=1, rate=8000)
    monkeypatch.setattr("voiceveil.systems.worker.LONG", 1.0)
    monkeypatch.setattr("voiceveil.systems.worker._BLOCK", 50000)
    anonymize(tmp_path / "in", tmp_path / "blocks", system=name, seed=1, rate=8000)
    memory, blocks = (vv.load(tmp_path / kind / "a.wav").samples for kind in ("memory", "blocks"))
    assert len(memory) == len(blocks) == 240000
    assert np.abs(memory - blocks).max() <= 2.01 / 32768


@pytest.mark.slow
def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    """An hour needs the memory of a quarter, to a few MB; held whole, it would need 460 MB more."""
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


# --- Real speech --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_real_speech_is_anonymized(tmp_path: Path) -> None:
    """The enrollment set of the demo corpus."""
    summary = anonymize(SPEECH / "demo_enrolls", tmp_path, seed=1, jobs=2)
    assert (summary.done, summary.failures) == (60, ())
    after = open_corpus(summary.output)
    assert {u.role for u in after} == {"enroll"}
    assert len(after.speakers()) == 20
