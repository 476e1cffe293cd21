"""Releases: they reveal no name, id, order, length or time of the originals, and replace no file."""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import voiceveil as vv
from tests.systems.test_leaks import Slower
from voiceveil.audio import info, save
from voiceveil.cli.main import main
from voiceveil.corpus import Corpus, Trials, Utterance, open_corpus, write_kaldi, write_manifest
from voiceveil.systems import Release, batch
from voiceveil.systems.release import FIXED_TIME
from voiceveil.testing import synthetic_voice

anonymize = partial(batch.anonymize, system="b2")

KINDS = ["kaldi", "csv", "jsonl", "lhotse", "folder", "librispeech", "file"]
SPEAKERS = ("annamuster", "bertbeispiel")
SECONDS = {f"{name}-{n}": 0.2 + 0.0371875 * (2 * s + n) for s, name in enumerate(SPEAKERS) for n in range(4)}


def make_corpus(folder: Path) -> Corpus:
    utterances = []
    for number, (id, seconds) in enumerate(SECONDS.items()):
        path = folder / "privatearchive" / id.split("-")[0] / f"{id}.wav"
        save(path, synthetic_voice(number, seconds=seconds))
        os.utime(path, (1.6e9 + number, 1.6e9 + number))
        speaker = id.split("-")[0]
        gender = "f" if speaker == SPEAKERS[0] else "m"
        role = "enroll" if id.endswith("0") else "trial"
        spoken = f"SENTENCE {'ABCDEFGH'[number]}"
        utterances.append(Utterance(id, path, speaker, gender, spoken, emotion="glad", role=role, seconds=seconds))
    ids = [u.id for u in utterances if u.role == "trial"]
    trials = Trials(np.array([SPEAKERS[0]] * len(ids)), np.array(ids), np.array([SPEAKERS[0] in id for id in ids]))
    return Corpus("confidential", tuple(utterances), trials)


def make_librispeech(folder: Path) -> str:
    for number, (name, seconds) in enumerate(SECONDS.items()):
        speaker = 4071001 + SPEAKERS.index(name.split("-")[0])
        chapter = folder / "LibriSpeech" / "dev-clean" / str(speaker) / "900800"
        save(chapter / f"{speaker}-900800-{number:04}.flac", synthetic_voice(number, seconds=seconds))
        with (chapter / f"{speaker}-900800.trans.txt").open("a") as file:
            file.write(f"{speaker}-900800-{number:04} SENTENCE {'ABCDEFGH'[number]}\n")
    return f"librispeech:{folder / 'LibriSpeech' / 'dev-clean'}"


def make_input(folder: Path, kind: str) -> str | Path:
    if kind == "librispeech":
        return make_librispeech(folder)
    corpus = make_corpus(folder)
    if kind == "kaldi":
        write_kaldi(corpus, folder / "confidential")
        return folder / "confidential"
    if kind == "lhotse":
        pytest.importorskip("lhotse")
        from voiceveil.corpus.lhotse import write_lhotse

        return write_lhotse(corpus, folder / "confidential")[0]
    if kind == "folder":
        return folder / "privatearchive"
    if kind == "file":
        return next(iter(corpus)).path
    write_manifest(corpus, folder / f"confidential.{kind}")
    return folder / f"confidential.{kind}"


def below(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.rglob("*")


def secrets_of(tmp_path: Path) -> list[bytes]:
    words = ["annamuster", "bertbeispiel", "4071001", "4071002", "900800", "privatearchive", "confidential"]
    words += ["ledger", "voiceveil", "target", "glad", str(tmp_path), tmp_path.name]
    words += [f"{seconds:.4f}"[:6] for seconds in SECONDS.values()]
    return [word.encode() for word in words]


def read_map(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    ("kind", "level"), [*((kind, "utterance") for kind in KINDS), *((kind, "speaker") for kind in KINDS[:-1])]
)
def test_release_contains_nothing_of_the_originals(tmp_path: Path, kind: str, level: str) -> None:
    """All names, bytes and times are searched."""
    source = make_input(tmp_path / "in", kind)
    out = tmp_path / "out" / "hidden.wav" if kind == "file" else tmp_path / "out"
    release = tmp_path / "release"
    summary = anonymize(source, out, system=Slower(), level=level, publish=release)  # type: ignore[arg-type]
    count = 1 if kind == "file" else 8
    assert summary.published is not None
    assert (summary.published.folder, summary.published.recordings) == (release, count)
    for path in below(release):
        assert path.stat().st_mtime == FIXED_TIME, path
        data = str(path.relative_to(release)).encode() + (path.read_bytes() if path.is_file() else b"")
        assert not [word for word in secrets_of(tmp_path) if word in data], path
    names = sorted(path.name for path in release.rglob("*.wav"))
    assert names == [f"{number:06}.wav" for number in range(1, count + 1)]
    assert not list(tmp_path.glob(".part-*"))


@pytest.mark.parametrize("kind", KINDS)
def test_private_map_leads_back_to_the_originals(tmp_path: Path, kind: str) -> None:
    source = make_input(tmp_path / "in", kind)
    out = tmp_path / "out" / "hidden.wav" if kind == "file" else tmp_path / "out"
    summary = anonymize(source, out, system="b2", publish=tmp_path / "release")
    assert summary.published is not None
    path = summary.published.map_file
    assert path == tmp_path / "release.private-map.csv"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = {p.stem: p.read_bytes() for p in (tmp_path / "out").rglob("*.wav")}
    names = read_map(path)
    assert len(names) == len(written)
    for published in (tmp_path / "release").rglob("*.wav"):
        id = "hidden" if kind == "file" else names[published.stem]["original_id"].rpartition("/")[2]
        assert published.read_bytes() == written[id]


@pytest.mark.parametrize("kind", ["kaldi", "csv", "folder"])
def test_order_is_random_in_each_release(tmp_path: Path, kind: str) -> None:
    """With 8! orders, three equal or sorted ones are practically impossible by chance."""
    source = make_input(tmp_path / "in", kind)
    orders = set()
    for number in range(3):
        anonymize(source, tmp_path / "out", seed=1, publish=tmp_path / f"release{number}")
        rows = read_map(tmp_path / f"release{number}.private-map.csv")
        orders.add(tuple(rows[name]["original_id"] for name in sorted(rows)))
    assert len(orders) > 1
    assert orders != {tuple(sorted(SECONDS))}


@pytest.mark.parametrize("kind", ["kaldi", "csv"])
def test_sizes_do_not_depend_on_the_names(tmp_path: Path, kind: str) -> None:
    sizes = []
    for number, prefix in enumerate(("", "a-much-longer-name-of-somebody-")):
        corpus = make_corpus(tmp_path / f"in{number}")
        renamed = tuple(replace(u, id=prefix + u.id, speaker=f"{prefix}{u.speaker}") for u in corpus)
        source = tmp_path / f"in{number}" / ("set" if kind == "kaldi" else "set.csv")
        (write_kaldi if kind == "kaldi" else write_manifest)(Corpus("set", renamed), source)
        anonymize(source, tmp_path / f"out{number}", level="speaker", publish=tmp_path / f"release{number}")
        files = [path for path in (tmp_path / f"release{number}").rglob("*") if path.is_file()]
        sizes.append({str(path.relative_to(tmp_path / f"release{number}")): path.stat().st_size for path in files})
    tables = [{name: size for name, size in table.items() if not name.endswith(".wav")} for table in sizes]
    assert tables[0] == tables[1] != {}
    assert sorted(sizes[0].values()) == sorted(sizes[1].values())


# --- Metadata -----------------------------------------------------------------------------------------------------


def texts(corpus: Corpus, names: dict[str, dict[str, str]]) -> dict[str, str | None]:
    return {names[u.id]["original_id"]: u.text for u in corpus}


@pytest.mark.parametrize("kind", ["kaldi", "csv", "jsonl", "lhotse", "librispeech"])
def test_texts_are_released_and_speakers_are_not(tmp_path: Path, kind: str) -> None:
    source = make_input(tmp_path / "in", kind)
    anonymize(source, tmp_path / "out", publish=tmp_path / "release")
    manifest = tmp_path / "release" / "manifest.csv"
    released = open_corpus(manifest if manifest.exists() else tmp_path / "release")
    assert texts(released, read_map(tmp_path / "release.private-map.csv")) == {
        u.id: u.text for u in open_corpus(source)
    }
    for u in released:
        kept = (u.speaker, u.gender, u.emotion, u.role, u.fold, u.phrase, u.subset, u.seconds)
        assert kept == (None, None, None, "", None, None, None, None)
        assert info(u.path).frames
    assert released.trials is None
    assert [u.id for u in released] == [f"{number:06}" for number in range(1, 9)]


def test_speaker_has_another_id_in_each_role(tmp_path: Path) -> None:
    """Like pseudo-speakers: a common name would link enrollment and trials."""
    source = make_input(tmp_path / "in", "kaldi")
    anonymize(source, tmp_path / "out", level="speaker", publish=tmp_path / "release")
    original, names = open_corpus(source), read_map(tmp_path / "release.private-map.csv")
    voices = {(original[names[u.id]["original_id"]].role, original[names[u.id]["original_id"]].speaker): u.speaker
              for u in open_corpus(tmp_path / "release")}  # fmt: skip
    assert len(voices) == 4
    assert sorted(map(str, voices.values())) == ["S0001", "S0002", "S0003", "S0004"]


def test_other_fields_are_released_on_request(tmp_path: Path) -> None:
    source = make_input(tmp_path / "in", "kaldi")
    release = Release(tmp_path / "release", tmp_path / "elsewhere" / "map.csv", ("speaker", "gender", "emotion"))
    summary = anonymize(source, tmp_path / "out", publish=release)
    assert summary.published is not None
    assert summary.published.fields == ("speaker", "gender", "emotion")
    assert {u.gender for u in open_corpus(tmp_path / "release")} == {"f", "m"}
    assert {(u.emotion, u.text) for u in open_corpus(tmp_path / "release")} == {("glad", None)}
    assert len(read_map(tmp_path / "elsewhere" / "map.csv")) == 8
    assert not (tmp_path / "release.private-map.csv").exists()


@pytest.mark.parametrize("fields", [("seconds",), ("path",), ("txt",), ("trials",), ("gender",)])
def test_unpublishable_fields_are_rejected(tmp_path: Path, fields: tuple[str, ...]) -> None:
    source = make_input(tmp_path / "in", "kaldi")
    with pytest.raises(vv.InputError, match=fields[0]):
        anonymize(source, tmp_path / "out", publish=Release(tmp_path / "release", fields=fields))
    assert not (tmp_path / "out").exists()


# --- Nothing is lost, and nothing goes out by mistake ---------------------------------------------------------------


def refused(tmp_path: Path, publish: Path | Release, match: str, **options: object) -> None:
    """The error comes before anything is converted."""
    with pytest.raises(vv.InputError, match=match):
        anonymize(tmp_path / "in" / "privatearchive", tmp_path / "out", publish=publish, **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_release_does_not_replace_files(tmp_path: Path) -> None:
    make_corpus(tmp_path / "in")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "new.private-map.csv").write_text("of an earlier release")
    refused(tmp_path, tmp_path / "mine", "not empty")
    refused(tmp_path, tmp_path / "file", "must be a folder")
    refused(tmp_path, tmp_path / "link", "must be a folder")
    refused(tmp_path, tmp_path / "new", "map exists")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == (tmp_path / "file").read_text() == "mine"
    anonymize(tmp_path / "in" / "privatearchive", tmp_path / "out", publish=tmp_path / "empty")
    assert (tmp_path / "empty").stat().st_mtime == FIXED_TIME


def test_empty_folder_keeps_its_permissions(tmp_path: Path) -> None:
    make_corpus(tmp_path / "in")
    (tmp_path / "empty").mkdir(mode=0o700)
    anonymize(tmp_path / "in" / "privatearchive", tmp_path / "out", publish=tmp_path / "empty")
    assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o700


def test_release_into_the_working_directory_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_corpus(tmp_path / "in")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    refused(tmp_path, Path(), "working directory")
    refused(tmp_path, Path(".."), "not empty")


def test_release_inside_input_or_output_is_rejected(tmp_path: Path) -> None:
    make_corpus(tmp_path / "in")
    refused(tmp_path, tmp_path / "out", "mixed with the output")
    refused(tmp_path, tmp_path / "out" / "release", "mixed with the output")
    refused(tmp_path, tmp_path / "in" / "privatearchive" / "release", "mixed with the input")
    for name in (".", "map.csv", "deep/map.csv", "../release/map.csv"):
        refused(tmp_path, Release(tmp_path / "release", tmp_path / "release" / name), "would be published")
    with pytest.raises(vv.InputError, match="mixed with the output"):
        anonymize(tmp_path / "in" / "privatearchive", tmp_path / "r" / "out", publish=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_originals_are_not_published(tmp_path: Path) -> None:
    make_corpus(tmp_path / "in")
    refused(tmp_path, tmp_path / "release", "the originals", system="identity")


def test_only_files_of_the_run_are_published(tmp_path: Path) -> None:
    """Another file replaces an anonymized one while the release is written."""
    from voiceveil.systems.release import PlannedRelease, write_release

    corpus = make_corpus(tmp_path / "in")
    planned = PlannedRelease(tmp_path / "release", tmp_path / "map.csv", ("text",), "folder")
    with pytest.raises(vv.InputError, match="not the one that this run wrote"):
        write_release(planned, corpus, lambda id: "0" * 64)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_withdrawn_and_failed_recordings_are_not_published(tmp_path: Path) -> None:
    make_corpus(tmp_path / "in")
    source = tmp_path / "in" / "privatearchive"
    anonymize(source, tmp_path / "out")
    (source / "annamuster" / "annamuster-0.wav").unlink()
    (source / "annamuster" / "annamuster-1.wav").write_bytes(b"RIFF")
    summary = anonymize(source, tmp_path / "out", publish=tmp_path / "release")
    assert (len(summary.left_over), len(summary.failures)) == (1, 1)
    assert summary.published is not None
    assert summary.published.recordings == len(list((tmp_path / "release").rglob("*.wav"))) == 6


def test_full_disk_leaves_no_partial_release_or_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_corpus(tmp_path / "in")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("voiceveil.systems.release.write_manifest", full)
    options = Release(tmp_path / "release", fields=("speaker",))
    with pytest.raises(vv.InputError, match="No space left"):
        anonymize(tmp_path / "in" / "privatearchive", tmp_path / "out", publish=options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_unusual_names_are_in_the_map_byte_for_byte(tmp_path: Path) -> None:
    name = os.fsdecode(b'caf\xe9,"\n')
    save(tmp_path / "in" / name / "a.wav", synthetic_voice(1, seconds=0.2))
    anonymize(tmp_path / "in", tmp_path / "out", publish=Release(tmp_path / "release", fields=("speaker",)))
    with (tmp_path / "release.private-map.csv").open(newline="", errors="surrogateescape") as file:
        assert list(csv.reader(file))[1] == ["000001", f"{name}/a", "S0001", name]


# --- What is said -------------------------------------------------------------------------------------------------


def test_summary_names_files_to_remove_before_publishing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_corpus(tmp_path / "in")
    key = tmp_path / "secret.key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    command = ["anonymize", str(tmp_path / "in" / "privatearchive"), str(tmp_path / "out"), "--system", "b2", "--quiet"]
    assert main([*command, "--key-file", str(key)]) == 0
    printed = capsys.readouterr().out
    assert f"before you publish {tmp_path / 'out'}" in printed
    assert f"remove {tmp_path / 'out' / '.voiceveil'}" in printed
    assert f"keep {key} secret" in printed
    assert "--publish DIR" in printed


def test_run_without_results_publishes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.wav").write_bytes(b"no audio")
    command = ["anonymize", str(tmp_path / "in"), str(tmp_path / "out"), "--system", "b2", "--quiet"]
    assert main([*command, "--publish", str(tmp_path / "release")]) == 1
    assert "nothing was published" in capsys.readouterr().out
    assert not (tmp_path / "release").exists()
    assert not (tmp_path / "release.private-map.csv").exists()


def test_unwritable_map_leaves_no_release(tmp_path: Path) -> None:
    make_corpus(tmp_path / "in")
    (tmp_path / "file").write_text("mine")
    release = Release(tmp_path / "release", tmp_path / "file" / "map.csv")
    with pytest.raises(vv.InputError, match="cannot write the release"):
        anonymize(tmp_path / "in" / "privatearchive", tmp_path / "out", publish=release)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "in", "out"]


def test_release_names_the_remaining_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_input(tmp_path / "in", "kaldi")
    command = ["anonymize", str(source), str(tmp_path / "out"), "--system", "b2", "--quiet", "--seed", "1"]
    assert main([*command, "--publish", str(tmp_path / "release"), "--publish-map", str(tmp_path / "m.csv")]) == 0
    printed = capsys.readouterr().out
    for words in ("release: ", "private map: ", "m.csv", "can identify the speaker", "keeps the length", "can repeat"):
        assert words in printed
    assert ".voiceveil" not in printed
    assert main([*command, "--publish", str(tmp_path / "release")]) == 1
    assert "not empty" in capsys.readouterr().err
    assert main([*command, "--publish-fields", "text"]) == 1
    assert "--publish DIR" in capsys.readouterr().err
    assert main([*command, "--json", "--publish", str(tmp_path / "two"), "--publish-fields", ""]) == 0
    assert '"before_publishing"' in capsys.readouterr().out
    assert not (tmp_path / "two" / "text").exists()
