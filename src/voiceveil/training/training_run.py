"""Device, processes and files of a training, which its weights do not depend on.

A training writes ``model.safetensors`` and ``record.json``, and ``checkpoint.safetensors`` while it runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import read_json
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_overlap
from voiceveil.models.checkpoint import read_record
from voiceveil.run.device import current_device, use_device
from voiceveil.run.outputs import recorded, refuse_inputs

__all__ = [
    "TrainingRun", "check_output", "check_run", "finished_training", "recorded_training", "training_files",
    "write_record",
]  # fmt: skip


@dataclass(frozen=True)
class TrainingRun:
    """Device, processes and files of a training.

    Parameters
    ----------
    device : str
        ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``, see :mod:`voiceveil.run.device`.
    threads, jobs : int
        Threads of the training, and processes that extract features.
    features : Path, optional
        Keeps the features for later trainings: a folder for speaker encoders, a SQLite file for other networks.
        By default they are in the output folder; those of speaker encoders are removed at the end.
    checkpoint_every : float
        Seconds between checkpoints.
    overwrite : bool
        Replace another training in the folder.
    quiet : bool
        Show no progress.
    """

    device: str = "cpu"
    threads: int = 1
    jobs: int = 1
    features: Path | None = None
    checkpoint_every: float = 120.0
    overwrite: bool = False
    quiet: bool = True


def check_run(run: TrainingRun) -> TrainingRun:
    """Return the run with the device that ``auto`` stands for.

    Raises
    ------
    InputError
        If torch is missing or has no such device, or there are fewer threads than one.
    """
    if find_spec("torch") is None:
        raise InputError("training needs torch", fix="pip install 'voiceveil[asv]'")
    if run.threads < 1:
        raise InputError(f"{run.threads} threads", fix="use --threads 1 or more")
    with use_device(run.device):
        return replace(run, device=current_device())


def check_output(
    out: Path, corpora: Iterable[str | Path], *, features: Path | None = None, models: Iterable[Path] = ()
) -> None:
    """Raise ``InputError`` if a training would write into its own input.

    Parameters
    ----------
    out
        Output folder.
    corpora
        Training speech, as the user names it.
    features
        File or folder of features, if it is not in ``out``.
    models
        Folders of models that the training starts from.
    """
    named = list(corpora)
    for folder in filter(None, (out, features)):
        refuse_inputs(folder, named)
    refuse_overlap(out, [model for model in models if model.is_dir()])


@contextmanager
def recorded_training(out: Path, *, overwrite: bool = False) -> Iterator[None]:
    """Keep a ledger of the files of a training in ``out``; files that no training wrote are refused."""
    with recorded(out, None, lambda: training_files(out), overwrite=overwrite):
        yield


def training_files(out: Path) -> list[Path]:
    """Return the files that a training writes into its folder, and into the folders of its folds."""
    names = ("model.safetensors", "record.json", "checkpoint.safetensors")
    official = ("train.csv", "dev.csv", "label_encoder.txt", "train_log.txt")
    folders = [out, *sorted(out.glob("fold_*"))]
    files = [folder / name for folder in folders for name in (*names, *official)]
    written = [path for folder in folders for path in sorted(folder.glob("CKPT+*/**/*")) if not path.is_dir()]
    return [*files, *written]


def finished_training(out: Path, settings: dict[str, Any], kind: str, *, overwrite: bool) -> dict[str, Any] | None:
    """Return the record of a training if it is complete, else None: then it begins, or goes on from its checkpoint.

    Parameters
    ----------
    out
        Output folder.
    settings
        Everything that the weights depend on, as the record and the checkpoint have it under ``settings``.
    kind
        Kind of the checkpoint.
    overwrite
        Remove the files of an earlier training.

    Raises
    ------
    InputError
        If the files of another training are there.
    """
    record, checkpoint = out / "record.json", out / "checkpoint.safetensors"
    if overwrite:
        _remove_files(out)
    before: dict[str, Any] = {}
    if record.exists():
        before = read_json(record, nan=True, fix="use --overwrite")
        if not isinstance(before, dict) or not isinstance(before.get("settings", {}), dict):
            raise InputError("not a training record", where=record, fix="use --overwrite")
    elif checkpoint.exists():
        before = read_record(checkpoint, kind)
    if not before:
        return None
    changed = [name for name, value in settings.items() if before.get("settings", {}).get(name) != value]
    if changed:
        message = f"another training is here; it differs in {', '.join(changed)}"
        raise InputError(message, where=out, fix="use another --out, or --overwrite to train anew")
    return before if record.exists() else None


def _remove_files(out: Path) -> None:
    """Remove the files of a training, and the folders that are empty then."""
    files = training_files(out)
    for path in files:
        path.unlink(missing_ok=True)
    for folder in sorted({parent for path in files for parent in path.parents if out in parent.parents}, reverse=True):
        with suppress(OSError):  # not empty: somebody else has files there
            folder.rmdir()


def write_record(out: Path, record: dict[str, Any]) -> None:
    """Write ``record.json``."""
    with atomic_path(out / "record.json") as part:
        part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
