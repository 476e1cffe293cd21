"""Content features from the encoder of a CTC/attention recognizer: M1 and M1c1 of VoicePrivacy 2020.

``ctc-attention`` and ``ctc-attention-masked`` are the weights that ship; ``ctc-attention:FOLDER`` are weights that
`voiceveil train` wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import check_audio
from voiceveil.models.content.features import FRAME, ContentEncoder, content_encoder, content_encoders
from voiceveil.models.content.trained import TrainedContent, weights_file
from voiceveil.models.weights import store
from voiceveil.run.device import current_device
from voiceveil.run.ledger import sha256_file

__all__ = ["CtcAttentionContent"]


@dataclass(frozen=True)
class CtcAttentionContent(TrainedContent):
    """The last layer of the encoder in ``file``.

    Its input are MFCC, for a vector every 40 ms, or the features of another content encoder, with a vector for each.
    """

    weights_kind: ClassVar[str] = "CTC/attention recogniser"  # the spelling in files of weights

    def __post_init__(self) -> None:
        # In the record, "hears" is the name of the content encoder of the input, "heard" its fingerprint.
        inner, trained_on = self._inner, self._parts.get("heard")
        if inner is not None and inner.fingerprint() != trained_on:
            problem = f"trained on other content features: {trained_on!r}, not {inner.fingerprint()!r}"
            raise InputError(problem, where=self.file, fix="train it again")

    @property
    def dimension(self) -> int:
        """Length of a vector: 1,024 in the published size."""
        return int(self.record["size"]["width"])

    @property
    def hop(self) -> float:
        """Samples between two vectors: 640 with MFCC."""
        return 4.0 * FRAME if self._inner is None else self._inner.hop

    @property
    def offset(self) -> float:
        """Sample at the center of the first vector."""
        return 2.0 * FRAME if self._inner is None else self._inner.offset

    @property
    def minimum(self) -> float:
        """Shortest audio in seconds."""
        return 0.1 if self._inner is None else self._inner.minimum

    @property
    def imitates(self) -> str | None:
        """Fingerprint of the content encoder that it imitates, whose decoders accept its features; None if none."""
        teacher = self._parts.get("teacher")
        return None if teacher is None else str(teacher)

    def fingerprint(self) -> str:
        """Return the hash of the weights, whose record has the fingerprint of the input features."""
        return f"content ctc-attention {sha256_file(self.file)} 1"

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the features of an utterance (frames, dimension)."""
        import torch

        from voiceveil.dsp.kaldi import hires_mfcc

        check_audio(wave, self.rate, round(self.minimum * self.rate))
        inner = self._inner
        inputs = hires_mfcc(wave.samples) if inner is None else inner(wave).astype(np.float32)
        with torch.inference_mode():
            rows = torch.from_numpy(inputs[None]).to(current_device())
            content = self.network.content(rows, torch.tensor([len(inputs)]))[0]
        return np.asarray(content.cpu().numpy(), dtype=np.float16)

    @property
    def _inner(self) -> ContentEncoder | None:
        """Content encoder of the input features; None for MFCC."""
        name = self._parts.get("hears")
        return None if name is None else content_encoder(str(name))

    @property
    def _parts(self) -> dict[str, Any]:
        return dict(self.record["parts"])

    @staticmethod
    def build(size: dict[str, Any]) -> Any:
        """Return the recognizer of a size."""
        from voiceveil.models.nets.ctc_attention import CtcAttention, CtcAttentionSize

        return CtcAttention(CtcAttentionSize(**size))


@content_encoders.register("ctc-attention")
def _ctc_attention(folder: str) -> ContentEncoder:
    return _from_folder(folder) if folder else CtcAttentionContent(store.path("m1"))


@content_encoders.register("ctc-attention-masked")
def _ctc_attention_masked(folder: str) -> ContentEncoder:
    return _from_folder(folder) if folder else CtcAttentionContent(store.path("m1c1"))


def _from_folder(folder: str) -> ContentEncoder:
    fix = "give a folder that `voiceveil train ctc-attention` wrote"
    return CtcAttentionContent(weights_file(folder, "recognizer", fix))
