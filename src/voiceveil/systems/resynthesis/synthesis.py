"""Synthesis: a waveform from content, F0 and a speaker embedding, in one stage or in several.

Conventions: 16 kHz, frames of 160 samples. A stage takes content (T, D), F0 (T,) in Hz with 0 for unvoiced, an
L2-normalized speaker embedding (E,), and a generator for all its random draws. It returns a waveform (160 T,), or, like
an acoustic model, mel spectra (T, 80), which are the content of the next stage.

A stage is a network whose weights are in a file; the ``kind`` in the record of the file names the network. A new kind
is a function with the decorator ``@stages.register(kind)`` that returns the stage for tensors and record. This module
does not import torch; the stages do.
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
from voiceveil.models.checkpoint import limit_network_size, load_state, load_tensors, read_any_record
from voiceveil.run.device import current_device

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

__all__ = ["LoadedStage", "Stage", "load_stage", "stages", "synthesize"]

Array = NDArray[np.float32]
Stage = Callable[[Array, Array, Array, np.random.Generator], Array]
Tensors = Mapping[str, "Tensor"]
Record = Mapping[str, Any]

#: Kind of network -> function that returns the stage for tensors and record.
stages: Registry[Callable[[Tensors, Record], Stage]] = Registry("kind of network", group="voiceveil.stages")


@dataclass(frozen=True, eq=False)
class LoadedStage:
    """A stage, and the fingerprints of the feature extractors that it was trained with.

    ``uses_source``: it gets the speaker embedding of the source instead of the pseudo-speaker's.
    """

    run: Stage
    extractor_fingerprints: dict[str, str]
    uses_source: bool = False


def synthesize(
    chain: Sequence[LoadedStage],
    content: Array,
    f0: Array,
    speaker: Array,
    rng: np.random.Generator,
    source: Array | None = None,
) -> Array:
    """Run the stages in order and return the output of the last.

    Parameters
    ----------
    chain
        The stages.
    content, f0
        Content (T, D), and F0 (T,) in Hz.
    speaker
        L2-normalized embedding (E,) of the pseudo-speaker.
    rng
        Generator for all random draws.
    source
        Embedding (E,) of the source, for stages that use it.
    """
    for stage in chain:
        content = stage.run(content, f0, source if stage.uses_source and source is not None else speaker, rng)
    return content


def load_stage(path: Path, kinds: Sequence[str], overrides: Mapping[str, float] = MappingProxyType({})) -> LoadedStage:
    """Return the stage whose weights are in a file; half precision on disk becomes single precision.

    Parameters
    ----------
    path
        File of weights.
    kinds
        Kinds of network that are allowed.
    overrides
        Inference-time overrides of the checkpoint's settings; networks without them ignore this.

    Raises
    ------
    InputError
        If the file is of another kind, damaged, or of another version.
    """
    import torch

    torch.set_num_threads(1)  # one thread a process, many processes
    kind = str(read_any_record(path).get("kind", "weights of other software"))
    if kind not in kinds:
        problem = f"these are weights of another architecture: {kind!r}, not {' or '.join(map(repr, kinds))}"
        raise InputError(problem, where=path, fix="see `voiceveil train --help` for what makes them")
    tensors, record = load_tensors(path, kind)
    record = {**record, "overrides": dict(overrides)}
    single = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    try:
        with limit_network_size(tensors, record):
            return LoadedStage(stages[kind](single, record), dict(record["parts"]))
    except (KeyError, TypeError, ValueError, RuntimeError, ArithmeticError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        reason = (str(error).splitlines() or [""])[0]
        problem = f"these are weights of another architecture than their record says: {reason}"
        raise InputError(problem, where=path, fix="train it again, with this version of voiceveil") from error


@stages.register("source-filter decoder")
@stages.register("source-filter vocoder")
def _source_filter(tensors: Tensors, record: Record) -> Stage:
    from voiceveil.models.nets.source_filter import (
        Excitation,
        MelSourceFilter,
        SourceFilter,
        SourceFilterSize,
        excitation,
    )

    architecture = MelSourceFilter if record["kind"] == "source-filter vocoder" else SourceFilter
    network = _with_weights(
        architecture(SourceFilterSize.from_record({**record["size"], **record["overrides"]})), tensors
    )

    def run(content: Array, f0: Array, speaker: Array, rng: np.random.Generator) -> Array:
        source = Excitation(*(track.to(current_device()) for track in excitation(f0[None], rng)))
        return _apply(lambda *inputs: network.waveform(*inputs, source), content, f0, speaker)

    return run


@stages.register("intonation of words")
def _intonation(tensors: Tensors, record: Record) -> Stage:
    """Return a predictor of the F0 contour (T,) of voiced frames from the words; not a stage of a chain."""
    from voiceveil.models.nets.intonation import Intonation

    network = _with_weights(Intonation(**record["size"]), tensors)
    return lambda content, f0, speaker, rng: _apply(network, content, (f0 > 0).astype(np.float32))


@stages.register("voicing of words")
def _voicing(tensors: Tensors, record: Record) -> Stage:
    """Return a predictor of the probability (T,) that a frame is voiced; not a stage of a chain."""
    from voiceveil.models.nets.intonation import Voicing

    network = _with_weights(Voicing(**record["size"]), tensors)
    return lambda content, f0, speaker, rng: _apply(lambda words: network(words).sigmoid(), content)


@stages.register("durations of phones")
def _durations(tensors: Tensors, record: Record) -> Stage:
    """Return a predictor of relative log durations (N,), for numbers of phones (N,) as content; no stage of a chain."""
    from voiceveil.models.nets.durations import Durations

    network = _with_weights(Durations(**record["size"]), tensors)
    return lambda content, f0, speaker, rng: _apply(lambda phones: network(phones.long()), content)


@stages.register("acoustic model")
def _acoustic_model(tensors: Tensors, record: Record) -> Stage:
    from voiceveil.models.nets.acoustic_model import AcousticModel, AcousticModelSize

    network = _with_weights(AcousticModel(AcousticModelSize(**record["size"])), tensors)
    return lambda content, f0, speaker, rng: _apply(network.generate, content, f0, speaker)


@stages.register("mel vocoder")
@stages.register("hn-sinc-NSF generator")
def _nsf(tensors: Tensors, record: Record) -> Stage:
    from voiceveil.models.nets.nsf import HnSincNsf, HnSincNsfSize

    network = _with_weights(HnSincNsf(HnSincNsfSize(**record["size"])), tensors)

    def run(content: Array, f0: Array, speaker: Array, rng: np.random.Generator) -> Array:
        generator = _torch_generator(rng)
        return _apply(lambda *inputs: network.synthesize(*inputs, generator=generator), content, f0, speaker)

    return run


@stages.register("HiFi-GAN generator")
def _hifigan(tensors: Tensors, record: Record) -> Stage:
    from voiceveil.models.nets.hifigan import HifiGan, HifiGanSize

    network = _with_weights(HifiGan(HifiGanSize(**record["size"])), tensors).fuse()
    return lambda content, f0, speaker, rng: _apply(network, content, f0, speaker)


def _with_weights(network: nn.Module, tensors: Tensors) -> Any:
    """Return the network in evaluation mode, with all of its weights, on the current device."""
    load_state(network, tensors)
    return network.eval().to(current_device())


def _apply(function: Callable[..., Tensor], *arrays: Array) -> Array:
    """Apply a function of batched tensors on the current device to a single item."""
    import torch

    device = current_device()
    with torch.inference_mode():
        output = function(*(torch.from_numpy(x[None]).to(device) for x in arrays))[0]
    return np.asarray(output.cpu().numpy(), dtype=np.float32)


def _torch_generator(rng: np.random.Generator) -> torch.Generator:
    import torch

    return torch.Generator().manual_seed(int(rng.integers(2**40)))
