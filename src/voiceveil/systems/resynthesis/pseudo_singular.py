"""Pseudo-speakers by modified singular values, clusters and the least similar centroid (A2 of 2020).

The overview of VoicePrivacy 2020 (section 3.2) on Mawalim et al. (2020): the matrix of x-vectors is decomposed and its
singular values are modified; a threshold says what percentage of those that are not zero is kept; the target is the
least similar centroid of clusters of x-vectors.

What that left to us. The matrix is that of the pool's speakers of a gender, one row of length 1 each, as a source comes
alone. The smallest singular values become zero; then the rows are clustered by k-means, which begins from speakers that
the generator draws: with fixed clusters, all sources on one side of the pool would become one voice. A source needs no
such treatment: what it has outside the space of the rows does not change which centroid is least similar to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.systems.resynthesis.pool import GENDERS, Embedding, Pool
from voiceveil.systems.resynthesis.pseudo import Gender, PseudoSpeaker, strategies, wanted_gender

__all__ = ["LeastSimilarCentroid", "clustered", "with_largest"]

Array = NDArray[np.float64]


@strategies.register("a2")
@dataclass(frozen=True)
class LeastSimilarCentroid:
    """A2: of the pool without its smallest singular values, the centroid of a cluster that is least like the source.

    ``kept`` is the fraction of the singular values that are not zero; with 1 the pool is clustered as it is. Utterances
    of a speaker with one generator have the same clusters, but two centroids can be nearly equally dissimilar, and the
    utterances then disagree: about four in five get the same voice, unlike O1, where all do.
    """

    gender: Gender = "same"
    kept: float = 0.5
    clusters: int = 10

    needs_source_embedding: ClassVar[bool] = True

    def check(self, pool: Pool) -> None:
        """Two clusters or more, and as many speakers of both genders."""
        if not 0 < self.kept <= 1 or self.clusters < 2:
            what = f"cannot choose among {self.clusters} clusters with {self.kept} of the singular values"
            raise InputError(what, fix="set clusters to 2 or more, and kept above 0, at most 1")
        for gender in GENDERS:
            count = len(pool.of_gender(gender))
            if count < self.clusters:
                what = f"the pool has {count} speakers of gender {gender}, too few for {self.clusters} clusters"
                raise InputError(what, where=pool.where, fix="give a larger pool (voiceveil train pool)")

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the centroid with the smallest cosine to the source; the clusters do not depend on the source."""
        wanted = wanted_gender(self.gender, gender, rng)
        matrix = _modified(pool, wanted, self.kept)
        centroids, cluster = clustered(matrix, matrix[rng.permutation(len(matrix))[: self.clusters]])
        lengths = np.maximum(np.linalg.norm(centroids, axis=1), 1e-30)
        least = int(np.argmin(centroids @ source.astype(np.float64) / lengths))
        log_f0 = pool.log_f0[pool.of_gender(wanted)][cluster == least]
        return PseudoSpeaker(centroids[least].astype(np.float32), float(log_f0.mean()))


def with_largest(matrix: Array, kept: float) -> Array:
    """Return a matrix whose smallest singular values are zero, all but the fraction ``kept`` of those that are not."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    nonzero = int(np.sum(values > values[0] * max(matrix.shape) * np.finfo(np.float64).eps))
    count = math.ceil(kept * nonzero - 1e-9)
    return np.asarray((left[:, :count] * values[:count]) @ right[:count])


def clustered(points: Array, centroids: Array, *, rounds: int = 100) -> tuple[Array, NDArray[np.int64]]:
    """k-means of points (n, d) from centroids (c, d): the centroids of the clusters, and the cluster of each point.

    Clusters that lost all points are left out.
    """
    cluster = np.full(len(points), -1)
    for _ in range(rounds):
        # The squared distance, without the point's own square, which is the same for all centroids.
        nearest = np.argmin((centroids**2).sum(axis=1) - 2 * points @ centroids.T, axis=1)
        _, renumbered = np.unique(nearest, return_inverse=True)
        centroids = np.array([points[renumbered == number].mean(axis=0) for number in range(renumbered.max() + 1)])
        if np.array_equal(renumbered, cluster):
            break
        cluster = renumbered
    return centroids, np.asarray(cluster)


@lru_cache(maxsize=8)
def _modified(pool: Pool, gender: str, kept: float) -> Array:
    vectors = np.array([l2_normalized(vector) for vector in pool.embeddings[pool.of_gender(gender)]], dtype=np.float64)
    return with_largest(vectors, kept)
