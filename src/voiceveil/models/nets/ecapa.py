"""ECAPA-TDNN, the speaker encoder of the 2024 challenge (Desplanques, Thienpondt and Demuynck, Interspeech 2020).

Conventions: B utterances, D features, T frames of 10 ms, C channels, E dimensions of the embedding. The network takes
``(B, T, D)`` and gives ``(B, E)``; inside, the channels come first, ``(B, C, T)``, as torch's convolutions want them.

With 512 channels, 80 filterbank energies and 192 dimensions this is the challenge's model of 6.2 million parameters.
As in the toolkit that the challenge uses, a layer is convolution, ReLU, batch normalization, in this order, and the
edges are padded by reflection, so that a sequence needs at least ``EcapaTdnn.minimum_frames`` frames.
"""

from __future__ import annotations

from typing import Literal, cast

import torch
from torch import Tensor, nn

__all__ = ["AttentiveStatistics", "EcapaTdnn", "Res2Conv", "SeRes2Block", "SqueezeExcitation", "TdnnLayer"]

#: Variances below this are taken for it: the square root has no slope at 0.
VARIANCE_FLOOR = 1e-12


class TdnnLayer(nn.Module):
    """Convolution over time that keeps the length, ReLU, batch normalization: ``(B, C_in, T)`` to ``(B, C_out, T)``."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        margin = dilation * (kernel - 1) // 2
        # Reflection copies the input, even by no frame at all.
        mode: Literal["reflect", "zeros"] = "reflect" if margin else "zeros"
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding=margin, padding_mode=mode)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer."""
        return cast(Tensor, self.norm(torch.relu(self.conv(x))))


class Res2Conv(nn.Module):
    """Res2Net convolution: the channels in ``scale`` groups, each convolved together with the result of the one before.

    y_1 = x_1, y_2 = K_2(x_2), y_i = K_i(x_i + y_(i-1)): later groups see a longer stretch of time (Gao et al. 2021,
    equation 1). ``(B, C, T)`` to ``(B, C, T)``.
    """

    def __init__(self, channels: int, kernel: int, dilation: int, scale: int = 8) -> None:
        super().__init__()
        self.scale = scale
        width = channels // scale
        self.layers = nn.ModuleList(TdnnLayer(width, width, kernel, dilation) for _ in range(scale - 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return all groups, side by side."""
        first, *others = x.chunk(self.scale, dim=1)
        outputs = [first]
        for index, (layer, group) in enumerate(zip(self.layers, others, strict=True)):
            outputs.append(layer(group if index == 0 else group + outputs[-1]))
        return torch.cat(outputs, dim=1)


class SqueezeExcitation(nn.Module):
    """Each channel scaled by a factor in (0, 1) that depends on the mean of all channels over time (Hu et al. 2018).

    s = sigmoid(W_2 relu(W_1 mean_t x + b_1) + b_2), equations 1 to 3 of the ECAPA paper. ``(B, C, T)`` to the same.
    """

    def __init__(self, channels: int, bottleneck: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, bottleneck)
        self.excite = nn.Linear(bottleneck, channels)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled channels."""
        factor = torch.sigmoid(self.excite(torch.relu(self.squeeze(x.mean(dim=2)))))
        return x * factor.unsqueeze(2)


class SeRes2Block(nn.Module):
    """Dense layer, Res2Net convolution, dense layer, squeeze-excitation, and the way round them (figure 1)."""

    def __init__(self, channels: int, kernel: int, dilation: int, scale: int = 8, bottleneck: int = 128) -> None:
        super().__init__()
        self.before = TdnnLayer(channels, channels)
        self.res2 = Res2Conv(channels, kernel, dilation, scale)
        self.after = TdnnLayer(channels, channels)
        self.se = SqueezeExcitation(channels, bottleneck)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, C, T)`` to the same shape."""
        return x + cast(Tensor, self.se(self.after(self.res2(self.before(x)))))


class AttentiveStatistics(nn.Module):
    """Mean and standard deviation over time, weighted per channel and frame: ``(B, C, T)`` to ``(B, 2C)``.

    Equations 4 to 7. The weights depend on the frame and, as context, on the plain mean and deviation of the utterance.
    """

    def __init__(self, channels: int, attention: int = 128) -> None:
        super().__init__()
        # One affine layer on frame, mean and deviation, in two parts: the context is the same for every frame.
        self.frame = nn.Conv1d(channels, attention, 1)
        self.context = nn.Linear(2 * channels, attention, bias=False)
        self.norm = nn.BatchNorm1d(attention)
        self.score = nn.Conv1d(attention, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the weighted means, then the weighted deviations."""
        plain = torch.cat(_statistics(x, 1.0 / x.shape[2]), dim=1)
        hidden = torch.relu(self.frame(x) + self.context(plain).unsqueeze(2))
        weights = torch.softmax(self.score(torch.tanh(self.norm(hidden))), dim=2)
        return torch.cat(_statistics(x, weights), dim=1)


def _statistics(x: Tensor, weights: Tensor | float) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over time under weights that sum to 1: ``(B, C, T)`` to (B, C) each."""
    mean = (weights * x).sum(dim=2)
    variance = (weights * (x - mean.unsqueeze(2)) ** 2).sum(dim=2)
    return mean, variance.clamp(min=VARIANCE_FLOOR).sqrt()


class EcapaTdnn(nn.Module):
    """``(B, T, features)`` to ``(B, dimension)``: the speaker embedding, whose length means nothing.

    Kernels [5, 3, 3, 3, 1] and dilations [1, 2, 3, 4, 1]; the outputs of the three blocks together enter the last
    frame layer, of 1536 channels.
    """

    #: Reflection at the edges of the block with dilation 4 needs one frame more than it reaches.
    minimum_frames = 5

    def __init__(
        self,
        features: int = 80,
        channels: int = 512,
        wide: int = 1536,
        attention: int = 128,
        dimension: int = 192,
        scale: int = 8,
        bottleneck: int = 128,
    ) -> None:
        super().__init__()
        self.dimension = dimension
        self.first = TdnnLayer(features, channels, kernel=5)
        self.blocks = nn.ModuleList(SeRes2Block(channels, 3, dilation, scale, bottleneck) for dilation in (2, 3, 4))
        self.aggregate = TdnnLayer(3 * channels, wide)
        self.pool = AttentiveStatistics(wide, attention)
        self.pool_norm = nn.BatchNorm1d(2 * wide)
        self.embed = nn.Linear(2 * wide, dimension)

    def forward(self, x: Tensor) -> Tensor:
        """Return the embeddings."""
        y = self.first(x.transpose(1, 2))
        outputs = []
        for block in self.blocks:
            y = block(y)
            outputs.append(y)
        y = self.aggregate(torch.cat(outputs, dim=1))
        return cast(Tensor, self.embed(self.pool_norm(self.pool(y))))
