"""Training of the duration predictor: L1 distance of log durations, which leads to the median over readers."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from voiceveil.models.nets.durations import Durations
from voiceveil.training.duration_data import DurationBatch
from voiceveil.training.single_loss_task import SingleLossTask

__all__ = ["DurationTask"]

#: Weight of a pause; that of a phone is 1. Pauses vary more, and depend less on the phones around them.
_PAUSE_WEIGHT = 0.5


class DurationTask(SingleLossTask[DurationBatch]):
    """Training of :class:`~voiceveil.models.nets.durations.Durations`."""

    kind = "durations of phones"
    network: Durations

    def prepare(self, data: object) -> None:
        """Do nothing: there is nothing to fit before the first step."""

    def loss(self, batch: DurationBatch, rng: np.random.Generator) -> Tensor:
        """Return the weighted mean absolute difference of log durations."""
        phones, target, weights = (
            torch.from_numpy(array).to(self.device) for array in (batch.phones, batch.log_durations, batch.weights)
        )
        weights = torch.where(phones > 0, weights, _PAUSE_WEIGHT * weights)
        predicted: Tensor = self.network(phones)
        return ((predicted - target).abs() * weights).sum() / weights.sum()
