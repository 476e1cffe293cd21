"""Weights and states of training as safetensors, with a JSON record inside: data, never code.

Conventions: a file holds named tensors and, in its header, one record (a JSON object) whose ``kind`` says what the
file is for. Files are written under a temporary name and renamed. The same content gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from voiceveil.audio import atomic_path
from voiceveil.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn, optim

__all__ = [
    "load_network",
    "load_tensors",
    "load_training",
    "read_any_record",
    "read_record",
    "save_tensors",
    "save_training",
]

_KEY = "voiceveil"
_LONGEST_HEADER = 100_000_000  # bytes; the limit of the format


def save_tensors(path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    """Write tensors and record; ``record["kind"]`` is what :func:`load_tensors` asks for."""
    from safetensors.torch import save

    plain = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    content = save(plain, metadata={_KEY: json.dumps(record, sort_keys=True)})
    with atomic_path(path) as part:
        part.write_bytes(content)


def read_record(path: Path, kind: str) -> dict[str, Any]:
    """The record of a file of that kind; an ``InputError`` if it is something else."""
    with _opened(path) as file:
        return _record(file, path, kind)


def read_any_record(path: Path) -> dict[str, Any]:
    """The record of a file of any kind; empty if it is of other software."""
    with _opened(path) as file:
        return _any_record(file, path)


def load_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors (on the CPU) and record of a file of that kind."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    with _opened(path) as file:  # opened once: record and tensors are of one file, even if another takes its name
        record = _record(file, path, kind)
        file.seek(0)
        try:
            return load(file.read()), record
        except SafetensorError as error:
            raise InputError(f"damaged or truncated: {error}", where=path, fix="copy it again") from error


def load_network(path: Path, kind: str, make: Callable[[dict[str, Any]], Any]) -> tuple[Any, dict[str, Any]]:
    """The network (evaluation mode, CPU) that ``make`` builds from the record, with the file's weights; the record."""
    import torch

    tensors, record = load_tensors(path, kind)
    torch.set_num_threads(1)  # one thread a process, many processes
    try:
        network = make(record)
        network.load_state_dict(tensors)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(f"its weights do not fit its record: {reason}", where=path, fix="train it again") from error
    return network.eval(), record


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if not path.is_file():
        raise InputError("no such file", where=path)
    try:
        with path.open("rb") as file:
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
        texts = json.loads(file.read(size)).get("__metadata__", {})
        record = json.loads(texts[_KEY]) if _KEY in texts else {}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
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
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        if part == "module":
            weights[rest] = tensor
        else:
            index, _, moment = rest.partition(".")
            moments.setdefault(int(index), {})[moment] = tensor
    try:
        modules.load_state_dict(weights)
        optimizer.load_state_dict({**state, "state": moments})
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"a checkpoint of another network: {reason}", where=path, fix="use another --out") from error
    return record
