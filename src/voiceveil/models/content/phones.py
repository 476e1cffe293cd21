"""Posterior probabilities of phones as content features.

``phones`` is the encoder that ships, ``phones:FOLDER`` one of `voiceveil train phones`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform
from voiceveil.models.asr.recognition import check_audio
from voiceveil.models.content.features import ContentEncoder, content_encoders, samples_at_speed
from voiceveil.models.content.trained import TrainedContent, weights_file
from voiceveil.models.weights import store
from voiceveil.run.device import current_device
from voiceveil.run.ledger import sha256_file

__all__ = ["PhoneContent"]

#: Vectors of the encoder in a piece of a long recording, and vectors of context on both sides (about a second).
_PIECE, _CONTEXT = 660, 40
_STRIDE, _SPAN = 384, 895


@dataclass(frozen=True)
class PhoneContent(TrainedContent):
    """Posteriors (frames, 118) of the phone encoder in ``file``, a vector every 12 ms.

    ``speed``: the recording is played this many times as fast.
    """

    speed: float = 1.0

    weights_kind: ClassVar[str] = "phone encoder"
    #: Probabilities are not normalized over the utterance.
    probabilities: ClassVar[bool] = True

    @property
    def hop(self) -> float:
        """Samples between two vectors: 192 at speed 1."""
        return _STRIDE / 2 * self.speed

    @property
    def offset(self) -> float:
        """Sample at the center of the first vector."""
        return 351 * self.speed

    @property
    def minimum(self) -> float:
        """Shortest audio in seconds: 0.06 at speed 1."""
        return 0.06 * self.speed

    @property
    def dimension(self) -> int:
        """Number of classes."""
        return int(self.record["size"]["classes"])

    def fingerprint(self) -> str:
        """Return the hash of the weights, and the speed unless it is 1."""
        return f"content phones {sha256_file(self.file)} 1" + f" {self.speed}" * (self.speed != 1)

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the posteriors of an utterance; long ones are processed in overlapping pieces."""
        import torch

        check_audio(wave, self.rate, round(self.minimum * self.rate))
        samples = samples_at_speed(wave, self.speed)
        count = (len(samples) - _SPAN) // _STRIDE + 1
        pieces = []
        for first in range(0, count, _PIECE):
            begin, end = max(0, first - _CONTEXT), min(count, first + _PIECE + _CONTEXT)
            part = torch.from_numpy(samples[begin * _STRIDE : (end - 1) * _STRIDE + _SPAN][None])
            with torch.inference_mode():
                output = self.network.posteriors(part.to(current_device()))[0].cpu().numpy()
            inside = slice(2 * (first - begin), 2 * (first - begin + min(_PIECE, count - first)))
            pieces.append(output[inside])
        return np.concatenate(pieces).astype(np.float16)

    @staticmethod
    def build(size: dict[str, Any]) -> Any:
        """Return the network of a size."""
        from voiceveil.models.nets.phone_encoder import PhoneEncoder, PhoneEncoderSize

        return PhoneEncoder(PhoneEncoderSize(**size))


@content_encoders.register("phones")
def _phones(folder: str) -> ContentEncoder:
    if not folder:
        return PhoneContent(store.path("phones"))
    fix = "give a folder that `voiceveil train phones` wrote, or leave it out for the encoder that ships"
    return PhoneContent(weights_file(folder, "phone encoder", fix))
