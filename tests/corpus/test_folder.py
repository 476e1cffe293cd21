"""Folders, single files, and what ``open_corpus`` makes of what it is given; the model itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, corpora, open_corpus


def tone(path: Path, seconds: float = 0.05, rate: int = 16000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.1 * np.sin(np.arange(round(seconds * rate)) / 5), rate)
    return path


def test_folder_is_read(tmp_path: Path) -> None:
    for name in ("ann/x.wav", "ann/day 1/y.flac", "bob/x.wav", "z.v2.wav", ".hidden.wav", ".cache/q.wav", "notes.txt"):
        tone(tmp_path / name) if name.endswith((".wav", ".flac")) else (tmp_path / name).touch()
    corpus = open_corpus(tmp_path)
    assert {u.id: u.speaker for u in corpus} == {"ann/day 1/y": "ann", "ann/x": "ann", "bob/x": "bob", "z.v2": None}
    assert corpus["ann/day 1/y"].path == tmp_path / "ann/day 1/y.flac"
    assert (corpus.kind, corpus.root, corpus.name) == ("folder", tmp_path, tmp_path.name)
    assert corpus.speakers() == ("ann", "bob")


def test_suffixes_tell_files_of_one_stem_apart(tmp_path: Path) -> None:
    for name in ("a.flac", "a.wav", "a.wav.flac", "b.wav", "ann/a.wav"):
        tone(tmp_path / name)
    ids = {u.path.relative_to(tmp_path).as_posix(): u.id for u in open_corpus(tmp_path)}
    assert ids == {
        "a.flac": "a.flac",
        "a.wav": "a.wav",
        "a.wav.flac": "a.wav.flac",
        "b.wav": "b",
        "ann/a.wav": "ann/a",
    }


def test_links_are_followed_without_cycles(tmp_path: Path) -> None:
    tone(tmp_path / "store/a.wav")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/ann").symlink_to(tmp_path / "store")
    (tmp_path / "store/again").symlink_to(tmp_path / "in")
    assert [u.id for u in open_corpus(tmp_path / "in")] == ["ann/a"]


def test_single_file_is_read(tmp_path: Path) -> None:
    corpus = open_corpus(str(tone(tmp_path / "one.wav")))
    assert corpus.utterances == (Utterance("one", tmp_path / "one.wav"),)
    assert (corpus.kind, corpus.root) == ("file", tmp_path)


def test_empty_folder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no audio in this folder .*\.flac"):
        open_corpus(tmp_path)


def test_folder_of_kaldi_directories_is_explained(tmp_path: Path) -> None:
    for name in ("dev", "test"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "wav.scp").write_text("a a.wav\n")
    with pytest.raises(InputError, match=r"holds Kaldi directories \(give one of them: .*/dev, .*/test\)"):
        open_corpus(tmp_path)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("librispech:/data", r"unknown corpus 'librispech' \(did you mean librispeech\b"),
        ("librispeech:/no/such/place", "no such file or folder"),
        ("/no/such/place", "no such file or folder"),
        (r"C:\speech", "no such file or folder"),
    ],
)
def test_unknown_specs_are_rejected(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_corpus(spec)


def test_other_files_are_rejected(tmp_path: Path) -> None:
    for name, message in (("x.docx", "not a corpus"), ("wav.scp", "give the directory")):
        (tmp_path / name).touch()
        with pytest.raises(InputError, match=message):
            open_corpus(tmp_path / name)


def test_every_reader_is_registered() -> None:
    assert set(corpora) == {
        "commonvoice", "deepmine", "folder", "iemocap", "kaldi", "lhotse", "librispeech", "libritts", "manifest",
        "vctk", "voxceleb",
    }  # fmt: skip


def test_filter_keeps_the_trials_of_remaining_utterances() -> None:
    trials = Trials(np.array(["s", "s", "t"]), np.array(["a", "b", "a"]), np.array([True, False, False]))
    corpus = Corpus("x", (Utterance("a", Path("a"), "s", "f"), Utterance("b", Path("b"), "t", "m")), trials)
    women = corpus.filter(lambda utterance: utterance.gender == "f")
    assert [u.id for u in women] == ["a"]
    assert women.trials == Trials(np.array(["s", "t"]), np.array(["a", "a"]), np.array([True, False]))
    assert "b" in corpus
    assert "b" not in women


def test_ids_are_unique_and_not_empty() -> None:
    with pytest.raises(InputError, match=r"not unique, e\.g\. 'a'"):
        Corpus("x", (Utterance("a", Path("1")), Utterance("a", Path("2"))))
    with pytest.raises(InputError, match="empty id"):
        Corpus("x", (Utterance("", Path("1")),))


def test_trials_have_equal_lengths() -> None:
    with pytest.raises(InputError, match="equally long"):
        Trials(np.array(["a"]), np.array(["a", "b"]), np.array([True]))
