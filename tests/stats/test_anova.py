"""Analysis of variance: sums of squares by hand, one factor as in scipy, unequal cells, effect sizes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import f_oneway

from voiceveil.core.errors import InputError
from voiceveil.stats.anova import factorial_anova


def balanced(levels: tuple[int, ...], repeats: int, seed: int) -> tuple[np.ndarray, dict[str, list[str]]]:
    rng = np.random.default_rng(seed)
    cells = [cell for cell in product(*(range(n) for n in levels)) for _ in range(repeats)]
    values = np.array([sum((i + 1) * level for i, level in enumerate(cell)) for cell in cells], dtype=float)
    factors = {f"f{i}": [f"level {cell[i]}" for cell in cells] for i in range(len(levels))}
    return values * rng.normal(size=len(cells)) + rng.normal(size=len(cells)), factors


def sums_of_squares_slowly(values: np.ndarray, a: list[str], b: list[str]) -> dict[str, float]:
    """The textbook formulas of two factors with equal cells: means of rows, columns and cells."""
    grand = float(values.mean())
    rows = {level: float(values[[x == level for x in a]].mean()) for level in a}
    columns = {level: float(values[[x == level for x in b]].mean()) for level in b}
    cells = {
        (i, j): float(values[[(x, y) == (i, j) for x, y in zip(a, b, strict=True)]].mean())
        for i in rows
        for j in columns
    }
    sums = {"a": 0.0, "b": 0.0, "ab": 0.0, "error": 0.0, "total": 0.0}
    for value, i, j in zip(values, a, b, strict=True):
        sums["a"] += (rows[i] - grand) ** 2
        sums["b"] += (columns[j] - grand) ** 2
        sums["ab"] += (cells[i, j] - rows[i] - columns[j] + grand) ** 2
        sums["error"] += (value - cells[i, j]) ** 2
        sums["total"] += (value - grand) ** 2
    return sums


@pytest.mark.parametrize("seed", range(3))
def test_two_factors_equal_the_textbook(seed: int) -> None:
    values, factors = balanced((3, 2), 5, seed)
    sums = sums_of_squares_slowly(values, factors["f0"], factors["f1"])
    effects = factorial_anova(values, factors)
    assert [(effect.name, effect.df, effect.df_error) for effect in effects] == [
        ("f0", 2, 24),
        ("f1", 1, 24),
        ("f0 × f1", 2, 24),
    ]
    for effect, key in zip(effects, ("a", "b", "ab"), strict=True):
        mean_square, error = sums[key] / effect.df, sums["error"] / effect.df_error
        assert effect.f == pytest.approx(mean_square / error)
        assert effect.eta_squared == pytest.approx(sums[key] / sums["total"])
        assert effect.eta_squared_partial == pytest.approx(sums[key] / (sums[key] + sums["error"]))


def test_one_factor_with_unequal_groups_equals_scipy() -> None:
    rng = np.random.default_rng(1)
    groups = [rng.normal(mean, 1.0, size) for mean, size in ((0.0, 4), (0.5, 9), (1.5, 6))]
    levels = [str(number) for number, group in enumerate(groups) for _ in group]
    (effect,) = factorial_anova(np.concatenate(groups), {"group": levels})
    expected = f_oneway(*groups)
    assert (effect.f, effect.p) == pytest.approx((expected.statistic, expected.pvalue))


def test_three_factors_have_the_degrees_of_freedom_of_the_overview() -> None:
    """72 evaluators in 2 x 2 x 2 cells: F(1, 64), as in section 4.2.3 of the overview of 2020."""
    values, factors = balanced((2, 2, 2), 9, 4)
    effects = factorial_anova(values, factors)
    assert len(effects) == 7
    assert {(effect.df, effect.df_error) for effect in effects} == {(1, 64)}


def test_an_effect_is_what_the_model_loses_without_it_also_with_unequal_cells() -> None:
    """With two levels each, type III compares unweighted means of cells: by hand for the first factor."""
    cells = {("x", "u"): [1.0, 2.0], ("x", "v"): [4.0, 5.0, 6.0], ("y", "u"): [3.0], ("y", "v"): [7.0, 9.0]}
    values = [value for members in cells.values() for value in members]
    levels = [cell for cell, members in cells.items() for _ in members]
    effects = factorial_anova(values, {"a": [a for a, _ in levels], "b": [b for _, b in levels]})
    contrast = (
        np.mean(cells["x", "u"]) + np.mean(cells["x", "v"]) - np.mean(cells["y", "u"]) - np.mean(cells["y", "v"])
    ) / 2
    spread = sum(1 / len(members) for members in cells.values()) / 4
    error = sum(((np.array(members) - np.mean(members)) ** 2).sum() for members in cells.values()) / 4
    assert effects[0].f == pytest.approx(contrast**2 / spread / error)


def test_empty_cells_and_single_levels_leave_effects_out() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 7.0]
    factors = {"a": list("xxyyyy"), "b": list("uvuuuu"), "c": list("zzzzzz")}
    assert [effect.name for effect in factorial_anova(values, factors)] == ["a", "b"]
    assert factorial_anova([1.0, 2.0], {"a": ["x", "y"]}) == ()  # nothing is left for the error
    assert factorial_anova([1.0, 2.0], {"a": ["x", "x"]}) == ()
    (constant,) = factorial_anova([1.0] * 4, {"a": list("xxyy")})
    assert (constant.f, constant.p, constant.eta_squared_partial) == (0.0, 1.0, 0.0)


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="'a' has 1 levels for 2 values"):
        factorial_anova([1.0, 2.0], {"a": ["x"]})
    with pytest.raises(InputError, match="must be finite"):
        factorial_anova([1.0, np.nan], {"a": ["x", "y"]})
