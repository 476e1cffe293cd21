"""Base class of the systems of resynthesis, with the parameters that they share.

A system declares its models: content features, pitch tracker, speaker encoder, pseudo-speaker strategy and weights;
see :mod:`voiceveil.systems.resynthesis.b1`. :mod:`voiceveil.systems.resynthesis.pipeline` does the conversion; it is
imported when the first recording is converted.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.models.weights.store import shipped_name
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.parameters import parameter
from voiceveil.systems.resources import Resource, resources_of

if TYPE_CHECKING:
    from voiceveil.systems.resynthesis.pipeline import ResynthesisStream
    from voiceveil.systems.resynthesis.prosody import ProsodyChange
    from voiceveil.systems.resynthesis.strategies import Strategy
    from voiceveil.systems.resynthesis.synthesis import LoadedStage

__all__ = ["INTONATION", "STRATEGY", "Averaging", "Resynthesis"]

#: Help texts of parameters that several systems declare.
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

    preload: ClassVar[tuple[str, ...]] = ("onnxruntime", "swift_f0")
    language: ClassVar[str] = "English"
    #: Stages of the synthesis: sub-folder of the weights ("": the folder itself) -> kinds of network it may hold.
    stages: ClassVar[dict[str, tuple[str, ...]]] = {"": ("source-filter decoder",)}
    #: Name of the shipped weights, to which "-" and the stage are appended; "": none ship.
    shipped: ClassVar[str] = ""
    #: Stages that get the speaker embedding of the source instead of the pseudo-speaker's.
    source_speaker_stages: ClassVar[frozenset[str]] = frozenset()
    #: See :meth:`with_source_embedding`.
    _known_embedding: ClassVar[NDArray[np.float32] | None] = None

    weights: str = parameter("", "folder that `voiceveil train` wrote (default: the weights that ship, if any)")
    pool: str = parameter("", "pool of speakers that `voiceveil train pool` wrote (default: the one that ships)")
    content: str = parameter("moonshine", "content features, NAME or NAME:MODEL")
    pitch: str = parameter("swift", "pitch tracker: swift, or yaapt as in the challenges")
    speaker: str = parameter("campplus", "speaker encoder, NAME or NAME:FOLDER")
    strategy: str = parameter("pool-random", STRATEGY)
    gender: Literal["same", "other", "random", "f", "m"] = parameter(
        "same", "pseudo-speaker's gender, relative to the source (same, other), random, or fixed (f, m)"
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
        0.85, "how far content is replaced by codes of other speakers' speech, if the decoder has codes", low=0, high=1
    )

    def chosen_strategy(self) -> Strategy:
        """Return the strategy, with its fields set from the parameters of the same names."""
        from voiceveil.systems.resynthesis.strategies import make_strategy

        return make_strategy(self.strategy, vars(self))

    def prosody(self) -> ProsodyChange:
        """Return the changes to prosody."""
        from voiceveil.systems.resynthesis.prosody import ProsodyChange

        return ProsodyChange(self.intonation)

    def synthesis(self) -> dict[str, float]:
        """Return inference-time overrides of the checkpoint's settings; networks without them ignore this."""
        return {"bottleneck_strength": self.bottleneck}

    def final_stages(self) -> tuple[LoadedStage, ...]:
        """Return stages without weights that follow the others."""
        return ()

    def with_source_gender(self, gender: str | None) -> Resynthesis:
        """Return this system with the stated gender, unless ``source_gender`` says otherwise."""
        if gender is None or self.source_gender != "stated":
            return self
        known = replace(self, source_gender=gender)  # type: ignore[arg-type]  # checked when it is made
        return known if self._known_embedding is None else known.with_source_embedding(self._known_embedding)

    @property
    def uses_source_embedding(self) -> bool:
        """Return whether pseudo-speaker, prosody or synthesis depend on the source's speaker embedding."""
        from voiceveil.systems.resynthesis.loader import load_pipeline

        return load_pipeline(self).uses_source_embedding

    def source_embedding(self, wave: Waveform) -> NDArray[np.float32] | None:
        """Return the speaker embedding of the first piece of a recording; None if it is silent."""
        from voiceveil.systems.resynthesis.loader import load_pipeline

        return load_pipeline(self).source_embedding(wave.resampled(self.rate).samples)

    def with_source_embedding(self, embedding: NDArray[np.float32]) -> Resynthesis:
        """Return this system with the embedding of the source speaker, which is no parameter."""
        known = copy(self)
        object.__setattr__(known, "_known_embedding", embedding)
        return known

    def models(self) -> dict[str, str]:
        """Return hashes of weights and pool, and fingerprints of the feature extractors."""
        from voiceveil.systems.resynthesis.loader import fingerprints

        return fingerprints(self)

    def resources(self) -> tuple[Resource, ...]:
        """Return the resources of extractors, networks, pool and strategy."""
        from voiceveil.systems.resynthesis.loader import model_files

        extractors = (f"content {self.content}", f"pitch {self.pitch}", f"speaker {self.speaker}")
        weights = (f"weights {shipped_name(file) or file}" for file in model_files(self).values())
        return resources_of([*extractors, *weights])

    def stream(self, rng: np.random.Generator) -> ResynthesisStream:
        """Return a stream that converts a recording in overlapping pieces."""
        from voiceveil.systems.resynthesis.loader import load_pipeline
        from voiceveil.systems.resynthesis.pipeline import ResynthesisStream

        gender = None if self.source_gender in ("stated", "estimated") else self.source_gender
        return ResynthesisStream(load_pipeline(self), rng, gender, self._known_embedding)

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Anonymize a whole recording."""
        return self.stream(rng).convert_all(samples)


@dataclass(frozen=True)
class Averaging(Resynthesis):
    """Resynthesis with the challenges' own strategy: an average of the farthest speakers of the pool."""

    strategy: str = parameter("pool-farthest", STRATEGY)
    distance: Literal["plda", "cosine"] = parameter("plda", "distance of the source to speakers of the pool")
    candidates: int = parameter(
        0,
        "farthest speakers of the pool to draw from, N; 0: 200 as in the challenges if the pool has 200 of each "
        "gender, else 8/13 of the rarer gender (80 in the pool that ships)",
        low=0,
    )
    averaged: int = parameter(0, "candidates that are drawn and averaged, N*; 0: half of them", low=0)
