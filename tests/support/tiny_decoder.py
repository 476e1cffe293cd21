"""Resynthesis networks with few weights, as `voiceveil train` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from voiceveil.models.feature_extractors import feature_extractors
from voiceveil.run.ledger import sha256_file


def write_decoder(folder: Path, *, dimension: int = 288, **changes: str) -> Path:
    """Write a source-filter decoder of content of a dimension; ``changes`` replace fingerprints in its record."""
    from voiceveil.models.nets.source_filter import SourceFilter, SourceFilterSize

    size = SourceFilterSize(content=dimension, width=16, blocks=1, fine_blocks=1)
    return _write(folder, "source-filter decoder", lambda: SourceFilter(size), asdict(size), changes)


def write_vocoder(folder: Path) -> Path:
    """Write a source-filter vocoder of mel spectra."""
    from voiceveil.models.nets.source_filter import MelSourceFilter, SourceFilterSize

    size = SourceFilterSize(content=80, width=16, blocks=1, fine_blocks=1)
    return _write(folder, "source-filter vocoder", lambda: MelSourceFilter(size), asdict(size), {"content": "mel"})


def write_of_words(folder: Path, name: str, **changes: str) -> Path:
    """Write an ``intonation`` or ``voicing`` model into the subfolder of its name."""
    from voiceveil.models.nets.intonation import Intonation, Voicing

    size = {"width": 8, "layers": 1, "codes": 4}
    network = {"intonation": Intonation, "voicing": Voicing}[name]
    return _write(folder / name, f"{name} of words", lambda: network(**size), size, changes)


def write_durations(folder: Path) -> Path:
    """Write a predictor of durations into the subfolder ``durations``."""
    from voiceveil.models.nets.durations import Durations

    size = {"width": 8, "layers": 1}
    return _write(folder / "durations", "durations of phones", lambda: Durations(**size), size, {})


def write_two_stages(folder: Path) -> Path:
    """Write an acoustic model into ``am`` and a vocoder into ``nsf``."""
    from voiceveil.models.nets.acoustic_model import AcousticModel, AcousticModelSize
    from voiceveil.models.nets.nsf import HnSincNsf, HnSincNsfSize

    model: dict[str, Any] = {"content": 288, "speaker": 192, "hidden": 16, "base": 16, "recurrent": 16}
    vocoder = {"content": 80, "speaker": 192, "hidden": 8, "blocks": 1, "convolutions": 3, "recurrent": 8}
    _write(folder / "am", "acoustic model", lambda: AcousticModel(AcousticModelSize(**model)), model, {})
    _write(folder / "nsf", "mel vocoder", lambda: HnSincNsf(HnSincNsfSize(**vocoder)), vocoder, {"content": "mel"})
    return folder


def write_generator(folder: Path, kind: str) -> Path:
    """Write one of the networks of B1.b and of joint-hifigan."""
    from voiceveil.models.nets.hifigan import HifiGan, HifiGanSize
    from voiceveil.models.nets.nsf import HnSincNsf, HnSincNsfSize

    if kind == "HiFi-GAN generator":
        size: dict[str, Any] = {"content": 288, "speaker": 192, "channels": 32, "block_kernels": [3], "dilations": [1]}
        return _write(folder, kind, lambda: HifiGan(HifiGanSize(**size)), size, {})
    size = {"content": 288, "speaker": 192, "hidden": 8, "blocks": 1, "convolutions": 3, "recurrent": 8}
    return _write(folder, kind, lambda: HnSincNsf(HnSincNsfSize(**size)), size, {})


def _write(folder: Path, kind: str, make: Callable[[], Any], size: dict[str, Any], changes: dict[str, str]) -> Path:
    """model.safetensors with random weights, and record.json."""
    import torch

    from voiceveil.models.checkpoint import save_tensors

    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = make()
    record = {"kind": kind, "size": size, "parts": {**feature_extractors().fingerprints(), **changes}}
    save_tensors(folder / "model.safetensors", network.state_dict(), record)
    training = {"sha256": sha256_file(folder / "model.safetensors")}
    (folder / "record.json").write_text(json.dumps(training), encoding="utf-8")
    return folder
