"""Measured protection, word error rate and speed of the systems: ``measured.toml``, with the command of each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Measured", "Rate", "measured"]


@dataclass(frozen=True)
class Rate:
    """A rate in %, with its 95% interval over speakers."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:g}% [{self.low:g}, {self.high:g}]"


@dataclass(frozen=True)
class Measured:
    """Figures of a system, and how they were measured.

    ``eer``: equal error rate of the strongest attacker, women and men, or the mean of both. ``speed``: times real time
    on one core. ``original_wer``: of the original speech. None: not measured.
    """

    eer: tuple[Rate, ...]
    wer: Rate
    speed: float | None
    knowledge: str
    attacker: str
    command: str
    corpus: str
    recognizer: str
    page: str
    original_wer: Rate | None = None

    @property
    def lowest_eer(self) -> float:
        """Return the EER of the less protected gender, in %."""
        return min(rate.value for rate in self.eer)


@cache
def measured() -> dict[str, Measured]:
    """Return the figures of every system that was measured, by name."""
    data = tomllib.loads((Path(__file__).parent / "measured.toml").read_text(encoding="utf-8"))
    figures = {}
    for name, row in data["systems"].items():
        measurement = data["measurements"][row.pop("measurement")]
        rates: dict[str, Any] = {
            "eer": tuple(Rate(*values) for values in row.pop("eer")),
            "wer": Rate(*row.pop("wer")),
        }
        if "original_wer" in measurement:
            rates["original_wer"] = Rate(*measurement["original_wer"])
        figures[name] = Measured(**{"speed": None, **measurement, **row, **rates})
    return figures
