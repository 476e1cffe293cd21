"""Results of an evaluation: figures that say what they are, in ``results.json``.

Conventions: rates are fractions in [0, 1]; G_VD is in dB; ``low`` and ``high`` are the ends of a 95 % interval, None
where there is none (published figures have none). ``conditions`` of a verification figure are two letters, enrollment
then trial, ``o`` for original and ``a`` for anonymized: ``oo``, ``oa``, ``aa``.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voiceveil.audio import atomic_path
from voiceveil.errors import InputError

__all__ = ["Figure", "Results"]

_FORMAT = "voiceveil results 1"


@dataclass(frozen=True)
class Figure:
    """One number: which metric, of what, under which conditions, by which model."""

    metric: str  # "eer", "wer", "uar", "pitch_correlation", "gvd", "deid", "min_cllr", ...
    value: float
    dataset: str  # "libri_dev", "vctk_test", "IEMOCAP_dev"
    low: float | None = None
    high: float | None = None
    split: str = ""  # "dev" | "test"
    gender: str = ""  # "f" | "m" | "" for both
    subset: str = ""  # "common" of VCTK
    conditions: str = ""  # "oo" | "oa" | "aa" for verification; "o" | "a" for a corpus alone
    model: str = ""  # the attacker or evaluator: "campplus ignorant", "moonshine-tiny"
    detail: Mapping[str, Any] = field(default_factory=dict)  # counts, recalls, standard deviations

    def __str__(self) -> str:
        where = " ".join(filter(None, [self.dataset, self.subset, self.gender, self.conditions, self.model]))
        return f"{self.metric} {self.value:.4g} ({where})"


@dataclass(frozen=True)
class Results:
    """All figures of one system under one protocol, and how they came about."""

    system: str
    protocol: str
    figures: tuple[Figure, ...]
    info: Mapping[str, Any] = field(
        default_factory=dict
    )  # versions, seeds, hashes, parameters, health, what is missing

    def find(self, metric: str, **wanted: str) -> tuple[Figure, ...]:
        """The figures of a metric, e.g. ``find("eer", split="test", conditions="aa")``."""
        return tuple(
            figure
            for figure in self.figures
            if figure.metric == metric and all(getattr(figure, key) == value for key, value in wanted.items())
        )

    def one(self, metric: str, **wanted: str) -> Figure:
        """The only such figure; an ``InputError`` if there is none or more than one."""
        found = self.find(metric, **wanted)
        if len(found) != 1:
            which = ", ".join(f"{key} {value!r}" for key, value in wanted.items())
            raise InputError(f"{self.system}: {len(found)} figures for {metric} with {which}, not one")
        return found[0]

    def save(self, path: Path) -> None:
        """Write ``results.json``, atomically."""
        data = {"format": _FORMAT, **dataclasses.asdict(self)}
        with atomic_path(path) as part:
            part.write_text(json.dumps(_plain(data), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read ``results.json``."""
        try:
            data = json.loads(path.read_text())
        except OSError as error:
            raise InputError(f"cannot read: {error.strerror}", where=path) from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"not JSON: {error}", where=path) from error
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise InputError("not the results of an evaluation", where=path, fix="give a results.json")
        try:
            figures = tuple(_figure(row) for row in data["figures"])
            return cls(str(data["system"]), str(data["protocol"]), figures, dict(data.get("info", {})))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"a figure is not of the right form: {error}", where=path) from error


def _figure(row: Any) -> Figure:
    numbers = {key: float(row[key]) for key in ("value", "low", "high") if row.get(key) in ("inf", "-inf")}
    figure = Figure(**{**row, **numbers})
    if not isinstance(figure.value, int | float):
        raise TypeError(f"{figure.metric} is not a number")
    return figure


def _plain(value: Any) -> Any:
    """JSON as the standard has it: an infinity (a Cllr may be one) becomes "inf", NaN becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
