"""Strategies on the pool: B1's draw against a slow twin and the official code's results; errors."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from tests.support.paths import GOLDEN
from tests.support.pool import make_pool
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.plda import PldaScorer, TwoCovariance
from voiceveil.systems.resynthesis.pool import Pool
from voiceveil.systems.resynthesis.strategies import (
    PoolFarthest,
    PoolNearest,
    PoolRandom,
    average_speakers,
    official_candidate_indices,
    strategies,
)


def slow_cosine(a: np.ndarray, b: np.ndarray) -> float:
    dot = sum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(float(x) ** 2 for x in a)) / math.sqrt(sum(float(x) ** 2 for x in b))


@pytest.mark.parametrize("gender", ["f", "m"])
@pytest.mark.parametrize(("chosen", "pseudo_gender"), [("same", "fm"), ("other", "mf")])
def test_farthest_speakers_equal_a_plain_loop(gender: str, chosen: str, pseudo_gender: str) -> None:
    pool = make_pool()
    source = np.random.default_rng(1).standard_normal(6).astype(np.float32)
    strategy = PoolFarthest("cosine", chosen, candidates=7, averaged=3)  # type: ignore[arg-type]
    wanted = dict(zip("fm", pseudo_gender, strict=True))[gender]
    rows = [row for row in range(len(pool)) if pool.genders[row] == wanted]
    farthest = sorted(rows, key=lambda row: slow_cosine(source, pool.embeddings[row]))[:7]
    assert strategy.ranked(source, wanted, pool).tolist() == farthest
    generator = np.random.default_rng(5)
    generator.integers(2)
    order = generator.permutation(len(pool))
    taken = sorted(farthest, key=lambda row: int(order[row]))[:3]
    drawn = strategy.draw(source, gender, pool, np.random.default_rng(5))
    mean = [sum(float(pool.embeddings[row][i]) for row in taken) / 3 for i in range(6)]
    np.testing.assert_allclose(drawn.embedding, mean, rtol=1e-6)
    assert drawn.log_f0 == pytest.approx(np.mean([pool.log_f0[row] for row in taken]))


def test_plda_ranks_by_its_log_likelihood_ratio() -> None:
    pool = make_pool()
    source, vectors = pool.embeddings[0] + 0.1, pool.embeddings.astype(np.float64)
    rows = pool.of_gender("f")
    scores = [pool.plda(vectors[[row]], np.array([1]), vectors[:1] + 0.1)[0, 0] for row in rows]
    expected = [int(row) for _, row in sorted(zip(scores, rows, strict=True))][:5]
    assert PoolFarthest("plda", candidates=5, averaged=2).ranked(source, "f", pool).tolist() == expected
    assert PoolNearest("plda", candidates=5, averaged=2).ranked(source, "f", pool)[0] == 0  # itself


def test_every_candidate_is_drawn_equally_often() -> None:
    pool = make_pool()
    strategy = PoolFarthest("cosine", candidates=6, averaged=3)
    source = pool.embeddings[3]
    candidates = strategy.ranked(source, "f", pool)
    counts = np.zeros(len(pool))
    for seed in range(600):
        rng = np.random.default_rng(seed)
        rng.integers(2)
        place = rng.permutation(len(pool))
        counts[candidates[np.argsort(place[candidates])[:3]]] += 1
    assert counts.sum() == 1800
    # 300 expected each, standard deviation 12; four of them
    assert (np.abs(counts[candidates] - 300) < 50).all()


def test_similar_sources_give_similar_pseudo_speakers_at_speaker_level() -> None:
    """Lists of candidates differ, the random order of the pool does not."""
    pool, rng = make_pool(each=60, dimension=24), np.random.default_rng(2)
    strategy = PoolFarthest("cosine", candidates=40, averaged=20)
    near, far = [], []
    for seed in range(30):
        source = pool.embeddings[seed]
        other = source + 0.3 * rng.standard_normal(24).astype(np.float32)
        first = strategy.draw(source, "f", pool, np.random.default_rng(seed)).embedding
        near.append(np.linalg.norm(first - strategy.draw(other, "f", pool, np.random.default_rng(seed)).embedding))
        far.append(np.linalg.norm(first - strategy.draw(source, "f", pool, np.random.default_rng(999)).embedding))
    assert np.mean(near) < 0.6 * np.mean(far)
    shared = strategy.draw(pool.embeddings[0], "f", pool, np.random.default_rng(1)).embedding
    assert np.array_equal(shared, strategy.draw(pool.embeddings[0], "f", pool, np.random.default_rng(1)).embedding)


def test_random_gender_is_drawn_from_the_generator() -> None:
    pool = make_pool()
    strategy = PoolRandom("random")
    females = sum(
        strategy.draw(pool.embeddings[0], "f", pool, np.random.default_rng(seed)).log_f0 > 4.95 for seed in range(200)
    )
    assert 70 < females < 130
    for seed in range(20):
        assert strategies["pool-random"]().draw(pool.embeddings[0], "m", pool, np.random.default_rng(seed)).log_f0 < 5


@pytest.mark.parametrize("voices", [1, 3, 99])
def test_mean_of_random_speakers_equals_a_plain_loop(voices: int) -> None:
    """The first speakers in a random order of the pool, or all of the gender if there are fewer."""
    pool = make_pool()
    for seed in range(5):
        average = PoolRandom("f", voices=voices).draw(pool.embeddings[0], "m", pool, np.random.default_rng(seed))
        rng = np.random.default_rng(seed)
        rng.integers(2)  # the gender that is not used
        place = rng.permutation(len(pool))
        women = sorted((place[row], row) for row in range(len(pool)) if pool.genders[row] == "f")
        rows = [row for _, row in women[:voices]]
        np.testing.assert_allclose(average.embedding, sum(pool.embeddings[row] for row in rows) / len(rows), rtol=1e-5)
        assert average.log_f0 == pytest.approx(np.mean([pool.log_f0[row] for row in rows]))


@given(st.floats(0, 1), st.integers(0, 99))
def test_steadier_voice_is_blended_in_by_weight(share: float, seed: int) -> None:
    """From one speaker to the mean of eight, of whom this is the first; F0 is blended as well."""
    pool = make_pool()
    source = pool.embeddings[0]
    single, eight = (PoolRandom("f", voices=n).draw(source, "m", pool, np.random.default_rng(seed)) for n in (1, 8))
    drawn = (
        PoolRandom("f", steady_voices=8).draw(source, "m", pool, np.random.default_rng(seed))._replace(source=source)
    )
    np.testing.assert_array_equal(drawn.embedding, single.embedding)
    blended = drawn.blend_towards_steady(share)
    np.testing.assert_allclose(blended.embedding, share * eight.embedding + (1 - share) * single.embedding, atol=1e-5)
    assert blended.log_f0 == pytest.approx(share * eight.log_f0 + (1 - share) * single.log_f0)
    assert blended.source is source
    assert eight.blend_towards_steady(share) is eight  # it has no other


def test_official_candidate_indices_start_as_in_the_challenge() -> None:
    """``random.seed('0')``: the string, not the number."""
    first, second = islice(official_candidate_indices(0), 2)
    assert first[:5].tolist() == [92, 20, 65, 199, 54]
    assert len(set(first.tolist())) == 100
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("level", ["spk", "utt"])
@pytest.mark.parametrize("cross", ["false", "true"])
@pytest.mark.parametrize("proximity", ["farthest", "nearest"])
def test_equals_the_official_pseudo_xvectors(level: str, cross: str, proximity: str) -> None:
    data = np.load(GOLDEN / "pseudo_xvectors.npz", allow_pickle=False)
    nothing = PldaScorer(np.zeros(512), None, TwoCovariance(np.zeros(512), np.eye(512), np.eye(512)))
    pool = Pool(
        tuple(data["pool_ids"]), data["pool_gender"], data["pool_x"], np.zeros(520, dtype=np.float32), "x", nothing
    )
    strategy = {"farthest": PoolFarthest, "nearest": PoolNearest}[proximity]("cosine")
    picks = official_candidate_indices(0)
    for speaker, gender in (("1272", "m"), ("1462", "f")):
        wanted = gender if cross == "false" else {"f": "m", "m": "f"}[gender]
        candidates = strategy.ranked(data[f"src_{speaker}"], wanted, pool)
        pick = next(picks)
        for number in range(2):
            if level == "utt" and number:
                pick = next(picks)
            average = average_speakers(candidates[pick], pool).embedding
            official = data[f"pseudo_{level}_cg-{cross}_{proximity}_{speaker}-0-{number:04}"]
            assert np.array_equal(average, official.astype(np.float32))


def test_too_small_pool_is_rejected() -> None:
    with pytest.raises(InputError) as caught:
        PoolFarthest(candidates=200, averaged=100).check(make_pool(each=12))
    assert str(caught.value) == (
        "pool.safetensors: the pool has 12 speakers of gender f, and 200 candidates are asked for "
        "(give a larger pool (voiceveil train pool), or at most --set candidates=12)"
    )
    with pytest.raises(InputError, match=r"cannot average 9 of 8 candidates \(set averaged to at most candidates\)"):
        PoolFarthest(candidates=8, averaged=9).check(make_pool(each=12))
    PoolFarthest(candidates=12, averaged=12).check(make_pool(each=12))


@pytest.mark.parametrize(
    ("women", "men", "counts"), [(130, 131, (80, 40)), (199, 400, (122, 61)), (200, 400, (200, 100)), (1, 1, (1, 1))]
)
def test_large_pools_get_the_published_numbers(women: int, men: int, counts: tuple[int, int]) -> None:
    large = make_pool(each=400)
    rows = np.r_[:women, 400 : 400 + men]
    pool = replace(
        large,
        ids=tuple(large.ids[row] for row in rows),
        genders=large.genders[rows],
        embeddings=large.embeddings[rows],
        log_f0=large.log_f0[rows],
    )
    assert PoolFarthest().counts(pool) == counts
    PoolFarthest().check(pool)
    assert len(PoolFarthest().ranked(pool.embeddings[0], "f", pool)) == counts[0]
    assert PoolFarthest(candidates=90).counts(pool) == (90, 45)
    assert PoolFarthest(candidates=90, averaged=3).counts(pool) == (90, 3)


@pytest.mark.parametrize("log_f0", [None, 4.8, 5.0, 5.3])
def test_gender_of_a_voice_is_the_more_likely_one(log_f0: float | None) -> None:
    """Slow twin: cosines of the five nearest speakers of each gender, and two Gaussian densities of F0."""
    pool = make_pool(each=40, dimension=16)
    tones = [pool.log_f0[pool.of_gender(g)].astype(np.float64) for g in "fm"]
    deviation = np.sqrt(np.mean([max(tone.std(), 0.1) ** 2 for tone in tones]))
    for vector in np.random.default_rng(3).standard_normal((50, 16)).astype(np.float32):
        nearest = []
        for gender in "fm":
            cosines = []
            for neighbor in pool.embeddings[pool.of_gender(gender)]:
                cosines.append(float(neighbor @ vector / np.linalg.norm(neighbor) / np.linalg.norm(vector)))
            nearest.append(sum(sorted(cosines, reverse=True)[:5]) / 5)
        evidence = (nearest[1] - nearest[0]) / 0.015
        if log_f0 is not None:
            woman, man = (norm(tone.mean(), deviation).logpdf(log_f0) for tone in tones)
            evidence += max(man - woman, -1.0)  # who speaks high may shout
        assert pool.gender_of(vector, log_f0) == ("m" if evidence > 0 else "f")
