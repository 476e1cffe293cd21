"""Bottleneck features of a TDNN-F: the content features of B1 in the challenges.

``bottleneck:FOLDER`` names a folder that `voiceveil train tdnnf` wrote; no weights ship. Where the challenge's network
takes i-vectors, this one takes embeddings of CAM++.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import check_audio
from voiceveil.models.content.features import FRAME, ContentEncoder, content_encoders
from voiceveil.models.content.trained import TrainedContent, weights_file
from voiceveil.models.speaker.encoders import encoder, l2_normalized
from voiceveil.run.device import current_device
from voiceveil.run.ledger import sha256_file

__all__ = ["BottleneckContent"]


@dataclass(frozen=True)
class BottleneckContent(TrainedContent):
    """Layer ``prefinal-l`` of the TDNN-F in ``file``, a vector every 10 ms; ``speaker`` names its speaker encoder."""

    speaker: str = "campplus"

    weights_kind: ClassVar[str] = "TDNN-F"
    hop: ClassVar[float] = float(FRAME)
    offset: ClassVar[float] = FRAME / 2
    minimum: ClassVar[float] = 0.1

    def __post_init__(self) -> None:
        trained_with = str(self.record["parts"].get("speaker"))
        given = encoder(self.speaker).fingerprint()
        if trained_with != given:
            problem = f"trained with another speaker encoder: {trained_with!r}, not {given!r}"
            raise InputError(problem, where=self.file, fix="train it again")

    @property
    def dimension(self) -> int:
        """Length of a vector: 256 in the challenges."""
        return int(self.record["size"]["bottleneck"])

    def fingerprint(self) -> str:
        """Return the hash of the weights, and the fingerprint of the speaker encoder."""
        return f"content bottleneck {sha256_file(self.file)} 1 {encoder(self.speaker).fingerprint()}"

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the features of an utterance (frames, dimension)."""
        import torch

        from voiceveil.dsp.kaldi import hires_mfcc

        check_audio(wave, self.rate, round(self.minimum * self.rate))
        inputs = (hires_mfcc(wave.samples), l2_normalized(encoder(self.speaker)(wave)))
        with torch.inference_mode():
            hidden = self.network.bottleneck(*(torch.from_numpy(x[None]).to(current_device()) for x in inputs))[0]
        return np.asarray(hidden.cpu().numpy(), dtype=np.float16)

    @staticmethod
    def build(size: dict[str, Any]) -> Any:
        """Return the TDNN-F of a size."""
        from voiceveil.models.nets.tdnnf import Tdnnf, TdnnfSize

        return Tdnnf(TdnnfSize(**size))


@content_encoders.register("bottleneck")
def _bottleneck(folder: str) -> ContentEncoder:
    fix = "write bottleneck:FOLDER, with a folder that `voiceveil train tdnnf` wrote"
    if not folder:
        raise InputError("content encoder bottleneck has no default weights", fix=fix)
    return BottleneckContent(weights_file(folder, "TDNN-F", fix))
