"""Fine-tune a CTC recognizer on a corpus, for instance an anonymized one: the ASR of an informed listener.

Conventions: audio at the model's rate, scaled to zero mean and unit variance as in recognition; the loss is the CTC
loss (Graves et al. 2006) per token, in nats. The front end stays as it is (Baevski et al. 2020, section 4.3), unless
told otherwise; AdamW, the learning rate rises for a tenth of the steps and then falls to zero on a line.

A training is repeatable: batches follow from the seed and the epoch, dropout and masking from the seed and the step.
It goes on from its last checkpoint when it was killed, and ends with the same weights as if nothing had happened.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import load
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import read_json
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus
from voiceveil.models.asr.ctc import CTC, LoadedModel, load_model
from voiceveil.models.asr.recognition import batches, check_lengths, references
from voiceveil.models.asr.text_normalization import plain_words
from voiceveil.models.checkpoint import load_training, save_training
from voiceveil.models.pretrained import digest
from voiceveil.run.progress import Progress

__all__ = ["Example", "Recipe", "Training", "train_ctc"]

_REPORT, _CHECKPOINT, _KIND = "training.json", "checkpoint.safetensors", "training of a CTC recognizer"
_OVERWRITE = "give another output, or --overwrite to start again"


@dataclass(frozen=True)
class Recipe:
    """How to train: ``batch_seconds`` of audio a step, ``checkpoint_every`` so many steps."""

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
    """An utterance to learn from: where its audio is, and its tokens."""

    id: str
    path: Path
    start: float
    duration: float | None
    seconds: float
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Training:
    """What came of it: the folder of the model, the loss of each step, the utterances that could not be used."""

    folder: Path
    losses: tuple[float, ...]
    left_out: tuple[str, ...]


def train_ctc(
    recognizer: CTC, corpus: Corpus, out: Path, recipe: Recipe, *, overwrite: bool = False, quiet: bool = True
) -> Training:
    """Fine-tune a copy of ``recognizer`` into the folder ``out``, from where :class:`CTC` takes it."""
    model = load_model(recognizer.folder, recognizer.device)
    examples, left_out = _examples(recognizer, model, corpus)
    settings = {"model": digest(recognizer.folder), "data": _data_digest(examples), **asdict(recipe)}
    report = _begin(out, settings, overwrite=overwrite)
    if "losses" in report:  # finished before
        return Training(out, tuple(report["losses"]), tuple(report["left_out"]))
    # The cached network serves for recognition: train one of our own.
    model = load_model.__wrapped__(recognizer.folder, recognizer.device)
    losses = _run(recognizer, model, examples, out / _CHECKPOINT, recipe, quiet=quiet)
    _finish(recognizer, model, out, {"settings": settings, "losses": losses, "left_out": left_out})
    return Training(out, tuple(losses), tuple(left_out))


def _examples(recognizer: CTC, model: LoadedModel, corpus: Corpus) -> tuple[dict[str, Example], list[str]]:
    """What can be learned from, and the ids of what cannot: without words, or too short for its words."""
    texts = references(corpus)
    tokens = {name: model.tokens(text) for name, text in _in_letters_of(model, texts).items()}
    lengths = check_lengths(corpus, 0.0)
    masked = int(getattr(model.network.config, "mask_time_length", 0))
    examples, left_out = {}, []
    for u in corpus:
        rows = recognizer.front.rows(round(lengths[u.id] * recognizer.rate))
        if tokens[u.id] and rows >= max(_fewest_rows(tokens[u.id]), masked + 1):
            examples[u.id] = Example(u.id, u.path, u.start, u.duration, lengths[u.id], tokens[u.id])
        else:
            left_out.append(u.id)
    if not examples:
        what = f"none of the {len(texts)} utterances is long enough for its words"
        raise InputError(what, where=corpus.root, fix="check that the texts belong to the recordings")
    return examples, left_out


def _in_letters_of(model: LoadedModel, texts: dict[str, str]) -> dict[str, str]:
    """The texts in plain words, in the case that the model writes; an ``InputError`` for a letter it does not have."""
    plain = {name: plain_words(text) for name, text in texts.items()}
    known = model.letters | {" "}
    if not any(letter.isupper() for letter in known):
        plain = {name: text.lower() for name, text in plain.items()}
    for name, text in plain.items():
        if unknown := set(text) - known:
            what = f"the text of {name} has {', '.join(map(repr, sorted(unknown)))}, which the model does not know"
            raise InputError(what, fix="write numbers as words, and only letters of the model's language")
    return plain


def _fewest_rows(tokens: tuple[int, ...]) -> int:
    """Rows that CTC needs: one a token, and a blank between two that are equal."""
    return len(tokens) + sum(a == b for a, b in pairwise(tokens))


def _data_digest(examples: dict[str, Example]) -> str:
    total = hashlib.sha256()
    for e in examples.values():
        total.update(json.dumps([e.id, e.path.stat().st_size, e.start, e.duration, e.tokens]).encode())
    return total.hexdigest()[:32]


def _begin(out: Path, settings: dict[str, Any], *, overwrite: bool) -> dict[str, Any]:
    """Make the folder, or check that what is there belongs to this training; its report."""
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


def steps(examples: dict[str, Example], recipe: Recipe) -> Iterator[list[str]]:
    """The ids of each step's batch, epoch after epoch: of similar length, in random order, other company each time."""
    for epoch in range(recipe.epochs):
        rng = np.random.default_rng([recipe.seed, epoch])
        jitter = rng.uniform(0.9, 1.0, len(examples))
        lengths = {e.id: e.seconds * factor for e, factor in zip(examples.values(), jitter, strict=True)}
        groups = list(batches(lengths, 0.9 * recipe.batch_seconds))
        yield from (groups[i] for i in rng.permutation(len(groups)))


def _run(
    recognizer: CTC, model: LoadedModel, examples: dict[str, Example], checkpoint: Path, recipe: Recipe, *, quiet: bool
) -> list[float]:
    """Train ``model`` in place; the loss of each step."""
    import torch

    if recipe.freeze_front:
        model.network.freeze_feature_encoder()
    weights = [p for p in model.network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.0)
    plan = list(steps(examples, recipe))
    losses: list[float] = []
    if checkpoint.exists():
        losses = load_training(checkpoint, _KIND, model.network, optimizer)["losses"]
    left = [examples[name] for group in plan[len(losses) :] for name in group]
    model.network.train()
    work = sum(example.seconds for example in left)
    with Progress("training", len(plan), work=work, unit="steps", start=len(losses), quiet=quiet) as progress:
        for step in range(len(losses), len(plan)):
            for setting in optimizer.param_groups:
                setting["lr"] = recipe.learning_rate * _slope((step + 1) / len(plan))
            batch = [examples[name] for name in plan[step]]
            losses.append(_step(recognizer, model, optimizer, weights, batch, [recipe.seed, step]))
            if (step + 1) % recipe.checkpoint_every == 0:
                save_training(checkpoint, model.network, optimizer, {"kind": _KIND, "losses": losses})
            seconds, recent = sum(example.seconds for example in batch), losses[-recipe.checkpoint_every :]
            progress.advance(seconds, audio=seconds, loss=float(np.mean(recent)))
    return losses


def _slope(share: float) -> float:
    """Return the learning rate over its highest, when ``share`` of the steps are done."""
    return min(share / 0.1, (1.0 - share) / 0.9 + 1e-3)


def _step(
    recognizer: CTC, model: LoadedModel, optimizer: Any, weights: list[Any], batch: list[Example], seed: list[int]
) -> float:
    """Return one update; returns the loss per token before it."""
    import torch

    state = np.random.SeedSequence(seed).generate_state(2)
    torch.manual_seed(int(state[0]))
    np.random.seed(state[1])  # noqa: NPY002 -- transformers draws its masks from here
    waves = [load(e.path, rate=recognizer.rate, start=e.start, duration=e.duration) for e in batch]
    logits = model.logits([recognizer.normalized(wave.samples) for wave in waves])
    rows = torch.tensor([recognizer.front.rows(len(wave)) for wave in waves])
    loss = torch.nn.functional.ctc_loss(
        logits.float().log_softmax(dim=-1).transpose(0, 1).cpu(),  # few numbers, wherever the network is
        torch.tensor([token for e in batch for token in e.tokens]),
        rows,
        torch.tensor([len(e.tokens) for e in batch]),
        blank=model.blank,
        reduction="sum",
        zero_infinity=True,  # resampling may take the one row that was to spare
    ) / sum(len(e.tokens) for e in batch)
    if not torch.isfinite(loss):
        raise InputError(f"the loss is not finite, at {batch[0].id}", fix="lower --learning-rate")
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()
    return float(loss.detach())


def _finish(recognizer: CTC, model: LoadedModel, out: Path, report: dict[str, Any]) -> None:
    """Write the model: its weights, and the other files of the one that it was made from."""
    model.network.eval().save_pretrained(out)
    for path in recognizer.folder.iterdir():
        wanted = path.suffix in (".json", ".txt", ".model") and not path.name.endswith(".index.json")
        if wanted and not (out / path.name).exists():
            shutil.copyfile(path, out / path.name)
    with atomic_path(out / _REPORT) as part:
        part.write_text(json.dumps(report))
    (out / _CHECKPOINT).unlink(missing_ok=True)
