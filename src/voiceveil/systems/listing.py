"""The list of systems: what each does, its parameters, and figures that were measured (``measured.toml``)."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, overload

from voiceveil.core.tables import Table, Tabular
from voiceveil.systems.contract import systems
from voiceveil.systems.parameters import describe

__all__ = ["Measured", "Rate", "SystemInfo", "SystemList", "list_systems", "measured"]


@dataclass(frozen=True)
class SystemInfo:
    """Description of a system.

    ``summary`` is the first line of ``text``; ``source`` its publication; ``rate`` is in Hz; ``parameters`` have name,
    type, default and help.
    """

    name: str
    summary: str
    text: str
    source: str
    rate: int
    parameters: tuple[dict[str, Any], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "parameters": list(self.parameters)}


@dataclass(frozen=True)
class SystemList(Tabular, Sequence[SystemInfo]):
    """Systems in alphabetical order."""

    systems: tuple[SystemInfo, ...]

    @overload
    def __getitem__(self, index: int) -> SystemInfo: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SystemInfo, ...]: ...
    def __getitem__(self, index: int | slice) -> SystemInfo | tuple[SystemInfo, ...]:
        return self.systems[index]

    def __len__(self) -> int:
        return len(self.systems)

    def __iter__(self) -> Iterator[SystemInfo]:
        return iter(self.systems)

    def records(self) -> list[dict[str, Any]]:
        """Return one record per system; parameters as ``name=default`` separated by spaces."""
        return [
            {
                "name": system.name,
                "summary": system.summary,
                "source": system.source,
                "rate": system.rate,
                "parameters": " ".join(f"{entry['name']}={entry['default']}" for entry in system.parameters),
            }
            for system in self.systems
        ]

    def table(self) -> Table:
        """Return names, summaries and sources."""
        rows = tuple((system.name, system.summary, system.source) for system in self.systems)
        return Table(("system", "summary", "source"), rows)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return {"systems": [system.as_dict() for system in self.systems]}


def list_systems(names: Iterable[str] | None = None) -> SystemList:
    """Return the anonymization systems, with summaries and parameters; prints a table.

    Parameters
    ----------
    names
        Names of systems (default: all).

    Examples
    --------
    >>> import voiceveil as vv
    >>> [system.name for system in vv.systems() if system.name.startswith("b2")]
    ['b2', 'b2-2020', 'b2-2022']
    """
    return SystemList(tuple(_info(name) for name in (systems if names is None else names)))


def _info(name: str) -> SystemInfo:
    cls = systems[name]
    text = inspect.cleandoc(cls.__doc__ or "")
    return SystemInfo(name, text.partition("\n")[0], text, cls.source, cls.rate, tuple(describe(cls)))


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
