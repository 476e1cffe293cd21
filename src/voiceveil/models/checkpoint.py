"""Weights and states of training as safetensors, with a JSON record inside: data, never code.

Conventions: a file holds named tensors and, in its header, one record (a JSON object) whose ``kind`` says what the
file is for. Files are written under a temporary name and renamed. The same content gives the same bytes.
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
    "fill",
    "limited_parameters",
    "load_network",
    "load_tensors",
    "load_training",
    "no_larger_than",
    "read_any_record",
    "read_record",
    "save_tensors",
    "save_training",
]

_KEY = "voiceveil"
_LONGEST_HEADER, _LARGEST = 16 << 20, 4 << 30  # bytes of a header, and of a file
_LARGEST_SIZE = 1_000_000  # of a layer, in a record


def save_tensors(path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    """Write tensors and record; ``record["kind"]`` is what :func:`load_tensors` asks for."""
    from safetensors.torch import save

    plain = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    content = save(plain, metadata={_KEY: json.dumps(record, sort_keys=True)})
    with atomic_path(path) as part:
        part.write_bytes(content)


def read_record(path: Path, kind: str) -> dict[str, Any]:
    """Return the record of a file of that kind; an ``InputError`` if it is something else."""
    with _opened(path) as file:
        return _record(file, path, kind)


def read_any_record(path: Path) -> dict[str, Any]:
    """Return the record of a file of any kind; empty if it is of other software."""
    with _opened(path) as file:
        return _any_record(file, path)


def load_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors (on the CPU, finite) and record of a file of that kind."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    with _opened(path) as file:  # opened once: record and tensors are of one file, even if another takes its name
        record = _record(file, path, kind)
        if os.fstat(file.fileno()).st_size > _LARGEST:
            raise InputError(f"more than {_LARGEST} bytes", where=path, fix="give a file that `voiceveil train` wrote")
        file.seek(0)
        content = file.read()
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise InputError(f"damaged or truncated: {error}", where=path, fix="copy it again") from error
    check_finite(tensors, path)
    return tensors, record


def check_finite(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise an ``InputError`` if a tensor holds NaN or an infinity."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise InputError(f"{name[:100]} holds a value that is not finite", where=path, fix="train it again")


def load_network(path: Path, kind: str, make: Callable[[dict[str, Any]], Any]) -> tuple[Any, dict[str, Any]]:
    """The network (evaluation mode, CPU) that ``make`` builds from the record, with the file's weights; the record."""
    import torch

    tensors, record = load_tensors(path, kind)
    torch.set_num_threads(1)  # one thread a process, many processes
    try:
        with no_larger_than(tensors, record):
            network = make(record)
        fill(network, tensors)
    except (KeyError, ValueError, TypeError, RuntimeError, ArithmeticError, MemoryError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(f"its weights do not fit its record: {reason}", where=path, fix="train it again") from error
    return network.eval(), record


@contextmanager
def no_larger_than(tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> Iterator[None]:
    """Refuse by a ``ValueError`` that a network is built which is larger than the weights in its file.

    The record of a file can claim any size. Networks may have some parameters while they are built that their file
    has not (those of a weight norm), hence not the exact count.
    """
    _check_size({key: record[key] for key in ("size", "channels") if key in record})
    values = sum(tensor.numel() for tensor in tensors.values())
    with limited_parameters(4 * len(tensors) + 100, 4 * values + 1_000_000):
        yield


@contextmanager
def limited_parameters(most: int, most_values: int) -> Iterator[None]:
    """Refuse by a ``ValueError`` that networks of more parameters, or with more values in them, are built."""
    from torch.nn.modules.module import register_module_parameter_registration_hook

    count = values = 0

    def check(module: nn.Module, name: str, parameter: Tensor | None) -> None:
        nonlocal count, values
        count, values = count + 1, values + (0 if parameter is None else parameter.numel())
        if count > most or values > most_values:
            raise ValueError("its record says that the network is larger than its weights are")

    handle = register_module_parameter_registration_hook(check)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of layers without weights, which no file of ours has
            yield
    finally:
        handle.remove()


def _check_size(value: Any) -> None:
    """Raise a ``ValueError`` at what cannot be the size of a layer, a list or an object of such."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            _check_size(item)
    elif isinstance(value, int | float) and not 0 <= value <= _LARGEST_SIZE:
        raise ValueError(f"its record has the size {value:.6g}")
    elif value is None:
        raise ValueError("its record has a size that is null")


def fill(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put all weights into a network; a ``RuntimeError`` or ``ValueError`` if they are of other shapes or types."""
    for name, tensor in network.state_dict().items():
        if name in tensors and tensors[name].is_floating_point() != tensor.is_floating_point():
            theirs, ours = (str(t.dtype).removeprefix("torch.") for t in (tensors[name], tensor))
            raise ValueError(f"{name} is of type {theirs}, not {ours}")
    network.load_state_dict(dict(tensors))


def check_torch_file(path: Path) -> None:
    """Raise an ``InputError`` unless a file of ``torch.save`` is a zip file whose storages take the bytes they claim.

    In the format before torch 1.6, and in storages that are compressed, a short file can claim any amount of memory.
    """
    fix = "save it again, with torch.save of torch 1.6 or later, or as safetensors"
    try:
        with open_file(path) as file:
            check_zip(file, zip64=True)  # as torch writes it
            with zipfile.ZipFile(file) as archive:
                if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                    raise InputError("its storages are compressed")
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError) as error:
        what = error.what if isinstance(error, InputError) else str(error)
        raise InputError(f"not a file of weights as torch writes them: {what}", where=path, fix=fix) from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with open_file(path) as file:
            yield file
    except OSError as error:
        raise InputError(f"not readable: {error.strerror or error}", where=path) from error


def _record(file: BinaryIO, path: Path, kind: str) -> dict[str, Any]:
    record = _any_record(file, path)
    found = record.get("kind", "weights of other software")
    if found != kind:
        raise InputError(f"this is {found!r}, not {kind!r}", where=path, fix="give a file that `voiceveil train` wrote")
    return record


def _any_record(file: BinaryIO, path: Path) -> dict[str, Any]:
    """From the header: its length in 8 bytes, then JSON, in which the record is text."""
    size = int.from_bytes(file.read(8), "little")
    try:
        if size > _LONGEST_HEADER:
            raise ValueError("no header")
        texts = parse_json(file.read(size)).get("__metadata__", {})
        record = parse_json(texts[_KEY], nan=True) if _KEY in texts else {}
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError("not a safetensors file, or a damaged one", where=path) from error
    return dict(record) if isinstance(record, dict) else {"kind": "something else"}


def save_training(path: Path, modules: nn.Module, optimizer: optim.Optimizer, record: Mapping[str, Any]) -> None:
    """Everything that going on needs: the modules' weights, the optimizer's moments, and what ``record`` tells."""
    tensors = {f"module.{name}": tensor for name, tensor in modules.state_dict().items()}
    for index, values in optimizer.state_dict()["state"].items():
        tensors.update({f"optimizer.{index}.{name}": tensor for name, tensor in values.items()})
    save_tensors(path, tensors, record)


def load_training(path: Path, kind: str, modules: nn.Module, optimizer: optim.Optimizer) -> dict[str, Any]:
    """Put back what :func:`save_training` wrote; returns its record."""
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
            raise ValueError("moments of parameters that it does not have")
        fill(modules, weights)
        optimizer.load_state_dict({**state, "state": moments})
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(f"a checkpoint of another network: {reason}", where=path, fix="use another --out") from error
    return record
