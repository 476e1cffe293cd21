"""Analysis of variance with several factors between subjects, and the share of the variance that each effect explains.

Conventions: n observations (n,), each with one level of every factor. Effects are the factors and their interactions.
Sums of squares are of type III with levels coded as deviations from their mean: those of an effect are what the model
loses without it, whatever the numbers of observations in the cells. With equal numbers all types agree.

* ``eta_squared_partial``: SS_effect / (SS_effect + SS_error), as papers report it
* ``eta_squared``: SS_effect / SS_total
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voiceveil.core.errors import InputError

__all__ = ["Effect", "factorial_anova"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Effect:
    """A factor, or an interaction of ``factors``: its F statistic, p-value and effect sizes."""

    factors: tuple[str, ...]
    f: float
    df: int
    df_error: int
    p: float
    eta_squared: float
    eta_squared_partial: float

    @property
    def name(self) -> str:
        """Names of the factors, joined by ×."""
        return " × ".join(self.factors)


def factorial_anova(values: ArrayLike, factors: Mapping[str, Sequence[str]]) -> tuple[Effect, ...]:
    """Return the effects of all factors and interactions, main effects first.

    Factors with a single level are left out, and so are the interactions of the highest orders as long as some of their
    cells are empty.

    Parameters
    ----------
    values
        Observations (n,).
    factors
        Name of a factor -> its level in each observation.

    Returns
    -------
    tuple of Effect
        Empty if there are no two levels of any factor, or too few observations for an error term.

    Raises
    ------
    InputError
        If a value is not finite, or a factor has another number of levels than there are values.

    Examples
    --------
    >>> effects = factorial_anova([1.0, 2.0, 3.0, 4.0], {"group": ["a", "a", "b", "b"]})
    >>> round(effects[0].f, 6), effects[0].df_error, round(effects[0].eta_squared_partial, 6)
    (8.0, 2, 0.8)
    """
    from scipy.stats import f as f_distribution

    y = np.asarray(values, dtype=np.float64)
    for name, levels in factors.items():
        if len(levels) != len(y):
            raise InputError(f"the factor {name!r} has {len(levels)} levels for {len(y)} values")
    if y.ndim != 1 or not np.isfinite(y).all():
        raise InputError("the values of an analysis of variance must be finite")
    codes = {name: _deviations(levels) for name, levels in factors.items() if len(set(levels)) > 1}
    for order in range(len(codes), 0, -1):
        effects = [names for size in range(1, order + 1) for names in combinations(codes, size)]
        columns = {names: _product([codes[name] for name in names]) for names in effects}
        full = np.hstack([np.ones((len(y), 1)), *columns.values()])
        df_error = len(y) - full.shape[1]
        if df_error > 0 and np.linalg.matrix_rank(full) == full.shape[1]:
            break
    else:
        return ()
    error = _residual(full, y)
    total = float(((y - y.mean()) ** 2).sum())
    result = []
    for names in effects:
        rest = np.hstack([np.ones((len(y), 1)), *(part for key, part in columns.items() if key != names)])
        explained, df = max(0.0, _residual(rest, y) - error), columns[names].shape[1]
        f = explained / df / (error / df_error) if error > 0 else np.inf if explained > 0 else 0.0
        p = float(f_distribution.sf(f, df, df_error))
        partial = explained / (explained + error) if explained + error > 0 else 0.0
        result.append(Effect(names, float(f), df, df_error, p, explained / total if total > 0 else 0.0, partial))
    return tuple(result)


def _deviations(levels: Sequence[str]) -> Floats:
    """Return columns (n, levels - 1) that sum to zero over the levels: the last level is -1 in all."""
    names, code = np.unique(np.asarray(levels, dtype=np.str_), return_inverse=True)
    table = np.vstack([np.eye(len(names) - 1), -np.ones((1, len(names) - 1))])
    return np.asarray(table[code.reshape(-1)])


def _product(parts: Sequence[Floats]) -> Floats:
    """Return all products of columns of the parts, shape (n, product of their widths)."""
    product = parts[0]
    for part in parts[1:]:
        product = (product[:, :, None] * part[:, None, :]).reshape(len(part), -1)
    return product


def _residual(design: Floats, y: Floats) -> float:
    """Return the sum of squares that a linear model leaves."""
    solution = np.linalg.lstsq(design, y, rcond=None)[0]
    return float(((y - design @ solution) ** 2).sum())
