"""Training of the autoencoder of speaker embeddings (S1, S1c1, S2, S2c1 of 2020) against its adversarial branches.

The network is :class:`~voiceveil.models.nets.autoencoder.AdversarialAutoencoder`. Labels come from the corpora
(speakers, genders) and from a list of accents; a branch without labels of two classes is left out.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.core.files import read_text
from voiceveil.corpus import Utterance
from voiceveil.models.checkpoint import save_tensors
from voiceveil.models.nets.autoencoder import KIND, AdversarialAutoencoder
from voiceveil.models.speaker.encoders import encoder, l2_normalized
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.device import current_device, use_device
from voiceveil.run.ledger import sha256_file
from voiceveil.training.training_run import TrainingRun, check_run, write_record

__all__ = ["BRANCHES", "AutoencoderSettings", "branch_labels", "fit_autoencoder", "read_accents", "train_autoencoder"]

#: Branches of the autoencoder, in the order of the weights on the command line.
BRANCHES = ("speaker", "gender", "accent")
Labels = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class AutoencoderSettings:
    """Settings that the weights of an autoencoder depend on, besides the embeddings and their labels.

    Parameters
    ----------
    weights : mapping
        Branch (``speaker``, ``gender``, ``accent``) -> weight of its confusion loss, 0 or more.
    epochs, batch : int
        Passes through the data, and embeddings in a batch.
    learning_rate : float
        That of encoder and decoder; the branches learn three times as fast.
    seed : int
        Of weights and order.
    """

    weights: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(BRANCHES, 0.1))
    epochs: int = 120
    batch: int = 128
    learning_rate: float = 1e-3
    seed: int = 0


def train_autoencoder(
    utterances: Sequence[Utterance],
    out: Path,
    settings: AutoencoderSettings,
    run: TrainingRun,
    *,
    speaker: str = "campplus",
    accents: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Embed the utterances, train an autoencoder on them, and write ``model.safetensors`` and ``record.json``.

    Parameters
    ----------
    utterances
        Speech with speakers.
    out
        Output folder.
    settings, run
        Settings of the training; of ``run`` the features (default: ``features.sqlite`` in ``out``), jobs and quiet.
    speaker
        Speaker encoder.
    accents
        Speaker -> accent.

    Returns
    -------
    dict
        The record.

    Raises
    ------
    InputError
        If fewer than two speakers have two utterances each.
    """
    labels = branch_labels(utterances, accents or {})
    if "speaker" not in labels:
        raise InputError("no two speakers have two utterances each", fix="add a corpus to --data")
    run = check_run(run)
    out.mkdir(parents=True, exist_ok=True)
    speaker_encoder = encoder(speaker)
    cache = Cache(run.features or out / "features.sqlite")
    context = RunContext(cache, run.jobs, run.device, progress=not run.quiet)
    embeddings = context.extract(utterances, speaker_encoder)
    vectors = np.array([l2_normalized(embeddings[u.id]) for u in utterances], dtype=np.float32)
    start = time.monotonic()
    with use_device(run.device):
        network, history = fit_autoencoder(vectors, labels, settings)
    model = out / "model.safetensors"
    size = {**network.size, "branches": {name: settings.weights[name] for name in labels}}
    parts = {"speaker": speaker_encoder.fingerprint()}
    save_tensors(model, network.inference_state(), {"kind": KIND, "size": size, "parts": parts})
    record = {
        "sha256": sha256_file(model),
        "parameters": sum(value.numel() for value in network.inference_state().values()),
        "settings": _recorded_settings(settings, labels),
        "branches": size["branches"],
        "left_out": [name for name in BRANCHES if name not in labels],
        "validation": history["reconstruction"][-1],
        "losses": {name: values[-1] for name, values in history.items()},
        "training_seconds": round(time.monotonic() - start, 1),
        "threads": 1,
    }
    write_record(out, record)
    return record


def _recorded_settings(settings: AutoencoderSettings, labels: Labels) -> dict[str, Any]:
    """Return length and data of a training, for the record."""
    utterances = len(labels["speaker"])
    steps = settings.epochs * max(1, utterances // settings.batch)
    return {
        "plan": {"steps": steps, "epochs": settings.epochs},
        "data": {"utterances": utterances, "speakers": int(labels["speaker"].max()) + 1},
    }


def branch_labels(utterances: Sequence[Utterance], accents: Mapping[str, str]) -> dict[str, NDArray[np.int64]]:
    """Return branch -> class number of each utterance (n,), -1 where it is unknown.

    Branches with fewer than two classes are left out, and a speaker with one utterance has no number: a voice that
    occurs once cannot be recognized again.
    """
    counts = Counter(utterance.speaker or "" for utterance in utterances)
    names = {
        "speaker": [(u.speaker or "") if counts[u.speaker or ""] > 1 else "" for u in utterances],
        "gender": [u.gender or "" for u in utterances],
        "accent": [accents.get(u.speaker or "", "") for u in utterances],
    }
    labels = {}
    for branch, values in names.items():
        classes = sorted({value for value in values if value})
        if len(classes) > 1:
            labels[branch] = np.array([classes.index(value) if value else -1 for value in values], dtype=np.int64)
    return labels


def read_accents(file: Path) -> dict[str, str]:
    """Return speaker -> accent from a file of lines ``<speaker> <accent>``.

    Raises
    ------
    InputError
        If a line has no accent; the error names the line.
    """
    accents = {}
    for number, line in enumerate(read_text(file).splitlines(), 1):
        speaker, _, accent = line.strip().partition(" ")
        if not accent:
            raise InputError("no accent", where=file, line=number, fix="write `<speaker> <accent>`")
        accents[speaker] = accent.strip()
    return accents


def fit_autoencoder(
    vectors: NDArray[np.float32], labels: Labels, settings: AutoencoderSettings
) -> tuple[AdversarialAutoencoder, dict[str, list[float]]]:
    """Train an autoencoder on embeddings, on the current device.

    Parameters
    ----------
    vectors
        Embeddings (n, d), L2-normalized.
    labels
        Branch -> class numbers (n,), -1 where unknown. A branch of weight 0 is trained, but changes nothing.
    settings
        Settings of the training.

    Returns
    -------
    AdversarialAutoencoder, dict
        The network, and its losses after each epoch by name.
    """
    torch.set_num_threads(1)
    classes = {name: int(values.max()) + 1 for name, values in labels.items()}
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        network = AdversarialAutoencoder(vectors.shape[1], branches=classes)
    device = current_device()
    network, data = network.to(device), torch.from_numpy(np.ascontiguousarray(vectors)).to(device)
    network.scale.fit(data)
    targets = {name: torch.from_numpy(values).to(device) for name, values in labels.items()}
    parameters = [*network.encoder.parameters(), *network.decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=settings.learning_rate)
    adversary = torch.optim.Adam(network.branches.parameters(), lr=3 * settings.learning_rate) if classes else None
    rng = np.random.default_rng(settings.seed)
    history: dict[str, list[float]] = {}
    for epoch in range(settings.epochs):
        growth = 2 / (1 + np.exp(-10 * epoch / settings.epochs)) - 1
        weights = {name: growth * settings.weights[name] for name in classes}
        epoch_losses: dict[str, list[float]] = {}
        for part in np.array_split(rng.permutation(len(data)), max(1, len(data) // settings.batch)):
            rows = torch.from_numpy(part).to(device)
            x = data[rows]
            code = network.encoder(network.scale(x))
            losses = network.branch_losses(code.detach(), {name: values[rows] for name, values in targets.items()})
            if adversary is not None and losses:
                adversary.zero_grad()
                torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
                adversary.step()
            losses["reconstruction"] = network.reconstruction_loss(x, code)
            optimizer.zero_grad()
            (losses["reconstruction"] + network.confusion_loss(code, weights)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            for name, loss in losses.items():
                epoch_losses.setdefault(name, []).append(float(loss.detach()))
        for name, values in epoch_losses.items():
            history.setdefault(name, []).append(float(np.mean(values)))
    return network.eval(), history
