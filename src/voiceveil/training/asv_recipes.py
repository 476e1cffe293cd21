"""How speaker encoders are trained: the challenges' recipes as they are, and ours.

Conventions: a step is one batch; learning rates are those of step 0, 1, ... ``steps`` - 1; lengths are in seconds.

``official`` has the hyperparameters of the challenge code. For ECAPA-TDNN (2024) that is a cyclic learning rate which
rises for 65,000 steps, in a training of about 13,500: it ends at a fifth of its peak, never having come down, and the
attacker is weaker than the network allows, that is, privacy is overstated. ``fixed`` is one cycle that fits the
training: a linear rise over its first part, then half a cosine down to nothing. It is the default.

The x-vector's official optimizer, Kaldi's natural-gradient descent on several machines with averaging, is not
rebuilt; plain momentum takes its place, with the same learning rates, batches and chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

__all__ = ["RECIPES", "Exponential", "OneCycle", "Recipe", "Schedule", "Triangular", "peaks", "recipe_for"]


@dataclass(frozen=True)
class Triangular:
    """Up from ``base`` to ``peak`` in ``half`` steps, down in as many, and again (Smith 2017)."""

    base: float
    peak: float
    half: int

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step; the length of the training does not matter."""
        cycle = math.floor(1 + step / (2 * self.half))
        distance = abs(step / self.half - 2 * cycle + 1)
        return self.base + (self.peak - self.base) * max(0.0, 1.0 - distance)


@dataclass(frozen=True)
class OneCycle:
    """Up in a straight line to ``peak`` over the first ``rise`` of the training, then along a cosine to nearly 0."""

    peak: float
    rise: float = 0.2

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step of ``steps``; exactly ``peak`` at the top."""
        top = min(round(self.rise * steps), steps - 1)
        if step < top:
            return self.peak * (step + 1) / (top + 1)
        return self.peak * 0.5 * (1.0 + math.cos(math.pi * (step - top) / max(steps - top, 1)))


@dataclass(frozen=True)
class Exponential:
    """Down from ``peak`` to ``last`` by a constant factor a step."""

    peak: float
    last: float

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step of ``steps``."""
        return self.peak * math.exp(math.log(self.last / self.peak) * step / max(steps - 1, 1))


Schedule = Triangular | OneCycle | Exponential


def peaks(schedule: Schedule, steps: int) -> tuple[bool, float]:
    """Whether a training of that length reaches the largest rate and comes down to half of it; and how far it gets."""
    rates = [schedule.rate(step, steps) for step in range(steps)]
    highest = max(rates, default=0.0)
    return highest >= 0.99 * schedule.peak and rates[-1] <= 0.5 * schedule.peak, highest


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters. ``shortest`` and ``longest`` bound the chunks in seconds; each batch has one length between.

    ``rows`` says how many chunks an epoch has: ``whole``: one for each whole chunk of the utterance that is not
    silent, so that utterances shorter than a chunk are left out; ``all``: one for each chunk begun or more, short
    utterances padded by repetition; ``balanced``: as many as ``repeats`` passes, every speaker equally often.
    Wherever a row comes from, it is cut at a random place of its utterance.
    """

    name: str
    epochs: int
    batch_size: int
    shortest: float
    longest: float
    schedule: Schedule
    optimizer: Literal["adam", "momentum"] = "adam"
    weight_decay: float = 2e-6
    rows: Literal["whole", "all", "balanced"] = "all"
    repeats: int = 1
    held_out: float = 0.0  # share of the training speakers' utterances that only decides which epoch is kept
    least_frames: int = 1  # utterances with fewer frames are left out,
    least_utterances: int = 1  # and then speakers with fewer utterances


RECIPES: dict[tuple[str, str], Recipe] = {
    ("ecapa", "official"): Recipe(
        "official", 10, 256, 3.0, 3.0, Triangular(1e-8, 0.01, 65_000), rows="whole", held_out=0.1
    ),
    ("ecapa", "fixed"): Recipe("fixed", 10, 64, 3.0, 3.0, OneCycle(2e-3)),
    ("xvector", "official"): Recipe(
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
    ("xvector", "fixed"): Recipe("fixed", 10, 64, 2.0, 4.0, OneCycle(1e-3)),
    ("resnet34", "fixed"): Recipe("fixed", 10, 64, 2.0, 2.0, OneCycle(2e-3)),
    ("campplus-tuned", "fixed"): Recipe("fixed", 5, 32, 3.0, 3.0, OneCycle(2e-4)),
}


def recipe_for(model: str, name: str) -> Recipe:
    """Return the recipe of that name for the model."""
    known = [recipe for kind, recipe in RECIPES if kind == model]
    if name not in known:
        if name == "official" and known:
            raise InputError(f"the challenges publish no recipe for {model}", fix="use --recipe fixed")
        raise InputError(f"unknown recipe {name!r} for {model}", fix=did_you_mean(name, known))
    return RECIPES[model, name]
