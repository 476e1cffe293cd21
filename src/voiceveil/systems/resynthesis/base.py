"""What all systems of resynthesis share: the parameters that name their parts, and the way through a recording.

A system is a declaration: which part it has for content, pitch, speaker, pseudo-speaker, and which weights; see
:mod:`voiceveil.systems.resynthesis.systems`. The work is done in :mod:`voiceveil.systems.resynthesis.pipeline`, which
is imported when it begins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from voiceveil.audio import Samples
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.parameters import parameter

if TYPE_CHECKING:
    from voiceveil.systems.resynthesis.pipeline import ResynthesisStream
    from voiceveil.systems.resynthesis.prosody import Disguise
    from voiceveil.systems.resynthesis.pseudo import Strategy
    from voiceveil.systems.resynthesis.synthesis import LoadedStage

__all__ = ["INTONATION", "STRATEGY", "Averaging", "Resynthesis"]

#: Help of the parameter.
STRATEGY = (
    "pseudo-speaker: pool-farthest, pool-nearest, pool-random, source, a1, a2, k2, o1, o1c1, s1, s1c1, s2, s2c1; "
    "NAME:PARAMETER=VALUE,... sets its parameters"
)

INTONATION = (
    "F0 contour: source (unchanged), moved (to the pseudo-speaker's mean F0), "
    "leveled (moved, with the same F0 range in all recordings)"
)


@dataclass(frozen=True)
class Resynthesis(Anonymizer):
    """Content and F0 of the source with the voice of a pseudo-speaker."""

    preload: ClassVar[tuple[str, ...]] = ("voiceveil.systems.resynthesis.preload",)
    #: Stages of synthesis: sub-folder of the weights -> the kinds of network that it may hold ("": the folder itself).
    stages: ClassVar[dict[str, tuple[str, ...]]] = {"": ("source-filter decoder",)}
    #: Name in the store of the weights that are used by default, followed by "-" and the stage; "": nothing ships.
    shipped: ClassVar[str] = ""
    #: Stages that get the embedding of the source, not that of the pseudo-speaker.
    unprotected: ClassVar[frozenset[str]] = frozenset()

    weights: str = parameter("", "folder that `voiceveil train` wrote (default: what ships, if anything does)")
    pool: str = parameter("", "pool of speakers, by `voiceveil train pool` (default: the one that ships)")
    content: str = parameter("moonshine", "content features, NAME or NAME:MODEL")
    pitch: str = parameter("swift", "pitch tracker: swift, or yaapt as in the challenges")
    speaker: str = parameter("campplus", "speaker encoder, NAME or NAME:FOLDER")
    strategy: str = parameter("pool-random", STRATEGY)
    gender: Literal["same", "other", "random", "f", "m"] = parameter(
        "same", "of the pseudo-speaker: seen from the source's, or the one that is named"
    )
    source_gender: Literal["stated", "estimated", "f", "m"] = parameter(
        "stated",
        "source speaker's gender: stated (from metadata, else estimated), estimated, f or m",
        former_choices={"heard": "estimated"},
    )
    intonation: Literal["source", "moved", "leveled"] = parameter(
        "source", INTONATION, former_choices={"levelled": "leveled"}
    )

    bottleneck: float = parameter(
        0.85, "how far content is replaced by codes of other people's speech, if the decoder has codes", low=0, high=1
    )

    def chosen_strategy(self) -> Strategy:
        """Return the strategy; its fields are the parameters of the same names."""
        from voiceveil.systems.resynthesis.pseudo import make_strategy

        return make_strategy(self.strategy, vars(self))

    def disguise(self) -> Disguise:
        """What the source loses beside its voice."""
        from voiceveil.systems.resynthesis.prosody import Disguise

        return Disguise(self.intonation)

    def synthesis(self) -> dict[str, float]:
        """Return inference-time overrides of the checkpoint's settings; networks without them ignore this."""
        return {"bottleneck_strength": self.bottleneck}

    def last_stages(self) -> tuple[LoadedStage, ...]:
        """Stages of synthesis behind those that have weights."""
        return ()

    def with_source_gender(self, gender: str | None) -> Resynthesis:
        """Return this system with the stated gender, unless the user has chosen another way."""
        if gender is None or self.source_gender != "stated":
            return self
        return replace(self, source_gender=gender)  # type: ignore[arg-type]  # checked when it is made

    def models(self) -> dict[str, str]:
        """Hashes of weights and pool, fingerprints of the parts."""
        from voiceveil.systems.resynthesis.pipeline import fingerprints

        return fingerprints(self)

    def stream(self, rng: np.random.Generator) -> ResynthesisStream:
        """Return a recording in overlapping pieces."""
        from voiceveil.systems.resynthesis.pipeline import ResynthesisStream, engine_of

        known = None if self.source_gender in ("stated", "estimated") else self.source_gender
        return ResynthesisStream(engine_of(self), rng, known)

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """The same with all of the recording at once."""
        return self.stream(rng).convert_all(samples)


@dataclass(frozen=True)
class Averaging(Resynthesis):
    """The same with the parameters of the challenges' own strategy: an average of the farthest speakers of the pool."""

    strategy: str = parameter("pool-farthest", STRATEGY)
    distance: Literal["plda", "cosine"] = parameter("plda", "between the source and the speakers of the pool")
    candidates: int = parameter(80, "farthest speakers of the pool, N (in the challenges 200)", low=1)
    averaged: int = parameter(40, "of them drawn and averaged, N* (in the challenges 100)", low=1)
