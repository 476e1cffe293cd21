"""Ids made of the names that people give to recordings: every command takes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, open_corpus, write_kaldi
from voiceveil.corpus.checking import check
from voiceveil.corpus.ids import is_file_name, safe_id, with_safe_ids
from voiceveil.corpus.lines import is_id

NAMES = ("Anna Schmidt", "Bob\tM.", "Çelik  Ö", "dora")


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for number, name in enumerate(NAMES):
        (tmp_path / "in" / name).mkdir(parents=True)
        for take in range(4):
            sound = np.sin(np.arange(8000) * (100 + 30 * number) * 2 * np.pi / 16000) + 0.1 * rng.normal(size=8000)
            soundfile.write(tmp_path / "in" / name / f"my recording {take}.wav", 0.3 * sound, 16000)
    return tmp_path / "in"


PROTOCOL = """\
name = "vpc2022"
title = "Recordings of friends"
metrics = ["eer"]
levels = { enroll = "utterance", trial = "utterance", train = "utterance" }
conditions = ["oo", "aa"]
scoring = "cosine"

[[verification]]
dataset = "friends"
split = "dev"
enroll = "friends_enrolls"
trials = [{ set = "friends_trials", gender = "f" }]
"""


@pytest.mark.slow
def test_folder_names_with_blanks_work_in_every_command(recordings: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    (tmp_path / "small.toml").write_text(PROTOCOL)
    b2 = ("--system", "b2", "--seed", "1", "--quiet")
    where = ("--data", str(data), "--out", str(tmp_path / "results"), "--protocol", str(tmp_path / "small.toml"))
    legal = ("--legal", "--a-utterances", "2", "--b-utterances", "2")
    for command in (
        ("corpus", "check", str(recordings)),
        ("anonymize", str(recordings), str(out / "folder"), *b2),
        ("corpus", "convert", str(recordings), str(tmp_path / "kaldi"), "--to", "kaldi"),
        ("corpus", "check", str(tmp_path / "kaldi")),
        ("corpus", "convert", str(recordings), str(tmp_path / "list.csv"), "--to", "csv"),
        ("corpus", "check", str(tmp_path / "list.csv")),
        ("anonymize", str(tmp_path / "list.csv"), str(out / "list"), *b2),
        ("corpus", "protocol", str(recordings), str(data), "--pooled", "--name", "friends", "--enroll", "2"),
        ("anonymize", str(data / "friends_trials"), str(out), *b2),
        ("corpus", "check", str(out / "friends_trials_b2"), "--enroll", str(data / "friends_enrolls")),
        ("evaluate", *where, "--jobs", "1", "--attackers", "free:f0", *b2),
        ("corpus", "protocol", str(recordings), str(tmp_path / "legal"), *legal),
    ):
        assert main(command) == 0, command
    assert (out / "folder" / "Anna Schmidt" / "my recording 1.wav").is_file()
    assert len(open_corpus(out / "friends_trials_b2")) == 8
    assert json.loads((tmp_path / "results" / "results.json").read_text())["figures"]


def test_id_map_has_the_original_ids(recordings: Path, tmp_path: Path) -> None:
    assert main(["corpus", "convert", str(recordings), str(tmp_path / "kaldi"), "--to", "kaldi"]) == 0
    rows = [line.split("\t") for line in (tmp_path / "kaldi/.voiceveil/ids.tsv").read_text().splitlines()]
    originals = {(kind, safe): json.loads(original) for kind, safe, original in rows}
    corpus = open_corpus(tmp_path / "kaldi")
    known = {u.path: u for u in open_corpus(recordings)}
    for utterance in corpus:
        source = known[utterance.path]
        assert originals.get(("utterance", utterance.id), utterance.id) == source.id
        assert originals.get(("speaker", str(utterance.speaker)), utterance.speaker) == source.speaker
    assert check(tmp_path / "kaldi") == []


def test_safe_ids_need_no_map(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(100), 16000)
    assert main(["corpus", "convert", str(tmp_path / "a.wav"), str(tmp_path / "kaldi"), "--to", "kaldi"]) == 0
    assert not (tmp_path / "kaldi" / ".voiceveil").exists()


texts = st.text(st.characters(), max_size=20) | st.text("ab /.\\\n\t\0ä", max_size=600)


@given(texts, texts)
def test_safe_ids_are_valid_and_distinct(text: str, other: str) -> None:
    made = safe_id(text)
    assert is_id(made)
    assert safe_id(made) == made
    assert (made == safe_id(other)) == (text == other)
    assert is_id(text) or is_file_name(made)


@pytest.mark.parametrize("key", ["../x", "/etc/x", "a//b", "a\\b", "x" * 300, "a/" * 600 + "b"])
def test_ids_that_cannot_name_a_file_are_a_note(key: str, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(100), 16000)
    (tmp_path / "m.csv").write_text(f"id,path\n{key},a.wav\n")
    assert ["cannot be the name of a file" in fault.what for fault in check(tmp_path / "m.csv")] == [True]


def test_trials_use_the_new_ids() -> None:
    corpus = Corpus("x", (Utterance("a b", Path("a"), "s t"),), Trials(["s t"], ["a b"], [True]))  # type: ignore[arg-type]
    safe = with_safe_ids(corpus)
    assert safe.trials is not None
    assert (safe.trials.utterance[0], safe.trials.enroll[0]) == (safe.utterances[0].id, safe.utterances[0].speaker)


@pytest.mark.parametrize("column", ["emotion", "phrase"])
def test_labels_with_blanks_are_rejected_by_name(column: str, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(f"path,speaker,{column}\na.wav,s,very sad\n")
    with pytest.raises(InputError, match="'very sad' of a cannot stand in utt2"):
        write_kaldi(open_corpus(tmp_path / "m.csv"), tmp_path / "kaldi")
