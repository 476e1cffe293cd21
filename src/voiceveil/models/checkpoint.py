"""Weights and training checkpoints as safetensors with a JSON record inside: data, never code.

Conventions: a file holds named tensors and, in its header, one record: a JSON object whose ``kind`` names the purpose
of the file. Files are written under a temporary name and renamed. Equal content gives equal bytes.
"""

from __future__ import annotations

import json
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import parse_json
from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file
from voiceveil.core.zip_files import check_zip

if TYPE_CHECKING:
    from torch import Tensor, nn, optim

__all__ = [
    "check_finite",
    "check_torch_file",
    "limit_network_size",
    "limit_parameters",
    "load_network",
    "load_state",
    "load_tensors",
    "load_training",
    "read_any_record",
    "read_record",
    "save_tensors",
    "save_training",
]

_METADATA_KEY = "voiceveil"
_MAX_HEADER_BYTES, _MAX_FILE_BYTES = 16 << 20, 4 << 30
_MAX_LAYER_SIZE = 1_000_000  # of a layer, as stated in a record


def save_tensors(path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    """Write tensors and their record to a safetensors file.

    Parameters
    ----------
    path
        The file; an existing one is replaced.
    tensors
        Name -> tensor, on any device.
    record
        JSON values; ``record["kind"]`` is the kind that :func:`load_tensors` expects.
    """
    from safetensors.torch import save

    stored = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    content = save(stored, metadata={_METADATA_KEY: json.dumps(record, sort_keys=True)})
    with atomic_path(path) as part:
        part.write_bytes(content)


def read_record(path: Path, kind: str) -> dict[str, Any]:
    """Return the record of a file; an ``InputError`` if it is damaged or of another kind."""
    with _opened(path) as file:
        return _record_of_kind(file, path, kind)


def read_any_record(path: Path) -> dict[str, Any]:
    """Return the record of a file of any kind; empty if other software wrote the file."""
    with _opened(path) as file:
        return _record(file, path)


def load_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors (on the CPU, finite) and the record of a file.

    Raises
    ------
    InputError
        If the file is missing, damaged, too large, of another kind, or holds values that are not finite.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    with _opened(path) as file:  # opened once, so that record and tensors agree even if the file is replaced meanwhile
        record = _record_of_kind(file, path, kind)
        if os.fstat(file.fileno()).st_size > _MAX_FILE_BYTES:
            problem = f"the file has more than {_MAX_FILE_BYTES} bytes"
            raise InputError(problem, where=path, fix="give a file that `voiceveil train` wrote")
        file.seek(0)
        content = file.read()
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise InputError(f"the file is damaged or truncated: {error}", where=path, fix="copy it again") from error
    check_finite(tensors, path)
    return tensors, record


def check_finite(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise an ``InputError`` if a tensor holds NaN or an infinity."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            problem = f"the weights {name[:100]} contain a value that is not finite"
            raise InputError(problem, where=path, fix="train the network again")


def load_network(path: Path, kind: str, build: Callable[[dict[str, Any]], Any]) -> tuple[Any, dict[str, Any]]:
    """Return a network with the weights of a file (evaluation mode, CPU), and the record of the file.

    Parameters
    ----------
    path
        A file that :func:`save_tensors` wrote.
    kind
        The expected kind of file.
    build
        Returns the network, with any weights, for the record.

    Raises
    ------
    InputError
        If the file cannot be used (see :func:`load_tensors`), or its weights do not match its record.
    """
    import torch

    tensors, record = load_tensors(path, kind)
    torch.set_num_threads(1)  # work is spread over processes, not threads
    try:
        with limit_network_size(tensors, record):
            network = build(record)
        load_state(network, tensors)
    except (KeyError, ValueError, TypeError, RuntimeError, ArithmeticError, MemoryError) as error:
        reason = (str(error).splitlines() or [""])[0]
        problem = f"the weights do not match the record of the file: {reason}"
        raise InputError(problem, where=path, fix="train the network again") from error
    return network.eval(), record


@contextmanager
def limit_network_size(tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> Iterator[None]:
    """Raise a ``ValueError`` when a network is built that is larger than the weights in its file.

    The record of a hostile file can claim any size. The limit is generous, because a network under construction may
    have parameters that its file does not contain (those of a weight norm).
    """
    _check_size({key: record[key] for key in ("size", "channels") if key in record})
    values = sum(tensor.numel() for tensor in tensors.values())
    with limit_parameters(4 * len(tensors) + 100, 4 * values + 1_000_000):
        yield


@contextmanager
def limit_parameters(max_tensors: int, max_values: int) -> Iterator[None]:
    """Raise a ``ValueError`` when networks are built with more parameter tensors, or more values in them, than this."""
    from torch.nn.modules.module import register_module_parameter_registration_hook

    count = values = 0

    def check(module: nn.Module, name: str, parameter: Tensor | None) -> None:
        nonlocal count, values
        count, values = count + 1, values + (0 if parameter is None else parameter.numel())
        if count > max_tensors or values > max_values:
            raise ValueError("the record states a larger network than there are weights")

    handle = register_module_parameter_registration_hook(check)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch warns about layers of size 0
            yield
    finally:
        handle.remove()


def _check_size(value: Any) -> None:
    """Raise a ``ValueError`` unless a JSON value is a possible layer size, or consists of such."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            _check_size(item)
    elif isinstance(value, int | float) and not 0 <= value <= _MAX_LAYER_SIZE:
        raise ValueError(f"the record states a layer size of {value:.6g}")
    elif value is None:
        raise ValueError("the record states a layer size of null")


def load_state(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy all weights into a network; a ``RuntimeError`` or ``ValueError`` if names, shapes or types differ."""
    for name, tensor in network.state_dict().items():
        if name in tensors and tensors[name].is_floating_point() != tensor.is_floating_point():
            given, expected = (str(t.dtype).removeprefix("torch.") for t in (tensors[name], tensor))
            raise ValueError(f"{name} is of type {given}, not {expected}")
    network.load_state_dict(dict(tensors))


def check_torch_file(path: Path) -> None:
    """Raise an ``InputError`` unless a file of ``torch.save`` is a zip file with uncompressed storages.

    In the format before torch 1.6, and with compressed storages, a short file can claim any amount of memory.
    """
    fix = "save the weights again, with torch.save of torch 1.6 or later, or as safetensors"
    try:
        with open_file(path) as file:
            check_zip(file, zip64=True)  # torch writes zip64
            with zipfile.ZipFile(file) as archive:
                if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                    raise InputError("the storages are compressed")
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError) as error:
        reason = error.what if isinstance(error, InputError) else str(error)
        raise InputError(f"not a file of weights that torch wrote: {reason}", where=path, fix=fix) from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with open_file(path) as file:
            yield file
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror or error}", where=path) from error


def _record_of_kind(file: BinaryIO, path: Path, kind: str) -> dict[str, Any]:
    record = _record(file, path)
    actual = record.get("kind", "weights of other software")
    if actual != kind:
        fix = "give a file that `voiceveil train` wrote"
        raise InputError(f"the file contains {actual!r}, not {kind!r}", where=path, fix=fix)
    return record


def _record(file: BinaryIO, path: Path) -> dict[str, Any]:
    """Read the record from the header: its length in 8 bytes, then JSON with the record as a string in its metadata."""
    size = int.from_bytes(file.read(8), "little")
    try:
        if size > _MAX_HEADER_BYTES:
            raise ValueError("no header")
        metadata = parse_json(file.read(size)).get("__metadata__", {})
        record = parse_json(metadata[_METADATA_KEY], nan=True) if _METADATA_KEY in metadata else {}
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError("not a safetensors file, or a damaged one", where=path, fix="copy it again") from error
    return dict(record) if isinstance(record, dict) else {"kind": "unknown"}


def save_training(path: Path, modules: nn.Module, optimizer: optim.Optimizer, record: Mapping[str, Any]) -> None:
    """Write a training checkpoint: everything that is needed to resume.

    Parameters
    ----------
    path
        The file; an existing one is replaced.
    modules
        All modules that are trained; their weights are saved.
    optimizer
        Its moments are saved.
    record
        JSON values such as settings and the step; ``record["kind"]`` is the kind that :func:`load_training` expects.
    """
    tensors = {f"module.{name}": tensor for name, tensor in modules.state_dict().items()}
    for index, values in optimizer.state_dict()["state"].items():
        tensors.update({f"optimizer.{index}.{name}": tensor for name, tensor in values.items()})
    save_tensors(path, tensors, record)


def load_training(path: Path, kind: str, modules: nn.Module, optimizer: optim.Optimizer) -> dict[str, Any]:
    """Restore modules and optimizer from a checkpoint of :func:`save_training`, and return its record.

    Raises
    ------
    InputError
        If the file cannot be used, or belongs to another network.
    """
    tensors, record = load_tensors(path, kind)
    state = optimizer.state_dict()
    moments: dict[int, dict[str, Tensor]] = {}
    weights: dict[str, Tensor] = {}
    try:
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            if part == "module":
                weights[rest] = tensor
            else:
                index, _, moment = rest.partition(".")
                moments.setdefault(int(index), {})[moment] = tensor
        if not set(moments) <= set(range(sum(len(group["params"]) for group in state["param_groups"]))):
            raise ValueError("moments of parameters that the network does not have")
        load_state(modules, weights)
        optimizer.load_state_dict({**state, "state": moments})
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        reason = (str(error).splitlines() or [""])[0]
        problem = f"this is the checkpoint of another network: {reason}"
        raise InputError(problem, where=path, fix="use another --out") from error
    return record
