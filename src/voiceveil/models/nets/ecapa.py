"""ECAPA-TDNN, the speaker encoder of the 2024 challenge (Desplanques, Thienpondt and Demuynck, Interspeech 2020).

Conventions: B utterances, D features, T frames of 10 ms, C channels, E dimensions of the embedding. The network maps
``(B, T, D)`` to ``(B, E)``; inside, channels come first, ``(B, C, T)``, as torch's convolutions need them.

With 512 channels, 80 filterbank energies and 192 dimensions this is the challenge's model of 6.2 million parameters.
As in the toolkit that the challenge uses, a layer is convolution, ReLU, batch normalization, in this order, and the
edges are padded by reflection, so that a sequence needs at least ``EcapaTdnn.minimum_frames`` frames.
"""

from __future__ import annotations

from typing import Literal, cast

import torch
from torch import Tensor, nn

__all__ = ["AttentiveStatistics", "EcapaTdnn", "Res2Conv", "SeRes2Block", "SqueezeExcitation", "TdnnLayer"]

#: Smallest variance: the square root has no derivative at 0.
VARIANCE_FLOOR = 1e-12


class TdnnLayer(nn.Module):
    """Convolution over time that keeps the length, ReLU, batch normalization: ``(B, C_in, T)`` to ``(B, C_out, T)``."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, dilation: int = 1) -> None:
        super().__init__()
        margin = dilation * (kernel - 1) // 2
        # Padding by reflection copies the input, even if there is nothing to pad.
        mode: Literal["reflect", "zeros"] = "reflect" if margin else "zeros"
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, padding=margin, padding_mode=mode)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output (B, C_out, T)."""
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
        """Return the concatenated groups."""
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

    def forward(self, x: Tensor, inside: Tensor | None = None) -> Tensor:
        """Return the scaled channels; ``inside`` as for :class:`AttentiveStatistics`."""
        mean = x.mean(dim=2) if inside is None else (x * inside).sum(dim=2)
        factor = torch.sigmoid(self.excite(torch.relu(self.squeeze(mean))))
        return x * factor.unsqueeze(2)


class SeRes2Block(nn.Module):
    """Dense layer, Res2Net convolution, dense layer, squeeze-excitation, with a skip connection (figure 1)."""

    def __init__(self, channels: int, kernel: int, dilation: int, scale: int = 8, bottleneck: int = 128) -> None:
        super().__init__()
        self.before = TdnnLayer(channels, channels)
        self.res2 = Res2Conv(channels, kernel, dilation, scale)
        self.after = TdnnLayer(channels, channels)
        self.se = SqueezeExcitation(channels, bottleneck)

    def forward(self, x: Tensor, inside: Tensor | None = None) -> Tensor:
        """``(B, C, T)`` to the same shape; ``inside`` as for :class:`AttentiveStatistics`."""
        return x + cast(Tensor, self.se(self.after(self.res2(self.before(x))), inside))


class AttentiveStatistics(nn.Module):
    """Mean and standard deviation over time, weighted per channel and frame: ``(B, C, T)`` to ``(B, 2C)``.

    Equations 4 to 7. The weights depend on the frame and, as context, on the plain mean and deviation of the utterance.
    """

    def __init__(self, channels: int, attention: int = 128) -> None:
        super().__init__()
        # One affine layer on frame, mean and deviation, in two parts, because the context is equal for all frames.
        self.frame = nn.Conv1d(channels, attention, 1)
        self.context = nn.Linear(2 * channels, attention, bias=False)
        self.norm = nn.BatchNorm1d(attention)
        self.score = nn.Conv1d(attention, channels, 1)

    def forward(self, x: Tensor, inside: Tensor | None = None) -> Tensor:
        """Return the weighted means, then the weighted deviations.

        ``inside`` (B, 1, T): for padded utterances, 1 / length in the frames of the utterance and 0 in the others.
        """
        plain = torch.cat(_statistics(x, 1.0 / x.shape[2] if inside is None else inside), dim=1)
        hidden = torch.relu(self.frame(x) + self.context(plain).unsqueeze(2))
        scores = self.score(torch.tanh(self.norm(hidden)))
        if inside is not None:
            scores = scores.masked_fill(inside == 0, -torch.inf)
        weights = torch.softmax(scores, dim=2)
        return torch.cat(_statistics(x, weights), dim=1)


def _statistics(x: Tensor, weights: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation over time, (B, C) each, of ``(B, C, T)`` with weights that sum to 1."""
    mean = (weights * x).sum(dim=2)
    variance = (weights * (x - mean.unsqueeze(2)) ** 2).sum(dim=2)
    return mean, variance.clamp(min=VARIANCE_FLOOR).sqrt()


class EcapaTdnn(nn.Module):
    """The network: ``(B, T, features)`` to speaker embeddings ``(B, dimension)``, not normalized in length.

    Kernels [5, 3, 3, 3, 1] and dilations [1, 2, 3, 4, 1]; the outputs of the three blocks together enter the last
    frame layer, of 1536 channels.
    """

    #: Padding by reflection in the block with dilation 4 needs one frame more than it pads.
    minimum_frames = 5

    def __init__(
        self,
        features: int = 80,
        channels: int = 512,
        wide: int = 1536,
        attention: int = 128,
        dimension: int = 192,
    ) -> None:
        super().__init__()
        self.dimension = dimension
        self.first = TdnnLayer(features, channels, kernel=5)
        self.blocks = nn.ModuleList(SeRes2Block(channels, 3, dilation) for dilation in (2, 3, 4))
        self.aggregate = TdnnLayer(3 * channels, wide)
        self.pool = AttentiveStatistics(wide, attention)
        self.pool_norm = nn.BatchNorm1d(2 * wide)
        self.embed = nn.Linear(2 * wide, dimension)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the embeddings.

        Parameters
        ----------
        x : Tensor
            Features, shape (B, T, features).
        lengths : Tensor, optional
            Lengths of padded utterances as fractions of T, shape (B,). Means and statistics then leave the padding
            out, as in SpeechBrain; convolutions do not.
        """
        inside = None
        if lengths is not None:
            frames = x.shape[1]
            inside = (torch.arange(frames, device=x.device) < (lengths * frames)[:, None]).to(x.dtype).unsqueeze(1)
            inside = inside / inside.sum(dim=2, keepdim=True)
        y = self.first(x.transpose(1, 2))
        outputs = []
        for block in self.blocks:
            y = block(y, inside)
            outputs.append(y)
        y = self.aggregate(torch.cat(outputs, dim=1))
        return cast(Tensor, self.embed(self.pool_norm(self.pool(y, inside))))
