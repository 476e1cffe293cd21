"""Synthesisers: content, F0 and pseudo-speaker to a waveform, by the kind of network that a file of weights holds.

Conventions: 16 kHz, frames of 160 samples; content (T, D), F0 (T,) in Hz with 0 for unvoiced, speaker (E,), waveform
(160 T,). All that is random (noise, phases) is drawn from the generator that is given.

A new kind is a function with the decorator ``@synthesisers.register(kind)``, ``kind`` being that of the record in the
file; it takes tensors and record and makes a :class:`Synthesiser`. This module does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.errors import InputError
from voiceveil.nn.checkpoint import load_tensors, read_any_record
from voiceveil.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["Loaded", "Synthesiser", "load_synthesiser", "synthesisers"]

Array = NDArray[np.float32]
Tensors = Mapping[str, "Tensor"]


class Synthesiser(Protocol):
    """A network at work."""

    def __call__(self, content: Array, f0: Array, speaker: Array, rng: np.random.Generator) -> Array:
        """Content (T, D), F0 (T,), speaker (E,) to samples (160 T,)."""
        ...


synthesisers: Registry[Callable[[Tensors, dict[str, Any]], Synthesiser]] = Registry(
    "kind of synthesiser", group="voiceveil.synthesisers"
)


@dataclass(frozen=True, eq=False)
class Loaded:
    """A synthesiser, and the fingerprints of the parts whose features it was trained on."""

    synthesiser: Synthesiser
    parts: dict[str, str]


def load_synthesiser(path: Path) -> Loaded:
    """The synthesiser of a file of weights; half precision on disk is single precision in memory."""
    import torch

    torch.set_num_threads(1)  # one thread a process, many processes
    record = read_any_record(path)
    kind = str(record.get("kind", "weights of other software"))
    if kind not in synthesisers:
        what = f"these are weights of another architecture: {kind!r} is no synthesiser"
        raise InputError(what, where=path, fix=f"known: {', '.join(synthesisers)}")
    tensors, record = load_tensors(path, kind)
    single = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    try:
        return Loaded(synthesisers[kind](single, record), dict(record["parts"]))
    except (KeyError, TypeError, RuntimeError) as error:
        reason = (str(error).splitlines() or [""])[0]
        what = f"these are weights of another architecture than their record says: {reason}"
        raise InputError(what, where=path, fix="train it again, with this version of voiceveil") from error


@synthesisers.register("source-filter decoder")
def _source_filter(tensors: Tensors, record: dict[str, Any]) -> Synthesiser:
    from voiceveil.nn.source_filter import SourceFilter, SourceFilterSize
    from voiceveil.nn.source_filter_task import excitation

    network = _with_weights(SourceFilter(SourceFilterSize(**record["size"])), tensors)

    def synthesise(content: Array, f0: Array, speaker: Array, rng: np.random.Generator) -> Array:
        import torch

        source = excitation(f0[None], rng)
        with torch.inference_mode():
            inputs = (torch.from_numpy(x[None]) for x in (content, f0, speaker))
            return np.asarray(network.waveform(*inputs, source)[0].numpy(), dtype=np.float32)

    return synthesise


def _with_weights(network: nn.Module, tensors: Tensors) -> Any:
    """The network in evaluation mode, with all of its weights."""
    network.load_state_dict(dict(tensors))
    return network.eval()
