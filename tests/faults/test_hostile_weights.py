"""Weights and records of trainings that nobody vouches for: an ``InputError``, in bounded time and memory."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.faults.test_hostile_data import bounded
from tests.support.tiny_models import tiny_ctc
from voiceveil.core.errors import InputError
from voiceveil.core.zip_files import read_npz
from voiceveil.models.checkpoint import load_tensors, load_training, save_tensors, save_training
from voiceveil.models.nets.intonation import Voicing
from voiceveil.models.pretrained import read_config
from voiceveil.models.speaker.campplus import load_network as load_campplus
from voiceveil.models.speaker.encoders import TrainingRecord
from voiceveil.models.weights import store
from voiceveil.systems.resynthesis.pool import load_pool
from voiceveil.systems.resynthesis.synthesis import load_stage

SIZE = {"content": 6, "width": 4, "layers": 2, "codes": 5, "nearest": 2}
KIND = "voicing of words"


def tensors() -> dict[str, torch.Tensor]:
    """Return the weights of a small network."""
    torch.manual_seed(0)
    return dict(Voicing(**SIZE).state_dict())


def written(path: Path, *, size: Any = None, change: dict[str, Any] | None = None, without: str = "") -> Path:
    """Write the small network, with changes."""
    named = {name: tensor for name, tensor in {**tensors(), **(change or {})}.items() if name != without}
    save_tensors(path, named, {"kind": KIND, "size": SIZE if size is None else size, "parts": {}})
    return path


def test_valid_weights_are_loaded(tmp_path: Path) -> None:
    stage = load_stage(written(tmp_path / "a.safetensors"), [KIND])
    rng = np.random.default_rng(0)
    assert stage.run(np.ones((8, 6), np.float32), np.ones(8, np.float32), np.ones(3, np.float32), rng).shape == (8,)


@pytest.mark.parametrize(
    "size",
    [
        {**SIZE, "layers": 1_000_000},
        {**SIZE, "layers": 50_000},
        {**SIZE, "layers": -3},
        {**SIZE, "layers": 2.5},
        {**SIZE, "width": 10**12},
        {**SIZE, "width": 60_000},
        {**SIZE, "width": -4},
        {**SIZE, "content": 0},
        {**SIZE, "codes": 10**30},
        {**SIZE, "codes": "many"},
        {**SIZE, "nearest": None},
        {**SIZE, "color": 1},
        {"width": [[]]},
        [],
        "x",
        7,
    ],
)
def test_absurd_sizes_are_rejected(size: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "a.safetensors", size=size)
    with bounded(), pytest.raises(InputError, match=r"a\.safetensors"):
        load_stage(path, [KIND])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"voiced.bias": torch.tensor([1.0, torch.nan])}, r"voiced\.bias contain a value that is not finite"),
        ({"voiced.bias": torch.tensor([torch.inf, 1.0])}, r"voiced\.bias contain a value that is not finite"),
        ({"voiced.bias": torch.tensor([1, 2])}, r"voiced\.bias is of type int64, not float32"),
        ({"voiced.bias": torch.tensor([True, False])}, r"voiced\.bias is of type bool"),
        ({"voiced.bias": torch.ones(3)}, "another architecture"),
        ({"more": torch.ones(3)}, "another architecture"),
    ],
)
def test_absurd_tensors_are_rejected(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.safetensors", change=change)
    with bounded(), pytest.raises(InputError, match=message):
        load_stage(path, [KIND])


def test_missing_tensor_is_rejected(tmp_path: Path) -> None:
    path = written(tmp_path / "a.safetensors", without="voiced.bias")
    with bounded(), pytest.raises(InputError, match="another architecture"):
        load_stage(path, [KIND])


def raw(path: Path, header: object, data: bytes = b"", *, length: int | None = None) -> Path:
    """Write a safetensors file byte by byte."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


META = {"__metadata__": {"voiceveil": json.dumps({"kind": "test"})}}
F32 = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


@pytest.mark.parametrize(
    ("header", "data", "length"),
    [
        ({**META, "a": F32}, bytes(16), 1 << 45),
        ({**META, "a": F32}, bytes(16), (1 << 64) - 1),
        ({**META, "a": F32}, bytes(16), 5),
        ({**META, "a": {**F32, "shape": [1 << 40, 1 << 20], "data_offsets": [0, 1 << 62]}}, bytes(16), None),
        ({**META, "a": {**F32, "data_offsets": [0, 1 << 40]}}, bytes(16), None),
        ({**META, "a": F32, "b": F32}, bytes(16), None),
        ({**META, "a": F32, "b": {**F32, "data_offsets": [8, 24]}}, bytes(24), None),
        ({**META, "a": {**F32, "shape": [-2, -2]}}, bytes(16), None),
        ({**META, "a": {**F32, "dtype": "PICKLE"}}, bytes(16), None),
        ({**META, "a": {**F32, "shape": [3, 3]}}, bytes(16), None),
        ({**META, "a": []}, bytes(16), None),
        ({"__metadata__": {"voiceveil": "[" * 100_000}}, b"", None),
        ({"__metadata__": {"voiceveil": "9" * 5000}}, b"", None),
        ({"__metadata__": {"voiceveil": 7}}, b"", None),
        ({"__metadata__": []}, b"", None),
        (b"[" * 1_000_000, b"", None),
        (b'{"a":' * 1_000_000, b"", None),
        (b"[" + b"[]," * 5_000_000 + b"1]", b"", None),
    ],
)
def test_absurd_headers_are_rejected(header: object, data: bytes, length: int | None, tmp_path: Path) -> None:
    path = raw(tmp_path / "a.safetensors", header, data, length=length)
    with bounded(), pytest.raises(InputError, match=r"a\.safetensors"):
        load_tensors(path, "test")


def test_sparse_file_is_rejected(tmp_path: Path) -> None:
    """A sparse file takes no disk, but memory when it is read."""
    size = 40 << 30
    path = raw(tmp_path / "a.safetensors", {**META, "a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + size)
    with bounded(), pytest.raises(InputError, match="bytes"):
        load_tensors(path, "test")


@pytest.mark.parametrize("name", ["optimizer.x.exp_avg", "optimizer", "optimizer.99.exp_avg", "strange.0", "module.w"])
def test_absurd_checkpoints_are_rejected(name: str, tmp_path: Path) -> None:
    network = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(network.parameters())
    path = tmp_path / "c.safetensors"
    save_training(path, network, optimizer, {"kind": "test"})
    found, record = load_tensors(path, "test")
    save_tensors(path, {**found, name: torch.ones(2)}, record)
    with bounded(), pytest.raises(InputError, match="the checkpoint of another network"):
        load_training(path, "test", network, optimizer)


@pytest.mark.parametrize(
    ("change", "record"),
    [
        ({"embeddings": torch.ones(2, 3, 4)}, {}),
        ({"plda.within": torch.ones(2, 2)}, {}),
        ({"plda.centre": torch.ones(9)}, {}),
        ({"log_f0": torch.full((4,), 1e30)}, {}),
        ({}, {"ids": 7}),
        ({}, {"ids": ["a", "b", 3, 4]}),
        ({}, {"genders": None}),
        ({}, {"genders": "ffff"}),
        ({}, {"encoder": ["x"]}),
    ],
)
def test_absurd_pools_are_rejected(change: dict[str, Any], record: dict[str, Any], tmp_path: Path) -> None:
    good = {
        "embeddings": torch.rand(4, 3), "log_f0": torch.full((4,), 5.0), "plda.centre": torch.zeros(3),
        "plda.mean": torch.zeros(3), "plda.between": torch.eye(3), "plda.within": torch.eye(3),
    }  # fmt: skip
    usual = {"kind": "pool of speakers", "encoder": "e", "ids": ["a", "b", "c", "d"], "genders": "ffmm"}
    save_tensors(tmp_path / "good.safetensors", good, usual)
    assert len(load_pool(tmp_path / "good.safetensors")) == 4
    save_tensors(tmp_path / "bad.safetensors", {**good, **change}, {**usual, **record})
    with bounded(), pytest.raises(InputError, match=r"bad\.safetensors"):
        load_pool(tmp_path / "bad.safetensors")


# -- files of torch.save, and .npz


def _bomb(path: Path) -> None:
    """A zip file as torch writes it, whose one storage is packed: 20 MB hold 20 GB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"x")
        with archive.open("a/data/0", "w") as member:
            for _ in range(300):
                member.write(bytes(1 << 20))


def _legacy(path: Path) -> None:
    """The format before 2020, in which a storage of any length can be claimed."""
    torch.save({"a": torch.ones(2)}, path, _use_new_zipfile_serialization=False)


def _other(path: Path) -> None:
    torch.save({"a": torch.ones(2)}, path)


def _nan(path: Path) -> None:
    from voiceveil.models.nets.campplus import CamPlusPlusNet

    state = CamPlusPlusNet().state_dict()
    name = next(name for name, tensor in state.items() if tensor.is_floating_point())
    state[name] = torch.full_like(state[name], torch.nan)
    torch.save(state, path)


class _Code:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("planted code runs",))


def _pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps(_Code()))


def _list(path: Path) -> None:
    torch.save([1, 2], path)


@pytest.mark.parametrize("make", [_bomb, _legacy, _other, _nan, _pickle, _list])
def test_torch_files_are_read_without_unpickling(
    make: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "a.pt")
    load_campplus()  # the network itself takes memory
    with bounded(), pytest.raises(InputError, match=r"a\.pt"):
        load_campplus(str(tmp_path / "a.pt"))
    assert "planted" not in capsys.readouterr().out


def _npy(shape: str, descr: str = "'<f4'", data: bytes = b"") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    "content",
    [
        _npy("(1000000000000,)"),
        _npy("(-4,)", data=bytes(16)),
        _npy("(2,)", "'|O'", bytes(16)),
        _npy("(2,)", "[('a', '|O')]", bytes(16)),
        _npy("(" * 5000),
        _npy("(" + "9" * 5000 + ",)"),
        bytes(300 << 20),
        b"",
        b"\x93NUMPY\x09\x00",
    ],
)
def test_hostile_npz_is_rejected(content: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", content)
    with bounded(), pytest.raises(ValueError, match=r"."):
        read_npz(tmp_path / "a.npz", largest=64 << 20)


def test_npz_with_a_million_members_is_rejected(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", b"")
    entry = (tmp_path / "a.npz").read_bytes()[-22 - 51 : -22]
    directory = entry * 1_000_000
    end = b"PK\x05\x06" + bytes(4) + b"\xff\xff\xff\xff" + len(directory).to_bytes(4, "little") + bytes(6)
    (tmp_path / "b.npz").write_bytes(directory + end)
    buffer = io.BytesIO()
    np.savez(buffer, a=np.ones(3))
    (tmp_path / "c.npz").write_bytes(buffer.getvalue())
    assert read_npz(tmp_path / "c.npz", largest=1 << 20)["a"].sum() == 3
    with bounded(), pytest.raises(ValueError, match=r"."):
        read_npz(tmp_path / "b.npz", largest=64 << 20)


# -- records of trainings, cards, settings of models

RECORDS = [
    b"", b"[]", b"7", b"[" * 100_000, b'{"data":' * 10_000, b"\xff", b'{"data": "other"}', b'{"data": ["original"]}',
    b'{"accuracy": "high"}', b'{"accuracy": [0.5]}', b'{"accuracy": 5}', b'{"accuracy": -1}', b'{"speakers": -4}',
    b'{"speakers": 1.5}', b'{"speakers": ' + b"9" * 5000 + b"}", b'{"validation_eer": 1e999}',
    b'{"peak_reached": "no"}',     b'{"utterances": {}}', b'{"speakers": 1, "speakers": 2}', b"{} " + b" " * (30 << 20),
]  # fmt: skip


@pytest.mark.parametrize("content", RECORDS, ids=lambda content: content[:24].decode("latin-1"))
def test_invalid_training_records_are_rejected(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with bounded(), pytest.raises(InputError, match=r"record\.json"):
        TrainingRecord.read(path)


def test_valid_training_record_is_read(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text('{"data": "similar", "speakers": 3, "accuracy": NaN, "validation_eer": 0.5, "curve": [1]}')
    assert TrainingRecord.read(path) == TrainingRecord("similar", 3, validation_eer=0.5)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"sha256": 7}', b'{"sha256": ["x"]}', b"[" * 100_000, b"\xff"])
def test_invalid_hashes_in_records_are_rejected(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_bytes(content)
    with bounded(), pytest.raises(InputError, match=r"record\.json"):
        store.recorded_sha256(tmp_path / "model.safetensors")


@pytest.mark.parametrize("content", [b"", b"[]", b"[" * 100_000, b"\xff", b'{"a": 1, "a": 2}'])
def test_invalid_model_settings_are_rejected(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with bounded(), pytest.raises(InputError, match=r"config\.json"):
        read_config(tmp_path)


@pytest.mark.parametrize("change", [{"num_hidden_layers": 300_000}, {"hidden_size": 8_000_000}, {"vocab_size": 10**12}])
def test_settings_larger_than_the_weights_are_rejected(change: dict[str, int], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from voiceveil.models.pretrained import load_weights

    folder = tiny_ctc(tmp_path / "model")
    load_weights(folder, "AutoModelForCTC", "cpu")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with bounded(), pytest.raises(InputError, match="the model cannot be loaded"):
        load_weights(folder, "AutoModelForCTC", "cpu")
