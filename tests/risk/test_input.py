"""Embeddings in files, sets A and B, and everything that can be wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, write_kaldi
from voiceveil.risk.embeddings import EmbeddingTable, check_table, read_table
from voiceveil.risk.sets import attack_from_tables, check_sets, divide, read_split

Columns = dict[str, Any]


def columns(speakers: int = 3, each: int = 4, seed: int = 0) -> Columns:
    rng = np.random.default_rng(seed)
    who = [f"s{number}" for number in range(speakers) for _ in range(each)]
    vector = rng.standard_normal((len(who), 5)).astype(np.float32)
    return {
        "utterance": np.array([f"{name}-{number}" for number, name in enumerate(who)]),
        "speaker": np.array(who),
        "vector": vector / np.linalg.norm(vector, axis=1, keepdims=True),
        "set": np.array(["A", "B"] * (len(who) // 2)),
        "gender": np.array(["f" if name == "s0" else "m" for name in who]),
    }


def write(path: Path, data: Columns) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **data)
        return path
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    plain = {name: [row.tolist() if name == "vector" else str(row) for row in column] for name, column in data.items()}
    parquet.write_table(arrow.table(plain), path)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_file_round_trips(tmp_path: Path, suffix: str) -> None:
    data = columns()
    table = read_table(write(tmp_path / f"e{suffix}", data))
    np.testing.assert_array_equal(table.utterance, data["utterance"])
    np.testing.assert_array_equal(table.speaker, data["speaker"])
    np.testing.assert_allclose(table.vector, data["vector"], atol=1e-7)
    assert table.vector.dtype == np.float32
    assert set(table.attributes) == {"gender"}
    a, b = divide(table, None)
    assert (len(a.utterance), len(b.utterance)) == (6, 6)
    made = attack_from_tables("informed", a, b)
    assert made.parts[0].a.names == ("s0", "s1", "s2")


def broken(row: int, value: float) -> Columns:
    data = columns()
    data["vector"][row] = value
    return data


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize(
    ("data", "what"),
    [
        (broken(5, np.nan), "the vector of utterance s1-5 of speaker s1 has a NaN or an infinite value"),
        (broken(5, 0.0), "the vector of utterance s1-5 of speaker s1 is all zeros"),
        (broken(9, 2.0), "the vector of utterance s2-9 of speaker s2 has length 4.472, not 1 (and 0 others)"),
    ],
)
def test_invalid_vectors_are_named(tmp_path: Path, suffix: str, data: Columns, what: str) -> None:
    path = write(tmp_path / f"e{suffix}", data)
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert caught.value.what == what
    assert caught.value.where == str(path)


def test_norm_option_sets_the_vector_lengths(tmp_path: Path) -> None:
    data = columns()
    data["vector"] = data["vector"] * 3
    path = write(tmp_path / "e.npz", data)
    np.testing.assert_allclose(np.linalg.norm(read_table(path, norm="unit").vector, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(read_table(path, norm="raw").vector, axis=1), 3, rtol=1e-6)
    with pytest.raises(InputError, match="--norm unit divides each by its length"):
        read_table(path)


def test_vectors_of_different_dimensions_are_rejected(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = {"utterance": ["a", "b", "c"], "speaker": ["x", "x", "y"], "vector": [[1.0, 0.0], [0.0, 1.0], [1.0]]}
    parquet.write_table(arrow.table(rows), tmp_path / "e.parquet")
    with pytest.raises(InputError) as caught:
        read_table(tmp_path / "e.parquet")
    assert caught.value.what == "the vector of utterance c of speaker y has 1 dimensions, others 2"


def test_unreadable_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / "nothing.npz")
    for name in ("e.npz", "e.parquet"):
        (tmp_path / name).write_bytes(b"rubbish")
        with pytest.raises(InputError, match="not readable as"):
            read_table(tmp_path / name)
    np.savez(tmp_path / "pickled.npz", utterance=np.array([{}], dtype=object), speaker=["a"], vector=[[1.0]])
    with pytest.raises(InputError, match=r"not readable as \.npz"):
        read_table(tmp_path / "pickled.npz")
    np.savez(tmp_path / "few.npz", utterance=["a"], vector=[[1.0]])
    with pytest.raises(InputError, match="no column 'speaker'; there are utterance, vector"):
        read_table(tmp_path / "few.npz")
    np.savez(tmp_path / "twice.npz", utterance=["a", "a"], speaker=["x", "x"], vector=[[1.0], [1.0]])
    with pytest.raises(InputError, match="utterance a of speaker x is there twice"):
        read_table(tmp_path / "twice.npz")
    np.savez(tmp_path / "uneven.npz", utterance=["a", "b"], speaker=["x"], vector=[[1.0], [1.0]])
    with pytest.raises(InputError, match="1 rows of 'speaker' for 2 utterances"):
        read_table(tmp_path / "uneven.npz")


def table(speakers: list[str], start: int, dimension: int = 4) -> EmbeddingTable:
    rng = np.random.default_rng(start)
    ids = np.array([f"u{start + number}" for number in range(len(speakers))])
    return check_table(
        EmbeddingTable(ids, np.array(speakers), rng.standard_normal((len(speakers), dimension), dtype=np.float32)),
        "raw",
    )


GOOD = table(["x", "x", "y", "y"], 0)


@pytest.mark.parametrize(
    ("a", "b", "what"),
    [
        (GOOD, table(["x", "z"], 10), "speaker z is in B but not in A"),
        (GOOD, table(["x", "y"], 3), "utterance u3 of speaker x is in A and in B"),
        (GOOD, table(["x", "y"], 10, 3), "speaker x has vectors of 3 dimensions in B, speaker x of 4 in A"),
        (table(["x", "x", "y"], 0), table(["x"], 10), "speaker y has fewer than two utterances in A (and 0 others)"),
        (table(["x", "x"], 0), table(["x"], 10), "speaker x is alone in A"),
    ],
)
def test_invalid_sets_name_the_speaker(a: EmbeddingTable, b: EmbeddingTable, what: str) -> None:
    with pytest.raises(InputError) as caught:
        check_sets(a, b)
    assert caught.value.what == what


def test_split_of_a_protocol_is_read(tmp_path: Path) -> None:
    path = tmp_path / "protocol.toml"
    text = 'name = "c"\ntitle = "C"\nmetrics = ["linkability"]\n[legal]\na = "c_A"\nb = "c_B"\n'
    path.write_text(text)
    for name, ids in (("c_A", ("u0", "u1")), ("c_B", ("u2",))):
        write_kaldi(Corpus(name, tuple(Utterance(id, Path("/no.wav"), speaker="x") for id in ids)), tmp_path / name)
    split = read_split(path)
    assert split == {"u0": "A", "u1": "A", "u2": "B"}
    a, b = divide(GOOD.rows(np.arange(3)), split)
    assert (a.utterance.tolist(), b.utterance.tolist()) == (["u0", "u1"], ["u2"])
    with pytest.raises(InputError, match=r"1 utterance\(s\) of the protocol are missing, e\.g\. u9"):
        divide(GOOD, {**split, "u9": "B"})
    with pytest.raises(InputError, match="which utterances are in A and which in B"):
        divide(GOOD, None)
    write_kaldi(Corpus("c_B", (Utterance("u0", Path("/no.wav"), speaker="x"),)), tmp_path / "c_B")
    with pytest.raises(InputError, match="utterance u0 of speaker x is in A and in B"):
        read_split(path)
    path.write_text(text.partition("[legal]")[0].replace('"linkability"', ""))
    with pytest.raises(InputError, match="metrics is empty"):
        read_split(path)
    for other in ("vpc2024.toml", tmp_path / "none.toml"):
        with pytest.raises(InputError):
            read_split(Path(other))
