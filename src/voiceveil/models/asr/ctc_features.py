"""CTC recognizers that read a spectrogram instead of the waveform: Wav2Vec2-BERT, Parakeet and their like.

Conventions: as in :mod:`voiceveil.models.asr.ctc`, but the model's own feature extractor comes first, and its rows of
logits stand for no fixed number of samples. Long utterances are therefore cut at pauses, not read through overlapping
windows, and pieces go through the network one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.models.asr.ctc import VOCABULARY, collapse
from voiceveil.models.asr.recognition import check_audio
from voiceveil.models.asr.segmentation import cut_at_pauses
from voiceveil.models.pretrained import check_files, digest, load_text, load_weights, preprocessing

__all__ = ["FeatureCTC"]


@dataclass(frozen=True)
class FeatureCTC:
    """A CTC model in ``folder`` with a feature extractor of its own; ``longest``: seconds of a piece."""

    folder: Path
    longest: float = 30.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_files(self.folder, "ctc", VOCABULARY)

    @property
    def rate(self) -> int:
        """What the model was trained with, 16 kHz as a rule."""
        return int(preprocessing(self.folder).get("sampling_rate", 16000))

    @property
    def minimum(self) -> float:
        """0.1 s: ten frames of a spectrogram, of which such models take up to eight together."""
        return 0.1

    def fingerprint(self) -> str:
        """Return the model's files and the length of the pieces."""
        return f"ctc-features {digest(self.folder)} 1 {self.longest}"

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript as the model writes it."""
        check_audio(wave, self.rate, round(self.minimum * self.rate))
        pieces = cut_at_pauses(wave.samples, wave.rate, self.longest)
        return " ".join(filter(None, (self._piece(wave.samples[start:stop]) for start, stop in pieces)))

    def _piece(self, samples: Samples) -> str:
        import torch

        network, extractor, tokenizer = _model(self.folder, self.device)
        features = extractor(samples, sampling_rate=self.rate, return_tensors="pt").to(self.device)
        with torch.inference_mode():
            best = network(**features).logits[0].argmax(dim=-1).cpu().numpy().astype(np.int64)
        tokens = collapse(best, int(network.config.pad_token_id))
        return str(tokenizer.decode(tokens.tolist(), skip_special_tokens=True, group_tokens=False)).strip()


@lru_cache(maxsize=2)
def _model(folder: Path, device: str) -> tuple[Any, Any, Any]:
    network = load_weights(folder, "AutoModelForCTC", device)
    return network, load_text(folder, "AutoFeatureExtractor"), load_text(folder, "AutoTokenizer")
