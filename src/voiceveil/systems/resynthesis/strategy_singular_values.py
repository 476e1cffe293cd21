"""Pseudo-speakers by modified singular values, clusters and the least similar centroid (A2 of 2020).

As published (overview of VoicePrivacy 2020, section 3.2, on Mawalim et al. 2020): the matrix of x-vectors is decomposed
and its singular values are modified; a threshold gives the percentage of nonzero singular values that are kept; the
target is the least similar centroid of clusters of x-vectors.

Our decisions: since a system sees one source at a time, the matrix is that of the pool's speakers of a gender, with
L2-normalized rows. The smallest singular values are set to zero; the rows are then clustered by k-means, which starts
from randomly drawn speakers: with fixed clusters, all sources on one side of the pool would become one voice. The
source is not modified, as its part outside the row space does not change which centroid is least similar.
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
from voiceveil.systems.resynthesis.strategies import Gender, PseudoSpeaker, strategies, target_gender

__all__ = ["LeastSimilarCentroid", "k_means", "keep_largest_singular_values"]

Array = NDArray[np.float64]


@strategies.register("a2")
@dataclass(frozen=True)
class LeastSimilarCentroid:
    """A2: the cluster centroid least similar to the source, in a pool without its smallest singular values.

    ``kept``: fraction of the nonzero singular values that is kept; with 1 the pool is not modified. At speaker level
    all utterances of a speaker have the same clusters, but if two centroids are almost equally dissimilar, utterances
    disagree: about four in five get the same voice.
    """

    gender: Gender = "same"
    kept: float = 0.5
    clusters: int = 10

    needs_source_embedding: ClassVar[bool] = True

    def check(self, pool: Pool) -> None:
        """Refuse parameters out of range, and a pool with fewer speakers of a gender than clusters."""
        if not 0 < self.kept <= 1 or self.clusters < 2:
            problem = f"cannot choose among {self.clusters} clusters with {self.kept} of the singular values"
            raise InputError(problem, fix="set clusters to 2 or more, and kept above 0, at most 1")
        for gender in GENDERS:
            count = len(pool.of_gender(gender))
            if count < self.clusters:
                problem = f"the pool has {count} speakers of gender {gender}, too few for {self.clusters} clusters"
                raise InputError(problem, where=pool.where, fix="give a larger pool (voiceveil train pool)")

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the centroid with the smallest cosine to the source; the clusters do not depend on the source."""
        target = target_gender(self.gender, gender, rng)
        matrix = _modified(pool, target, self.kept)
        centroids, cluster = k_means(matrix, matrix[rng.permutation(len(matrix))[: self.clusters]])
        lengths = np.maximum(np.linalg.norm(centroids, axis=1), 1e-30)
        least = int(np.argmin(centroids @ source.astype(np.float64) / lengths))
        log_f0 = pool.log_f0[pool.of_gender(target)][cluster == least]
        return PseudoSpeaker(centroids[least].astype(np.float32), float(log_f0.mean()))


def keep_largest_singular_values(matrix: Array, kept: float) -> Array:
    """Return the matrix with only the largest fraction ``kept`` of its nonzero singular values, the others set to 0."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    nonzero = int(np.sum(values > values[0] * max(matrix.shape) * np.finfo(np.float64).eps))
    count = math.ceil(kept * nonzero - 1e-9)
    return np.asarray((left[:, :count] * values[:count]) @ right[:count])


def k_means(points: Array, centroids: Array, *, rounds: int = 100) -> tuple[Array, NDArray[np.int64]]:
    """Cluster points by k-means.

    Parameters
    ----------
    points
        (n, d).
    centroids
        Initial centroids (c, d).
    rounds
        Largest number of iterations.

    Returns
    -------
    centroids
        (k, d); clusters without points are left out.
    cluster
        Index of each point's cluster (n,).
    """
    cluster = np.full(len(points), -1)
    for _ in range(rounds):
        # Squared distance without the squared norm of the point, which is the same for all centroids.
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
    return keep_largest_singular_values(vectors, kept)
