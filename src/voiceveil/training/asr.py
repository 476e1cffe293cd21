"""Fine-tuning of a CTC recognizer on a corpus, for instance an anonymized one: the ASR of an informed listener.

Conventions: audio at the model's rate, scaled to zero mean and unit variance as in recognition; the loss is the CTC
loss (Graves et al. 2006) per token, in nats. By default the convolutional front end is frozen (Baevski et al. 2020,
section 4.3). The optimizer is AdamW; the learning rate rises for a tenth of the steps and then falls linearly to zero.

A training is repeatable: batches depend on the seed and the epoch, dropout and masking on the seed and the step. A
killed training resumes from its last checkpoint, and ends with the same weights as an undisturbed one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import load
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import read_json
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus
from voiceveil.models.asr.ctc import CTC, LoadedModel, load_model
from voiceveil.models.asr.ctc_alignment import fewest_frames
from voiceveil.models.asr.recognition import (
    checked_durations,
    references,
    transcribe,
    word_error_rate,
)
from voiceveil.models.asr.recognition import recognizer as open_recognizer
from voiceveil.models.asr.text_normalization import plain_words
from voiceveil.models.checkpoint import load_training, save_training
from voiceveil.models.pretrained import digest
from voiceveil.run.batches import group_by_length
from voiceveil.run.context import RunContext
from voiceveil.run.device import current_device, use_device
from voiceveil.run.progress import Progress
from voiceveil.stats import Estimate
from voiceveil.training.training_run import TrainingRun, check_run

__all__ = [
    "CtcRecipe", "CtcTraining", "Example", "batch_ids", "train_and_measure", "train_ctc", "trainable_recognizer",
]  # fmt: skip

_REPORT, _CHECKPOINT, _KIND = "training.json", "checkpoint.safetensors", "training of a CTC recognizer"
_OVERWRITE = "give another output, or --overwrite to start again"


@dataclass(frozen=True)
class CtcRecipe:
    """Settings of a training.

    Parameters
    ----------
    epochs : int
        Passes over the corpus.
    learning_rate : float
        Highest learning rate.
    batch_seconds : float
        Seconds of audio in a step.
    freeze_front : bool
        Leave the convolutional front end as it is.
    seed : int
        Of batches, dropout and masking.
    checkpoint_every : int
        Steps between checkpoints.

    Raises
    ------
    InputError
        If a number is not positive, or the seed is negative.
    """

    epochs: int = 10
    learning_rate: float = 1e-4
    batch_seconds: float = 60.0
    freeze_front: bool = True
    seed: int = 0
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        for name in ("epochs", "learning_rate", "batch_seconds", "checkpoint_every"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}", fix="give a positive number")
        if self.seed < 0:
            raise InputError(f"the seed is {self.seed}", fix="give 0 or more")


@dataclass(frozen=True)
class Example:
    """A training utterance: its audio (start and lengths in seconds) and its tokens."""

    id: str
    path: Path
    start: float
    duration: float | None
    seconds: float
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class CtcTraining:
    """Result of a training: folder of the model, losses of the steps, ids of unusable utterances, WER if measured."""

    folder: Path
    losses: tuple[float, ...]
    left_out: tuple[str, ...]
    wer: Estimate | None = None


def trainable_recognizer(model: str, *, online: bool = False) -> CTC:
    """Return the CTC recognizer to start from.

    Parameters
    ----------
    model
        Folder, or id on the Hugging Face hub.
    online
        Allow that the model is downloaded.

    Raises
    ------
    InputError
        If there is no such model, or its input is not the waveform.
    """
    opened = open_recognizer(f"ctc:{model}", online=online)
    if not isinstance(opened, CTC):
        raise InputError("a CTC model whose input is not the waveform cannot be trained", where=model)
    return opened


def train_and_measure(
    recognizer: CTC, corpus: Corpus, out: Path, recipe: CtcRecipe, run: TrainingRun, *, dev: Corpus | None = None
) -> CtcTraining:
    """Fine-tune a copy of a recognizer, and measure its WER on ``dev`` if that is given.

    Parameters
    ----------
    recognizer
        Recognizer to start from, see :func:`trainable_recognizer`.
    corpus, dev
        Training and development speech with transcripts.
    out
        Folder for the trained model.
    recipe
        Settings of the training.
    run
        Of this, ``device``, ``overwrite`` and ``quiet`` are used.

    Raises
    ------
    InputError
        If a corpus has no transcripts, or another training is in ``out``.
    """
    if dev is not None:
        references(dev)  # a corpus without text is found now, not after hours
    with use_device(check_run(run).device):
        training = train_ctc(recognizer, corpus, out, recipe, overwrite=run.overwrite, quiet=run.quiet)
        if dev is None:
            return training
        transcripts = transcribe(dev, CTC(out.resolve()), RunContext(progress=not run.quiet))
    return replace(training, wer=word_error_rate(dev, transcripts).wer)


def train_ctc(
    recognizer: CTC, corpus: Corpus, out: Path, recipe: CtcRecipe, *, overwrite: bool = False, quiet: bool = True
) -> CtcTraining:
    """Fine-tune a copy of a recognizer into the folder ``out``, which :class:`CTC` can load.

    Parameters
    ----------
    recognizer
        Recognizer to start from.
    corpus
        Speech with transcripts; utterances without words, or too short for them, are left out.
    out
        Folder for the trained model.
    recipe
        Settings of the training.
    overwrite
        Replace another training in ``out``.
    quiet
        Show no progress.

    Raises
    ------
    InputError
        If the corpus has no transcripts, or another training is in ``out``.
    """
    model = load_model(recognizer.folder, current_device())
    examples, left_out = _examples(recognizer, model, corpus)
    settings = {"model": digest(recognizer.folder), "data": _data_digest(examples), **asdict(recipe)}
    report = _begin(out, settings, overwrite=overwrite)
    if "losses" in report:  # this training is complete
        return CtcTraining(out, tuple(report["losses"]), tuple(report["left_out"]))
    # load_model caches the network for recognition: train another copy.
    model = load_model.__wrapped__(recognizer.folder, current_device())
    losses = _run(recognizer, model, examples, out / _CHECKPOINT, recipe, quiet=quiet)
    _finish(recognizer, model, out, {"settings": settings, "losses": losses, "left_out": left_out})
    return CtcTraining(out, tuple(losses), tuple(left_out))


def _examples(recognizer: CTC, model: LoadedModel, corpus: Corpus) -> tuple[dict[str, Example], list[str]]:
    """Return the training utterances, and the ids of those without words or too short for their words."""
    texts = references(corpus)
    tokens = {name: model.tokens(text) for name, text in _texts_for(model, texts).items()}
    lengths = checked_durations(corpus, 0.0)
    masked = int(getattr(model.network.config, "mask_time_length", 0))
    examples, left_out = {}, []
    for u in corpus:
        rows = recognizer.convolutions.rows(round(lengths[u.id] * recognizer.rate))
        if tokens[u.id] and rows >= max(fewest_frames(tokens[u.id]), masked + 1):
            examples[u.id] = Example(u.id, u.path, u.start, u.duration, lengths[u.id], tokens[u.id])
        else:
            left_out.append(u.id)
    if not examples:
        message = f"none of the {len(texts)} utterances is long enough for its words"
        raise InputError(message, where=corpus.root, fix="check that the texts belong to the recordings")
    return examples, left_out


def _texts_for(model: LoadedModel, texts: dict[str, str]) -> dict[str, str]:
    """Return the texts in plain words, in the case of the model; ``InputError`` for a letter that it does not have."""
    plain = {name: plain_words(text) for name, text in texts.items()}
    known = model.letters | {" "}
    if not any(letter.isupper() for letter in known):
        plain = {name: text.lower() for name, text in plain.items()}
    for name, text in plain.items():
        if unknown := set(text) - known:
            letters = ", ".join(map(repr, sorted(unknown)))
            message = f"the text of {name} has {letters}, which the model does not know"
            raise InputError(message, fix="write numbers as words, and only letters of the model's language")
    return plain


def _data_digest(examples: dict[str, Example]) -> str:
    total = hashlib.sha256()
    for e in examples.values():
        total.update(json.dumps([e.id, e.path.stat().st_size, e.start, e.duration, e.tokens]).encode())
    return total.hexdigest()[:32]


def _begin(out: Path, settings: dict[str, Any], *, overwrite: bool) -> dict[str, Any]:
    """Create the folder, or check that it belongs to this training; return the report in it."""
    path = out / _REPORT
    if overwrite:
        path.unlink(missing_ok=True)
        (out / _CHECKPOINT).unlink(missing_ok=True)
    if not path.exists():
        if out.exists() and any(out.iterdir()) and not overwrite:
            raise InputError("the folder is not empty", where=out, fix=_OVERWRITE)
        with atomic_path(path) as part:
            part.write_text(json.dumps({"settings": settings}))
        return {}
    report = read_json(path, nan=True, fix=_OVERWRITE)
    before = report.get("settings") if isinstance(report, dict) else None
    if not isinstance(before, dict):
        raise InputError("not the report of a training", where=path, fix=_OVERWRITE)
    if changed := [key for key in sorted({*before, *settings}) if before.get(key) != settings.get(key)]:
        raise InputError(f"holds another training: {', '.join(changed)} differ", where=out, fix=_OVERWRITE)
    return dict(report)


def batch_ids(examples: dict[str, Example], recipe: CtcRecipe) -> Iterator[list[str]]:
    """Yield the utterance ids of each batch of all epochs: similar lengths, random order, regrouped each epoch."""
    for epoch in range(recipe.epochs):
        rng = np.random.default_rng([recipe.seed, epoch])
        jitter = rng.uniform(0.9, 1.0, len(examples))
        lengths = {e.id: e.seconds * factor for e, factor in zip(examples.values(), jitter, strict=True)}
        groups = list(group_by_length(lengths, 0.9 * recipe.batch_seconds))
        yield from (groups[i] for i in rng.permutation(len(groups)))


def _run(
    recognizer: CTC,
    model: LoadedModel,
    examples: dict[str, Example],
    checkpoint: Path,
    recipe: CtcRecipe,
    *,
    quiet: bool,
) -> list[float]:
    """Train ``model`` in place; return the loss of each step."""
    import torch

    if recipe.freeze_front:
        model.network.freeze_feature_encoder()
    weights = [p for p in model.network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    plan = list(batch_ids(examples, recipe))
    losses: list[float] = []
    if checkpoint.exists():
        losses = load_training(checkpoint, _KIND, model.network, optimizer)["losses"]
    left = [examples[name] for group in plan[len(losses) :] for name in group]
    model.network.train()
    work = sum(example.seconds for example in left)
    with Progress("training", len(plan), work=work, unit="steps", start=len(losses), quiet=quiet) as progress:
        for step in range(len(losses), len(plan)):
            for setting in optimizer.param_groups:
                setting["lr"] = recipe.learning_rate * _rate_factor((step + 1) / len(plan))
            batch = [examples[name] for name in plan[step]]
            losses.append(_step(recognizer, model, optimizer, weights, batch, [recipe.seed, step]))
            if (step + 1) % recipe.checkpoint_every == 0:
                save_training(checkpoint, model.network, optimizer, {"kind": _KIND, "losses": losses})
            seconds, recent = sum(example.seconds for example in batch), losses[-recipe.checkpoint_every :]
            progress.advance(seconds, audio=seconds, loss=float(np.mean(recent)))
    return losses


def _rate_factor(share: float) -> float:
    """Return the learning rate, relative to the highest, after ``share`` of the steps (0 to 1)."""
    return min(share / 0.1, (1.0 - share) / 0.9 + 1e-3)


def _step(
    recognizer: CTC, model: LoadedModel, optimizer: Any, weights: list[Any], batch: list[Example], seed: list[int]
) -> float:
    """Update the weights once; return the loss per token before the update, in nats."""
    import torch

    state = np.random.SeedSequence(seed).generate_state(2)
    torch.manual_seed(int(state[0]))
    np.random.seed(state[1])  # noqa: NPY002 -- transformers draws its masks from here
    waves = [load(e.path, rate=recognizer.rate, start=e.start, duration=e.duration) for e in batch]
    logits = model.logits([recognizer.normalize(wave.samples) for wave in waves])
    rows = torch.tensor([recognizer.convolutions.rows(len(wave)) for wave in waves])
    loss = torch.nn.functional.ctc_loss(
        logits.float().log_softmax(dim=-1).transpose(0, 1).cpu(),  # small, on whatever device the network is
        torch.tensor([token for e in batch for token in e.tokens]),
        rows,
        torch.tensor([len(e.tokens) for e in batch]),
        blank=model.blank,
        reduction="sum",
        zero_infinity=True,  # resampling may have dropped a row that was needed
    ) / sum(len(e.tokens) for e in batch)
    if not torch.isfinite(loss):
        raise InputError(f"the loss is not finite in the batch of {batch[0].id}", fix="lower --learning-rate")
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()
    return float(loss.detach())


def _finish(recognizer: CTC, model: LoadedModel, out: Path, report: dict[str, Any]) -> None:
    """Write the trained weights, and copy the other files of the model that the training started from."""
    model.network.eval().cpu().save_pretrained(out)
    for path in recognizer.folder.iterdir():
        wanted = path.suffix in (".json", ".txt", ".model") and not path.name.endswith(".index.json")
        if wanted and not (out / path.name).exists():
            shutil.copyfile(path, out / path.name)
    with atomic_path(out / _REPORT) as part:
        part.write_text(json.dumps(report))
    (out / _CHECKPOINT).unlink(missing_ok=True)
