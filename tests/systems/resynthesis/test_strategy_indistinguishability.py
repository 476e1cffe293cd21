"""K2 of VoicePrivacy 2020: the privacy budget holds empirically; effect of the pool; Griffin-Lim."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.pool import make_pool
from tests.support.tiny_decoder import write_two_stages
from voiceveil import metrics
from voiceveil.core.errors import InputError
from voiceveil.dsp.griffin_lim import BANDS, from_mel, griffin_lim, linear_magnitudes
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.models.weights import store
from voiceveil.systems import system
from voiceveil.systems.resynthesis.pool import Pool, load_pool
from voiceveil.systems.resynthesis.strategies import Strategy
from voiceveil.systems.resynthesis.strategy_indistinguishability import Indistinguishable, angular_distance
from voiceveil.testing import synthetic_voice

Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def shipped() -> Pool:
    return load_pool(store.path("pool"))


def part(pool: Pool, rows: NDArray[np.int64]) -> Pool:
    """Return a pool of some of the speakers."""
    return replace(
        pool,
        ids=tuple(pool.ids[row] for row in rows),
        genders=pool.genders[rows],
        embeddings=pool.embeddings[rows],
        log_f0=pool.log_f0[rows],
        ratings=None,
    )


# --- The budget ---------------------------------------------------------------------------------------------------


def test_angular_distance_is_a_metric_between_0_and_1() -> None:
    axes = np.array([[2, 0], [0, 3], [-1, 0]], dtype=np.float32)
    np.testing.assert_allclose(angular_distance(axes, axes[0]), [0, 0.5, 1], atol=1e-6)
    points = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    table = np.array([angular_distance(points, p) for p in points])
    assert (table[:, None, :] <= table[:, :, None] + table[None, :, :] + 1e-6).all()


def counted(strategy: Strategy, source: NDArray[np.float32], pool: Pool, draws: int, seed: int) -> Array:
    """Count how often each speaker of the pool is chosen."""
    rng, rows = np.random.default_rng(seed), {vector.tobytes(): row for row, vector in enumerate(pool.embeddings)}
    chosen = [rows[strategy.draw(source, "f", pool, rng).embedding.tobytes()] for _ in range(draws)]
    return np.bincount(chosen, minlength=len(pool)).astype(np.float64)


def largest_loss(strategy: Strategy, sources: NDArray[np.float32], pool: Pool, draws: int) -> Array:
    """For each pair of sources: the largest ln P(y | x) / P(y | x') that counts prove, less three standard errors.

    As testers of differential privacy do (Ding et al. 2018): a mechanism whose provable loss is above its budget is
    broken. A target that was never seen counts half.
    """
    counts = np.maximum(np.array([counted(strategy, s, pool, draws, i) for i, s in enumerate(sources)]), 0.5)
    logarithms, variances = np.log(counts), 1 / counts
    losses = logarithms[:, None] - logarithms[None] - 3 * np.sqrt(variances[:, None] + variances[None])
    return np.asarray(losses.max(axis=2))


def test_draw_frequencies_obey_the_privacy_budget() -> None:
    """Three sources, two opposite and one between them, with the pool around them."""
    pool, rng = make_pool(), np.random.default_rng(0)
    first = l2_normalized(pool.embeddings[0])
    sources = np.array(
        [first, -first, l2_normalized(first + l2_normalized(rng.standard_normal(len(first))))], dtype=np.float32
    )
    distances = np.array([angular_distance(sources, source) for source in sources])
    for epsilon in (1.0, 4.0):
        losses = largest_loss(Indistinguishable(epsilon=epsilon), sources, pool, 3000)
        assert (losses <= epsilon * distances + 1e-9).all()
    assert (losses > 0.1 * 4 * distances)[0, 1]  # the test would see something
    broken = largest_loss(Indistinguishable(epsilon=32.0), sources, pool, 3000)  # sold as a budget of 2
    assert broken[0, 1] > 2 * distances[0, 1]


def test_draw_frequencies_equal_the_exponential_mechanism() -> None:
    pool = make_pool()
    source = pool.embeddings[3]
    weights = [
        np.exp(-5.0 / 2 * np.arccos(l2_normalized(v) @ l2_normalized(source)) / np.pi)
        for v in pool.embeddings.astype(np.float64)
    ]
    counts = counted(Indistinguishable(epsilon=5.0), source, pool, 6000, 1)
    expected = 6000 * np.array(weights) / np.sum(weights)
    assert float(((counts - expected) ** 2 / expected).sum()) < len(pool) + 4 * np.sqrt(2 * len(pool))  # chi square


def test_zero_budget_is_independent_of_the_source() -> None:
    pool = make_pool()
    for seed in range(5):
        drawn = [
            Indistinguishable(epsilon=0).draw(source, "f", pool, np.random.default_rng(seed)).embedding
            for source in pool.embeddings[:4]
        ]
        assert all(np.array_equal(voice, drawn[0]) for voice in drawn)


def test_gender_can_be_chosen() -> None:
    pool = make_pool()
    for gender, wanted in (("same", "f"), ("other", "m"), ("m", "m")):
        strategy = Indistinguishable(gender, 1.0)  # type: ignore[arg-type]
        allowed = {v.tobytes() for v in pool.embeddings[pool.of_gender(wanted)]}
        for seed in range(8):
            drawn = strategy.draw(pool.embeddings[0], "f", pool, np.random.default_rng(seed))
            assert drawn.embedding.tobytes() in allowed


@pytest.mark.parametrize("epsilon", [-1.0, float("inf"), float("nan")])
def test_invalid_budgets_are_rejected(epsilon: float) -> None:
    with pytest.raises(InputError, match="is not a privacy budget"):
        Indistinguishable(epsilon=epsilon).check(make_pool())


# --- The pool -----------------------------------------------------------------------------------------------------


def eer_aa(strategy: Strategy | None, speakers: NDArray[np.float32], genders: NDArray[np.str_], pool: Pool) -> float:
    """EER between pseudo-speakers of enrollment and trial utterances: an attacker who hears embeddings as they are.

    Five utterances each, at a cosine of about 0.85 to the speaker; enrollment and trials draw from generators of their
    own, one for a speaker, as the runner does. None: unprotected.
    """
    rng, sides = np.random.default_rng(0), []
    for role in (0, 1):
        vectors = []
        for number, (speaker, gender) in enumerate(zip(speakers, genders, strict=True)):
            noise = 0.62 * rng.standard_normal((5, speakers.shape[1])) / np.sqrt(speakers.shape[1])
            for utterance in (l2_normalized(speaker) + noise).astype(np.float32):
                generator = np.random.default_rng([role, number])
                vector = utterance if strategy is None else strategy.draw(utterance, gender, pool, generator).embedding
                vectors.append(l2_normalized(vector))
        sides.append(np.array(vectors).reshape(len(speakers), 5, -1))
    enrolled = np.array([l2_normalized(mean) for mean in sides[0].mean(axis=1)])
    scores = np.einsum("id,jkd->ijk", enrolled, sides[1])
    same = np.eye(len(speakers), dtype=bool)
    return float(metrics.eer(scores[same].ravel(), scores[~same].ravel()))


def test_pool_of_evaluation_speakers_does_not_hide_speakers(shipped: Pool) -> None:
    rows = np.concatenate([shipped.of_gender("f")[:20], shipped.of_gender("m")[:20]])
    speakers, genders = shipped.embeddings[rows], shipped.genders[rows]
    evaluation, others = part(shipped, rows), part(shipped, np.setdiff1d(np.arange(len(shipped)), rows))
    unprotected = eer_aa(None, speakers, genders, evaluation)
    k2 = Indistinguishable()
    assert eer_aa(k2, speakers, genders, evaluation) < unprotected + 0.05  # 3.75 and 3.29% in the challenge
    assert eer_aa(k2, speakers, genders, others) > unprotected + 0.1
    # With a budget that hides, enrollment and trials become two people.
    assert eer_aa(Indistinguishable(epsilon=5.0), speakers, genders, evaluation) > 0.3


# --- Griffin and Lim ----------------------------------------------------------------------------------------------


def mel_of(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    import torch

    from voiceveil.models.nets.mel import log_mel

    return np.asarray(log_mel(torch.from_numpy(samples[None]))[0].numpy())


def test_griffin_lim_reconstructs_speech_from_mel_spectra() -> None:
    samples = synthetic_voice(seconds=1.0).samples * np.float32(0.5)
    mel = mel_of(samples)
    errors = [float(np.abs(mel_of(from_mel(mel, np.random.default_rng(0), rounds=r)) - mel).mean()) for r in (1, 32)]
    assert errors[1] < 0.25
    assert errors[1] < 0.8 * errors[0]


def test_magnitudes_have_the_given_mel_spectra() -> None:
    from voiceveil.dsp.kaldi import mel_banks

    mel = mel_of(synthetic_voice(seconds=0.5).samples)
    magnitudes = linear_magnitudes(mel)
    assert magnitudes.min() >= 0
    again = np.log(magnitudes[:, :-1] @ mel_banks(16000, 1024, BANDS, 20.0, 0.0))
    assert np.abs(again - mel).mean() < 0.05


def test_griffin_lim_finds_a_signal_with_the_given_magnitudes() -> None:
    from voiceveil.dsp import griffin_lim as module

    samples = synthetic_voice(seconds=0.5).samples
    magnitudes = np.abs(module._spectra(samples))
    np.testing.assert_allclose(module._waveform(module._spectra(samples))[200:-200], samples[200:-200], atol=1e-4)
    reached = np.abs(module._spectra(griffin_lim(magnitudes, np.random.default_rng(0), rounds=60)))
    assert np.linalg.norm(reached - magnitudes) < 0.25 * np.linalg.norm(magnitudes)


def test_k2_uses_an_acoustic_model_and_griffin_lim(tmp_path: Path) -> None:
    anonymizer = system("k2", weights=str(write_two_stages(tmp_path)), rounds=4)
    assert {"weights am", "pool"} < anonymizer.models().keys()
    assert "weights nsf" not in anonymizer.models()
    samples = synthetic_voice(seconds=0.5).samples[:7777]
    first, again, other = (anonymizer.transform(samples, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert len(first) == len(samples)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
