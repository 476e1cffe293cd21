"""Folders of trainings as SpeechBrain and the challenge's scripts write and read them.

    CKPT+<epoch>/   <part>.ckpt  counter.ckpt  CKPT.yaml  hyperparams.yaml
    label_encoder.txt  train_log.txt

A ``.ckpt`` holds tensors (``torch.save``) or is text. The optimizer's state is not among them:
``checkpoint.safetensors`` has it, from which this program resumes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from voiceveil.core.atomic_files import atomic_path
from voiceveil.models.speechbrain.files import checkpoints

__all__ = ["keep_checkpoints", "labels_text", "write_checkpoint", "write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a file under a temporary name, and rename it."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")


def labels_text(labels: Sequence[str]) -> str:
    """Return the numbers of labels in SpeechBrain's format."""
    lines = [f"{label!r} => {number}" for number, label in enumerate(labels)]
    return "\n".join([*lines, "================", "'starting_index' => 0", ""])


def write_checkpoint(
    out: Path,
    epoch: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    texts: Mapping[str, str],
    figures: Mapping[str, float],
) -> Path:
    """Write ``CKPT+<epoch>`` into a training's folder and return it.

    Parameters
    ----------
    out : Path
        The folder.
    epoch : int
        From 1 on.
    tensors : mapping
        Part -> its weights, for ``<part>.ckpt``.
    texts : mapping
        Name -> content of other files.
    figures : mapping
        Figures of the development data, for ``CKPT.yaml``: ``{"ErrorRate": 0.2}``, a fraction.
    """
    folder = out / f"CKPT+{epoch}"
    folder.mkdir(parents=True, exist_ok=True)
    for part_name, weights in tensors.items():
        with atomic_path(folder / f"{part_name}.ckpt") as part:
            torch.save({name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}, part)
    for name, text in texts.items():
        write_text(folder / name, text)
    write_text(folder / "counter.ckpt", str(epoch))
    lines = [f"{name}: {value}" for name, value in figures.items()]
    write_text(
        folder / "CKPT.yaml",
        "\n".join(["# yamllint disable", *lines, "end-of-epoch: true", f"unixtime: {time.time()}", ""]),
    )
    return folder


def keep_checkpoints(out: Path, kept: Sequence[Path]) -> None:
    """Remove all other checkpoints of a training."""
    for path in set(checkpoints(out)) - set(kept):
        shutil.rmtree(path)
