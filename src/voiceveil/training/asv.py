"""Training of speaker encoders: seeded, resumable, and honest about how far it got.

``train_asv`` leaves in its folder ``model.safetensors`` (the weights of the best epoch, for ``TrainedEncoder``) and
``record.json``. While it runs there are also ``checkpoint.safetensors`` and ``.features``. A run that was killed goes
on from its last checkpoint; on the CPU, with the same number of threads, its weights end bit for bit like those of an
undisturbed run.

Which epoch is the best: with held-out utterances (the official recipe) the one with the fewest errors on them,
otherwise the one with the lowest EER on speakers that are not trained on; without either, the last.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from voiceveil.core.atomic_files import RECORDS, atomic_path
from voiceveil.core.documents import read_json
from voiceveil.core.errors import InputError
from voiceveil.core.locking import exclusive_lock
from voiceveil.corpus import Corpus
from voiceveil.models.checkpoint import read_record
from voiceveil.models.speaker.networks import speaker_model
from voiceveil.training.asv_data import collect, digest, divide, long_enough
from voiceveil.training.asv_recipes import Recipe, recipe_for
from voiceveil.training.asv_trainer import CHECKPOINT_KIND, Trainer
from voiceveil.training.feature_store import open_store

__all__ = ["AsvSettings", "TrainingRun", "check_device", "train_asv"]


@dataclass(frozen=True)
class AsvSettings:
    """What the weights of a speaker encoder depend on, besides the speech; None is the recipe's value.

    Parameters
    ----------
    model, recipe : str
        Name of the encoder, and of the recipe for it.
    epochs, batch_size : int, optional
        Passes over the speech, and chunks in a batch.
    seconds_per_chunk : float, optional
        Length of a chunk; shorter utterances are padded by repeating them, or left out by the official recipe of
        ECAPA-TDNN, as the challenge does.
    channels : int, optional
        Width of the network.
    validation_speakers : int, optional
        Speakers who are not trained on, for the validation EER.
    trained_on : {"original", "anonymized", "similar"}
        Kind of the training speech, for those who attack with the encoder.
    seed : int
        Of weights, order and chunks.
    """

    model: str = "ecapa"
    recipe: str = "fixed"
    epochs: int | None = None
    batch_size: int | None = None
    seconds_per_chunk: float | None = None
    channels: int | None = None
    validation_speakers: int | None = None
    trained_on: Literal["original", "anonymized", "similar"] = "original"
    seed: int = 0


@dataclass(frozen=True)
class TrainingRun:
    """How a training is carried out.

    Parameters
    ----------
    device : str
        ``cpu``, ``cuda`` or ``cuda:1``.
    threads, jobs : int
        Threads of the training, and processes that extract features.
    features : Path, optional
        Folder that keeps features; without it they are removed at the end.
    checkpoint_every : float
        Seconds.
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


def train_asv(
    corpora: Sequence[Corpus], out: Path, settings: AsvSettings | None = None, run: TrainingRun | None = None
) -> dict[str, Any]:
    """Train a speaker encoder on the speakers of ``corpora``; return the record, which is also in ``out``.

    Parameters
    ----------
    corpora
        Speech with speakers.
    out
        Folder for the weights and the record.
    settings
        What is trained (default: ECAPA-TDNN by its fixed recipe).
    run
        Device, processes and files.

    Raises
    ------
    InputError
        If a setting or the speech cannot be used, or another training is in the folder.
    """
    chosen, run = settings or AsvSettings(), run or TrainingRun()
    kind = speaker_model(chosen.model)
    plan = _planned(chosen)
    check_device(run.device, run.threads)
    kind.begin()  # weights that are missing are found before the work begins
    utterances = collect(corpora)
    recorded = {
        "model": chosen.model,
        "channels": kind.channels if chosen.channels is None else chosen.channels,
        "recipe": json.loads(json.dumps(asdict(plan))),
        "validation_speakers": chosen.validation_speakers,
        "data": chosen.trained_on,
        "data_sha256": digest(utterances),
        "seed": chosen.seed,
    }
    with exclusive_lock(out, "another training"):
        finished = _finished(out, recorded, run.overwrite)
        if finished is not None:
            return finished
        folder = out / RECORDS / "features" if run.features is None else run.features
        store = open_store(folder, utterances, kind, seconds=plan.longest, jobs=run.jobs, quiet=run.quiet)
        parts = divide(long_enough(utterances, store, plan), plan, chosen.seed, chosen.validation_speakers)
        trainer = Trainer(kind, plan, parts, store, out, recorded, run.device, run.threads)
        record = trainer.run(run.checkpoint_every, quiet=run.quiet)
        record["corpora"] = [{"name": corpus.name, "utterances": len(corpus)} for corpus in corpora]
        _write_json(out / "record.json", record)
        (out / "checkpoint.safetensors").unlink(missing_ok=True)
        if run.features is None:
            shutil.rmtree(folder)
            with suppress(OSError):  # a ledger is in it
                folder.parent.rmdir()
    return record


def check_device(device: str, threads: int = 1) -> None:
    """An ``InputError`` if torch is missing or has no such device."""
    try:
        import torch
    except ImportError as error:
        raise InputError("training needs torch", fix="pip install 'voiceveil[asv]'") from error
    if threads < 1:
        raise InputError(f"{threads} threads", fix="use --threads 1 or more")
    name, _, number = device.partition(":")
    if name not in ("cpu", "cuda") or (number and not number.isdigit()) or (name == "cpu" and number):
        raise InputError(f"unknown device {device!r}", fix="use cpu, cuda or cuda:1")
    if name == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise InputError(f"no device {device!r} here: torch sees {torch.cuda.device_count()}", fix="use --device cpu")


def _planned(settings: AsvSettings) -> Recipe:
    """Return the recipe with the settings that replace its own."""
    plan = recipe_for(settings.model, settings.recipe)
    if settings.epochs is not None:
        plan = replace(plan, epochs=settings.epochs)
    if settings.batch_size is not None:
        plan = replace(plan, batch_size=settings.batch_size)
    seconds = settings.seconds_per_chunk
    if seconds is not None:
        plan = replace(plan, shortest=seconds, longest=seconds)
    if plan.epochs < 1 or plan.batch_size < 2:
        raise InputError(f"{plan.epochs} epochs, {plan.batch_size} in a batch", fix="at least 1 epoch and batches of 2")
    if not 0.2 <= plan.shortest <= 60:
        raise InputError(f"chunks of {plan.shortest:g} s", fix="use 0.2 to 60 s")
    return plan


def _finished(out: Path, settings: dict[str, Any], overwrite: bool) -> dict[str, Any] | None:
    """Return the record of a training that is complete already; another training's files are refused, or removed."""
    record, checkpoint = out / "record.json", out / "checkpoint.safetensors"
    if overwrite:
        for path in (record, checkpoint, out / "model.safetensors"):
            path.unlink(missing_ok=True)
    before: dict[str, Any] = {}
    if record.exists():
        before = read_json(record, nan=True, fix="use --overwrite")
        if not isinstance(before, dict) or not isinstance(before.get("settings", {}), dict):
            raise InputError("not a training record", where=record, fix="use --overwrite")
    elif checkpoint.exists():
        before = read_record(checkpoint, CHECKPOINT_KIND)
    if not before:
        return None
    changed = [name for name, value in settings.items() if before.get("settings", {}).get(name) != value]
    if changed:
        what = f"another training is here; it differs in {', '.join(changed)}"
        raise InputError(what, where=out, fix="use another --out, or --overwrite to train anew")
    return before if record.exists() else None


def _write_json(path: Path, record: dict[str, Any]) -> None:
    with atomic_path(path) as part:
        part.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
