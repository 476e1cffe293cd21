"""Embeddings of speakers that do not exist, in the files of the challenges' evaluation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def voices(speakers: int, each: int, seed: int, prefix: str = "s") -> dict[str, tuple[str, Vectors]]:
    """Utterance -> speaker and vector, around a direction of each speaker that does not depend on the seed."""
    rng, world = np.random.default_rng(seed), np.random.default_rng(99)
    centers = world.normal(size=(speakers, 12))
    return {
        f"{prefix}{s:02d}-{seed}-{k}": (f"{prefix}{s:02d}", (centers[s] + rng.normal(size=12)).astype(np.float32))
        for s in range(speakers)
        for k in range(each)
    }


def write_cache(root: Path, name: str, spoken: dict[str, tuple[str, Vectors]], seed: int = 0) -> Path:
    """A set of emb_xvect as the challenge's code writes it: rows in any order, one tensor."""
    import torch

    level = root / "emb_xvect" / name / "utt-level"
    level.mkdir(parents=True)
    order = np.random.default_rng(seed).permutation(len(spoken))
    ids = list(spoken)
    rows = {utterance: int(row) for utterance, row in zip(ids, order, strict=True)}
    by_row = sorted(ids, key=rows.__getitem__)
    torch.save(torch.tensor(np.stack([spoken[u][1] for u in by_row])), level / "speaker_vectors.pt")
    (level / "id2idx").write_text("".join(f"{u} {rows[u]}\n" for u in sorted(ids)))
    # sorted as strings, as the 2024 code does: 0, 1, 10, 11, 2, ...
    lines = sorted((str(row), spoken[u][0]) for u, row in rows.items())
    (level / "idx2spk").write_text("".join(f"{row} {speaker}\n" for row, speaker in lines))
    people = sorted({speaker for speaker, _ in spoken.values()})
    (level / "spk2gender").write_text("".join(f"{s} {'fm'[i % 2]}\n" for i, s in enumerate(people)))
    return level.parent
