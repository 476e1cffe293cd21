"""Synthetic voices as inputs of synthesizers: recordings with content, F0 and small speaker vectors."""

from __future__ import annotations

import numpy as np

from voiceveil.models.content.features import LEVEL
from voiceveil.testing.voices import synthetic_voice
from voiceveil.training.synthesis_data import SynthesisBatch


def voices(count: int = 2, frames: int = 40, content: int = 12, speaker: int = 6) -> SynthesisBatch:
    """Return voices whose content is a smoothed spectrum; frames with energy are voiced, at 100 Hz and more."""
    import torch

    from voiceveil.models.nets.mel import log_mel

    waves = [synthetic_voice(i, i, seconds=frames / 100).samples for i in range(count)]
    samples = np.stack([w * np.float32(LEVEL / np.sqrt(np.mean(w**2))) for w in waves])
    mel = log_mel(torch.from_numpy(samples)).numpy()
    rng = np.random.default_rng(0)
    loud = mel.mean(axis=2) > mel.mean(axis=2).mean(axis=1, keepdims=True)
    f0 = np.where(loud, 100.0 + 40.0 * np.arange(count)[:, None], 0.0).astype(np.float32)
    seen = (mel @ rng.standard_normal((80, content)) / 40).astype(np.float32)
    return SynthesisBatch(samples, seen, f0, rng.standard_normal((count, speaker)).astype(np.float32))
