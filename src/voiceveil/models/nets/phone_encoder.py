"""A network that recognizes the phone at every 12 ms of a recording, fine-tuned from the encoder of Moonshine tiny.

Its output depends on what is said and when, and hardly on who says it: the posterior probabilities of phones are
content features without the speaker's way of making a sound (phonetic posteriorgrams, Hazen, Shen and White 2009; Sun
et al. 2016 for voice conversion). A phone has three states (begin, middle, end), so that the features also tell how far
the phone has advanced.

Conventions: samples (B, N) at 16 kHz to logits (B, 2 T, 118); output ``i`` is centered at sample 351 + 192 i. Class 0
is silence, class 1 + 3 (p - 1) + s the state s of phone p of :data:`voiceveil.models.asr.alignment.PHONES`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from voiceveil.models.nets.moonshine_encoder import WIDTH, MoonshineEncoder, moonshine_encoder

__all__ = ["CLASSES", "HOP", "OFFSET", "SPAN", "STATES", "PhoneEncoder", "PhoneEncoderSize"]

STATES = 3
#: Silence, and three states of 39 phones.
CLASSES = 1 + STATES * 39
#: Samples between two outputs, sample at the center of the first, and samples that the first two outputs need.
HOP, OFFSET, SPAN = 192, 351, 895


@dataclass(frozen=True)
class PhoneEncoderSize:
    """Number of layers of the encoder, of Moonshine's six, and number of classes."""

    layers: int = 6
    classes: int = CLASSES


class PhoneEncoder(nn.Module):
    """Moonshine's encoder up to a layer, and a linear layer to the classes of two outputs a vector."""

    def __init__(self, size: PhoneEncoderSize) -> None:
        super().__init__()
        self.size = size
        self.encoder = MoonshineEncoder(size.layers)
        self.norm = nn.LayerNorm(WIDTH)
        self.classes = nn.Linear(WIDTH, 2 * size.classes)

    def load_pretrained(self) -> None:
        """Copy the weights of Moonshine tiny into the encoder."""
        self.encoder.load_state_dict(moonshine_encoder(self.size.layers).state_dict())

    def forward(self, samples: Tensor, look_ahead: int | None = None) -> Tensor:
        """Return logits (B, 2 T, classes) for samples (B, N).

        Parameters
        ----------
        samples
            (B, N) at 16 kHz.
        look_ahead
            Number of later vectors (24 ms each) that each of the layers attends to; None: all of them. With six layers
            and the convolutions, 1 is a look-ahead of 0.17 s, 2 of 0.32 s.
        """
        hidden = self.norm(self.encoder(samples, look_ahead)[-1])
        logits: Tensor = self.classes(hidden)
        return logits.reshape(logits.shape[0], -1, self.size.classes)

    def posteriors(self, samples: Tensor) -> Tensor:
        """Return posterior probabilities (B, 2 T, classes)."""
        return torch.softmax(self(samples), dim=-1)
