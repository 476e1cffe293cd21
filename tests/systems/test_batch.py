"""The batch runner: structure of the output, draws, settings."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import soundfile

import voiceveil as vv
from tests.support.batch_corpora import anonymize, audio, make_folder, make_kaldi, tree
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance, open_corpus
from voiceveil.corpus.model import Corpus
from voiceveil.systems.keys import Key, keyed_rng
from voiceveil.testing import synthetic_voice


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
    """A file holds the output of ``convert`` with the generator of its utterance."""
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
    """A speaker has one pseudo-speaker in each role; enrollment and trials have different ones."""
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


@pytest.mark.slow
def test_real_speech_is_anonymized(tmp_path: Path) -> None:
    """The enrollment set of the demo corpus."""
    summary = anonymize(SPEECH / "demo_enrolls", tmp_path, seed=1, jobs=2)
    assert (summary.done, summary.failures) == (60, ())
    after = open_corpus(summary.output)
    assert {u.role for u in after} == {"enroll"}
    assert len(after.speakers()) == 20
