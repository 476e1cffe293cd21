"""Voice similarity: the official matrices, DeID and G_VD; plain loops as twins; invariances and extremes."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.paths import GOLDEN
from voiceveil import InputError, metrics
from voiceveil.metrics import SimilarityMatrix, deid, diagonal_dominance, gvd, similarity_matrix

Floats = NDArray[np.float64]

# The official code's matrices for 8 speakers with 6 utterances each, upper triangles row by row; DeID and G_VD.
# fmt: off
OFFICIAL = {
    "oo": [
        0.9572587, 0.0112032, 0.0675725, 0.0112976, 0.0477055, 0.2117611, 0.0783534, 0.0259914,
        0.9772878, 0.0142379, 0.0100191, 0.0100191, 0.1423109, 0.0991686, 0.0100191,
        0.9678707, 0.0271065, 0.0100191, 0.0200072, 0.0144064, 0.0262088,
        0.9501405, 0.0100191, 0.0100191, 0.0100191, 0.0112976,
        0.9001086, 0.0112032, 0.2597357, 0.0398286,
        0.9906940, 0.0156492, 0.0100191,
        0.9571536, 0.0155351,
        0.9598826,
    ],
    "oa": [
        0.5558939, 0.5177954, 0.5119319, 0.5464546, 0.5323983, 0.5109841, 0.5024382, 0.5209885,
        0.5089458, 0.4143900, 0.4776655, 0.4995608, 0.5024778, 0.4778204, 0.5146008,
        0.4965041, 0.4808480, 0.5120594, 0.5435631, 0.3840336, 0.5124606,
        0.5028192, 0.5124606, 0.4716918, 0.2074058, 0.4798133,
        0.5182560, 0.4780069, 0.5145910, 0.5192122,
        0.5003083, 0.5024086, 0.5171021,
        0.5131207, 0.5114051,
        0.5259159,
    ],
    "aa": [
        0.8357009, 0.5666847, 0.4517465, 0.5883782, 0.6908583, 0.5881790, 0.1418977, 0.6291888,
        0.5379211, 0.1184201, 0.2290202, 0.4234432, 0.1467883, 0.0547909, 0.3111346,
        0.6269282, 0.0836424, 0.3461542, 0.3605091, 0.0542081, 0.1531524,
        0.6396117, 0.4668838, 0.1293617, 0.0777066, 0.4040823,
        0.7143186, 0.3376071, 0.0864619, 0.6060429,
        0.6536366, 0.0371374, 0.3040097,
        0.6093160, 0.2099551,
        0.6897727,
    ],
}
# fmt: on
OFFICIAL_DEID, OFFICIAL_GVD = 0.9706963964645745, -4.088779312307002


def symmetric(upper: list[float]) -> Floats:
    matrix = np.zeros((8, 8))
    matrix[np.triu_indices(8)] = upper
    return matrix + np.triu(matrix, 1).T


def world(seed: int, speakers: int = 5, each: int = 4, spread: float = 1.0) -> tuple[Floats, list[str]]:
    """Symmetric scores of utterances around speakers, grouped by speaker as in a sorted Kaldi directory."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(speakers), each)
    x = spread * rng.normal(size=(speakers, 6))[codes] + rng.normal(size=(speakers * each, 6))
    return x @ x.T, [f"spk{s}" for s in codes]


def slow_matrix(scores: Floats, speakers: list[str], method: str, calibrate: bool) -> Floats:
    """Equation 1 in loops over utterance pairs."""
    n, names = len(speakers), sorted(set(speakers))
    pairs = [(k, m) for k in range(n) for m in range(n) if (k < m if method == "official" else k != m)]
    llr = {pair: scores[pair] for pair in pairs}
    if calibrate:
        same = [pair for pair in pairs if speakers[pair[0]] == speakers[pair[1]]]
        other = [pair for pair in pairs if speakers[pair[0]] != speakers[pair[1]]]
        for group, values in zip(
            (same, other), metrics.pav_llr([scores[p] for p in same], [scores[p] for p in other]), strict=True
        ):
            llr.update(zip(group, values, strict=True))
    matrix = np.empty((len(names), len(names)))
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            if method == "official":
                of_cell = [v for (k, m), v in llr.items() if {speakers[k], speakers[m]} == {a, b}]
                mean = sum(of_cell) / len(of_cell)
            else:
                of_cell = [v for (k, m), v in llr.items() if (speakers[k], speakers[m]) == (a, b)]
                mean = sum(of_cell) / (speakers.count(a) * speakers.count(b))
            matrix[i, j] = 1 / (1 + np.exp(-mean))
    return matrix


def slow_dominance(matrix: Floats) -> float:
    n = len(matrix)
    off = [matrix[i, j] for i in range(n) for j in range(n) if i != j]
    return float(abs(sum(matrix[i, i] for i in range(n)) / n - sum(off) / (n * (n - 1))))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize("method", ["official", "published"])
def test_matrix_equals_plain_loops(seed: int, calibrate: bool, method: str) -> None:
    scores, speakers = world(seed)
    if method == "published":
        scores = scores + np.random.default_rng(seed).normal(size=scores.shape)  # M_oa is not symmetric
    result = similarity_matrix(scores, speakers, method=method, calibrate=calibrate)  # type: ignore[arg-type]
    assert result.values == pytest.approx(slow_matrix(scores, speakers, method, calibrate), abs=1e-12)
    assert result.dominance == pytest.approx(slow_dominance(result.values), abs=1e-12)


def test_deid_and_gvd_equal_stored_official_figures() -> None:
    oo, oa, aa = (symmetric(OFFICIAL[name]) for name in ("oo", "oa", "aa"))
    assert deid(oo, oa) == pytest.approx(OFFICIAL_DEID, abs=1e-6)
    assert gvd(oo, aa) == pytest.approx(OFFICIAL_GVD, abs=1e-5)


def test_published_divisor_shrinks_the_diagonal() -> None:
    """n_i n_j in place of n_i (n_i - 1): with two utterances the mean LLR of a speaker with themself is halved."""
    scores = np.array([[0.0, 3.0, -2, -2], [3.0, 0, -2, -2], [-2, -2, 0, 3.0], [-2, -2, 3.0, 0]])
    speakers = ["a", "a", "b", "b"]
    official = similarity_matrix(scores, speakers, calibrate=False)
    published = similarity_matrix(scores, speakers, calibrate=False, method="published")
    assert official.values.diagonal() == pytest.approx(1 / (1 + np.exp(-3.0)))
    assert published.values.diagonal() == pytest.approx(1 / (1 + np.exp(-1.5)))
    assert official.values[0, 1] == published.values[0, 1] == pytest.approx(1 / (1 + np.exp(2.0)))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.permutations(range(20)))
def test_invariant_to_names_and_order(seed: int, order: list[int]) -> None:
    scores, speakers = world(seed)
    renamed = [f"x{9 - int(speakers[k][-1])}" for k in order]
    shuffled = similarity_matrix(scores[np.ix_(order, order)], renamed)
    assert shuffled.dominance == pytest.approx(similarity_matrix(scores, speakers).dominance, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_invariant_to_monotone_maps_of_the_scores(seed: int) -> None:
    scores, speakers = world(seed)
    mapped = similarity_matrix(np.arctan(scores / 5) * 7 + 3, speakers)
    assert mapped.values == pytest.approx(similarity_matrix(scores, speakers).values, abs=1e-12)


def test_extremes_of_deid_and_gvd() -> None:
    speakers = np.repeat(["a", "b", "c"], 20).tolist()
    apart = np.where(np.equal.outer(speakers, speakers), 5.0, -5.0)
    apart = apart + np.random.default_rng(0).random(apart.shape)
    m_oo = similarity_matrix(apart, speakers)
    assert m_oo.dominance > 0.95
    assert deid(m_oo, m_oo) == 0.0
    assert gvd(m_oo, m_oo) == 0.0
    alike = SimilarityMatrix(("a", "b", "c"), np.full((3, 3), 0.5))
    assert deid(m_oo, alike) == 1.0
    assert gvd(m_oo, alike) == -np.inf


def test_shuffled_speakers_are_not_distinct() -> None:
    scores, speakers = world(0, speakers=10, each=20, spread=2.0)
    shuffled = np.random.default_rng(0).permutation(speakers).tolist()
    honest, chance = similarity_matrix(scores, speakers), similarity_matrix(scores, shuffled)
    assert honest.dominance > 0.5
    assert chance.dominance < 0.05


def test_weights_equal_repeated_speakers() -> None:
    """Two of speaker 0 in a resample: the pair of the two copies is left out, as an element of the diagonal is."""
    values = np.random.default_rng(0).random((4, 4))
    drawn = [0, 0, 1, 3]
    diagonal = np.mean([values[k, k] for k in drawn])
    others = np.mean([values[j, k] for j in drawn for k in drawn if j != k])
    assert diagonal_dominance(values, [2, 1, 0, 1]) == pytest.approx(abs(diagonal - others), abs=1e-12)
    assert diagonal_dominance(values, np.ones(4)) == diagonal_dominance(values)


def test_equal_scores_give_similarity_one_half() -> None:
    """All scores equal: every LLR is 0 up to the calibration's tie-breaking ramp, every similarity near 1/2."""
    speakers = ["a", "a", "b", "b"]
    plain = similarity_matrix(np.zeros((4, 4)), speakers, calibrate=False)
    assert plain.values == pytest.approx(0.5)
    with pytest.raises(InputError, match="all alike"):
        deid(plain, plain)
    with pytest.raises(InputError, match="all alike"):
        gvd(plain, plain)


@pytest.mark.parametrize(
    ("scores", "speakers", "what"),
    [
        (np.zeros((3, 3)), ["a", "a", "b"], "'b' has one utterance"),
        (np.zeros((2, 2)), ["a", "a"], "1 speakers"),
        (np.zeros((0, 0)), [], "0 speakers"),
        (np.zeros((4, 3)), ["a", "a", "b", "b"], "shape"),
        (np.full((4, 4), np.nan), ["a", "a", "b", "b"], "NaN"),
    ],
)
def test_invalid_input_is_rejected(scores: Floats, speakers: list[str], what: str) -> None:
    with pytest.raises(InputError, match=what):
        similarity_matrix(scores, speakers)


def test_invalid_matrices_are_rejected() -> None:
    for bad in ([[0.5]], [0.5, 0.5], [[np.nan, 0.5], [0.5, 0.5]]):
        with pytest.raises(InputError):
            diagonal_dominance(bad)
    with pytest.raises(InputError, match="weights"):
        diagonal_dominance(np.eye(3), [1, 0, 0])
    with pytest.raises(InputError, match="method"):
        similarity_matrix(np.zeros((4, 4)), ["a", "a", "b", "b"], method="voicepat")  # type: ignore[arg-type]


def test_the_diagonal_is_never_read() -> None:
    scores, speakers = world(1)
    expected = similarity_matrix(scores, speakers).values
    np.fill_diagonal(scores, np.nan)
    assert (similarity_matrix(scores, speakers).values == expected).all()


def test_equals_the_official_code() -> None:
    data = np.load(GOLDEN / "similarity.npz")
    matrices = {}
    for name in ("osp_osp", "osp_psp", "psp_psp"):
        speaker = dict(zip(data[f"{name}_seg"].ravel(), data[f"{name}_spk"].ravel(), strict=True))
        segments = sorted(speaker)
        at = {segment: k for k, segment in enumerate(segments)}
        scores = np.zeros((len(segments), len(segments)))
        for (first, second), score in zip(data[f"{name}_seg"], data[name], strict=True):
            scores[at[first], at[second]] = score
        matrices[name] = similarity_matrix(scores, [speaker[segment] for segment in segments])
        assert matrices[name].values == pytest.approx(data[f"M_{name}"], abs=1e-9)
    assert deid(matrices["osp_osp"], matrices["osp_psp"]) == pytest.approx(float(data["DeID"]), abs=1e-9)
    assert gvd(matrices["osp_osp"], matrices["psp_psp"]) == pytest.approx(float(data["GVD"]), abs=1e-9)


def test_a_challenge_dataset_takes_less_than_a_second() -> None:
    """740 utterances of 20 speakers; the official code needs 36 s."""
    scores, speakers = world(0, speakers=20, each=37)
    similarity_matrix(*world(0))  # compiled
    start = time.process_time()
    m_oo, m_oa, m_aa = (similarity_matrix(scores + k, speakers) for k in range(3))
    assert deid(m_oo, m_oa) == pytest.approx(0.0, abs=1e-9)
    assert gvd(m_oo, m_aa) == pytest.approx(0.0, abs=1e-9)
    assert time.process_time() - start < 1.0
