"""Nothing of the user's is replaced or removed by the verbs that write single files, corpora, models and a demo."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.faults.runs import tree
from tests.support.board_world import make_lists
from tests.support.official_samples import RANK_2024
from voiceveil.audio import save
from voiceveil.cli import demo
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, write_kaldi
from voiceveil.corpus.convert import FORMATS
from voiceveil.run.cache import Cache
from voiceveil.testing import synthetic_voice

Said = pytest.CaptureFixture[str]


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Recordings of two speakers."""
    for speaker in ("s1", "s2"):
        for number in range(4):
            path = tmp_path / "recordings" / speaker / f"{speaker}-{number}.wav"
            save(path, synthetic_voice(int(speaker[1]), number, seconds=0.3))
    return tmp_path / "recordings"


@pytest.fixture
def kaldi(recordings: Path, tmp_path: Path) -> Path:
    """The same as a Kaldi directory."""
    spoken = tuple(
        Utterance(path.stem, path, speaker=path.parent.name, gender="f", text="words")
        for path in sorted(recordings.rglob("*.wav"))
    )
    write_kaldi(Corpus("set", spoken), tmp_path / "data" / "set")
    return tmp_path / "data" / "set"


def refused(place: Path, command: list[object], capsys: Said, message: str) -> None:
    """The command is refused with this message, and nothing below ``place`` is changed or added."""
    before, names = tree(place), sorted(place.rglob("*"))
    capsys.readouterr()
    assert main([str(word) for word in command]) == 1
    assert message in capsys.readouterr().err
    assert tree(place) == before
    assert sorted(place.rglob("*")) == names


def done(command: list[object]) -> None:
    """The command ends well."""
    assert main([str(word) for word in command]) == 0


# --- corpus -------------------------------------------------------------------------------------------------------

OUT = {"kaldi": "new", "lhotse": "new", "csv": "new.csv", "jsonl": "new.jsonl"}
ONE = {"kaldi": "new/text", "lhotse": "new/supervisions.jsonl.gz", "csv": "new.trials.csv", "jsonl": "new.jsonl"}


@pytest.mark.parametrize("form", FORMATS)
def test_conversion_does_not_replace_files(form: str, recordings: Path, tmp_path: Path, capsys: Said) -> None:
    if form == "lhotse":
        pytest.importorskip("lhotse")
    command: list[object] = ["corpus", "convert", recordings, tmp_path / OUT[form], "--to", form]
    mine = tmp_path / ONE[form]
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    refused(tmp_path, command, capsys, f"{mine}: this file exists")
    done([*command, "--overwrite"])
    assert not mine.exists() or mine.read_bytes() != b"mine", "it would be taken for a part of the corpus"
    refused(tmp_path, command, capsys, "this file exists")
    done([*command, "--overwrite"])


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_conversion_into_the_corpus_is_rejected(
    recordings: Path, kaldi: Path, tmp_path: Path, capsys: Said, overwrite: list[object]
) -> None:
    def convert(source: Path, out: Path, to: str) -> list[object]:
        return ["corpus", "convert", source, out, "--to", to, *overwrite]

    done(["corpus", "convert", kaldi, tmp_path / "lists" / "list.csv", "--to", "csv"])
    manifest = tmp_path / "lists" / "list.csv"
    (tmp_path / "link").symlink_to(kaldi, target_is_directory=True)
    refused(tmp_path, convert(kaldi, kaldi, "kaldi"), capsys, "the output is the input")
    refused(tmp_path, convert(kaldi, tmp_path / "link", "kaldi"), capsys, "the output is the input")
    refused(tmp_path, convert(kaldi, kaldi.parent, "kaldi"), capsys, "holds the input")
    refused(tmp_path, convert(recordings, recordings / "list.csv", "csv"), capsys, "lies inside the input")
    refused(tmp_path, convert(manifest, manifest, "csv"), capsys, "the output is the input")
    refused(tmp_path, convert(manifest, manifest.parent, "kaldi"), capsys, "holds the input")
    (tmp_path / "hard.csv").hardlink_to(recordings / "s1" / "s1-0.wav")
    refused(tmp_path, convert(manifest, tmp_path / "hard.csv", "csv"), capsys, "would replace the input")


def test_design_does_not_replace_files(kaldi: Path, tmp_path: Path, capsys: Said) -> None:
    out = tmp_path / "out"
    command: list[object] = ["corpus", "protocol", kaldi, out, "--enroll", 1, "--session", "none", "--name", "mine"]
    for name in ("mine_enrolls/text", "protocol.toml"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("mine")
        refused(tmp_path, command, capsys, f"{out / name}: this file exists")
        shutil.rmtree(out)
    done(command)
    (out / "mine_enrolls" / "notes").write_text("mine")
    refused(tmp_path, command, capsys, "this file exists")
    done([*command, "--overwrite"])
    assert (out / "mine_enrolls" / "notes").read_text() == "mine"
    kaldi.rename(kaldi.with_name("x_enrolls"))
    inside: list[object] = ["corpus", "protocol", kaldi.with_name("x_enrolls"), kaldi.parent, "--name", "x"]
    refused(tmp_path, [*inside, "--enroll", 1, "--session", "none", "--overwrite"], capsys, "the output is the input")


# --- Single files -------------------------------------------------------------------------------------------------


def test_figure_does_not_replace_files(tmp_path: Path, capsys: Said) -> None:
    results, mine = tmp_path / "result_for_rank_b2", tmp_path / "plane.svg"
    results.write_text(RANK_2024)
    mine.write_text("mine")
    command: list[object] = ["rank", f"B2={results}", "--svg"]
    refused(tmp_path, [*command, mine], capsys, f"{mine}: this file exists")
    refused(tmp_path, [*command, results, "--overwrite"], capsys, "would replace the input")
    done([*command, mine, "--overwrite"])
    assert mine.read_text().startswith("<svg")


def test_risk_report_does_not_replace_files(recordings: Path, tmp_path: Path, capsys: Said) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("mine")
    (tmp_path / "e.npz").write_text("embeddings")
    command: list[object] = ["risk", "--embeddings", f"informed={tmp_path / 'e.npz'}", "--report"]
    refused(tmp_path, [*command, mine], capsys, f"{mine}: this file exists")
    refused(tmp_path, [*command, tmp_path / "e.npz", "--overwrite"], capsys, "would replace the input")
    audio: list[object] = ["risk", "--original", recordings, "--report", recordings / "s1" / "r.html", "--overwrite"]
    refused(tmp_path, audio, capsys, "lies inside the input")


def test_tdsv_does_not_replace_files(tmp_path: Path, capsys: Said) -> None:
    (tmp_path / "trials").write_text("model-id evaluation-file-id\nm1 e1\n")
    (tmp_path / "answer.txt").write_text("1.0\n")
    for name in ("mine.zip", "mine.txt", "mine.html"):
        (tmp_path / name).write_text("mine")
    lists: list[object] = ["--trials", tmp_path / "trials"]
    submit: list[object] = ["tdsv", "submit", tmp_path / "answer.txt", *lists, "--out"]
    refused(tmp_path, [*submit, tmp_path / "mine.zip"], capsys, "mine.zip: this file exists")
    refused(tmp_path, [*submit, tmp_path / "answer.txt", "--overwrite"], capsys, "would replace the input")
    done([*submit, tmp_path / "mine.zip", "--overwrite"])
    score: list[object] = ["tdsv", "score", tmp_path / "s.npz", tmp_path / "task", "--out"]
    refused(tmp_path, [*score, tmp_path / "mine.txt"], capsys, "mine.txt: this file exists")
    refused(tmp_path, [*score, tmp_path / "s.npz", "--overwrite"], capsys, "the output is the input")
    refused(tmp_path, [*score, tmp_path / "task" / "a.txt", "--overwrite"], capsys, "lies inside the input")
    speech: list[object] = ["--anonymize", "b2", "--anonymized-to", tmp_path / "task" / "wav" / "enrollment"]
    refused(tmp_path, [*score, tmp_path / "a.txt", *speech, "--overwrite"], capsys, "lies inside the input")
    page: list[object] = ["tdsv", "evaluate", tmp_path / "answer.txt", *lists, "--keys", tmp_path / "k", "--report"]
    refused(tmp_path, [*page, tmp_path / "mine.html"], capsys, "mine.html: this file exists")
    refused(tmp_path, [*page, tmp_path / "answer.txt", "--overwrite"], capsys, "would replace the input")


# --- Folders ------------------------------------------------------------------------------------------------------


def test_attack_replaces_only_its_own_files(data: Path, tmp_path: Path, capsys: Said) -> None:
    shutil.copytree(data, tmp_path / "data")
    out = tmp_path / "out"
    command: list[object] = ["attack", "--data", tmp_path / "data", "--attackers", "free:f0", "--quiet", "--out"]
    for name in ("libri_dev_enrolls", "libri_dev_trials_f"):
        done(["anonymize", tmp_path / "data" / name, tmp_path / "data", "--system", "b2", "--seed", 1, "--quiet"])
    command[3:3] = ["--anon", "_b2"]
    (out / "free-f0").mkdir(parents=True)
    for name in ("attack.json", "free-f0/libri_dev_trials_f.aa.scores"):
        (out / name).write_text("mine")
        refused(tmp_path, [*command, out], capsys, f"{out / name}: this file exists")
        (out / name).unlink()
    done([*command, out])
    done([*command, out])
    (out / "attack.json").write_text("mine")
    refused(tmp_path, [*command, out], capsys, "somebody has changed it since")
    done([*command, out, "--overwrite"])
    for place in (tmp_path, tmp_path / "data", tmp_path / "data" / "libri_dev_enrolls_b2" / "x"):
        refused(tmp_path, [*command, place, "--overwrite"], capsys, "the input")


KINDS = {"asv": ["--model", "ecapa"], "autoencoder": [], "source-filter": [], "pool": []}


@pytest.mark.parametrize("kind", KINDS)
def test_training_does_not_replace_files(
    kind: str, recordings: Path, kaldi: Path, tmp_path: Path, capsys: Said
) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "out"
    out.mkdir()
    mine = out / ("pool.safetensors" if kind == "pool" else "model.safetensors")
    mine.write_text("mine")
    command: list[object] = ["train", kind, *KINDS[kind], "--data", kaldi, "--out"]
    refused(tmp_path, [*command, out], capsys, f"{mine}: ")
    for place in (kaldi, kaldi / "model", kaldi.parent, recordings):
        refused(tmp_path, [*command, place, "--overwrite"], capsys, "the input")


def test_feature_cache_inside_the_data_is_rejected(kaldi: Path, tmp_path: Path, capsys: Said) -> None:
    pytest.importorskip("torch")
    size = ["--channels", "8", "--epochs", "1", "--seconds-per-chunk", "0.25", "--quiet"]
    command: list[object] = ["train", "asv", "--data", kaldi, *size, "--out", tmp_path / "out", "--features"]
    refused(tmp_path, [*command, kaldi / "kept"], capsys, "the output lies inside the input")
    home = tmp_path / "mine" / "fbank80"
    home.mkdir(parents=True)
    (tmp_path / "thesis.txt").write_text("mine")
    for name, content in (("index.jsonl", '{"mine": 1}\n'), ("features.f16", "mine"), ("index.jsonl", None)):
        if content is None:
            (home / name).symlink_to(tmp_path / "thesis.txt")
        else:
            (home / name).write_text(content)
        before = tree(home)
        assert main([str(word) for word in [*command, tmp_path / "mine"]]) == 1
        assert "move the file away" in capsys.readouterr().err
        assert tree(home) == {**before, ".lock": b""}
        shutil.rmtree(home)
        home.mkdir()
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_training_a_recognizer_into_its_data_is_rejected(kaldi: Path, tmp_path: Path, capsys: Said) -> None:
    pytest.importorskip("torch")
    (tmp_path / "model").mkdir()
    command: list[object] = ["train", "asr", "--model", tmp_path / "model", "--data", kaldi, "--overwrite", "--out"]
    refused(tmp_path, [*command, kaldi], capsys, "the output is the input")
    refused(tmp_path, [*command, tmp_path / "model"], capsys, "the output is the input")


def test_demo_keeps_existing_folders(tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the long part: what an evaluation may replace is tested elsewhere."""
    commands: list[tuple[object, ...]] = []
    monkeypatch.setattr(demo, "_run", lambda *words: commands.append(words))
    monkeypatch.setattr(demo, "_summarize", lambda folders: None)
    for name in ("data/mine.wav", "results/mine.txt", "data/demo_train/wav.scp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(InputError, match=r"demo_train/wav\.scp: this file exists"):
        demo._evaluate(tmp_path, ["b2"], overwrite=False)
    assert (tree(tmp_path), commands) == (before, [])
    demo._evaluate(tmp_path, ["b2"], overwrite=True)
    after = tree(tmp_path)
    replaced = [name for name, content in before.items() if after.get(name) != content]
    assert replaced == ["data/demo_train/wav.scp"], "nothing else is touched"
    assert all("--overwrite" in words for words in commands)


@pytest.mark.parametrize("name", ["rank", "report on risk"])
def test_page_or_figure_does_not_replace_a_recording(name: str, recordings: Path, tmp_path: Path, capsys: Said) -> None:
    """Whatever --overwrite says: it is a mistake to give a page the name of a recording."""
    results = tmp_path / "result_for_rank_b2"
    results.write_text(RANK_2024)
    recording = recordings / "s1" / "s1-0.wav"
    command: list[object] = ["rank", results, "--svg", recording]
    if name == "report on risk":
        command = ["risk", "--original", recordings / "s2", "--report", recording]
    for words in (command, [*command, "--overwrite"]):
        refused(tmp_path, words, capsys, "the output is no audio, but has the name of a recording")


def test_listening_test_and_board_inside_the_data_are_rejected(kaldi: Path, tmp_path: Path, capsys: Said) -> None:
    design = ["--original", kaldi, "--system", f"b2={kaldi}", "--tasks", "naturalness", "--items", "2"]
    refused(tmp_path, ["listen", "design", kaldi / "study", *design], capsys, "the output lies inside the input")
    lists = make_lists(tmp_path / "lists", split="dev")
    board = ["--protocol", "vpc2024", "--data", lists]
    place = lists / "libri_dev_trials_f" / "board"
    refused(tmp_path, ["board", "create", place, *board], capsys, "the output lies inside the input")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    refused(tmp_path, ["board", "create", link, *board], capsys, "this folder exists already")
    refused(tmp_path, ["listen", "design", link, *design], capsys, "this folder exists already")


def test_cache_in_another_database_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "mine.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mine (a)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match="not usable as a cache: a database of something else"):
        Cache(path)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [path]
