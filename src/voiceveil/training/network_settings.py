"""Settings of the networks of resynthesis: what their weights depend on, besides the speech."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["NetworkSettings", "PerceptualLoss", "Size", "TeacherSettings", "TrainingPlan"]

#: ``paper`` is the published size of a network, ``small`` one that a laptop can train.
Size = Literal["small", "paper"]


@dataclass(frozen=True)
class PerceptualLoss:
    """Weights of losses that other networks compute from the synthesized waveform; 0 leaves a loss out.

    Parameters
    ----------
    content : float
        Weight of the distance between Moonshine's features of the synthesized and of the recorded waveform.
    swap_voices : bool
        Synthesize the crops for these losses with the voice of another crop of the batch, as in anonymization.
    speaker : float
        With ``swap_voices``: weight of the cosine distance between CAM++'s embedding of the synthesized waveform and
        the embedding of the target voice.
    """

    content: float = 0.0
    swap_voices: bool = False
    speaker: float = 0.0


@dataclass(frozen=True)
class TeacherSettings:
    """Other networks that a CTC/attention recognizer is trained with.

    Parameters
    ----------
    input_features : str, optional
        Content features that replace the MFCCs as input, such as ``moonshine:2``.
    teacher : str, optional
        Content features that the recognizer's own content learns to imitate, such as ``moonshine``.
    teacher_loss : float
        Weight of the imitation, if there is a teacher.
    adversary_loss : float, optional
        ``ctc-attention-masked``: weight of hiding the speaker from the adversary (default: that of the recipe).
    """

    input_features: str | None = None
    teacher: str | None = None
    teacher_loss: float = 4.0
    adversary_loss: float | None = None


@dataclass(frozen=True)
class NetworkSettings:
    """Settings of a training; None is the value of the network's recipe.

    Parameters
    ----------
    network : str
        Name of the network, see :data:`~voiceveil.training.network_recipes.NETWORK_RECIPES`.
    size : {"small", "paper"}
        Size of the network.
    content, pitch, speaker : str
        Names of the content features, of the pitch tracker and of the speaker encoder.
    steps, batch_size : int, optional
        Updates of the weights, and crops or utterances in a batch.
    learning_rate : float, optional
        Highest learning rate.
    crop : float, optional
        Length of a crop in seconds.
    seed : int
        Of weights, crops and noise.
    perceptual : PerceptualLoss
        ``source-filter`` and ``veil``: losses computed by other networks.
    recognizer : TeacherSettings
        ``ctc-attention`` and ``ctc-attention-masked``: networks to learn with.
    """

    network: str
    size: Size = "small"
    content: str = "moonshine"
    pitch: str = "swift"
    speaker: str = "campplus"
    steps: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    crop: float | None = None
    seed: int = 0
    perceptual: PerceptualLoss = field(default_factory=PerceptualLoss)
    recognizer: TeacherSettings = field(default_factory=TeacherSettings)


@dataclass(frozen=True)
class TrainingPlan:
    """Length and learning rate of a training.

    Parameters
    ----------
    steps, batch_size : int
        Updates of the weights, and items in a batch.
    peak : float
        Highest learning rate.
    warmup : int
        Steps of the linear rise to ``peak``; then half a cosine falls to 0.
    average : float
        Share of the running average of the weights that a step keeps.
    seed : int
        Of everything random in a step.
    """

    steps: int
    batch_size: int = 16
    peak: float = 2e-3
    warmup: int = 100
    average: float = 0.999
    seed: int = 0

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        return self.peak * 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / max(1, self.steps - self.warmup)))
