"""CTC recognizers that take a spectrogram instead of the waveform: Wav2Vec2-BERT, Parakeet and similar models.

Conventions: as in :mod:`voiceveil.models.asr.ctc`, but the model's own feature extractor comes first, and a row of
logits does not correspond to a fixed number of samples. Long utterances are therefore cut at pauses instead of
processed in overlapping windows; pieces are processed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.models.asr.beam_search import BeamDecoder
from voiceveil.models.asr.ctc import VOCABULARY, collapse, token_texts
from voiceveil.models.asr.recognition import check_audio
from voiceveil.models.asr.segmentation import cut_at_pauses
from voiceveil.models.pretrained import check_files, digest, load_processor, load_weights, preprocessing
from voiceveil.run.device import current_device

__all__ = ["FeatureCTC"]


@dataclass(frozen=True)
class FeatureCTC:
    """A CTC model in ``folder`` with its own feature extractor; utterances longer than ``max_seconds`` are cut."""

    folder: Path
    max_seconds: float = 30.0
    decoder: BeamDecoder | None = None

    def __post_init__(self) -> None:
        check_files(self.folder, "ctc", VOCABULARY)

    @property
    def rate(self) -> int:
        """Sampling rate of the model in Hz, usually 16,000."""
        return int(preprocessing(self.folder).get("sampling_rate", 16000))

    @property
    def minimum(self) -> float:
        """Shortest audio in seconds: ten frames of a spectrogram, of which such models join up to eight."""
        return 0.1

    def fingerprint(self) -> str:
        """Return the hash of the model and the longest piece."""
        greedy = f"ctc-features {digest(self.folder)} 1 {self.max_seconds}"
        return greedy if self.decoder is None else f"{greedy} {self.decoder.fingerprint()}"

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript, in the characters that the model writes."""
        check_audio(wave, self.rate, round(self.minimum * self.rate))
        pieces = cut_at_pauses(wave.samples, wave.rate, self.max_seconds)
        return " ".join(filter(None, (self._transcribe_piece(wave.samples[start:stop]) for start, stop in pieces)))

    def batch(self, waves: Sequence[Waveform]) -> list[str]:
        """Return the transcripts of several utterances, processed one by one."""
        return [self(wave) for wave in waves]

    def _transcribe_piece(self, samples: Samples) -> str:
        import torch

        device = current_device()
        network, extractor, tokenizer = _model(self.folder, device)
        features = extractor(samples, sampling_rate=self.rate, return_tensors="pt").to(device)
        with torch.inference_mode():
            logits = network(**features).logits[0]
        blank = int(network.config.pad_token_id)
        if self.decoder is not None:
            rows = logits.float().log_softmax(dim=-1).cpu().numpy()
            return self.decoder.decode(rows, token_texts(tokenizer, rows.shape[1]), blank)
        tokens = collapse(logits.argmax(dim=-1).cpu().numpy().astype(np.int64), blank)
        return str(tokenizer.decode(tokens.tolist(), skip_special_tokens=True, group_tokens=False)).strip()


@lru_cache(maxsize=2)
def _model(folder: Path, device: str) -> tuple[Any, Any, Any]:
    network = load_weights(folder, "AutoModelForCTC", device)
    return network, load_processor(folder, "AutoFeatureExtractor"), load_processor(folder, "AutoTokenizer")
