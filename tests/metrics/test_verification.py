"""EER, DET and detection costs: against the official figures, and against slow twins that follow the definitions."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.paths import GOLDEN
from voiceveil import InputError, metrics
from voiceveil.metrics import kernels
from voiceveil.metrics.tally import tally

Floats = NDArray[np.float64]

# The inputs of the official figures, in tenths.
_TIES_TARGET = """8 11 9 -2 -4 3 7 6 12 7 6 -1 -3 10 3 7 -4 1 -3 -1 8 -4 0 4 0 2 2 5 1 4 3 5 4 11 0 9 1 -2 9 1"""
_TIES_NONTARGET = """-2 -7 -10 3 -6 4 9 -1 -6 2 4 -1 0 7 6 4 -4 0 3 -1 -3 -4 -3 -3 -2 6 -4 4 2 1 -4 -2 10 0 3 3 5 -1 -3
0 -1 4 1 1 1 6 -3 -2 4 -1 2 -4 0 2 -7 -3 2 11 2 0 -4 2 -13 0 -2 -3 12 -12 0 0 2 -8 -2 -7 -1 1 1 -1 1 1 2 0 -9 -4 2 -5
-4 1 0 4 3 -2 1 -14 -4 -1 -12 -2 1 5 2 9 8 -8 -1 -1 0 -3 3 4 -8 5 -3 5 3 -1 10 4 0 1"""
TIES = (np.array(_TIES_TARGET.split(), dtype=float) / 10, np.array(_TIES_NONTARGET.split(), dtype=float) / 10)
SEPARATED = (np.tile([6.0, 7, 8, 5], 10) / 10, np.tile([4.0, 3, 2, 1], 10) / 10)

#: The official figures for them: SpeechBrain 0.5.16, Kaldi, and the scripts of the 2020 and 2022 challenges.
OFFICIAL = {
    "separated": {
        "sb_eer": 0.0,
        "kaldi_eer": 0.0,
        "rocch_eer": 0.0,
        "cllr": 0.9009193530490787,
        "min_cllr": 0.0,
        "linkability": 0.75,
        "mindcf_norm_p01_cm10": 0.0,
        "mindcf_norm_p01_cm1": 0.0,
        "zebra_dece_nolaplace": 0.7213475204444817,
        "individual_log10": 1.6127842855855357,
    },
    "ties": {
        "sb_eer": 0.375,
        "kaldi_eer": 0.4,
        "rocch_eer": 0.32499999999999996,
        "cllr": 0.9210122368310574,
        "min_cllr": 0.800307009154456,
        "linkability": 0.10235849056603769,
        "mindcf_norm_p01_cm10": 1.0,
        "mindcf_norm_p01_cm1": 1.0,
        "zebra_dece_nolaplace": 0.09386767638657305,
        "individual_log10": 0.9208187539523751,
    },
}


def figures(target: Floats, nontarget: Floats) -> dict[str, float]:
    """Return the figures of the official code, computed by our functions."""
    zebra = metrics.zebra(target, nontarget, method="official")
    return {
        "sb_eer": metrics.eer(target, nontarget, method="speechbrain"),
        "kaldi_eer": metrics.eer(target, nontarget, method="kaldi"),
        "rocch_eer": metrics.eer(target, nontarget, method="rocch-official"),
        "cllr": metrics.cllr(target, nontarget),
        "min_cllr": metrics.min_cllr(target, nontarget, method="official"),
        "linkability": metrics.d_sys(target, nontarget, method="official"),
        "mindcf_norm_p01_cm10": metrics.min_dcf(target, nontarget, method="kaldi"),
        "mindcf_norm_p01_cm1": metrics.min_dcf(target, nontarget, c_miss=1, method="kaldi"),
        "zebra_dece_nolaplace": zebra.population,
        "individual_log10": zebra.individual,
    }


@pytest.mark.parametrize(("name", "scores"), [("separated", SEPARATED), ("ties", TIES)])
def test_figures_equal_stored_official_ones(name: str, scores: tuple[Floats, Floats]) -> None:
    assert figures(*scores) == pytest.approx(OFFICIAL[name], abs=1e-9, rel=0)


@pytest.mark.parametrize("name", ["tiny_sep", "tiny_ties", "gauss_small", "libri_test_f"])
def test_figures_equal_the_official_code(name: str) -> None:
    official = json.loads((GOLDEN / "verification.json").read_text())[name]
    official.setdefault("individual_log10", official["zebra_max_abs_llr10_laplace"])
    with np.load(GOLDEN / f"scores_{name}.npz") as data:
        target, nontarget = data["tar"], data["non"]
    actual = figures(target, nontarget)
    assert actual == pytest.approx({key: official[key] for key in actual}, abs=1e-9, rel=0)
    assert metrics.zebra(target, nontarget, method="official").tag == official["zebra_tag"]
    if "sb_mindcf_unnorm_cm10" in official:  # single precision, and not divided by 0.1
        assert metrics.min_dcf(target, nontarget) * 0.1 == pytest.approx(official["sb_mindcf_unnorm_cm10"], abs=1e-7)
    if name != "tiny_ties":  # without ties across classes the exact variants agree with the official ones
        assert metrics.eer(target, nontarget) == pytest.approx(official["rocch_eer"], abs=1e-9)
        assert metrics.min_cllr(target, nontarget) == pytest.approx(official["min_cllr"], abs=1e-6)
        assert metrics.zebra(target, nontarget).individual == pytest.approx(official["individual_log10"], abs=1e-6)


def test_ties_are_not_split_by_class() -> None:
    """The official PAV puts tied nontargets below tied targets; a threshold cannot."""
    assert metrics.eer(*TIES) == pytest.approx(0.36585365853658536)
    assert metrics.eer([1.0, 1.0], [1.0, 1.0]) == 0.5
    assert metrics.eer([1.0, 1.0], [1.0, 1.0], method="rocch-official") == 0.0


def slow_speechbrain(target: Floats, nontarget: Floats) -> float:
    scores = np.unique(np.concatenate([target, nontarget]))
    thresholds = np.sort(np.concatenate([scores, (scores[:-1] + scores[1:]) / 2]))
    best, rate = np.inf, 0.0
    for threshold in thresholds:
        frr = float(np.float32(np.sum(target <= threshold)) / np.float32(len(target)))
        far = float(np.float32(np.sum(nontarget > threshold)) / np.float32(len(nontarget)))
        if abs(far - frr) < best:
            best, rate = abs(far - frr), (far + frr) / 2
    return rate


def slow_kaldi(target: Floats, nontarget: Floats) -> float:
    target, nontarget = np.sort(target), np.sort(nontarget)
    rank = 0
    while rank + 1 < len(target):
        opposite = len(nontarget) - 1 - len(nontarget) * rank // len(target)
        if nontarget[max(opposite, 0)] < target[rank]:
            break
        rank += 1
    return rank / len(target)


def slow_rocch(target: Floats, nontarget: Floats) -> float:
    """The lowest point on the diagonal of all chords between any two operating points."""
    points = [(np.mean(target <= t), np.mean(nontarget > t)) for t in [-np.inf, *np.concatenate([target, nontarget])]]
    best = 1.0
    for miss_a, fa_a in points:
        for miss_b, fa_b in points:
            gap_a, gap_b = fa_a - miss_a, fa_b - miss_b
            if gap_a >= 0 >= gap_b:
                x = gap_a / (gap_a - gap_b) if gap_a > gap_b else 0.0
                best = min(best, miss_a + x * (miss_b - miss_a))
    return best


TWINS: dict[str, Callable[[Floats, Floats], float]] = {
    "rocch": slow_rocch,
    "speechbrain": slow_speechbrain,
    "kaldi": slow_kaldi,
}


@pytest.mark.parametrize("method", ["rocch", "speechbrain", "kaldi"])
@pytest.mark.parametrize("seed", range(25))
def test_eer_equals_its_slow_twin(method: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_target, n_nontarget = rng.integers(1, 30, 2)
    target = np.round(rng.normal(rng.uniform(-1, 3), 1, n_target), seed % 3)  # few decimals: many ties
    nontarget = np.round(rng.normal(0, 1, n_nontarget), seed % 3)
    assert metrics.eer(target, nontarget, method=method) == pytest.approx(TWINS[method](target, nontarget), abs=1e-12)  # type: ignore[arg-type]


def slow_min_dcf(target: Floats, nontarget: Floats, p: float, c_miss: float, c_fa: float) -> float:
    costs = [
        c_miss * p * np.mean(target <= t) + c_fa * (1 - p) * np.mean(nontarget > t)
        for t in [-np.inf, *np.concatenate([target, nontarget])]
    ]
    return float(min(costs) / min(c_miss * p, c_fa * (1 - p)))


def kaldi_min_dcf(target: Floats, nontarget: Floats, p: float, c_miss: float, c_fa: float) -> float:
    """The walk of Kaldi's script: reject one score after the other, targets first among equals."""
    labels = np.concatenate([np.ones(len(target)), np.zeros(len(nontarget))])
    labels = labels[np.argsort(np.concatenate([target, nontarget]), kind="stable")]
    misses = np.cumsum(labels) / len(target)
    alarms = 1 - np.cumsum(1 - labels) / len(nontarget)
    return float(min(c_miss * p * misses + c_fa * (1 - p) * alarms) / min(c_miss * p, c_fa * (1 - p)))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("costs", [(0.01, 10.0, 1.0), (0.5, 1.0, 1.0), (0.99, 1.0, 1.0)])
def test_min_dcf_equals_its_slow_twins(seed: int, costs: tuple[float, float, float]) -> None:
    rng = np.random.default_rng(seed)
    target = np.round(rng.normal(1, 1, rng.integers(1, 40)), seed % 3)
    nontarget = np.round(rng.normal(0, 1, rng.integers(1, 40)), seed % 3)
    p, c_miss, c_fa = costs
    exact = metrics.min_dcf(target, nontarget, p_target=p, c_miss=c_miss, c_fa=c_fa)
    kaldi = metrics.min_dcf(target, nontarget, p_target=p, c_miss=c_miss, c_fa=c_fa, method="kaldi")
    assert exact == pytest.approx(slow_min_dcf(target, nontarget, *costs), abs=1e-12)
    assert kaldi == pytest.approx(kaldi_min_dcf(target, nontarget, *costs), abs=1e-12)
    assert exact <= min(1.0, kaldi)


def test_kaldi_min_dcf_omits_accepting_all() -> None:
    target, nontarget = [0.0, 3.0], [1.0, 2.0]
    assert metrics.min_dcf(target, nontarget, p_target=0.99, c_miss=1) == 1.0
    assert metrics.min_dcf(target, nontarget, p_target=0.99, c_miss=1, method="kaldi") > 1.0


def test_act_dcf_equals_hand_computation() -> None:
    # Bayes threshold ln(0.99 / 0.1) = 2.29: one of two targets is missed, one of four nontargets accepted
    assert metrics.act_dcf([3.0, 2.0], [2.5, 2.0, 0.0, -1.0]) == pytest.approx(0.5 + 9.9 / 4)
    calibrated = metrics.pav_llr(*TIES, method="exact")
    for p in (0.01, 0.3, 0.7):  # calibrated on themselves, LLRs leave nothing to be gained by another threshold
        assert metrics.act_dcf(*calibrated, p_target=p, c_miss=1) >= metrics.min_dcf(*calibrated, p_target=p, c_miss=1)
    exact = metrics.pav_llr(*TIES, method="exact", laplace=False)
    assert metrics.act_dcf(*exact, p_target=0.5, c_miss=1) == pytest.approx(
        metrics.min_dcf(*TIES, p_target=0.5, c_miss=1)
    )


def test_det_curve_counts_errors_at_every_threshold() -> None:
    target, nontarget = TIES
    curve = metrics.det_curve(target, nontarget)
    assert curve.p_miss == pytest.approx([np.mean(target <= t) for t in curve.threshold])
    assert curve.p_fa == pytest.approx([np.mean(nontarget > t) for t in curve.threshold])
    assert (curve.p_miss[0], curve.p_fa[0], curve.p_miss[-1], curve.p_fa[-1]) == (0.0, 1.0, 1.0, 0.0)


def test_hull_is_a_convex_part_of_the_det_curve() -> None:
    curve, hull = metrics.det_curve(*TIES), metrics.det_curve(*TIES, hull=True)
    points = set(zip(curve.p_miss, curve.p_fa, strict=True))
    assert set(zip(hull.p_miss, hull.p_fa, strict=True)) <= points
    slopes = np.diff(hull.p_fa) / np.maximum(np.diff(hull.p_miss), 1e-300)
    assert (np.diff(slopes) > 0).all()
    below = np.interp(curve.p_miss, hull.p_miss, hull.p_fa)  # nothing lies below the hull
    assert (curve.p_fa[1:] >= below[1:] - 1e-12).all()
    assert hull.p_miss == pytest.approx([np.mean(TIES[0] <= t) for t in hull.threshold])


@pytest.mark.parametrize("scores", [([], [1.0]), ([1.0], []), ([np.nan], [0.0]), ([[1.0]], [0.0]), (["x"], [0.0])])
def test_invalid_scores_are_rejected(scores: tuple[list[float], list[float]]) -> None:
    for metric in (metrics.eer, metrics.cllr, metrics.min_cllr, metrics.d_sys, metrics.zebra, metrics.min_dcf):
        with pytest.raises(InputError):
            metric(*scores)
    for other in (metrics.act_dcf, metrics.det_curve, metrics.pav_llr):
        with pytest.raises(InputError):
            other(*scores)


def test_unknown_options_are_rejected() -> None:
    with pytest.raises(InputError, match="rocch"):
        metrics.eer([1.0], [0.0], method="rock")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="exact or kaldi"):
        metrics.min_dcf([1.0], [0.0], method="nist")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="official or exact"):
        metrics.min_cllr([1.0], [0.0], method="x")  # type: ignore[arg-type]
    for p in (0.0, 1.0, -1.0):
        with pytest.raises(InputError, match="p_target"):
            metrics.min_dcf([1.0], [0.0], p_target=p)
    with pytest.raises(InputError, match="costs"):
        metrics.act_dcf([1.0], [0.0], c_miss=0)


def test_infinite_scores_count_by_their_order() -> None:
    finite = ([1.0, 2.0, 9.0], [-9.0, 1.5])
    infinite = ([1.0, 2.0, np.inf], [-np.inf, 1.5])
    for method in ("rocch", "rocch-official", "speechbrain", "kaldi"):
        assert metrics.eer(*finite, method=method) == metrics.eer(*infinite, method=method)
    assert metrics.min_dcf(*finite) == metrics.min_dcf(*infinite)
    assert metrics.min_cllr(*finite) == metrics.min_cllr(*infinite)
    assert metrics.zebra(*finite) == metrics.zebra(*infinite)
    with pytest.raises(InputError, match="finite"):
        metrics.d_sys(*infinite)


def test_weights_are_counts() -> None:
    """A weight of k is k equal trials: what the bootstrap rests on."""
    rng = np.random.default_rng(3)
    target, nontarget = np.round(rng.normal(1, 1, 50), 1), np.round(rng.normal(0, 1, 80), 1)
    times_target, times_nontarget = rng.integers(0, 4, 50), rng.integers(0, 4, 80)
    repeated = tally(np.repeat(target, times_target), np.repeat(nontarget, times_nontarget))
    score = np.unique(np.concatenate([target, nontarget]))
    weighted_target = np.bincount(np.searchsorted(score, target), times_target, len(score)).astype(float)
    weighted_nontarget = np.bincount(np.searchsorted(score, nontarget), times_nontarget, len(score)).astype(float)
    assert (weighted_target == 0).any()
    for kernel in (
        kernels.rocch_eer,
        kernels.rocch_eer_split,
        kernels.speechbrain_eer,
        kernels.kaldi_eer,
        kernels.pav_min_cllr,
        kernels.pav_information,
    ):
        assert kernel(weighted_target, weighted_nontarget) == pytest.approx(
            kernel(repeated.target, repeated.nontarget), abs=1e-12
        )
    for accept_all in (True, False):
        assert kernels.min_dcf(weighted_target, weighted_nontarget, 1.0, 2.0, accept_all) == pytest.approx(
            kernels.min_dcf(repeated.target, repeated.nontarget, 1.0, 2.0, accept_all), abs=1e-12
        )
