"""What holds for any scores: order, monotone maps, chance, extremes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from voiceveil import metrics

Floats = NDArray[np.float64]
Metric = Callable[[Floats, Floats], float]

#: Small whole numbers make ties; a map such as exp() keeps their order and their distinctness.
scores = st.lists(st.integers(-6, 6), min_size=1, max_size=25).map(lambda values: np.array(values, dtype=np.float64))

#: Metrics that depend on the order of the scores alone.
BY_ORDER: dict[str, Metric] = {
    "eer": metrics.eer,
    "eer rocch-official": lambda t, n: metrics.eer(t, n, method="rocch-official"),
    "eer speechbrain": lambda t, n: metrics.eer(t, n, method="speechbrain"),
    "eer kaldi": lambda t, n: metrics.eer(t, n, method="kaldi"),
    "min_dcf": metrics.min_dcf,
    "min_dcf kaldi": lambda t, n: metrics.min_dcf(t, n, method="kaldi"),
    "min_cllr": metrics.min_cllr,
    "min_cllr official": lambda t, n: metrics.min_cllr(t, n, method="official"),
    "zebra population": lambda t, n: metrics.zebra(t, n).population,
    "zebra individual": lambda t, n: metrics.zebra(t, n).individual,
    "zebra official": lambda t, n: metrics.zebra(t, n, method="official").individual,
}
ALL: dict[str, Metric] = BY_ORDER | {
    "cllr": metrics.cllr,
    "act_dcf": metrics.act_dcf,
    "d_sys": lambda t, n: metrics.d_sys(t, n, bins=4),
    "d_sys official": lambda t, n: metrics.d_sys(t, n, bins=4, method="official"),
}


@pytest.mark.parametrize("name", ALL)
@given(target=scores, nontarget=scores, seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_invariant_to_trial_order(name: str, target: Floats, nontarget: Floats, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shuffled = ALL[name](rng.permutation(target), rng.permutation(nontarget))
    assert shuffled == pytest.approx(ALL[name](target, nontarget), abs=1e-12)


@pytest.mark.parametrize("name", BY_ORDER)
@given(target=scores, nontarget=scores)
@settings(max_examples=60, deadline=None)
def test_invariant_to_monotone_maps(name: str, target: Floats, nontarget: Floats) -> None:
    metric = BY_ORDER[name]
    assert metric(np.exp(target / 3), np.exp(nontarget / 3)) == metric(target, nontarget)


@given(target=scores, nontarget=scores)
@settings(max_examples=100, deadline=None)
def test_d_sys_is_invariant_to_shift_and_scale(target: Floats, nontarget: Floats) -> None:
    moved = metrics.d_sys(2 * target + 8, 2 * nontarget + 8, bins=4)  # powers of two: exact
    assert moved == metrics.d_sys(target, nontarget, bins=4)


@given(target=scores, nontarget=scores)
@settings(max_examples=150, deadline=None)
def test_ranges_and_order_of_the_variants(target: Floats, nontarget: Floats) -> None:
    hull = metrics.eer(target, nontarget)
    assert 0.0 <= metrics.eer(target, nontarget, method="rocch-official") <= hull + 1e-12
    assert hull <= 0.5
    best = metrics.min_cllr(target, nontarget)
    assert 0.0 <= best <= 1.0 + 1e-12
    assert metrics.min_cllr(target, nontarget, method="official") <= best + 1e-6
    assert best <= metrics.cllr(target, nontarget) + 1e-12
    assert metrics.min_dcf(target, nontarget) <= min(1.0, metrics.act_dcf(target, nontarget) + 1e-12)
    assert 0.0 <= metrics.d_sys(target, nontarget, bins=4) <= 1.0 + 1e-12
    assert 0.0 <= metrics.zebra(target, nontarget).population <= 1 / np.log(4) + 1e-12


@given(target=scores, gap=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_perfect_separation_gives_the_extremes(target: Floats, gap: int) -> None:
    nontarget = target - (target.max() - target.min()) - gap
    for method in ("rocch", "rocch-official", "speechbrain", "kaldi"):
        assert metrics.eer(target, nontarget, method=method) == 0.0
    assert metrics.min_dcf(target, nontarget) == 0.0
    assert metrics.min_cllr(target, nontarget) == 0.0
    assert metrics.zebra(target, nontarget).population == pytest.approx(1 / np.log(4))
    # bins as wide as the gap or narrower keep the classes apart
    span = int(target.max() - nontarget.min())
    assert metrics.d_sys(target, nontarget, bins=2 * span) == pytest.approx(1.0)


@given(value=st.floats(-100, 100), n_target=st.integers(1, 9), n_nontarget=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_equal_scores_give_chance(value: float, n_target: int, n_nontarget: int) -> None:
    """One trial or many of the same score: chance, in every metric that is exact about ties."""
    target, nontarget = np.full(n_target, value), np.full(n_nontarget, value)
    assert metrics.eer(target, nontarget) == pytest.approx(0.5)
    assert metrics.eer(target, nontarget, method="speechbrain") == 0.5
    assert metrics.min_cllr(target, nontarget) == pytest.approx(1.0)
    assert metrics.min_dcf(target, nontarget) == 1.0
    assert metrics.d_sys(target, nontarget, bins=3) == 0.0
    zebra = metrics.zebra(target, nontarget)
    assert zebra.population == pytest.approx(0.0, abs=1e-12)


def test_shuffled_labels_give_chance() -> None:
    rng = np.random.default_rng(5)
    values = np.concatenate([rng.normal(3, 1, 4000), rng.normal(0, 1, 4000)])
    assert metrics.eer(values[:4000], values[4000:]) < 0.1
    shuffled = rng.permutation(values)
    target, nontarget = shuffled[:4000], shuffled[4000:]
    for method in ("rocch", "speechbrain", "kaldi"):
        assert metrics.eer(target, nontarget, method=method) == pytest.approx(0.5, abs=0.03)
    assert metrics.min_cllr(target, nontarget) > 0.99
    assert metrics.min_dcf(target, nontarget) > 0.97
    assert metrics.d_sys(target, nontarget) < 0.08
    assert metrics.zebra(target, nontarget).population < 0.01


def test_reversed_scores_are_worse_than_chance_only_without_a_hull() -> None:
    target, nontarget = np.zeros(10), np.ones(10)
    assert metrics.eer(target, nontarget) == pytest.approx(0.5)
    assert metrics.eer(target, nontarget, method="speechbrain") == 1.0
    assert metrics.eer(target, nontarget, method="kaldi") == 0.9
