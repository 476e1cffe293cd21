"""Synthesis: content, F0 and pseudo-speaker to a waveform, in one stage or in several.

Conventions: 16 kHz, frames of 160 samples. A stage takes content (T, D), F0 (T,) in Hz with 0 for unvoiced, a speaker
(E,) of length 1, and a generator, from which it draws all that is random in it. It gives a waveform (160 T,), or, as an
acoustic model does, mel spectra (T, 80), which are the content of the next stage.

A stage is a network whose weights are in a file; the ``kind`` in its record says which network. A new kind is a
function with the decorator ``@stages.register(kind)`` that makes the stage from tensors and record. This module does
not import torch: the stages do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry
from voiceveil.models.checkpoint import fill, load_tensors, no_larger_than, read_any_record

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

__all__ = ["LoadedStage", "Stage", "load_stage", "stages", "synthesize"]

Array = NDArray[np.float32]
Stage = Callable[[Array, Array, Array, np.random.Generator], Array]
Tensors = Mapping[str, "Tensor"]
Record = Mapping[str, Any]

#: Kind of network -> maker of the stage.
stages: Registry[Callable[[Tensors, Record], Stage]] = Registry("kind of network", group="voiceveil.stages")


@dataclass(frozen=True, eq=False)
class LoadedStage:
    """A stage, and the fingerprints of the parts whose features it was trained on.

    ``unprotected``: it gets the embedding of the source, not that of the pseudo-speaker.
    """

    run: Stage
    parts: dict[str, str]
    unprotected: bool = False


def synthesize(
    chain: Sequence[LoadedStage],
    content: Array,
    f0: Array,
    speaker: Array,
    rng: np.random.Generator,
    source: Array | None = None,
) -> Array:
    """Through one stage after the other; ``source`` is the embedding for stages that are unprotected."""
    for stage in chain:
        content = stage.run(content, f0, source if stage.unprotected and source is not None else speaker, rng)
    return content


def load_stage(path: Path, kinds: Sequence[str], chosen: Mapping[str, float] = MappingProxyType({})) -> LoadedStage:
    """Return the stage of a file of weights of one of the kinds; half precision on disk is single precision in memory.

    ``chosen``: what may be chosen of a network without a change of its weights, such as how many codes stand for a
    vector; one that has no such thing ignores it.
    """
    import torch

    torch.set_num_threads(1)  # one thread a process, many processes
    kind = str(read_any_record(path).get("kind", "weights of other software"))
    if kind not in kinds:
        what = f"these are weights of another architecture: {kind!r}, not {' or '.join(map(repr, kinds))}"
        raise InputError(what, where=path, fix="see `voiceveil train --help` for what makes them")
    tensors, record = load_tensors(path, kind)
    record = {**record, "chosen": dict(chosen)}
    single = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    try:
        with no_larger_than(tensors, record):
            return LoadedStage(stages[kind](single, record), dict(record["parts"]))
    except (KeyError, TypeError, ValueError, RuntimeError, ArithmeticError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        reason = (str(error).splitlines() or [""])[0]
        what = f"these are weights of another architecture than their record says: {reason}"
        raise InputError(what, where=path, fix="train it again, with this version of voiceveil") from error


@stages.register("source-filter decoder")
@stages.register("source-filter vocoder")
def _source_filter(tensors: Tensors, record: Record) -> Stage:
    from voiceveil.models.nets.source_filter import MelSourceFilter, SourceFilter, SourceFilterSize, excitation

    made = MelSourceFilter if record["kind"] == "source-filter vocoder" else SourceFilter
    network = _with_weights(made(SourceFilterSize.from_record({**record["size"], **record["chosen"]})), tensors)

    def run(content: Array, f0: Array, speaker: Array, rng: np.random.Generator) -> Array:
        source = excitation(f0[None], rng)
        return _called(lambda *inputs: network.waveform(*inputs, source), content, f0, speaker)

    return run


@stages.register("intonation of words")
def _intonation(tensors: Tensors, record: Record) -> Stage:
    """No stage of a chain: it gives the contour (T,) of F0 that is expected where F0 is voiced."""
    from voiceveil.models.nets.intonation import Intonation

    network = _with_weights(Intonation(**record["size"]), tensors)
    return lambda content, f0, speaker, rng: _called(network, content, (f0 > 0).astype(np.float32))


@stages.register("voicing of words")
def _voicing(tensors: Tensors, record: Record) -> Stage:
    """No stage of a chain: it gives how probable (T,) it is that a frame is voiced."""
    from voiceveil.models.nets.intonation import Voicing

    network = _with_weights(Voicing(**record["size"]), tensors)
    return lambda content, f0, speaker, rng: _called(lambda heard: network(heard).sigmoid(), content)


@stages.register("acoustic model")
def _acoustic_model(tensors: Tensors, record: Record) -> Stage:
    from voiceveil.models.nets.acoustic_model import AcousticModel

    network = _with_weights(AcousticModel(**record["size"]), tensors)
    return lambda content, f0, speaker, rng: _called(network.generate, content, f0, speaker)


@stages.register("mel vocoder")
@stages.register("hn-sinc-NSF generator")
def _nsf(tensors: Tensors, record: Record) -> Stage:
    from voiceveil.models.nets.nsf import HnSincNsf

    network = _with_weights(HnSincNsf(**record["size"]), tensors)

    def run(content: Array, f0: Array, speaker: Array, rng: np.random.Generator) -> Array:
        generator = _torch_generator(rng)
        return _called(lambda *inputs: network.synthesize(*inputs, generator=generator), content, f0, speaker)

    return run


@stages.register("HiFi-GAN generator")
def _hifigan(tensors: Tensors, record: Record) -> Stage:
    from voiceveil.models.nets.hifigan import HifiGan

    network = _with_weights(HifiGan(**record["size"]), tensors).fuse()
    return lambda content, f0, speaker, rng: _called(network, content, f0, speaker)


def _with_weights(network: nn.Module, tensors: Tensors) -> Any:
    """Return the network in evaluation mode, with all of its weights."""
    fill(network, tensors)
    return network.eval()


def _called(function: Callable[..., Tensor], *arrays: Array) -> Array:
    """Return a function of batches on one item."""
    import torch

    with torch.inference_mode():
        return np.asarray(function(*(torch.from_numpy(x[None]) for x in arrays))[0].numpy(), dtype=np.float32)


def _torch_generator(rng: np.random.Generator) -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(int(rng.integers(2**40)))
