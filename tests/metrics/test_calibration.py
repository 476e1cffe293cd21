"""Cllr, PAV, ZEBRA and D_sys: against slow twins, numerical integration and the official LLRs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.metrics.test_verification import SEPARATED, TIES
from tests.support.paths import GOLDEN
from voiceveil import InputError, metrics
from voiceveil.metrics import kernels
from voiceveil.metrics.disclosure import NO_PRIVACY, zebra_tag

Floats = NDArray[np.float64]


def slow_pav(labels: Floats, weights: Floats) -> Floats:
    """Isotonic regression by its min-max formula: min over ends >= i of max over starts <= i of the mean between."""
    n = len(labels)
    fit = np.empty(n)
    for i in range(n):
        fit[i] = min(
            max(np.average(labels[a : b + 1], weights=weights[a : b + 1]) for a in range(i + 1)) for b in range(i, n)
        )
    return fit


def slow_llr(target: Floats, nontarget: Floats, laplace: bool, official: bool) -> tuple[Floats, Floats]:
    scores = np.concatenate([nontarget, target])
    labels = np.concatenate([np.zeros(len(nontarget)), np.ones(len(target))])
    order = np.argsort(scores, kind="stable")
    sorted_labels, weights, group = labels[order], np.ones(len(labels)), np.arange(len(labels))
    if not official:
        group = np.unique(scores[order], return_inverse=True)[1]
        weights = np.bincount(group).astype(float)
        sorted_labels = np.bincount(group, sorted_labels) / weights
    if laplace:
        sorted_labels = np.concatenate([[1, 0], sorted_labels, [1, 0]])
        weights = np.concatenate([[1, 1], weights, [1, 1]])
    posterior = slow_pav(sorted_labels, weights)
    posterior = posterior[2:-2] if laplace else posterior
    with np.errstate(divide="ignore"):
        llr = np.log(posterior) - np.log1p(-posterior) - np.log(len(target) / len(nontarget))
    result = np.empty(len(scores))
    result[order] = llr[group] + (np.arange(len(scores)) * 1e-6 / len(scores) if official else 0.0)
    return result[len(nontarget) :], result[: len(nontarget)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("method", ["official", "exact"])
def test_pav_llr_equals_its_slow_twin(seed: int, laplace: bool, method: str) -> None:
    rng = np.random.default_rng(seed)
    target, nontarget = np.round(rng.normal(1, 1, 12), 1), np.round(rng.normal(0, 1, 15), 1)
    expected = slow_llr(target, nontarget, laplace, method == "official")
    actual = metrics.pav_llr(target, nontarget, laplace=laplace, method=method)  # type: ignore[arg-type]
    np.testing.assert_allclose(actual[0], expected[0], atol=1e-12)
    np.testing.assert_allclose(actual[1], expected[1], atol=1e-12)


def test_pav_llr_equals_stored_figures() -> None:
    """The first official LLRs of the tied scores, and those of separated ones with Laplace's rule."""
    target, nontarget = metrics.pav_llr(*TIES, laplace=False)
    assert target[:4] == pytest.approx(
        [1.5505983186611672, 1.7917604442280555, 1.5505983436611672, -0.44183246477903887], abs=1e-9
    )
    assert nontarget[0] == pytest.approx(-0.44183251477903884, abs=1e-9)
    assert nontarget[1] == -np.inf
    target, nontarget = metrics.pav_llr(*SEPARATED, laplace=True)
    assert target[:2] == pytest.approx([3.713572691704307, 3.7135728167043065], abs=1e-9)
    assert nontarget[:2] == pytest.approx([-3.713571691704307, -3.7135718167043072], abs=1e-9)


@pytest.mark.parametrize("name", ["tiny_sep", "tiny_ties", "gauss_small", "libri_test_f"])
def test_pav_llr_equals_the_official_code(name: str) -> None:
    with np.load(GOLDEN / f"scores_{name}.npz") as data:
        for laplace, suffix in ((False, ""), (True, "_laplace")):
            target, nontarget = metrics.pav_llr(data["tar"], data["non"], laplace=laplace)
            np.testing.assert_allclose(target, data[f"tar_llr_pav{suffix}"], atol=1e-9)
            np.testing.assert_allclose(nontarget, data[f"non_llr_pav{suffix}"], atol=1e-9)


def test_cllr_equals_its_definition() -> None:
    target, nontarget = np.array([1.0, -0.5]), np.array([-2.0, 0.3, 0.1])
    expected = np.mean(np.log2(1 + np.exp(-target))) / 2 + np.mean(np.log2(1 + np.exp(nontarget))) / 2
    assert metrics.cllr(target, nontarget) == pytest.approx(expected, abs=1e-15)


def test_cllr_of_infinite_llrs() -> None:
    assert metrics.cllr([np.inf], [-np.inf]) == 0.0
    assert metrics.cllr([-np.inf], [-np.inf]) == np.inf
    assert metrics.cllr([np.inf], [np.inf]) == np.inf
    assert metrics.cllr([-1000.0], [-np.inf]) == pytest.approx(1000 / np.log(2) / 2)  # no underflow


def test_min_cllr_is_the_cllr_of_the_pav_llrs() -> None:
    for laplace in (True, False):
        for method in ("official", "exact"):
            llrs = metrics.pav_llr(*TIES, laplace=laplace, method=method)
            actual = metrics.min_cllr(*TIES, laplace=laplace, method=method)
            assert actual == pytest.approx(metrics.cllr(*llrs), abs=1e-12)
    assert metrics.min_cllr(*TIES, laplace=True) > metrics.min_cllr(*TIES)


@pytest.mark.parametrize("llr", [-8.0, -1.0, -0.051, -0.049, -1e-4, 0.0, 1e-7, 0.02, 0.06, 1.0, 12.0])
def test_ece_information_is_its_integral(llr: float) -> None:
    from scipy.integrate import quad

    def integrand(p: float) -> float:
        return float(p * np.log1p((1 - p) / p * np.exp(-llr)))

    expected, _ = quad(integrand, 0.0, 1.0, epsabs=1e-13, limit=200)
    assert kernels.ece_information(llr) == pytest.approx(expected, abs=1e-9)


def test_zebra_population_is_the_area_between_entropies() -> None:
    target, nontarget = metrics.pav_llr(*TIES, laplace=False, method="exact")
    p = np.linspace(0.0, 1.0, 20_002)[1:-1]
    log_odds = np.log(p / (1 - p))
    miss = np.logaddexp(0, -(target[:, None] + log_odds)).mean(axis=0)
    alarm = np.logaddexp(0, nontarget[:, None] + log_odds).mean(axis=0)
    prior = p * np.logaddexp(0, -log_odds) + (1 - p) * np.logaddexp(0, log_odds)
    area = np.sum(prior - p * miss - (1 - p) * alarm) * (p[1] - p[0]) / np.log(2)
    assert metrics.zebra(*TIES).population == pytest.approx(area, abs=1e-6)


def test_zebra_extremes() -> None:
    nothing = metrics.zebra([1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    assert (nothing.population, nothing.individual, nothing.tag) == (0.0, 0.0, "0")
    everything = metrics.zebra(*SEPARATED)
    assert everything.population == pytest.approx(NO_PRIVACY)
    assert everything.individual == pytest.approx(np.log10(41))  # Laplace: 40 and 1 against 0 and 1
    assert str(everything) == "Population: 0.721 bit, individual: 1.613 (B)"


def test_zebra_tags() -> None:
    bounds = [0.0, 0.5, 1.0, 2.0, 4.0, 5.0, 6.0, np.log10(100) - 1e-15]
    assert [zebra_tag(x) for x in bounds] == ["0", "A", "B", "C", "D", "E", "F", "C"]


def slow_d_sys(target: Floats, nontarget: Floats, omega: float, bins: int) -> float:
    """The integral of p(s | mated) D(s) on a fine grid, with histograms for densities."""
    edges = np.linspace(min(target.min(), nontarget.min()), max(target.max(), nontarget.max()), bins + 1)
    mated = np.histogram(target, edges, density=True)[0]
    other = np.histogram(nontarget, edges, density=True)[0]
    grid = np.linspace(edges[0], edges[-1], 200 * bins, endpoint=False) + (edges[-1] - edges[0]) / (400 * bins)
    place = np.searchsorted(edges, grid, side="right") - 1
    total = 0.0
    for m, o in zip(mated[place], other[place], strict=True):
        if m > 0:
            ratio = np.inf if o == 0 else omega * m / o
            d = 1.0 if ratio == np.inf else max(0.0, 2 * ratio / (1 + ratio) - 1)
            total += m * d
    return float(total * (grid[1] - grid[0]))


@pytest.mark.parametrize("omega", [0.3, 1.0, 4.0])
def test_d_sys_is_the_integral_of_its_densities(omega: float) -> None:
    rng = np.random.default_rng(2)
    target, nontarget = rng.normal(1, 1, 150), rng.normal(0, 1, 400)
    assert metrics.d_sys(target, nontarget, omega=omega) == pytest.approx(
        slow_d_sys(target, nontarget, omega, 15), abs=1e-9
    )


def test_d_sys_official_loses_half_a_bin_at_each_end() -> None:
    assert metrics.d_sys(*SEPARATED, method="official") == 0.75
    assert metrics.d_sys(*SEPARATED) == 1.0


def test_d_sys_edge_cases() -> None:
    assert metrics.d_sys(np.ones(20), np.ones(5)) == 0.0
    with pytest.raises(InputError, match="too few"):
        metrics.d_sys(np.arange(19.0), np.arange(100.0))
    assert metrics.d_sys([2.0], [1.0], bins=2) == 1.0
    with pytest.raises(InputError, match="bins = 0"):
        metrics.d_sys(*TIES, bins=0)
    with pytest.raises(InputError, match="omega"):
        metrics.d_sys(*TIES, omega=0)
    with pytest.raises(InputError, match="exact or official"):
        metrics.d_sys(*TIES, method="trapz")  # type: ignore[arg-type]
