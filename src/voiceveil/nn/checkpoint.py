"""Weights and states of training as safetensors, with a JSON record inside: data, never code.

Conventions: a file holds named tensors and, in its header, one record (a JSON object) whose ``kind`` says what the
file is for. Files are written under a temporary name and renamed. The same content gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiceveil.audio import atomic_path
from voiceveil.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn, optim

__all__ = ["load_tensors", "load_training", "read_record", "save_tensors", "save_training"]

_KEY = "voiceveil"


def save_tensors(path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    """Write tensors and record; ``record["kind"]`` is what :func:`load_tensors` asks for."""
    from safetensors.torch import save

    plain = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    content = save(plain, metadata={_KEY: json.dumps(record, sort_keys=True)})
    with atomic_path(path) as part:
        part.write_bytes(content)


def read_record(path: Path, kind: str) -> dict[str, Any]:
    """The record of a file of that kind; an ``InputError`` if it is something else."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError("no such file", where=path)
    try:
        with safe_open(str(path), framework="pt") as file:
            text = (file.metadata() or {}).get(_KEY)
    except (SafetensorError, OSError) as error:
        raise InputError(f"not a safetensors file: {error}", where=path) from error
    record: Any = {}
    if text is not None:
        try:
            record = json.loads(text)
        except ValueError as error:
            raise InputError("its record is damaged", where=path) from error
    found = record.get("kind", "weights of other software") if isinstance(record, dict) else "something else"
    if found != kind:
        raise InputError(f"this is {found!r}, not {kind!r}", where=path, fix="give a file that `voiceveil train` wrote")
    return dict(record)


def load_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors (on the CPU) and record of a file of that kind."""
    from safetensors.torch import load_file

    record = read_record(path, kind)
    return load_file(path), record


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
