"""Estimates: values with confidence intervals.

Conventions: values, limits and standard errors are in the metric's own unit, rates as fractions in [0, 1]; a *level*
is the fraction of repetitions in which the interval covers the true value, 0.95 unless said otherwise. A repetition
has other speakers of the same population, recorded and attacked in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Difference", "Estimate"]


def _decimals(half_width: float, scale: float) -> int:
    """Return the number of decimals with which the half-width shows two digits, 1 to 4."""
    if not 0.0 < half_width < math.inf:
        return 1 if scale == 100.0 else 3
    return min(max(1 - math.floor(math.log10(half_width * scale)), 1), 4)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Estimate:
    """A value with its interval ``[low, high]``; ``n`` is the number of independent units ``of`` speakers or trials.

    >>> print(Estimate(0.075, 0.059, 0.092, n=20, unit="%"))
    7.5% [5.9, 9.2]
    """

    value: float
    low: float
    high: float
    se: float = math.nan  # standard error, on the scale of the value
    n: int = 0
    of: str = "speakers"
    level: float = 0.95
    unit: str = ""  # "%": a fraction, shown in percent; "bit"; or none

    def __str__(self) -> str:
        scale = 100.0 if self.unit == "%" else 1.0
        digits = _decimals((self.high - self.low) / 2.0, scale)
        value, low, high = (f"{x * scale:.{digits}f}" for x in (self.value, self.low, self.high))
        unit = f" {self.unit}" if self.unit and self.unit != "%" else self.unit
        return f"{value}{unit} [{low}, {high}]"

    def as_dict(self) -> dict[str, float | int | str | None]:
        """Return plain values for JSON; infinities and NaN become None."""
        return {
            "value": _finite(self.value),
            "low": _finite(self.low),
            "high": _finite(self.high),
            "level": self.level,
            "n": self.n,
            "of": self.of,
            "unit": "fraction" if self.unit == "%" else self.unit,
        }


@dataclass(frozen=True)
class Difference(Estimate):
    """The second system minus the first, on the same trials; ``p_value`` is two-sided, for no true difference.

    >>> print(Difference(-0.02, -0.031, -0.009, n=20, unit="%", p_value=0.0012))
    -2.0% [-3.1, -0.9], p = 0.0012
    """

    p_value: float = math.nan

    def __str__(self) -> str:
        p = f"p = {self.p_value:.2g}" if self.p_value >= 1e-4 else "p < 0.0001"
        return f"{super().__str__()}, {p}"

    def as_dict(self) -> dict[str, float | int | str | None]:
        """Return plain values for JSON; infinities and NaN become None."""
        return {**super().as_dict(), "p_value": self.p_value}
