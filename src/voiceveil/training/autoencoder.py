"""Training of the autoencoder of speaker embeddings (S1, S1c1, S2, S2c1 of 2020) against its adversarial branches.

The network is :class:`~voiceveil.models.nets.autoencoder.AdversarialAutoencoder`. Labels come from the corpora
(speakers, genders) and from a list of accents; a branch without labels of two classes is left out. Utterances are cut
into pieces, so that speakers with a single utterance have several embeddings; one piece in four of each speaker is
kept for validation. All speakers are drawn equally often, however many pieces they have.
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
from voiceveil.corpus.pieces import pieces_of_utterances
from voiceveil.models.checkpoint import save_tensors
from voiceveil.models.nets.autoencoder import KIND, AdversarialAutoencoder
from voiceveil.models.speaker.encoders import encoder, l2_normalized
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.device import current_device, use_device
from voiceveil.run.ledger import sha256_file
from voiceveil.training.training_run import TrainingRun, check_run, write_record

__all__ = [
    "BRANCHES",
    "AutoencoderSettings",
    "branch_labels",
    "fit_autoencoder",
    "read_accents",
    "train_autoencoder",
    "validation_pieces",
]

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
    piece_seconds : float
        Utterances are cut into pieces of at least this length, each with an embedding of its own; 0: not cut.
    most_pieces : int
        Largest number of pieces of one speaker; 0: no limit.
    learning_rate : float
        That of encoder and decoder; the branches learn three times as fast.
    seed : int
        Of weights and order.
    """

    weights: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(BRANCHES, 0.1))
    epochs: int = 600
    batch: int = 128
    piece_seconds: float = 4.0
    most_pieces: int = 40
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
    """Embed pieces of the utterances, train an autoencoder, and write ``model.safetensors`` and ``record.json``.

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
        If fewer than two speakers have two pieces each.
    """
    run = check_run(run)
    pieces = list(utterances)
    if settings.piece_seconds:
        pieces = pieces_of_utterances(pieces, settings.piece_seconds, settings.most_pieces)
    labels = branch_labels(pieces, accents or {})
    if "speaker" not in labels:
        raise InputError("no two speakers have two utterances each", fix="add a corpus to --data")
    out.mkdir(parents=True, exist_ok=True)
    speaker_encoder = encoder(speaker)
    cache = Cache(run.features or out / "features.sqlite")
    context = RunContext(cache, run.jobs, run.device, progress=not run.quiet)
    embeddings = context.extract(pieces, speaker_encoder)
    vectors = np.array([l2_normalized(embeddings[u.id]) for u in pieces], dtype=np.float32)
    held_out = validation_pieces(pieces)
    training = {name: values[~held_out] for name, values in labels.items()}
    start = time.monotonic()
    with use_device(run.device):
        network, history = fit_autoencoder(vectors[~held_out], training, settings)
        validation = _reconstruction_error(network, vectors[held_out])
    model = out / "model.safetensors"
    size = {**network.size, "branches": {name: settings.weights[name] for name in labels}}
    parts = {"speaker": speaker_encoder.fingerprint()}
    save_tensors(model, network.inference_state(), {"kind": KIND, "size": size, "parts": parts})
    record = {
        "sha256": sha256_file(model),
        "parameters": sum(value.numel() for value in network.inference_state().values()),
        "settings": _recorded_settings(settings, training, int(held_out.sum())),
        "branches": size["branches"],
        "left_out": [name for name in BRANCHES if name not in labels],
        "validation": validation,
        "losses": {name: values[-1] for name, values in history.items()},
        "training_seconds": round(time.monotonic() - start, 1),
        "threads": 1,
    }
    write_record(out, record)
    return record


def _recorded_settings(settings: AutoencoderSettings, labels: Labels, held_out: int) -> dict[str, Any]:
    """Return length and data of a training, for the record."""
    pieces = len(labels["speaker"])
    steps = settings.epochs * max(1, pieces // settings.batch)
    speakers = int(labels["speaker"].max()) + 1
    return {
        "plan": {"steps": steps, "epochs": settings.epochs},
        "pieces": {"seconds": settings.piece_seconds, "most": settings.most_pieces},
        "data": {"pieces": pieces, "validation_pieces": held_out, "speakers": speakers},
    }


def validation_pieces(pieces: Sequence[Utterance]) -> NDArray[np.bool_]:
    """Return which pieces (n,) are kept for validation: every fourth of each speaker, from the second on."""
    seen: Counter[str] = Counter()
    chosen = []
    for piece in pieces:
        chosen.append(seen[piece.speaker or piece.id] % 4 == 1)
        seen[piece.speaker or piece.id] += 1
    return np.array(chosen)


def _reconstruction_error(network: AdversarialAutoencoder, vectors: NDArray[np.float32]) -> float:
    """Return the mean cosine distance of embeddings (n, d) and their reconstructions."""
    x = torch.from_numpy(vectors).to(current_device())
    with torch.inference_mode():
        return float(network.reconstruction_loss(x, network.encoder(network.scale(x))))


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
    probabilities = _sampling_probabilities(labels.get("speaker", np.full(len(vectors), -1)))
    parameters = [*network.encoder.parameters(), *network.decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=settings.learning_rate)
    adversary = torch.optim.Adam(network.branches.parameters(), lr=3 * settings.learning_rate) if classes else None
    rng = np.random.default_rng(settings.seed)
    history: dict[str, list[float]] = {}
    for epoch in range(settings.epochs):
        growth = 2 / (1 + np.exp(-10 * epoch / settings.epochs)) - 1
        weights = {name: growth * settings.weights[name] for name in classes}
        epoch_losses: dict[str, list[float]] = {}
        for _ in range(max(1, len(data) // settings.batch)):
            chosen = rng.choice(len(data), min(settings.batch, len(data)), p=probabilities)
            rows = torch.from_numpy(chosen).to(device)
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


def _sampling_probabilities(speakers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the probability of each embedding (n,): speakers are equally likely; -1 is a speaker of one embedding."""
    counts = np.bincount(speakers[speakers >= 0], minlength=1)
    weights = np.where(speakers >= 0, 1 / np.maximum(counts, 1)[speakers], 1.0)
    return np.asarray(weights / weights.sum())
