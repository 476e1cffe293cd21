"""Strategies of VoicePrivacy 2020 other than B1's: properties on the shipped pool, and slow twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.pool import make_pool
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.models.weights import store
from voiceveil.systems.resynthesis.b1 import B1b
from voiceveil.systems.resynthesis.pool import Pool, load_pool
from voiceveil.systems.resynthesis.strategies import PoolFarthest, Strategy, strategies
from voiceveil.systems.resynthesis.strategy_regression import Regression, decompose
from voiceveil.systems.resynthesis.strategy_sampling import (
    Mixture,
    Sampled,
    SampledFar,
    SpeakerDistribution,
    fit_mixture,
    fit_speaker_distribution,
)
from voiceveil.systems.resynthesis.strategy_singular_values import (
    LeastSimilarCentroid,
    k_means,
    keep_largest_singular_values,
)

Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def pool() -> Pool:
    """The 261 real speakers that ship."""
    return load_pool(store.path("pool"))


def cosines(vectors: NDArray[np.floating]) -> Array:
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(units @ units.T, dtype=np.float64)


def two_sample(sample: NDArray[np.floating], other: NDArray[np.floating], shuffles: int = 99) -> tuple[float, float]:
    """Kolmogorov and Smirnov's distance of the cosines between the vectors of each set, and its p.

    Pairs that share a speaker depend on each other, so that the usual p would be wrong: here vectors are exchanged.
    """
    matrix = np.vstack([sample, other]).astype(np.float64)
    bins = np.clip(np.rint((cosines(matrix) + 1) * 500), 0, 1000).astype(np.int64)
    belongs = np.arange(len(matrix)) < len(sample)

    def below(chosen: NDArray[np.bool_]) -> Array:
        counts = np.bincount(bins[chosen][:, chosen].ravel(), minlength=1001)
        counts[-1] -= chosen.sum()  # each with itself
        return np.asarray(np.cumsum(counts) / counts.sum())

    def distance(chosen: NDArray[np.bool_]) -> float:
        return float(np.abs(below(chosen) - below(~chosen)).max())

    observed, rng = distance(belongs), np.random.default_rng(0)
    as_far = sum(distance(rng.permutation(belongs)) >= observed for _ in range(shuffles))
    return observed, (1 + as_far) / (1 + shuffles)


def drawn(strategy: Strategy, sources: NDArray[np.float32], gender: str, pool: Pool, seed: int) -> NDArray[np.float32]:
    """Return the pseudo-speakers of sources, each with its own generator."""
    each = enumerate(sources)
    return np.array([strategy.draw(s, gender, pool, np.random.default_rng([seed, i])).embedding for i, s in each])


def test_sampled_voices_differ_from_each_other_as_speakers_do_and_averages_do_not(pool: Pool) -> None:
    chances = []
    for gender in "fm":
        speakers = pool.embeddings[pool.of_gender(gender)]
        for seed in range(3):
            distance, chance = two_sample(speakers, drawn(Sampled(), speakers, gender, pool, seed))
            assert distance < 0.1
            chances.append(chance)
        averages = drawn(PoolFarthest("cosine", "same", 80, 40), speakers, gender, pool, 0)
        distance, chance = two_sample(speakers, averages)
        assert distance > 0.95
        assert chance == 1 / 100
    assert np.median(chances) > 0.1  # 0.5 if the distributions were the same


def test_unshrunk_mixture_is_told_from_speakers(pool: Pool) -> None:
    """The correction of variances is needed: without it, the test distinguishes samples from speakers."""
    chances = []
    for gender in "fm":
        speakers = pool.embeddings[pool.of_gender(gender)].astype(np.float64)
        units = speakers / np.linalg.norm(speakers, axis=1, keepdims=True)
        voices = fit_speaker_distribution(pool, gender, 0.95, 2)
        plain = voices._replace(mixture=fit_mixture((units - voices.mean) @ voices.axes.T, 2))
        for seed in range(3):
            rng = np.random.default_rng(seed)
            chances.append(two_sample(speakers, np.array([plain.sample(rng) for _ in speakers]))[1])
    assert np.median(chances) < 0.05


def test_samples_have_the_mean_norm_and_product_of_speakers(pool: Pool) -> None:
    for gender in "fm":
        speakers = pool.embeddings[pool.of_gender(gender)].astype(np.float64)
        units = speakers / np.linalg.norm(speakers, axis=1, keepdims=True)
        centered = units - units.mean(axis=0)
        products = [(a @ b) ** 2 for i, a in enumerate(centered) for b in centered[:i]]
        voices = fit_speaker_distribution(pool, gender, 0.95, 2)
        rng = np.random.default_rng(1)
        samples = np.array([voices.sample(rng) for _ in range(3000)]) - voices.mean
        assert np.mean(np.sum(samples**2, axis=1)) == pytest.approx(np.mean(np.sum(centered**2, axis=1)), rel=0.02)
        pairs = np.sum(samples[::2] * samples[1::2], axis=1) ** 2
        assert pairs.mean() == pytest.approx(np.mean(products), rel=0.15)  # of 1500 pairs: a standard error of 4%
        np.testing.assert_allclose(voices.axes @ voices.axes.T, np.eye(len(voices.axes)), atol=1e-9)


def slow_mixture(points: list[list[float]], rounds: int) -> Mixture:
    """Expectation-maximization of two components with loops; begins with the halves of the first coordinate."""
    order = sorted(range(len(points)), key=lambda i: points[i][0])
    share = [[1.0, 0.0] if order.index(i) < (len(points) + 1) // 2 else [0.0, 1.0] for i in range(len(points))]
    for step in range(rounds + 1):
        weights, means, variances = [], [], []
        for c in range(2):
            count = sum(s[c] for s in share)
            mean = [sum(s[c] * p[k] for s, p in zip(share, points, strict=True)) / count for k in range(2)]
            weights.append(count / len(points))
            means.append(mean)
            variances.append(
                [
                    sum(s[c] * (p[k] - mean[k]) ** 2 for s, p in zip(share, points, strict=True)) / count
                    for k in range(2)
                ]
            )
        if step == rounds:
            break
        for i, p in enumerate(points):
            density = [
                weights[c]
                * math.prod(
                    math.exp(-((p[k] - means[c][k]) ** 2) / 2 / variances[c][k]) / math.sqrt(variances[c][k])
                    for k in range(2)
                )
                for c in range(2)
            ]
            share[i] = [value / sum(density) for value in density]
    return Mixture(np.array(weights), np.array(means), np.array(variances))


@pytest.mark.parametrize("rounds", [0, 1, 7])
def test_mixture_equals_a_plain_loop(rounds: int) -> None:
    rng = np.random.default_rng(3)
    points = np.vstack([rng.normal([0, 0], [1, 2], (9, 2)), rng.normal([2.5, 1], [0.7, 1], (6, 2))])
    fitted = fit_mixture(points, 2, rounds=rounds, tolerance=-np.inf)
    for mine, slow in zip(fitted, slow_mixture(points.tolist(), rounds), strict=True):
        np.testing.assert_allclose(mine, slow, rtol=1e-9)


def test_mixture_is_recovered_from_its_samples() -> None:
    truth = Mixture(np.array([0.3, 0.7]), np.array([[-3.0, 1.0], [2.0, 0.0]]), np.array([[1.0, 0.25], [2.0, 4.0]]))
    rng = np.random.default_rng(0)
    fitted = fit_mixture(np.array([truth.sample(rng) for _ in range(6000)]), 2)
    for mine, true in zip(fitted, truth, strict=True):
        np.testing.assert_allclose(mine, true, atol=0.12)


def test_equal_points_do_not_collapse_a_component() -> None:
    points = np.vstack([np.zeros((10, 2)), np.random.default_rng(0).standard_normal((30, 2))])
    fitted = fit_mixture(points, 2)
    assert all(np.isfinite(part).all() for part in fitted)
    assert fitted.variances.min() >= 1e-3 * points.var(axis=0).mean()


@pytest.mark.parametrize("threshold", [0.7, 0.9, 1.05])
def test_targets_are_farther_from_the_source_than_the_threshold(pool: Pool, threshold: float) -> None:
    near = 0
    for gender in "fm":
        speakers = pool.embeddings[pool.of_gender(gender)]
        for strategy in (SampledFar(dissimilarity=threshold), Sampled()):
            targets = drawn(strategy, speakers, gender, pool, 5)
            distances = [
                1 - cosines(np.array([s, t], dtype=np.float64))[0, 1] for s, t in zip(speakers, targets, strict=True)
            ]
            if isinstance(strategy, SampledFar):
                assert min(distances) >= threshold - 1e-9
            else:
                near += sum(distance < threshold for distance in distances)
    assert near > 5  # so O1 does not do it by itself


def test_first_sample_beyond_the_threshold_is_used(pool: Pool) -> None:
    source, taken = pool.embeddings[pool.of_gender("m")[4]], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rng.integers(2)
        voices = fit_speaker_distribution(pool, "m", 0.95, 2)
        samples = [voices.sample(rng) for _ in range(60)]
        far = [i for i, s in enumerate(samples) if 1 - l2_normalized(s) @ l2_normalized(source) >= 0.95]
        target = SampledFar(dissimilarity=0.95).draw(source, "m", pool, np.random.default_rng(seed))
        np.testing.assert_array_equal(target.embedding, samples[far[0]])
        taken.append(far[0])
    assert max(taken) > 0


def test_speaker_level_keeps_one_voice(pool: Pool) -> None:
    """Utterances are speakers of the pool with noise, at a cosine of about 0.85 to the speaker."""
    rng, agreed = np.random.default_rng(0), []
    for number, row in enumerate(pool.of_gender("f")[:40]):
        noise = 0.62 * rng.standard_normal((10, pool.embeddings.shape[1])) / math.sqrt(pool.embeddings.shape[1])
        utterances = (pool.embeddings[row] + noise).astype(np.float32)
        voices = [Sampled().draw(u, "f", pool, np.random.default_rng(number)) for u in utterances]
        assert all(np.array_equal(v.embedding, voices[0].embedding) and v.log_f0 == voices[0].log_f0 for v in voices)
        far = [SampledFar().draw(u, "f", pool, np.random.default_rng(number)).embedding.tobytes() for u in utterances]
        agreed.append(max(far.count(voice) for voice in far) / len(far))
    assert np.mean(agreed) > 0.9
    assert np.mean(np.array(agreed) == 1) > 0.7


def test_genders_and_f0_are_taken_from_the_pool(pool: Pool) -> None:
    for gender, wanted in (("same", "m"), ("other", "f"), ("f", "f"), ("m", "m")):
        targets = [
            Sampled(gender).draw(pool.embeddings[0], "m", pool, np.random.default_rng(i))  # type: ignore[arg-type]
            for i in range(40)
        ]
        assert np.mean([pool.gender_of(t.embedding) == wanted for t in targets]) > 0.9
        rows = pool.of_gender(wanted)
        for target in targets[:5]:
            nearest = max(
                rows, key=lambda row: float(l2_normalized(pool.embeddings[row]) @ l2_normalized(target.embedding))
            )
            assert target.log_f0 == pytest.approx(float(pool.log_f0[nearest]))
    assert not Sampled("random").needs_source_embedding
    assert Sampled("same").needs_source_embedding
    assert SampledFar("random").needs_source_embedding


def test_model_is_invariant_to_signs_of_the_decomposition(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def model() -> SpeakerDistribution:
        return fit_speaker_distribution.__wrapped__(pool, "f", 0.9, 2)

    here, svd = model(), np.linalg.svd

    def elsewhere(matrix: Array, **options: bool) -> tuple[Array, Array, Array]:
        left, values, right = svd(matrix, full_matrices=options["full_matrices"])
        return -left, values, -right

    monkeypatch.setattr(np.linalg, "svd", elsewhere)
    np.testing.assert_array_equal(model().axes, here.axes)


def test_keeping_all_singular_values_is_the_identity(pool: Pool) -> None:
    matrix = pool.embeddings[pool.of_gender("f")].astype(np.float64)
    np.testing.assert_allclose(keep_largest_singular_values(matrix, 1.0), matrix, atol=1e-12)
    doubled = np.vstack([matrix[:20], matrix[:20]])  # 20 of its 40 singular values are zero, and do not count
    np.testing.assert_allclose(keep_largest_singular_values(doubled, 1.0), doubled, atol=1e-12)
    assert np.linalg.matrix_rank(keep_largest_singular_values(doubled, 0.5)) == 10


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_smallest_singular_values_are_removed(pool: Pool, kept: float) -> None:
    matrix = pool.embeddings[pool.of_gender("m")].astype(np.float64)
    values = np.linalg.svd(matrix, compute_uv=False)
    count = math.ceil(kept * len(values) - 1e-9)
    lost = float(np.sum((matrix - keep_largest_singular_values(matrix, kept)) ** 2))
    assert lost == pytest.approx(
        float(np.sum(values[count:] ** 2))
    )  # Eckart and Young: no matrix of the rank is nearer


def test_clusters_equal_a_plain_loop() -> None:
    rng = np.random.default_rng(2)
    points = rng.standard_normal((40, 3))
    slow = points[:4].copy()
    for _ in range(60):
        nearest = [min(range(4), key=lambda c: math.dist(p, slow[c])) for p in points]
        slow = np.array([points[[n == c for n in nearest]].mean(axis=0) for c in range(4)])
    centroids, cluster = k_means(points, points[:4])
    np.testing.assert_allclose(centroids, slow)
    assert cluster.tolist() == nearest


def test_empty_cluster_is_left_out() -> None:
    centroids, cluster = k_means(np.array([[0.0], [1.0], [10.0]]), np.array([[0.5], [99.0], [10.0]]))
    assert centroids.tolist() == [[0.5], [10.0]]
    assert cluster.tolist() == [0, 0, 1]


def test_target_is_the_least_similar_centroid(pool: Pool) -> None:
    rows = pool.of_gender("f")
    units = np.array([l2_normalized(vector) for vector in pool.embeddings[rows]], dtype=np.float64)
    for seed, source in enumerate(pool.embeddings[rows[:20]]):
        rng = np.random.default_rng(seed)
        rng.integers(2)
        centroids, cluster = k_means(units, units[rng.permutation(len(units))[:10]])
        affinity = [float(l2_normalized(centroid) @ l2_normalized(source)) for centroid in centroids]
        least = affinity.index(min(affinity))
        target = LeastSimilarCentroid(kept=1).draw(source, "f", pool, np.random.default_rng(seed))
        np.testing.assert_allclose(target.embedding, units[cluster == least].mean(axis=0), atol=1e-6)
        assert target.log_f0 == pytest.approx(float(pool.log_f0[rows[cluster == least]].mean()))


def test_cluster_targets_are_dissimilar_and_stable_over_utterances(pool: Pool) -> None:
    rng, agreed, near = np.random.default_rng(0), [], []
    for number, row in enumerate(pool.of_gender("m")[:20]):
        noise = 0.62 * rng.standard_normal((10, pool.embeddings.shape[1])) / math.sqrt(pool.embeddings.shape[1])
        utterances = (pool.embeddings[row] + noise).astype(np.float32)
        strategy = LeastSimilarCentroid()
        targets = [strategy.draw(u, "m", pool, np.random.default_rng(number)).embedding for u in utterances]
        far = [target.tobytes() for target in targets]
        agreed.append(max(far.count(voice) for voice in far) / len(far))
        near.append(float(l2_normalized(targets[0]) @ l2_normalized(pool.embeddings[row])))
    assert np.mean(near) < 0.08  # two speakers: 0.12
    assert 0.7 < np.mean(agreed) < 1


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (Sampled(components=2), "the pool has 12 speakers of gender f, too few for 2 components"),
        (Sampled(components=0), "components = 0 or variance = 0.95 is out of range"),
        (Sampled(variance=1.5), "components = 2 or variance = 1.5 is out of range"),
        (SampledFar(components=1, dissimilarity=2.5), "dissimilarity = 2.5 is not a cosine distance"),
        (
            Regression(),
            "the pool has 12 speakers of gender f, too few for 10 clusters and 10 neighbors in half of them",
        ),
        (Regression(variability=1.0), "out of range: variability 1.0, strength 1.0, clusters 10, neighbors 10"),
        (Regression(clusters=1), "out of range: variability 0.5, strength 1.0, clusters 1, neighbors 10"),
        (LeastSimilarCentroid(clusters=13), "the pool has 12 speakers of gender f, too few for 13 clusters"),
        (LeastSimilarCentroid(clusters=1), "cannot choose among 1 clusters with 0.5 of the singular values"),
        (LeastSimilarCentroid(kept=0), "cannot choose among 10 clusters with 0 of the singular values"),
    ],
)
def test_invalid_settings_are_rejected(strategy: Strategy, message: str) -> None:
    with pytest.raises(InputError) as error:
        strategy.check(make_pool())
    assert message in str(error.value)


def test_unreachable_threshold_is_an_error(pool: Pool) -> None:
    strategy = SampledFar(dissimilarity=1.9)
    strategy.check(pool)
    with pytest.raises(InputError, match=r"none of 1000 pseudo-speakers has a cosine distance of 1\.9 or more"):
        strategy.draw(pool.embeddings[0], "f", pool, np.random.default_rng(0))


def test_regression_predicts_pseudo_targets(pool: Pool) -> None:
    """Compared with loops: targets are the least similar centroids, one model for each part."""
    rows = pool.of_gender("m")
    units = np.array([l2_normalized(v) for v in pool.embeddings[rows]], dtype=np.float64)
    model = decompose(pool, "m", 0.5)
    variances = units.var(axis=0)
    assert min(variances[model.high]) >= max(variances[model.low])
    assert 0.5 <= variances[model.high].sum() / variances.sum() < 0.52
    assert sorted([*model.high, *model.low]) == list(range(units.shape[1]))
    source, strategy = l2_normalized(pool.embeddings[rows[7]]), Regression(neighbors=5, clusters=6)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rng.integers(2)
        half = rng.permutation(len(rows))[: (len(rows) + 1) // 2].tolist()
        centroids, cluster = k_means(units[half], units[half[:6]])
        least = {
            i: min(range(len(centroids)), key=lambda c: units[i] @ centroids[c] / np.linalg.norm(centroids[c]))
            for i in half
        }
        distance = {i: sum((units[i][d] - source[d]) ** 2 for d in model.low) for i in half}
        nearest = sorted(half, key=lambda i: distance[i])[:5]
        drawn = strategy.draw(source, "m", pool, np.random.default_rng(seed))
        low = np.mean([centroids[least[i]][model.low] for i in nearest], axis=0)
        np.testing.assert_allclose(drawn.embedding[model.low], low, atol=1e-5)
        # ridge regression as least squares with rows of zeros as additional targets
        targets = np.array([centroids[least[i]] for i in half])
        x = units[half][:, model.high] - units[half][:, model.high].mean(axis=0)
        penalty = np.sqrt(x.var(axis=0).mean() * len(half)) * np.eye(len(model.high))
        y = targets[:, model.high] - targets[:, model.high].mean(axis=0)
        solved = np.linalg.lstsq(np.r_[x, penalty], np.r_[y, np.zeros_like(penalty)], rcond=None)[0]
        high = targets[:, model.high].mean(axis=0) + (source - units[half].mean(axis=0))[model.high] @ solved
        np.testing.assert_allclose(drawn.embedding[model.high], high, atol=1e-5)
        f0 = [np.mean([pool.log_f0[rows[half[k]]] for k in np.flatnonzero(cluster == least[i])]) for i in nearest]
        assert drawn.log_f0 == pytest.approx(float(np.mean(f0)), abs=1e-5)


def test_regression_leads_away_from_the_source(pool: Pool) -> None:
    """An ignorant attacker finds other speakers more similar to the pseudo-speaker, as in B1."""
    for strategy in (Regression(), PoolFarthest()):
        to_source, to_others = [], []
        for row in pool.of_gender("f")[:30]:
            rng = np.random.default_rng(int(row))
            voice = l2_normalized(strategy.draw(pool.embeddings[row], "f", pool, rng).embedding)
            similar = {int(i): float(l2_normalized(pool.embeddings[i]) @ voice) for i in pool.of_gender("f")}
            to_source.append(similar.pop(int(row)))
            to_others.append(np.mean(list(similar.values())))
        assert np.mean(to_source) < np.mean(to_others) - 0.03


def test_strength_zero_keeps_the_voice_and_one_hides_it(pool: Pool) -> None:
    rows = pool.of_gender("f")[:40]
    for row in rows[:3]:
        source = pool.embeddings[row]
        same = Regression(strength=0).draw(source, "f", pool, np.random.default_rng(0)).embedding
        np.testing.assert_allclose(same, l2_normalized(source), atol=1e-5)
    near = [
        float(l2_normalized(Regression().draw(pool.embeddings[row], "f", pool, np.random.default_rng(0)).embedding)
              @ l2_normalized(pool.embeddings[row]))
        for row in rows
    ]  # fmt: skip
    assert np.mean(near) < 0.4
    voices = {
        Regression().draw(pool.embeddings[0], "f", pool, np.random.default_rng(s)).embedding.tobytes() for s in range(5)
    }
    assert len(voices) == 5


def test_strategies_are_registered_for_resynthesis() -> None:
    assert {"a2", "o1", "o1c1", "pool-farthest"} <= set(strategies)
    assert B1b(strategy="o1", gender="other").chosen_strategy() == Sampled("other")
    assert B1b(strategy="o1c1").chosen_strategy() == SampledFar()
    assert B1b(strategy="a2").chosen_strategy() == LeastSimilarCentroid()
    with pytest.raises(InputError, match="did you mean o1"):
        B1b(strategy="o1c").chosen_strategy()
