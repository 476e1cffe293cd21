"""The published results of the challenges' baselines, as points of reference.

They were measured by the challenges' own attackers and recognizers, not by those of this package: they show roughly
where others stand, not by how much one system is better.
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from importlib.resources import files
from typing import Any

from voiceveil.core.tables import Table
from voiceveil.evaluation.averages import dataset_of, weighted_average
from voiceveil.evaluation.protocol import Protocol
from voiceveil.evaluation.results import Figure, Results, challenge_attacker
from voiceveil.metrics.catalog import metric_info

__all__ = ["published", "published_table"]


#: Metrics of published figures that have an average.
_METRICS = ("eer", "wer", "uar", "pitch_correlation", "gvd")


@lru_cache(maxsize=8)
def published(protocol: str, *, superseded: bool = False) -> tuple[Results, ...]:
    """Return the published results of a protocol's baselines; none if there are none.

    Their ``info`` holds the ``edition`` of the challenge, the ``version`` of the publication, and its ``source``: a
    file or tables.

    Parameters
    ----------
    protocol
        E.g. ``vpc2024``.
    superseded
        Also return figures that a later version of the publication replaced.
    """
    data = tomllib.loads((files("voiceveil.report") / "published.toml").read_text(encoding="utf-8"))
    return tuple(
        Results(
            row["system"],
            protocol,
            tuple(_figures(row)),
            {"source": row["file"], "edition": protocol.removeprefix("vpc"), "version": row["version"]},
        )
        for row in data["baseline"]
        if row["protocol"] == protocol and (superseded or not row.get("superseded", False))
    )


def published_table(protocol: Protocol) -> Table | None:
    """Return the averages of a challenge's published baselines, also of superseded versions; None if there are none.

    Averages are weighted as the protocol says; rates are in percent, G_VD in dB.
    """
    baselines = published(protocol.name, superseded=True)
    columns = [
        (metric, split)
        for metric in _METRICS
        if metric in protocol.metrics
        for split in protocol.splits()
        if any(results.find(metric, split=split) for results in baselines)
    ]
    if not columns:
        return None
    headings = [f"{metric_info(metric).title} {split}" for metric, split in columns]
    rows = [
        (
            results.system,
            f"{results.info['edition']}, {results.info['version']}",
            *(_average(results, protocol, metric, split) for metric, split in columns),
        )
        for results in baselines
    ]
    return Table(("baseline", "edition and version", *headings), tuple(rows))


def _average(results: Results, protocol: Protocol, metric: str, split: str) -> str:
    figures = {dataset_of(figure): figure for figure in results.find(metric, split=split)}
    weights = protocol.weights(metric, split)
    if not set(weights) <= set(figures):
        return "–"
    value = weighted_average([(weight, figures[name]) for name, weight in weights.items()]).value
    return f"{100 * value:.2f}%" if metric_info(metric).unit == "%" else f"{value:.2f}"


def _figures(row: dict[str, Any]) -> list[Figure]:
    from voiceveil.official.names import trial_fields

    figures = []
    for name, value in row["eer"].items():
        fields: dict[str, Any] = dict(trial_fields(name) or {})
        attacker = challenge_attacker(row["attacker"], "aa")
        figures.append(Figure("eer", value, condition="aa", **attacker, **fields))
    for metric in ("pitch_correlation", "gvd"):
        for name, value in row.get(metric, {}).items():
            fields = dict(trial_fields(name) or {})
            figures.append(Figure(metric, value, **fields))
    for metric in ("wer", "uar"):
        for name, value in row.get(metric, {}).items():
            dataset = name.removesuffix("_asr")
            figures.append(Figure(metric, value, dataset, split=dataset.rpartition("_")[2], condition="a"))
    return figures
