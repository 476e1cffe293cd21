"""Clustering of speaker embeddings: which stretches of speech are of one person.

Agglomerative clustering (scipy) with the mean cosine distance between clusters. Stretches of less than a second are
embedded badly; the tree is therefore made of longer ones, and the others join the nearest cluster. Means over many
stretches tell speakers apart much better than single ones: clusters whose means are similar are joined in the end.

Conventions: embeddings (n, d), L2-normalized.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_SPEAKERS", "SAME_SPEAKER", "THRESHOLD", "cluster_centers"]

#: Mean cosine distance up to which clusters are joined when the number of speakers is not known.
THRESHOLD = 0.45
#: Cosine of the means of two clusters from which on they are one speaker, when the number is not known.
SAME_SPEAKER = 0.6
#: The most speakers that are told apart.
MOST_SPEAKERS = 20
_MOST_LEAVES = 4000  # of the tree: memory grows with their square
_LONG = 1.0  # seconds of a stretch that may found a cluster
_SMALLEST = 0.005  # of all speech, in a cluster that is a speaker and not an outlier


def cluster_centers(
    embeddings: NDArray[np.float32], seconds: NDArray[np.float64], speakers: int | None = None
) -> NDArray[np.float32]:
    """Return the mean embedding of each speaker, (speakers, d), L2-normalized.

    Parameters
    ----------
    embeddings
        Embedding (n, d) of each stretch, n >= 1.
    seconds
        Length (n,) of each stretch.
    speakers
        Number of speakers; None: estimated. With fewer stretches than speakers, one cluster for each stretch.
    """
    leaves = _leaves(seconds, speakers or 1)
    points, weights = embeddings[leaves].astype(np.float64), seconds[leaves]
    labels = _labels(points, weights, speakers)
    sums = [weights[labels == label] @ points[labels == label] for label in np.unique(labels[labels >= 0])]
    if speakers is None:
        sums = _join_similar(sums)
    return np.stack([total / np.linalg.norm(total) for total in sums]).astype(np.float32)


def _join_similar(sums: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Return sums of embeddings in which those of similar directions are added up, the most similar first."""
    while len(sums) > 1:
        directions = np.stack([total / np.linalg.norm(total) for total in sums])
        similarity = directions @ directions.T - 2 * np.eye(len(sums))
        first, second = np.unravel_index(similarity.argmax(), similarity.shape)
        if similarity[first, second] < SAME_SPEAKER:
            break
        joined = sums[first] + sums[second]
        sums = [*(total for index, total in enumerate(sums) if index not in (first, second)), joined]
    return sums


def _leaves(seconds: NDArray[np.float64], fewest: int) -> NDArray[np.int64]:
    """Return the indices of the stretches to cluster: the long ones, or else the longest; evenly spread if many."""
    long = np.flatnonzero(seconds >= _LONG)
    if len(long) < max(fewest, 2):
        long = np.sort(np.argsort(-seconds, kind="stable")[: max(fewest, 2)])
    if len(long) > _MOST_LEAVES:
        long = long[np.linspace(0, len(long) - 1, _MOST_LEAVES).astype(np.int64)]
    return np.asarray(long, dtype=np.int64)


def _labels(points: NDArray[np.float64], weights: NDArray[np.float64], speakers: int | None) -> NDArray[np.int64]:
    """Return the cluster of each point; points outside of the clusters that are speakers get -1."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(points) == 1:
        return np.zeros(1, dtype=np.int64)
    tree = linkage(points, method="average", metric="cosine")
    fewest = _SMALLEST * weights.sum()
    if speakers is None:
        return _largest(np.asarray(fcluster(tree, THRESHOLD, criterion="distance")), weights, MOST_SPEAKERS, fewest)
    labels = np.asarray(fcluster(tree, speakers, criterion="maxclust"))
    for count in range(speakers + 1, len(points) + 1):  # outliers are clusters too: go on until enough others are there
        if (np.bincount(labels, weights) >= fewest).sum() >= speakers:
            break
        labels = np.asarray(fcluster(tree, count, criterion="maxclust"))
    return _largest(labels, weights, speakers, 0.0)


def _largest(
    labels: NDArray[np.integer[Any]], weights: NDArray[np.float64], most: int, fewest: float
) -> NDArray[np.int64]:
    """Keep labels of the ``most`` largest clusters of at least ``fewest`` seconds (one at least); -1 elsewhere."""
    totals = np.bincount(labels, weights)
    order = [label for label in np.argsort(-totals, kind="stable") if totals[label] > 0]
    kept = [label for label in order[:most] if totals[label] >= fewest] or order[:1]
    return np.where(np.isin(labels, kept), labels, -1).astype(np.int64)
