"""The results of a listening test for other programs: tables as CSV, everything as JSON.

Conventions: a cell of a CSV file that a spreadsheet would take for a formula gets an apostrophe before it. The files
hold no names, but the evaluators' answers about their background: treat them as personal data.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from voiceveil.apps.listen.analysis import ASPECTS, Agreement, Analysis, Group, Share
from voiceveil.apps.listen.clusters import SystemClustering
from voiceveil.apps.listen.objective import Comparison
from voiceveil.core.atomic_files import atomic_path
from voiceveil.stats.values import Estimate

__all__ = ["plain", "tables", "write_csv"]

Rows = list[list[object]]


def tables(analysis: Analysis) -> dict[str, Rows]:
    """Return file name -> rows, the heading first."""
    kept = {person.name for person in analysis.kept}
    asked = sorted({key for person in analysis.responses.people for key in person.background})
    fields = ["evaluator", "item", "question", "source", "same", "speaker", "other", "utterance", "value"]
    rank = {(r.evaluator, r.item, r.question): v for r, v in zip(analysis.ratings, analysis.normalized, strict=True)}
    ratings: Rows = [[*fields, "normalized", "kept"]]
    for rating in analysis.responses.ratings:
        normalized = rank.get((rating.evaluator, rating.item, rating.question))
        number = "" if normalized is None else f"{normalized:.6f}"
        ratings.append([*(getattr(rating, key) for key in fields), number, rating.evaluator in kept])
    people: Rows = [
        ["evaluator", "kept", "finished", "items", "attention_right", "attention", "headphones_right", "headphones",
         "seconds", "plays", *asked]
    ]  # fmt: skip
    for person in analysis.responses.people:
        checks = [*person.attention, *person.headphones]
        background = [person.background.get(key, "") for key in asked]
        row = [person.name, person.name in kept, person.finished, person.items, *checks, round(person.seconds, 1)]
        people.append([*row, person.plays, *background])
    preferences: Rows = [["evaluator", "item", "first", "second", "chosen", "speaker", "kept"]]
    preferences += [
        [*asdict(preference).values(), preference.evaluator in kept] for preference in analysis.responses.preferences
    ]
    tables = {"ratings": ratings, "evaluators": people, "preferences": preferences, **_panel_tables(analysis)}
    return {name: rows for name, rows in tables.items() if len(rows) > 1}


def _panel_tables(analysis: Analysis) -> dict[str, Rows]:
    panels: Rows = [
        ["evaluator", "panel", "system", "gender", "f1", "purity", "change", "clusters", "distractor_alone"]
    ]
    excerpts: Rows = [["evaluator", "panel", "excerpt", "utterance", "speaker", "source", "cluster"]]
    moves: Rows = [["evaluator", "panel", "number", "excerpt", "cluster"]]
    for score in analysis.clustering.scores if analysis.clustering else ():
        panel = score.panel
        figures = [f"{value:.6f}" for value in (score.f1, score.purity, score.change)]
        panels.append([panel.evaluator, panel.item, panel.system, panel.gender, *figures, score.clusters, score.alone])
        for number, row in enumerate(zip(panel.utterances, panel.speakers, panel.sources, panel.clusters, strict=True)):
            excerpts.append([panel.evaluator, panel.item, number + 1, *row])
        for number, (excerpt, cluster) in enumerate(panel.moves):
            moves.append([panel.evaluator, panel.item, number + 1, int(excerpt) + 1, cluster])
    return {"panels": panels, "excerpts": excerpts, "moves": moves}


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write a table."""
    with atomic_path(path) as part, part.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)


def _cell(value: object) -> str:
    text = str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def plain(analysis: Analysis, compared: Sequence[Comparison]) -> dict[str, Any]:
    """Return all results as plain values; intervals are objects with value, low and high."""
    clustering, effects = analysis.clustering, analysis.cluster_effects
    groups = {aspect: analysis.groups[aspect] for aspect in ASPECTS if aspect in analysis.groups}
    return {
        "format": "voiceveil listening analysis 1",
        "study": analysis.study.name,
        "systems": list(analysis.study.systems),
        "evaluators": {"consented": len(analysis.responses.people), "kept": len(analysis.kept)},
        "aspects": {
            aspect: {source: _group(group) for source, group in rows.items()} for aspect, rows in groups.items()
        },
        "tests": {
            aspect: [{"first": a, "second": b, **asdict(test)} for (a, b), test in tests.items()]
            for aspect, tests in analysis.tests.items()
        },
        "det": {title: {det.source: det.eer.as_dict() for det in dets} for title, dets in analysis.dets.items()},
        "agreement": [_agreement(agreement) for agreement in analysis.agreement],
        "preferences": [_share(share) for share in analysis.preferences],
        "clustering": None if clustering is None else {name: _system(row) for name, row in clustering.systems.items()},
        "cluster_effects": None
        if effects is None
        else {name: list(map(asdict, e)) for name, e in effects.effects.items()},
        "objective": [{key: value for key, value in comparison.items() if key != "drawing"} for comparison in compared],
    }


def _group(group: Group) -> dict[str, Any]:
    estimates = {"raw_mean": group.raw, "mean": group.mean, "median": group.median}
    return {"ratings": len(group.normalized), **{key: value.as_dict() for key, value in estimates.items()}}


def _agreement(agreement: Agreement) -> dict[str, Any]:
    return {
        **asdict(agreement),
        "alpha": _finite(agreement.alpha),
        "alpha_normalized": _finite(agreement.alpha_normalized),
    }


def _share(share: Share) -> dict[str, Any]:
    pair = {"first": share.first, "second": share.second, "second_preferred": share.share.as_dict()}
    return {**pair, "answers": share.count, "p": share.p, "p_adjusted": share.p_adjusted}


def _system(row: SystemClustering) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in vars(row).items():
        fields[key] = value.as_dict() if isinstance(value, Estimate) else value
    fields["purity_test"] = None if row.purity_test is None else asdict(row.purity_test)
    return fields


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
