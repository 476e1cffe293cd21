"""A small pool of made-up speakers with a fitted PLDA scorer."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from voiceveil.models.speaker.plda import Plda
from voiceveil.systems.resynthesis.pool import Pool


def make_pool(each: int = 12, dimension: int = 6, seed: int = 0) -> Pool:
    """Return a pool with ``each`` speakers of either gender; their embeddings are means of four utterances."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((2 * each, dimension)) + np.repeat([[1.5], [-1.5]], each, axis=0)
    utterances = centers[:, None] + 0.3 * rng.standard_normal((2 * each, 4, dimension))
    scorer = Plda(by_count=False).fit(utterances.reshape(-1, dimension), np.repeat(np.arange(2 * each), 4))
    return Pool(
        tuple(f"s{i}" for i in range(2 * each)),
        np.array(["f"] * each + ["m"] * each),
        utterances.mean(axis=1).astype(np.float32),
        np.linspace(5.3, 4.6, 2 * each, dtype=np.float32),
        "encoder 1",
        scorer,
        Path("pool.safetensors"),
    )
