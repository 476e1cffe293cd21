"""The published results of the challenges' baselines, as points of reference.

They were measured by the challenges' own attackers and recognizers, not by those of this package: they show roughly
where others stand, not by how much one system is better.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Any

from voiceveil.evaluation.results import Figure, Results, challenge_attacker

__all__ = ["published"]


@lru_cache(maxsize=4)
def published(protocol: str) -> tuple[Results, ...]:
    """Return the published results of a protocol's baselines, e.g. of ``vpc2024``; none if there are none."""
    data = tomllib.loads((files("voiceveil.report") / "published.toml").read_text(encoding="utf-8"))
    return tuple(
        Results(row["system"], protocol, tuple(_figures(row)), {"source": row["file"]})
        for row in data["baseline"]
        if row["protocol"] == protocol
    )


def _figures(row: dict[str, Any]) -> list[Figure]:
    from voiceveil.official.names import trial_fields

    figures = []
    for name, value in row["eer"].items():
        fields: dict[str, Any] = dict(trial_fields(name) or {})
        attacker = challenge_attacker(row["attacker"], "aa")
        figures.append(Figure("eer", value, condition="aa", **attacker, **fields))
    for metric in ("wer", "uar"):
        for name, value in row.get(metric, {}).items():
            dataset = name.removesuffix("_asr")
            figures.append(Figure(metric, value, dataset, split=dataset.rpartition("_")[2], condition="a"))
    return figures
