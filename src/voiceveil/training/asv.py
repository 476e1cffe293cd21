"""Training of speaker encoders: repeatable, and resumed after an interruption.

``train_asv`` writes ``model.safetensors`` (the weights of the best epoch, for ``TrainedEncoder``) and ``record.json``;
while it runs there are also ``checkpoint.safetensors`` and the features. A killed training resumes from its last
checkpoint; on the CPU, with the same number of threads, its weights are bit for bit those of an undisturbed run.

The best epoch is the one with the lowest EER on speakers that are not trained on; without such speakers, the last. The
official recipe of ECAPA-TDNN has a training of its own, see :mod:`voiceveil.training.official_asv`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from voiceveil.core.atomic_files import RECORDS
from voiceveil.core.errors import InputError
from voiceveil.core.locking import exclusive_lock
from voiceveil.corpus import Corpus, Utterance
from voiceveil.models.speaker.networks import speaker_model
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.outputs import ledger_of
from voiceveil.training.asv_data import TrainingSet, collect, digest, divide, usable_utterances
from voiceveil.training.asv_recipes import AsvRecipe, recipe_for
from voiceveil.training.asv_trainer import CHECKPOINT_KIND, Trainer
from voiceveil.training.augmentation import Augmentation, Augmenter
from voiceveil.training.feature_store import CopyMaker, JoinedStore, copy_of, open_store
from voiceveil.training.training_run import TrainingRun, check_run, finished_training, write_record

__all__ = ["AsvSettings", "kind_of_speech", "train_asv"]


@dataclass(frozen=True)
class AsvSettings:
    """Settings that the weights of a speaker encoder depend on, besides the speech; None is the recipe's value.

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
    augmentation : Augmentation, optional
        Copies of the training speech with reverberation, noise, music or babble, which are trained on as well.
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
    augmentation: Augmentation | None = None
    seed: int = 0


def kind_of_speech(corpora: Sequence[Corpus]) -> Literal["original"]:
    """Return what speech is if the user says nothing: original; an ``InputError`` if a run here has anonymized it.

    The encoder's record tells attackers what it was trained on. A wrong record is found only after the training.
    """
    for corpus in corpora:
        if corpus.root is not None and ledger_of(corpus.root).is_file():
            fix = "add --trained-on anonymized (for the semi-informed attacker), similar or original"
            raise InputError("`voiceveil anonymize` wrote these data: say what they are", where=corpus.root, fix=fix)
    return "original"


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
        Model and recipe (default: ECAPA-TDNN by its fixed recipe).
    run
        Device, processes and files (default: those of :class:`TrainingRun`).

    Raises
    ------
    InputError
        If a setting or the speech cannot be used, or another training is in the folder.
    """
    settings, run = settings or AsvSettings(), run or TrainingRun()
    kind = speaker_model(settings.model)
    recipe = _recipe(settings)
    run = check_run(run)
    kind.initial_weights()  # missing weights are found now, not after the features
    utterances = collect(corpora)
    recorded = {
        "model": settings.model,
        "channels": kind.channels if settings.channels is None else settings.channels,
        "recipe": json.loads(json.dumps(asdict(recipe))),
        "validation_speakers": settings.validation_speakers,
        "data": settings.trained_on,
        "data_sha256": digest(utterances),
        "seed": settings.seed,
    }
    augmenter = None if settings.augmentation is None else Augmenter(settings.augmentation)
    if augmenter is not None:
        recorded["augmentation"] = augmenter.record()
    is_official = (settings.model, settings.recipe) == ("ecapa", "official")
    if is_official and augmenter is not None:
        fix = "leave --augment out, or use --recipe fixed"
        raise InputError("the official recipe of ecapa trains without augmentation", fix=fix)
    with exclusive_lock(out, "another training"):
        finished = finished_training(out, recorded, CHECKPOINT_KIND, overwrite=run.overwrite)
        if finished is not None:
            return finished
        folder = out / RECORDS / "features" if run.features is None else run.features
        if is_official:
            record = _train_official(utterances, recipe, recorded, run, out, folder)
        else:
            data = _training_set(utterances, recipe, recorded, run, folder, augmenter)
            record = Trainer(kind, recipe, data, recorded, run).train(out)
        record["corpora"] = [{"name": corpus.name, "utterances": len(corpus)} for corpus in corpora]
        write_record(out, record)
        (out / "checkpoint.safetensors").unlink(missing_ok=True)
        if run.features is None:
            shutil.rmtree(folder)
            with suppress(OSError):  # not empty: a ledger is in it
                folder.parent.rmdir()
    return record


def _training_set(
    utterances: list[Utterance],
    recipe: AsvRecipe,
    settings: dict[str, Any],
    run: TrainingRun,
    folder: Path,
    augmenter: Augmenter | None,
) -> TrainingSet:
    """Return the divided speech with its features, which are kept in ``folder``; copies are of training speech only."""
    kind = speaker_model(settings["model"])
    store = open_store(folder, utterances, kind, jobs=run.jobs, quiet=run.quiet)
    usable = usable_utterances(utterances, store, recipe)
    division = divide(usable, settings["seed"], settings["validation_speakers"])
    if augmenter is None:
        return TrainingSet(division, store)
    stores, train = [store], list(division.train)
    for copies in (CopyMaker(augmenter, name) for name in augmenter.augmentation.kinds):
        copied = [copy_of(utterance, copies.kind) for utterance in division.train]
        stores.append(open_store(folder, copied, kind, copies=copies, jobs=run.jobs, quiet=run.quiet))
        train += copied
    return TrainingSet(replace(division, train=train), JoinedStore(stores))


def _train_official(
    utterances: list[Utterance], recipe: AsvRecipe, settings: dict[str, Any], run: TrainingRun, out: Path, folder: Path
) -> dict[str, Any]:
    """Train on waveforms as the challenge does; ``folder`` keeps which chunks are not silent."""
    from voiceveil.training.official_asv import OfficialTrainer
    from voiceveil.training.official_asv_rows import split_rows

    if settings["validation_speakers"]:
        fix = "leave --validation-speakers out, or use --recipe fixed"
        raise InputError("the official recipe trains on all speakers", fix=fix)
    folder.mkdir(parents=True, exist_ok=True)
    cache = Cache(folder / "chunks.sqlite")
    try:
        context = RunContext(cache, run.jobs, run.device, progress=not run.quiet)
        split = split_rows(utterances, recipe.longest, settings["seed"], context)
    finally:
        cache.close()
    return OfficialTrainer(split, recipe, settings, run).train(out)


def _recipe(settings: AsvSettings) -> AsvRecipe:
    """Return the recipe with the settings that replace its own."""
    recipe = recipe_for(settings.model, settings.recipe)
    if settings.epochs is not None:
        recipe = replace(recipe, epochs=settings.epochs)
    if settings.batch_size is not None:
        recipe = replace(recipe, batch_size=settings.batch_size)
    seconds = settings.seconds_per_chunk
    if seconds is not None:
        recipe = replace(recipe, shortest=seconds, longest=seconds)
    if recipe.epochs < 1:
        raise InputError(f"--epochs {recipe.epochs}", fix="use 1 or more")
    if recipe.batch_size < 2:
        raise InputError(f"--batch-size {recipe.batch_size}", fix="use 2 or more: batch normalization needs them")
    if not 0.2 <= recipe.shortest <= 60:
        raise InputError(f"--seconds-per-chunk {recipe.shortest:g}", fix="use 0.2 to 60 s")
    return recipe
