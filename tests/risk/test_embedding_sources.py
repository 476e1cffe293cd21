"""Embeddings from caches of the challenges and from Kaldi directories, and distractors: real files, and wrong ones."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.support.embedding_caches import Vectors, voices, write_cache
from tests.support.paths import SHARED
from voiceveil import InputError
from voiceveil.cli.main import main
from voiceveil.risk.embedding_sources import add_distractors, read_embeddings
from voiceveil.risk.embeddings import EmbeddingTable
from voiceveil.risk.sets import divide


def test_every_utterance_keeps_its_vector_and_speaker(tmp_path: Path) -> None:
    spoken = voices(6, 5, 1)
    table = read_embeddings(write_cache(tmp_path, "train-clean-360_b2", spoken), "informed")
    assert table.sets is None
    for utterance, speaker, vector in zip(table.utterance, table.speaker, table.vector, strict=True):
        assert speaker == spoken[str(utterance)][0]
        np.testing.assert_array_equal(vector, spoken[str(utterance)][1])  # as it is, whatever its length


def test_sets_are_paired_by_exact_suffix(tmp_path: Path) -> None:
    enrolled = write_cache(tmp_path, "libri_dev_enrolls_b2", voices(6, 5, 1))
    write_cache(tmp_path, "libri_dev_trials_f_b2", voices(4, 3, 2))
    impostor = {"imp-1": ("imp", np.ones(12, dtype=np.float32))}
    write_cache(tmp_path, "libri_dev_trials_m_b2", voices(6, 2, 3) | impostor)
    for other in ("libri_dev_trials_f", "libri_dev_trials_f_b2_new", "libri_dev_trials_f_b", "libri_test_trials_f_b2"):
        write_cache(tmp_path, other, voices(6, 4, 7))
    a, b = divide(read_embeddings(enrolled, "informed"), None)
    assert set(a.utterance.tolist()) == set(voices(6, 5, 1))
    assert set(b.utterance.tolist()) == set(voices(4, 3, 2)) | set(voices(6, 2, 3))  # the impostor is not enrolled
    assert [file.parent.parent.name for file in a.files] == [
        "libri_dev_enrolls_b2", "libri_dev_trials_f_b2", "libri_dev_trials_m_b2",
    ]  # fmt: skip
    assert set(a.attributes["gender"].tolist()) == {"f", "m"}


def test_a_folder_of_one_run_is_enough_if_it_is_clear(tmp_path: Path) -> None:
    run = tmp_path / "exp" / "asv_orig"
    for suffix in ("", "_b2"):
        write_cache(run / "cosine_out", f"libri_dev_enrolls{suffix}", voices(3, 4, 1))
        write_cache(run / "cosine_out", f"libri_dev_trials_f{suffix}", voices(3, 4, 2))
    assert read_embeddings(run, "original").where == run / "cosine_out/emb_xvect/libri_dev_enrolls"
    assert read_embeddings(run, "ignorant").where == run / "cosine_out/emb_xvect/libri_dev_enrolls_b2"
    write_cache(run / "cosine_out", "libri_test_enrolls_b2", voices(3, 4, 1))
    with pytest.raises(InputError, match="2 sets of enrollment with anonymized speech"):
        read_embeddings(run, "ignorant")


def test_cache_of_the_official_code_is_read() -> None:
    """Files that the challenge's own code wrote: means of speakers there equal those of the rows that are read."""
    import torch

    folder = SHARED / "reference/speechbrain/ecapa/exp/asv_anon_x/cosine_out/emb_xvect/libri_dev_enrolls"
    if not folder.is_dir():
        pytest.skip("the official files are not here")
    table = read_embeddings(folder, "informed")
    assert table.sets is not None
    means = torch.load(folder / "spk-level/speaker_vectors.pt", weights_only=True).numpy()  # noqa: TID251
    rows = dict(line.split() for line in (folder / "spk-level/id2idx").read_text().splitlines())
    for speaker, row in rows.items():
        own = (table.speaker == speaker) & (table.sets == "A")
        np.testing.assert_allclose(table.vector[own].mean(axis=0), means[int(row)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("id2idx", "a 0\nb 7\n", "utterance b has the row 7"),
        ("id2idx", "a 0\nb x\n", "utterance b has the row x"),
        ("id2idx", "a 0\nb 0\n", "two utterances have the same row"),
        ("idx2spk", "0 s\n", "utterance b has the row 1"),
        ("speaker_vectors.pt", "no tensor", "not a file of weights that torch wrote"),
    ],
)
def test_wrong_caches_are_refused(tmp_path: Path, name: str, content: str, what: str) -> None:
    vector = np.ones(4, dtype=np.float32)
    folder = write_cache(tmp_path, "train_x", {"a": ("s", vector), "b": ("s", 2 * vector)})
    (folder / "utt-level" / name).write_text(content)
    with pytest.raises(InputError, match=what):
        read_embeddings(folder, "informed")


def test_pickles_in_a_cache_are_never_run(tmp_path: Path) -> None:
    import torch

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return exec, (f"open({str(tmp_path / 'run')!r}, 'w')",)

    folder = write_cache(tmp_path, "train_x", voices(2, 2, 1))
    torch.save(Evil(), folder / "utt-level" / "speaker_vectors.pt")
    with pytest.raises(InputError, match="cannot be read as data"):
        read_embeddings(folder, "informed")
    assert not (tmp_path / "run").exists()


def write_kaldi(folder: Path, spoken: dict[str, tuple[str, Vectors]]) -> Path:
    folder.mkdir()
    people: dict[str, list[str]] = {}
    for utterance, (speaker, _) in spoken.items():
        people.setdefault(speaker, []).append(utterance)
    (folder / "spk2utt").write_text("".join(f"{s} {' '.join(us)}\n" for s, us in sorted(people.items())))
    return folder


def add_hdf5(folder: Path, spoken: dict[str, tuple[str, Vectors]]) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "xvector.h5", "w") as file:
        for utterance, (_, vector) in spoken.items():
            file[utterance] = vector[None]  # Sidekit writes a row
    return folder


def add_archive(folder: Path, spoken: dict[str, tuple[str, Vectors]]) -> Path:
    pytest.importorskip("kaldiio")
    data, lines = b"", []
    for utterance, (_, vector) in spoken.items():
        data += utterance.encode() + b" "
        lines.append(f"{utterance} {folder / 'xvector.ark'}:{len(data)}\n")
        data += b"\0BFV " + struct.pack("<bi", 4, len(vector)) + vector.tobytes()
    (folder / "xvector.ark").write_bytes(data)
    (folder / "xvector.scp").write_text("".join(lines))
    return folder


@pytest.mark.parametrize("add", [add_hdf5, add_archive])
def test_kaldi_directories_are_read(tmp_path: Path, add: object) -> None:
    assert callable(add)
    spoken = voices(4, 3, 1)
    folder = add(write_kaldi(tmp_path / "a", spoken), spoken | {"unlisted": ("x", np.ones(12, dtype=np.float32))})
    with pytest.raises(InputError, match="--norm unit"):
        read_embeddings(folder, "informed")
    table = read_embeddings(folder, "informed", norm="raw")
    assert table.utterance.tolist() == list(spoken)
    for utterance, speaker, vector in zip(table.utterance, table.speaker, table.vector, strict=True):
        assert speaker == spoken[str(utterance)][0]
        np.testing.assert_array_equal(vector, spoken[str(utterance)][1])


def test_wrong_kaldi_directories_are_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    spoken = voices(2, 2, 1)
    folder = write_kaldi(tmp_path / "a", spoken)
    with pytest.raises(InputError, match="0 files of embeddings"):
        read_embeddings(folder, "informed")
    some = dict(list(spoken.items())[1:])
    add_hdf5(folder, some)
    with pytest.raises(InputError, match="s00-1-0 has no embedding"):
        read_embeddings(folder, "informed", norm="raw")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["v"] = np.ones(12)
    with h5py.File(folder / "xvector.h5", "a") as file:
        file["s00-1-0"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "v")
    with pytest.raises(InputError, match="no dataset of this file"):
        read_embeddings(folder, "informed", norm="raw")
    (folder / "xvector.h5").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not readable as HDF5"):
        read_embeddings(folder, "informed", norm="raw")
    (folder / "spk2utt").write_text("s00 u1 u2\ns01 u2\n")
    with pytest.raises(InputError, match="utterance u2 is of s00 and of s01"):
        read_embeddings(folder, "informed", norm="raw")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="a folder without embeddings"):
        read_embeddings(tmp_path / "empty", "informed")


def table_of(spoken: dict[str, tuple[str, Vectors]]) -> EmbeddingTable:
    return EmbeddingTable(
        np.array(list(spoken)), np.array([s for s, _ in spoken.values()]), np.stack([v for _, v in spoken.values()])
    )


def test_distractors_are_other_speakers_with_two_utterances() -> None:
    a = table_of(voices(3, 2, 1))
    lone = {"lone-1": ("lone", np.ones(12, dtype=np.float32))}
    joined = add_distractors(a, table_of(voices(2, 2, 5, "d") | voices(3, 2, 6) | lone))
    assert set(joined.speaker.tolist()) == {"s00", "s01", "s02", "d00", "d01"}
    np.testing.assert_array_equal(joined.vector[: len(a.vector)], a.vector)
    with pytest.raises(InputError, match="no distractor is another speaker"):
        add_distractors(a, table_of(voices(3, 2, 6)))


def test_distractors_make_linking_harder_and_are_never_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From caches on disk to figures: 6 speakers, then the same among 26."""
    enrolled = write_cache(tmp_path, "libri_dev_enrolls_b2", voices(6, 6, 1))
    write_cache(tmp_path, "libri_dev_trials_f_b2", voices(6, 6, 2))
    extra = write_cache(tmp_path, "train-clean-360_b2", voices(20, 4, 3, "d"))
    options = ["--lengths", "1", "--draws", "2", "--json", "--embeddings", f"informed={enrolled}"]
    results = []
    for more in ([], ["--distractors", f"informed={extra}"]):
        assert main(["risk", *options, *more]) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert [result["sets"]["A"]["speakers"] for result in results] == [6, 26]
    linked = [next(c for c in result["curves"] if c["metric"] == "linkability") for result in results]
    assert linked[0]["probes"] == linked[1]["probes"] == 6  # distractors are not tested
    assert linked[1]["value"][-1] < linked[0]["value"][-1]
    assert main(["risk", "--embeddings", f"informed={enrolled}", "--distractors", f"ignorant={extra}"]) == 1
    assert "distractors for the attacker ignorant, who has no embeddings" in capsys.readouterr().err


def test_lengths_are_those_that_the_embeddings_allow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    enrolled = write_cache(tmp_path, "libri_dev_enrolls_b2", voices(6, 6, 1))
    write_cache(tmp_path, "libri_dev_trials_f_b2", voices(6, 6, 2))
    command = ["risk", "--embeddings", f"informed={enrolled}", "--draws", "1", "--json"]
    assert main(command) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["plan"]["lengths"] == [1, 3]
    assert any(text.startswith("Not measured: L = 30: 0 of 6 speakers") for text in result["warnings"])
    assert main([*command, "--lengths", "30"]) == 1
    assert "L = 30" in capsys.readouterr().err
