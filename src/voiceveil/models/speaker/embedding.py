"""From frames to embeddings, and how well they tell apart speakers that the encoder has never heard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.metrics import eer
from voiceveil.models.speaker.networks import SpeakerModel, repeated, subtract_mean

__all__ = ["embed", "pair_scores", "validation_eer"]


def embed(network: Any, model: SpeakerModel, frames: NDArray[np.floating], device: str = "cpu") -> NDArray[np.float32]:
    """The embedding (dimension,) of one utterance, from its features (frames, width); the network is in eval mode."""
    import torch

    values = subtract_mean(repeated(frames, network.minimum_frames), model.centered)
    with torch.inference_mode():
        result = network(torch.from_numpy(values).unsqueeze(0).to(device))
    return np.asarray(result[0].cpu().numpy(), dtype=np.float32)


def pair_scores(
    embeddings: NDArray[np.float32], speakers: Sequence[str], *, center: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosines of all pairs of utterances, (N, E) to targets and nontargets; ``center``: after subtracting the mean.

    The mean stands in for the back-end of encoders that are not made for the cosine.
    """
    vectors = embeddings.astype(np.float64)
    if center:
        vectors = vectors - vectors.mean(axis=0)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    first, second = np.triu_indices(len(vectors), k=1)
    scores = (vectors @ vectors.T)[first, second]
    names = np.asarray(speakers)
    same = names[first] == names[second]
    return scores[same], scores[~same]


def validation_eer(embeddings: NDArray[np.float32], speakers: Sequence[str], model: SpeakerModel) -> float:
    """Equal error rate over all pairs of utterances, a fraction."""
    target, nontarget = pair_scores(embeddings, speakers, center=not model.cosine)
    return eer(target, nontarget)
