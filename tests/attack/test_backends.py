"""Back-ends: plain loops and full Gaussians as twins, and worlds in which the right answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from voiceveil import metrics
from voiceveil.attack.backends import Backend, Centered, Cosine, Lda, MarginSoftmax, Scaled, SNorm, Wccn
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.covariances import length_norm, scatter
from voiceveil.models.speaker.plda import Plda, PldaScorer, TwoCovariance, fit_two_covariance

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def world(
    rng: np.random.Generator, speakers: int, utterances: int, *, d: int = 12, nuisance: float = 3.0
) -> tuple[Floats, Codes]:
    """Speakers differ in the first half of the dimensions, utterances mostly in the second; all share an offset."""
    between = np.r_[np.ones(d // 2), np.zeros(d - d // 2)]
    within = np.r_[np.full(d // 2, 0.5), np.full(d - d // 2, nuisance)]
    speaker = np.repeat(np.arange(speakers), utterances)
    y = between * rng.standard_normal((speakers, d))
    return 1.0 + y[speaker] + within * rng.standard_normal((len(speaker), d)), speaker


def test_cosine_equals_hand_computation() -> None:
    scorer = Cosine().fit(np.zeros((0, 2)), np.zeros(0, np.int64))
    scores = scorer(
        np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([1, 2]), np.array([[0.0, 2.0], [3.0, 3.0], [0.0, 0.0]])
    )
    root = np.sqrt(0.5)
    np.testing.assert_allclose(scores, [[0.0, root, 0.0], [root, 1.0, 0.0]], atol=1e-12)


def test_scaled_backend_is_invariant_to_units() -> None:
    """Dimension by dimension in other units, and the same scores; a dimension that says nothing does no harm."""
    rng = np.random.default_rng(0)
    x, speaker = world(rng, 12, 6)
    units = 10.0 ** rng.uniform(-3, 3, 12)
    backend = Scaled(Wccn(0.5))
    assert backend.name == "wccn-0.5 scaled"
    scores = [
        backend.fit(y, speaker)(y[:3], np.ones(3, np.int64), y[3:9])
        for y in (x, 5 + x * units, np.c_[x, np.full(len(x), 7.0)])
    ]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-9)
    np.testing.assert_allclose(scores[2], scores[0], atol=0.05)
    plain = Wccn(0.5).fit((x - x.mean(axis=0)) / x.std(axis=0), speaker)
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    np.testing.assert_allclose(scores[0], plain(standard[:3], np.ones(3, np.int64), standard[3:9]), atol=1e-12)


def test_scatter_equals_plain_loops() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 4))
    speaker = rng.integers(0, 6, 30)
    speaker[:3], speaker[3] = [0, 0, 1], 9  # speaker 9 has one utterance
    found = scatter(x, speaker)
    means = {label: x[speaker == label].mean(axis=0) for label in set(speaker.tolist())}
    np.testing.assert_allclose(found.mean, np.mean(list(means.values()), axis=0))
    several = [label for label in means if (speaker == label).sum() > 1]
    within, degrees = np.zeros((4, 4)), 0
    for label in several:
        rows = x[speaker == label]
        degrees += len(rows) - 1
        for row in rows:
            within += np.outer(row - means[label], row - means[label])
    np.testing.assert_allclose(found.within, within / degrees)
    np.testing.assert_allclose(found.between, np.cov(np.array([means[label] for label in several]).T))
    assert found.speakers == len(several)


def test_lda_and_wccn_whiten_within_speaker_variance() -> None:
    x, speaker = world(np.random.default_rng(1), 50, 20)
    for backend in (Wccn(0.0), Lda(5, 0.0)):
        matrix = backend.fit(x, speaker).matrix
        assert matrix is not None
        np.testing.assert_allclose(matrix.T @ scatter(x, speaker).within @ matrix, np.eye(matrix.shape[1]), atol=1e-8)
    directions = Lda(6, 0.0).fit(x, speaker).matrix
    assert directions is not None
    energy = np.square(directions).sum(axis=1)
    assert energy[:6].sum() > 20 * energy[6:].sum()  # it has found where speakers differ
    assert Lda(100).fit(x[:100], speaker[:100]).matrix.shape == (12, 4)  # type: ignore[union-attr]  # 5 speakers


@pytest.mark.parametrize(
    "backend",
    [Wccn(0.1), Lda(6), Plda(6), Plda(6, by_count=False), MarginSoftmax(), SNorm(Lda(6), 20), SNorm(Plda(6), 20)],
)
def test_learned_backends_improve_on_unseen_speakers(backend: Backend) -> None:
    rng = np.random.default_rng(2)
    x, speaker = world(rng, 60, 20)
    new, who = world(rng, 40, 16)

    def rate(one: Backend) -> float:
        scorer = one.fit(x, speaker)
        blocks = new.reshape(40, 16, -1)
        scores = scorer(blocks[:, :8].mean(axis=1), np.full(40, 8), blocks[:, 8:].reshape(-1, 12))
        same = np.arange(40)[:, None] == np.repeat(np.arange(40), 8)[None]
        return float(metrics.eer(scores[same], scores[~same]))

    assert len(who) == len(new)
    assert rate(backend) < 0.85 * min(rate(Cosine()), rate(Centered()))


def log_density(x: Floats, covariance: Floats) -> float:
    _, logdet = np.linalg.slogdet(2 * np.pi * covariance)
    return float(-0.5 * (logdet + x @ np.linalg.solve(covariance, x)))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_plda_score_is_the_ratio_of_full_gaussians(n: int) -> None:
    """All n + 1 vectors side by side: one Gaussian if they share y, two if not."""
    rng = np.random.default_rng(n)
    d = 3
    a, b = rng.standard_normal((2, d, d))
    model = TwoCovariance(np.zeros(d), a @ a.T + 0.1 * np.eye(d), b @ b.T + 0.1 * np.eye(d))

    class Raw(PldaScorer):
        """Without any normalization."""

        def white(self, embeddings: Floats, counts: Floats) -> Floats:
            return np.asarray(embeddings @ model.diagonal[0])

    scorer = Raw(np.zeros(d), None, model)
    enroll, test = rng.standard_normal((n, d)), rng.standard_normal(d)
    score = scorer(enroll.mean(axis=0)[None], np.array([n]), test[None])[0, 0]

    def joint(count: int) -> Floats:
        shared = np.kron(np.ones((count, count)), model.between)
        return np.asarray(shared + np.kron(np.eye(count), model.within))

    together = log_density(np.concatenate([enroll.ravel(), test]), joint(n + 1))
    apart = log_density(enroll.ravel(), joint(n)) + log_density(test, joint(1))
    assert score == pytest.approx(together - apart, abs=1e-9)


def likelihood(model: TwoCovariance, x: Floats, speaker: Codes) -> float:
    total = 0.0
    for label in np.unique(speaker):
        rows = x[speaker == label] - model.mean
        n = len(rows)
        covariance = np.kron(np.ones((n, n)), model.between) + np.kron(np.eye(n), model.within)
        total += log_density(rows.ravel(), np.asarray(covariance))
    return total


def test_em_increases_the_likelihood_and_recovers_the_model() -> None:
    rng = np.random.default_rng(4)
    d = 3
    a, b = rng.standard_normal((2, d, d))
    between, within = a @ a.T, b @ b.T
    counts = rng.integers(1, 6, 400)  # some speakers with a single utterance
    speaker = np.repeat(np.arange(400), counts)
    y = rng.multivariate_normal(np.zeros(d), between, 400)
    x = y[speaker] + rng.multivariate_normal(np.zeros(d), within, len(speaker)) + 5.0
    climb = [likelihood(fit_two_covariance(x, speaker, i), x, speaker) for i in (0, 1, 3, 10)]
    assert climb == sorted(climb)
    model = fit_two_covariance(x, speaker, 30)
    np.testing.assert_allclose(model.between, between, atol=0.2 * np.trace(between) / d)
    np.testing.assert_allclose(model.within, within, atol=0.2 * np.trace(within) / d)


def test_more_enrollment_utterances_increase_the_score() -> None:
    x, speaker = world(np.random.default_rng(5), 40, 10)
    scorer = Plda(6).fit(x, speaker)
    one, ten = scorer(np.repeat(x[:1], 2, axis=0), np.array([1, 10]), x[200:300])
    assert np.abs(ten).mean() > np.abs(one).mean()


def test_too_few_speakers_are_rejected() -> None:
    with pytest.raises(InputError, match="2 training speaker"):
        Wccn().fit(np.eye(4), np.array([0, 0, 1, 1]))
    with pytest.raises(InputError, match="with two utterances"):
        Plda().fit(np.eye(4), np.arange(4))


def test_length_norm_keeps_zero_vectors() -> None:
    np.testing.assert_allclose(length_norm(np.array([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0.0, 0.0]])


def test_margin_softmax_is_repeatable_and_starts_from_the_identity() -> None:
    x, speaker = world(np.random.default_rng(6), 20, 10)
    one, two = (MarginSoftmax(steps=10).fit(x, speaker).matrix for _ in range(2))
    np.testing.assert_array_equal(one, two)
    held = MarginSoftmax(steps=0).fit(x, speaker).matrix
    assert held is not None
    np.testing.assert_allclose(held, np.eye(12), atol=1e-6)


def test_plda_scores_by_kaldis_definition() -> None:
    """A plain loop: mean and LDA, length sqrt(k), the length expected of n utterances, joint Gaussian densities."""
    rng = np.random.default_rng(8)
    x, speaker = world(rng, 30, 8)
    scorer = Plda(5).fit(x, speaker)
    model, lda, k = scorer.model, scorer.lda, 5
    assert lda is not None
    assert lda.shape == (12, k)

    def prepared(mean: Floats, n: int) -> Floats:
        y = (mean - scorer.mean) @ lda
        y = y * np.sqrt(k) / np.linalg.norm(y) - model.mean
        expected = model.between + model.within / n  # of a mean of n utterances of a new speaker
        return np.asarray(y * np.sqrt(k / (y @ np.linalg.solve(expected, y))))

    counts = np.array([1, 3, 8])
    means = np.array([x[speaker == i][:n].mean(axis=0) for i, n in enumerate(counts)])
    tests = x[[0, 9, 100]]
    scores = scorer(means, counts, tests)
    for i, n in enumerate(counts):
        for j, test in enumerate(tests):
            one, other = prepared(means[i], n), prepared(test, 1)
            mean_of_n, single = model.between + model.within / n, model.between + model.within
            joint = np.block([[mean_of_n, model.between], [model.between, single]])
            together = log_density(np.concatenate([one, other]), joint)
            assert scores[i, j] == pytest.approx(together - log_density(one, mean_of_n) - log_density(other, single))


def test_plda_scores_are_log_likelihood_ratios() -> None:
    """Nearly calibrated where speakers are as it assumes: much bolder or more timid scores have a higher Cllr."""
    rng = np.random.default_rng(9)
    x, speaker = world(rng, 400, 10, nuisance=1.0)
    scorer = Plda(6).fit(x, speaker)
    blocks = world(rng, 100, 5, nuisance=1.0)[0].reshape(100, 5, -1)
    scores = scorer(blocks[:, 0], np.ones(100, np.int64), blocks[:, 1:].reshape(400, -1))
    same = np.arange(100)[:, None] == np.repeat(np.arange(100), 4)[None]
    target, nontarget = scores[same], scores[~same]
    assert metrics.cllr(target, nontarget) < metrics.min_cllr(target, nontarget) + 0.1
    for factor in (0.2, 2.0):
        assert metrics.cllr(factor * target, factor * nontarget) > metrics.cllr(target, nontarget)


@pytest.mark.parametrize("backend", [Wccn(0.1), Plda(5)])
def test_s_norm_equals_a_plain_loop(backend: Backend) -> None:
    rng = np.random.default_rng(3)
    x, speaker = world(rng, 12, 5)
    enroll, counts, tests = x[:4] + 0.1, np.array([1, 2, 3, 4]), x[30:36]
    found = SNorm(backend, 7).fit(x, speaker)(enroll, counts, tests)
    plain = backend.fit(x, speaker)

    def score(a: Floats, n: int, b: Floats) -> float:
        return float(plain(a[None], np.array([n]), b[None])[0, 0])

    cohort = [x[speaker == one].mean(axis=0) for one in range(12)]
    for i in range(4):
        for j in range(6):
            raw = score(enroll[i], counts[i], tests[j])
            z = sorted(score(enroll[i], counts[i], other) for other in cohort)[-7:]
            t = sorted(score(other, 5, tests[j]) for other in cohort)[-7:]
            normed = 0.5 * ((raw - np.mean(z)) / np.std(z) + (raw - np.mean(t)) / np.std(t))
            assert found[i, j] == pytest.approx(normed, rel=1e-6)


def test_s_norm_corrects_speakers_who_score_high_with_everybody() -> None:
    """Half of the speakers add a constant to all their scores: one threshold for all errs, unless it is removed."""
    rng = np.random.default_rng(4)
    x, speaker = world(rng, 60, 10, nuisance=0.5)

    class Lambs:
        """Cosines, with a bonus for whoever lies on one side (Doddington et al. 1998)."""

        name = "lambs"

        def fit(self, embeddings: Floats, speaker: Codes) -> object:
            plain = Lda(6).fit(embeddings, speaker)
            return lambda enroll, counts, test: plain(enroll, counts, test) + (enroll[:, :1] > 1.0) * 0.8

    blocks = world(rng, 40, 12, nuisance=0.5)[0].reshape(40, 12, -1)
    same = np.arange(40)[:, None] == np.repeat(np.arange(40), 6)[None]

    def rate(backend: object) -> float:
        scorer = backend.fit(x, speaker)  # type: ignore[attr-defined]
        scores = scorer(blocks[:, :6].mean(axis=1), np.full(40, 6), blocks[:, 6:].reshape(240, -1))
        return float(metrics.eer(scores[same], scores[~same]))

    assert rate(SNorm(Lambs(), 30)) < 0.6 * rate(Lambs())  # type: ignore[arg-type]
