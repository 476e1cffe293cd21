"""An autoencoder of speaker embeddings that unlearns who speaks, with adversarial branches (S1c1 and S2c1 of 2020).

Espinoza-Cuadros et al. ("Speaker De-identification System using Autoencoders and Adversarial Training", 2020): an
encoder makes a code of an x-vector, a decoder the x-vector again; adversarial branches try to tell speaker, gender and
accent from the code, and what helps them is taken out of it. The reconstruction is the anonymized x-vector.

What that left to us. Layers of 256, a code of 64 that has length and mean of a standard one, so that nothing hides in
its scale. The loss of the autoencoder is the cosine distance, as synthesis looks at directions only. The encoder is not
trained on the branches' gradient with the other sign (Ganin et al. 2016), which vanishes as soon as a branch is sure of
its answer, but towards answers that say nothing, all classes equally likely (Tzeng et al. 2015, "domain confusion");
the weight of that grows over the training by Ganin's schedule.

Conventions: N embeddings (N, d); labels (N,) are whole numbers from 0, -1 where one is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from voiceveil.models.nets.standardize import Standardize

__all__ = ["KIND", "AdversarialAutoencoder", "AutoencoderPlan", "train_autoencoder"]

KIND = "autoencoder of embeddings"
Labels = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class AutoencoderPlan:
    """How it is trained."""

    epochs: int = 120
    batch: int = 128
    learning_rate: float = 1e-3
    seed: int = 0


def _layers(first: int, hidden: int, last: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(first, hidden), nn.ReLU(), nn.Linear(hidden, last))


class AdversarialAutoencoder(nn.Module):
    """``forward(x)``: reconstructions (N, d) of embeddings (N, d); ``branches``: name -> number of classes."""

    def __init__(
        self, dimension: int, hidden: int = 256, code: int = 64, branches: Mapping[str, int] | None = None
    ) -> None:
        super().__init__()
        self.size = {"dimension": dimension, "hidden": hidden, "code": code}
        self.scale = Standardize(dimension)
        self.encoder = nn.Sequential(*_layers(dimension, hidden, code), nn.LayerNorm(code, elementwise_affine=False))
        self.decoder = _layers(code, hidden, dimension)
        self.branches = nn.ModuleDict({name: _layers(code, hidden, n) for name, n in (branches or {}).items()})

    def forward(self, x: Tensor) -> Tensor:
        """Through the code and back."""
        made: Tensor = self.decoder(self.encoder(self.scale(x)))
        return made

    def reconstruction(self, x: Tensor, code: Tensor) -> Tensor:
        """Return the mean cosine distance of what is made of the codes (N, code) to the embeddings."""
        return (1 - functional.cosine_similarity(self.decoder(code), x)).mean()

    def guesses(self, code: Tensor, labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Cross entropy of each branch: how badly it tells its labels from the codes."""
        return {
            name: functional.cross_entropy(branch(code), labels[name], ignore_index=-1)
            for name, branch in self.branches.items()
            if (labels[name] >= 0).any()
        }

    def confusion(self, code: Tensor, weights: Mapping[str, float]) -> Tensor:
        """Weighted sum of how far the answer of each branch is from "all are equally likely", in nats."""
        total = torch.zeros(())
        for name, branch in self.branches.items():
            answers = functional.log_softmax(branch(code), dim=1)
            total = total - weights[name] * (answers.mean() + np.log(answers.shape[1]))
        return total

    def shipped_state(self) -> dict[str, Tensor]:
        """Return all but the branches, which have done their work."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("branches.")}


def train_autoencoder(
    vectors: NDArray[np.float32], labels: Labels, weights: Mapping[str, float], plan: AutoencoderPlan
) -> tuple[AdversarialAutoencoder, dict[str, list[float]]]:
    """Return the network, and its losses after each epoch; a branch of weight 0 is a listener that changes nothing."""
    torch.set_num_threads(1)
    classes = {name: int(values.max()) + 1 for name, values in labels.items()}
    with torch.random.fork_rng():
        torch.manual_seed(plan.seed)
        network = AdversarialAutoencoder(vectors.shape[1], branches=classes)
    data = torch.from_numpy(np.ascontiguousarray(vectors))
    network.scale.fit(data)
    known = {name: torch.from_numpy(values) for name, values in labels.items()}
    own = [*network.encoder.parameters(), *network.decoder.parameters()]
    honest = torch.optim.Adam(own, lr=plan.learning_rate)
    adversary = torch.optim.Adam(network.branches.parameters(), lr=3 * plan.learning_rate) if classes else None
    order = np.random.default_rng(plan.seed)
    history: dict[str, list[float]] = {}
    for epoch in range(plan.epochs):
        growth = 2 / (1 + np.exp(-10 * epoch / plan.epochs)) - 1
        sums: dict[str, list[float]] = {}
        for rows in np.array_split(order.permutation(len(data)), max(1, len(data) // plan.batch)):
            x = data[torch.from_numpy(rows)]
            code = network.encoder(network.scale(x))
            losses = network.guesses(code.detach(), {name: values[rows] for name, values in known.items()})
            if adversary is not None and losses:
                adversary.zero_grad()
                torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
                adversary.step()
            losses["reconstruction"] = network.reconstruction(x, code)
            honest.zero_grad()
            hidden = network.confusion(code, {name: growth * weights[name] for name in classes})
            (losses["reconstruction"] + hidden).backward()  # type: ignore[no-untyped-call]
            honest.step()
            for name, loss in losses.items():
                sums.setdefault(name, []).append(float(loss.detach()))
        for name, values in sums.items():
            history.setdefault(name, []).append(float(np.mean(values)))
    return network.eval(), history
