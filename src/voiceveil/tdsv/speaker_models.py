"""Speaker models: embeddings are compared with each other and with a cohort of training speakers.

Conventions: d dimensions of an embedding, c training speakers. Each voice is represented once, independently of all
others: by its direction in the space of the back-end, and by its scores with the cohort. The score of two voices is
their cosine, or the log-likelihood ratio of PLDA, in standard deviations above each one's highest scores with the
cohort (adaptive symmetric score normalization, Matejka et al. 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.backends import Backend, Centered, Cosine, Lda, Linear, Wccn
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.models.speaker.plda import Plda, PldaScorer

__all__ = ["BACKENDS", "PLDA", "PldaSpace", "VoiceSpace", "VoiceVector", "Voices", "fit_voices"]

Floats = NDArray[np.float64]

#: Name -> back-end that is fitted to the training speakers; scores are cosines.
BACKENDS: dict[str, Backend] = {
    "cosine": Cosine(),
    "centered": Centered(),
    "wccn": Wccn(0.5),
    "lda": Lda(100, 0.5),
}
#: The back-end whose scores are log-likelihood ratios.
PLDA = "plda"


@dataclass(frozen=True, eq=False, slots=True)
class VoiceVector:
    """A voice: its direction (k,), and mean and standard deviation of its highest scores with the cohort."""

    direction: Floats
    mean: float
    spread: float


@dataclass(frozen=True, eq=False)
class VoiceSpace:
    """A fitted back-end, the directions (c, k) of training speakers, and the number of them that count, ``top``."""

    linear: Linear
    cohort: Floats
    top: int

    @classmethod
    def fit(cls, embeddings: Floats, speakers: Sequence[str], backend: str, top: int = 20) -> VoiceSpace:
        """Fit to embeddings (n, d) of training speakers (n,); ``backend`` is a key of :data:`BACKENDS`."""
        names, codes = np.unique(np.asarray(speakers), return_inverse=True)
        linear = BACKENDS[backend].fit(embeddings, codes)
        if not isinstance(linear, Linear):
            raise InputError(f"the back-end {backend} gives no cosines", fix=did_you_mean("", list(BACKENDS)))
        means = np.stack([embeddings[codes == c].mean(axis=0) for c in range(len(names))])
        return cls(linear, linear.project(means), min(top, len(names)))

    def represent(self, embeddings: Floats) -> VoiceVector:
        """Return the voice of one speaker from recordings (n, d): their unweighted mean."""
        direction = self.linear.project(embeddings.mean(axis=0))
        highest = np.sort(self.cohort @ direction)[-self.top :]
        return VoiceVector(direction, float(highest.mean()), float(highest.std()) + 1e-9)

    @staticmethod
    def score(voice: VoiceVector, other: VoiceVector) -> float:
        """Return the normalized cosine of two voices, in any order; a higher score says "the same speaker"."""
        cosine = float(voice.direction @ other.direction)
        return 0.5 * ((cosine - voice.mean) / voice.spread + (cosine - other.mean) / other.spread)


@dataclass(frozen=True, eq=False)
class PldaSpace:
    """Fitted PLDA, the training speakers (c, k) in its space, and the number of them that count, ``top``.

    The mean of a model's recordings counts as one recording, as in the challenges: scores are then symmetric.
    """

    scorer: PldaScorer
    cohort: Floats
    top: int

    @classmethod
    def fit(cls, embeddings: Floats, speakers: Sequence[str], top: int = 20) -> PldaSpace:
        """Fit to embeddings (n, d) of training speakers (n,)."""
        names, codes = np.unique(np.asarray(speakers), return_inverse=True)
        scorer = Plda(by_count=False).fit(embeddings, codes)
        means = np.stack([embeddings[codes == c].mean(axis=0) for c in range(len(names))])
        return cls(scorer, scorer.white(means, np.ones((len(means), 1))), min(top, len(names)))

    def represent(self, embeddings: Floats) -> VoiceVector:
        """Return the voice of one speaker from recordings (n, d): their unweighted mean."""
        one = np.ones((1, 1))
        direction = self.scorer.white(embeddings.mean(axis=0)[None], one)
        highest = np.sort(self.scorer.compare(direction, one, self.cohort)[0])[-self.top :]
        return VoiceVector(direction[0], float(highest.mean()), float(highest.std()) + 1e-9)

    def score(self, voice: VoiceVector, other: VoiceVector) -> float:
        """Return the normalized log-likelihood ratio of two voices, in any order."""
        llr = float(self.scorer.compare(voice.direction[None], np.ones((1, 1)), other.direction[None])[0, 0])
        return 0.5 * ((llr - voice.mean) / voice.spread + (llr - other.mean) / other.spread)


Voices = VoiceSpace | PldaSpace


def fit_voices(embeddings: Floats, speakers: Sequence[str], backend: str) -> Voices:
    """Fit to embeddings (n, d) of training speakers (n,); ``backend`` is ``"plda"`` or a key of :data:`BACKENDS`."""
    if backend == PLDA:
        return PldaSpace.fit(embeddings, speakers)
    if backend not in BACKENDS:
        raise InputError(f"unknown back-end {backend!r}", fix=did_you_mean(backend, [*BACKENDS, PLDA]))
    return VoiceSpace.fit(embeddings, speakers, backend)
