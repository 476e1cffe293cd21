"""Kaldi's x-vector archives and PLDA models: both formats, broken and hostile files."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.support.kaldi_models import binary, make_plda, plda_bytes, plda_text, text, write_xvectors
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.kaldi_files import read_array, read_plda, read_vectors

pytest.importorskip("kaldiio", reason="kaldiio is not installed")


@pytest.mark.parametrize("double", [True, False])
def test_plda_models_are_read_from_binary_and_text_files(tmp_path: Path, double: bool) -> None:
    plda = make_plda(5)
    path = tmp_path / "plda"
    for content in (plda_bytes(plda, double=double), plda_text(plda).encode()):
        path.write_bytes(content)
        model = read_plda(path)
        for array, expected in zip((model.mean, model.transform, model.psi), plda, strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-6)
            assert array.dtype == np.float64


def test_vectors_and_matrices_are_read_from_binary_and_text_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "array"
    for array in (rng.normal(size=4), rng.normal(size=(3, 4)), rng.normal(size=(1, 4))):
        for content in (b"\0B" + binary(array), text(array).encode()):
            path.write_bytes(content)
            np.testing.assert_allclose(read_array(path), array, rtol=1e-12)


def test_x_vectors_are_found_by_their_ids_and_beside_a_moved_list(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    vectors = {f"u{number}": rng.normal(size=6).astype(np.float32) for number in range(5)}
    scp = write_xvectors(tmp_path / "xvect_set", vectors)
    np.testing.assert_array_equal(read_vectors(scp, ["u3", "u0"]), [vectors["u3"], vectors["u0"]])
    moved = (tmp_path / "xvect_set").rename(tmp_path / "moved") / "xvector.scp"
    np.testing.assert_array_equal(read_vectors(moved, ["u4"]), [vectors["u4"]])
    with pytest.raises(InputError, match=r"1 of 2 utterances have no x-vector, e\.g\. u9"):
        read_vectors(moved, ["u1", "u9"])


def test_text_archives_are_read(tmp_path: Path) -> None:
    first, second = "u1  [ 1.5 2 ]\n", "u2  [ 3 4.25 ]\n"
    (tmp_path / "x.ark").write_text(first + second)
    scp = tmp_path / "xvector.scp"
    scp.write_text(f"u1 x.ark:3\nu2 x.ark:{len(first) + 3}\n")
    np.testing.assert_array_equal(read_vectors(scp, ["u1", "u2"]), [[1.5, 2.0], [3.0, 4.25]])


class Bomb:
    """Unpickled, it would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_archives_and_lists_run_nothing(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    (tmp_path / "x.ark").write_bytes(b"u1 PKL" + pickle.dumps(Bomb(trap)))
    scp = tmp_path / "xvector.scp"
    scp.write_text("u1 x.ark:3\n")
    with pytest.raises(InputError, match="no vector at offset 3"):
        read_vectors(scp, ["u1"])
    scp.write_text(f"u1 touch {trap} |\n")
    with pytest.raises(InputError, match="without a command"):
        read_vectors(scp, ["u1"])
    (tmp_path / "plda").write_bytes(b"PKL" + pickle.dumps(Bomb(trap)))
    with pytest.raises(InputError, match="not a PLDA model"):
        read_plda(tmp_path / "plda")
    with pytest.raises(InputError, match="no vector or matrix"):
        read_array(tmp_path / "plda")
    assert not trap.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0BFV \4" + struct.pack("<i", 1 << 30) + bytes(8), "no vector at offset 0"),
        (b"\0BFV \4" + struct.pack("<i", -5) + bytes(8), "no vector at offset 0"),
        (b"\0BFM \4" + struct.pack("<i", 2) + bytes(40), "no vector at offset 0"),
        (b"\0BFV ", "no vector at offset 0"),
        (b"[ 1 x ]\n", "no vector or matrix"),
        (b"", "offset 0 is beyond its end"),
        (b"\0B" + binary(np.array([1.0, np.nan])), "x-vector of u1 is not finite"),
    ],
)
def test_broken_archives_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.ark").write_bytes(content)
    scp = tmp_path / "xvector.scp"
    scp.write_text("u1 x.ark:0\n")
    with pytest.raises(InputError, match=message):
        read_vectors(scp, ["u1"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("u1", "line 1: cannot be read"),
        ("u1 x.ark", "line 1: cannot be read"),
        ("u1 x.ark:3[0:4]", "line 1: cannot be read"),
        ("u1 x.ark:0\nu1 x.ark:0", "line 2: u1 is there twice"),
        ("u1 nothing.ark:0", "no archive nothing.ark"),
    ],
)
def test_broken_lists_are_refused(tmp_path: Path, line: str, message: str) -> None:
    scp = tmp_path / "xvector.scp"
    scp.write_text(f"{line}\n")
    with pytest.raises(InputError, match=message):
        read_vectors(scp, ["u1"])


def test_broken_plda_models_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "plda"
    mean, transform, psi = make_plda(4)
    whole = plda_bytes((mean, transform, psi))
    for content, message in (
        (plda_bytes((mean, transform[:3], psi)), r"shapes \(4,\), \(3, 4\), \(4,\)"),
        (plda_bytes((mean, transform, -psi)), "are no PLDA model"),
        (whole[:60] + b"</Plda> ", "it ends within"),
        (b"<Plda> [ 1 ] </Plda>", "no vector or matrix"),
        (whole.removesuffix(b"</Plda> "), "not a PLDA model"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_plda(path)
    with pytest.raises(InputError, match="no such file"):
        read_plda(tmp_path / "nothing")
