"""An autoencoder that removes speaker information from embeddings by adversarial training (S1c1 and S2c1 of 2020).

Espinoza-Cuadros et al. ("Speaker De-identification System using Autoencoders and Adversarial Training", 2020): an
encoder maps an x-vector to a code, a decoder maps the code back to an x-vector; adversarial branches classify speaker,
gender and accent from the code, and the encoder learns to remove what they use. The reconstruction is the anonymized
x-vector.

The paper leaves details open. Here, layers have 256 units, and the code has 16, normalized to zero mean and unit
variance so that its scale carries no information. A code that is larger than the reconstruction needs leaves room in
which the encoder can hide the speaker from the branches: with 64 units, other classifiers found nearly every speaker
again. The loss of the autoencoder is the cosine distance, because synthesis
uses only the direction of embeddings. The encoder is not trained on the reversed gradient of the branches (Ganin et al.
2016), which vanishes when a branch is certain, but towards uniform class probabilities (Tzeng et al. 2015, "domain
confusion"); the weight of this loss grows during training by Ganin's schedule. Training is in
:mod:`voiceveil.training.autoencoder`.

Conventions: N embeddings (N, d); labels (N,) are class numbers from 0, -1 where the class is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.standardize import Standardize

__all__ = ["KIND", "AdversarialAutoencoder"]

KIND = "autoencoder of embeddings"


def _layers(first: int, hidden: int, last: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(first, hidden), nn.ReLU(), nn.Linear(hidden, last))


class AdversarialAutoencoder(nn.Module):
    """Autoencoder and its adversarial branches.

    Parameters
    ----------
    dimension
        Of the embeddings.
    hidden, code
        Units of the hidden layers, and of the code.
    branches
        Name -> number of classes; only training uses them.
    """

    def __init__(
        self, dimension: int, hidden: int = 256, code: int = 16, branches: Mapping[str, int] | None = None
    ) -> None:
        super().__init__()
        self.size = {"dimension": dimension, "hidden": hidden, "code": code}
        self.scale = Standardize(dimension)
        self.encoder = nn.Sequential(*_layers(dimension, hidden, code), nn.LayerNorm(code, elementwise_affine=False))
        self.decoder = _layers(code, hidden, dimension)
        self.branches = nn.ModuleDict({name: _layers(code, hidden, n) for name, n in (branches or {}).items()})

    def forward(self, x: Tensor) -> Tensor:
        """Return the reconstructions (N, d) of embeddings (N, d)."""
        reconstruction: Tensor = self.decoder(self.encoder(self.scale(x)))
        return reconstruction

    def reconstruction_loss(self, x: Tensor, code: Tensor) -> Tensor:
        """Return the mean cosine distance between the decoded codes (N, code) and the embeddings (N, d)."""
        return (1 - functional.cosine_similarity(self.decoder(code), x)).mean()

    def branch_losses(self, code: Tensor, labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the cross entropy of each branch that has known labels, given the codes (N, code)."""
        return {
            name: functional.cross_entropy(branch(code), labels[name], ignore_index=-1)
            for name, branch in self.branches.items()
            if (labels[name] >= 0).any()
        }

    def confusion_loss(self, code: Tensor, weights: Mapping[str, float]) -> Tensor:
        """Return the weighted sum over branches of the divergence from uniform class probabilities, in nats."""
        total = torch.zeros(())
        for name, branch in self.branches.items():
            log_probabilities = functional.log_softmax(branch(code), dim=1)
            total = total - weights[name] * (log_probabilities.mean() + np.log(log_probabilities.shape[1]))
        return total

    def inference_state(self) -> dict[str, Tensor]:
        """Return the weights without those of the branches, which only training uses."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("branches.")}
