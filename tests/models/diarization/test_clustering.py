"""Clusters of embeddings: as many as there are speakers, outliers apart."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from voiceveil.models.diarization import clustering
from voiceveil.models.diarization.clustering import cluster_centers


def embeddings(
    counts: list[int], seed: int = 0, spread: float = 0.05
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Random directions of 64 dimensions, and so many normalized vectors around each."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(len(counts), 64))
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    points = np.repeat(centers, counts, axis=0) + rng.normal(0, spread, (sum(counts), 64))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return centers.astype(np.float32), points.astype(np.float32)


@pytest.mark.parametrize("speakers", [None, 3])
def test_centers_are_those_of_the_speakers(speakers: int | None) -> None:
    centers, points = embeddings([20, 10, 30])
    result = cluster_centers(points, np.full(60, 3.0), speakers)
    similarity = centers @ result.T
    assert result.shape == (3, 64)
    assert sorted(similarity.argmax(axis=1).tolist()) == [0, 1, 2]
    assert similarity.max(axis=1).min() > 0.95
    np.testing.assert_allclose(np.linalg.norm(result, axis=1), 1, atol=1e-5)


def test_clusters_with_similar_means_are_one_speaker() -> None:
    """Points so scattered that the tree takes a speaker for several, though their means are the same."""
    centers, points = embeddings([150, 150], spread=0.14)
    assert len(cluster_centers(points, np.full(300, 3.0))) == 2
    sums = [points[:50].sum(axis=0), points[50:150].sum(axis=0), points[150:].sum(axis=0)]
    joined = clustering._join_similar([total.astype(np.float64) for total in sums])
    assert len(joined) == 2
    assert (centers @ np.stack(joined).T).argmax(axis=1).tolist() == [1, 0]  # what was joined comes last


@pytest.mark.parametrize("speakers", [None, 2])
def test_an_outlier_is_no_speaker(speakers: int | None) -> None:
    centers, points = embeddings([200, 200, 1])
    result = cluster_centers(points, np.array([3.0] * 400 + [1.0]), speakers)
    assert result.shape == (2, 64)
    assert (centers[:2] @ result.T).max(axis=1).min() > 0.95


def test_short_stretches_found_no_cluster() -> None:
    centers, points = embeddings([10, 10])
    result = cluster_centers(points, np.array([3.0] * 10 + [0.3] * 10))
    assert result.shape == (1, 64)
    assert float(centers[0] @ result[0]) > 0.9


def test_fewer_stretches_than_speakers_are_a_cluster_each() -> None:
    _, points = embeddings([1, 1])
    assert cluster_centers(points, np.array([3.0, 3.0]), 4).shape == (2, 64)
    assert cluster_centers(points[:1], np.array([0.5]), None).shape == (1, 64)


def test_many_stretches_are_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "_MOST_LEAVES", 50)
    centers, points = embeddings([400, 400])
    result = cluster_centers(points, np.full(800, 3.0))
    assert (centers @ result.T).max(axis=1).min() > 0.95
