"""Recipes of speaker encoders: those of the challenges as published, and ours.

Conventions: a step is one batch; learning rates are those of step 0, 1, ... ``steps`` - 1; lengths are in seconds.

``official`` has the hyperparameters of the challenge code. For ECAPA-TDNN (2024) the learning rate is cyclic and rises
for 65,000 steps, but the training has about 13,500: it ends at a fifth of the peak without ever falling. The attacker
is then weaker than the network allows, and privacy is overstated. ``fixed`` is one cycle over the whole training: a
linear rise over its first part, then half a cosine down to zero. It is the default.

The official optimizer of the x-vector, Kaldi's natural-gradient descent on several machines with averaging, is replaced
by plain momentum with the same learning rates, batches and chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

__all__ = ["RECIPES", "AsvRecipe", "Exponential", "OneCycle", "Schedule", "Triangular", "reaches_peak", "recipe_for"]


@dataclass(frozen=True)
class Triangular:
    """Cyclic learning rate: up from ``base`` to ``peak`` in ``half`` steps, down in as many, repeated (Smith 2017)."""

    base: float
    peak: float
    half: int

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step; it does not depend on ``steps``, the length of the training."""
        cycle = math.floor(1 + step / (2 * self.half))
        distance = abs(step / self.half - 2 * cycle + 1)
        return self.base + (self.peak - self.base) * max(0.0, 1.0 - distance)


@dataclass(frozen=True)
class OneCycle:
    """Linear rise to ``peak`` over the share ``rise`` of the training, then half a cosine down to nearly 0."""

    peak: float
    rise: float = 0.2

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step of ``steps``; the highest is exactly ``peak``."""
        top = min(round(self.rise * steps), steps - 1)
        if step < top:
            return self.peak * (step + 1) / (top + 1)
        return self.peak * 0.5 * (1.0 + math.cos(math.pi * (step - top) / max(steps - top, 1)))


@dataclass(frozen=True)
class Exponential:
    """Fall from ``peak`` to ``last`` by a constant factor per step."""

    peak: float
    last: float

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step of ``steps``."""
        return self.peak * math.exp(math.log(self.last / self.peak) * step / max(steps - 1, 1))


Schedule = Triangular | OneCycle | Exponential


def reaches_peak(schedule: Schedule, steps: int) -> tuple[bool, float]:
    """Return whether a training of ``steps`` reaches the peak and falls to half of it; and its highest rate."""
    rates = [schedule.rate(step, steps) for step in range(steps)]
    highest = max(rates, default=0.0)
    return highest >= 0.99 * schedule.peak and rates[-1] <= 0.5 * schedule.peak, highest


@dataclass(frozen=True)
class AsvRecipe:
    """Hyperparameters of a training.

    Parameters
    ----------
    name : str
        ``official`` or ``fixed``.
    epochs, batch_size : int
        Epochs, and chunks in a batch.
    shortest, longest : float
        Bounds of the length of the chunks in seconds; all chunks of a batch have the same length.
    schedule : Schedule
        Learning rate.
    optimizer : {"adam", "momentum"}
        Optimizer.
    weight_decay : float
        Weight decay.
    rows : {"all", "balanced"}
        Chunks of an epoch. ``all``: the length of the utterance in chunks, rounded, at least one, short utterances
        padded by repetition; ``balanced``: as many as ``repeats`` passes have, every speaker equally often. Each chunk
        is cut at a random place of its utterance. (ECAPA-TDNN's official recipe has its own rows, see
        :mod:`voiceveil.training.official_asv_rows`.)
    repeats : int
        See ``rows``.
    least_frames, least_utterances : int
        Utterances with fewer frames are left out, and then speakers with fewer utterances.
    """

    name: str
    epochs: int
    batch_size: int
    shortest: float
    longest: float
    schedule: Schedule
    optimizer: Literal["adam", "momentum"] = "adam"
    weight_decay: float = 2e-6
    rows: Literal["all", "balanced"] = "all"
    repeats: int = 1
    least_frames: int = 1
    least_utterances: int = 1


RECIPES: dict[tuple[str, str], AsvRecipe] = {
    ("ecapa", "official"): AsvRecipe("official", 10, 256, 3.0, 3.0, Triangular(1e-8, 0.01, 65_000)),
    ("ecapa", "fixed"): AsvRecipe("fixed", 10, 64, 3.0, 3.0, OneCycle(2e-3)),
    ("xvector", "official"): AsvRecipe(
        "official",
        1,
        64,
        2.0,
        4.0,
        Exponential(0.01709, 0.001709),
        optimizer="momentum",
        weight_decay=0.0,
        rows="balanced",
        repeats=50,
        least_frames=400,
        least_utterances=8,
    ),
    ("xvector", "fixed"): AsvRecipe("fixed", 10, 64, 2.0, 4.0, OneCycle(1e-3)),
    ("resnet34", "fixed"): AsvRecipe("fixed", 10, 64, 2.0, 2.0, OneCycle(2e-3)),
    ("campplus-tuned", "fixed"): AsvRecipe("fixed", 5, 32, 3.0, 3.0, OneCycle(2e-4)),
}


def recipe_for(model: str, name: str) -> AsvRecipe:
    """Return the recipe of that name for a model; raise an ``InputError`` if there is none."""
    known = [recipe for kind, recipe in RECIPES if kind == model]
    if name not in known:
        if name == "official" and known:
            raise InputError(f"the challenges publish no recipe for {model}", fix="use --recipe fixed")
        raise InputError(f"unknown recipe {name!r} for {model}", fix=did_you_mean(name, known))
    return RECIPES[model, name]
