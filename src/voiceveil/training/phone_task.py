"""Training of the phone encoder: cross-entropy of the phone states of perturbed speech."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from voiceveil.models.nets.phone_encoder import PhoneEncoder, PhoneEncoderSize
from voiceveil.training.phone_data import PhoneBatch
from voiceveil.training.single_loss_task import SingleLossTask

__all__ = ["PhoneTask"]

_SMOOTHING = 0.05
#: Look-ahead of each layer in vectors; half of the steps see all of the crop, a quarter each see 0.17 and 0.32 s ahead.
_LOOK_AHEADS = (None, None, 1, 2)


class PhoneTask(SingleLossTask[PhoneBatch]):
    """Fine-tuning of Moonshine's encoder to the states of phones.

    Parameters
    ----------
    size
        Size of the network.
    seed
        Of the weights of the last layer.
    device
        Device of torch.
    """

    kind = "phone encoder"
    network: PhoneEncoder

    def __init__(self, size: PhoneEncoderSize, *, seed: int = 0, device: str = "cpu") -> None:
        torch.manual_seed(seed)
        network = PhoneEncoder(size)
        network.load_pretrained()
        network.requires_grad_(True)
        super().__init__(network, device)

    def prepare(self, data: object) -> None:
        """Do nothing: there is nothing to fit before the first step."""

    def loss(self, batch: PhoneBatch, rng: np.random.Generator) -> Tensor:
        """Return the cross-entropy per output, with smoothed labels; training draws the look-ahead."""
        look_ahead = _LOOK_AHEADS[int(rng.integers(len(_LOOK_AHEADS)))] if self.network.training else None
        logits = self.network(torch.from_numpy(batch.samples).to(self.device), look_ahead)
        classes = torch.from_numpy(batch.classes).to(self.device)
        return functional.cross_entropy(
            logits.flatten(0, 1), classes.flatten(), ignore_index=-1, label_smoothing=_SMOOTHING
        )
