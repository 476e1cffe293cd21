"""The export of a board: tables of all submissions and figures, and results that other commands read."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from voiceveil.apps.board.contest import TDSV, Contest
from voiceveil.apps.board.entries import all_entries, board_entries
from voiceveil.apps.board.store import Store
from voiceveil.core.atomic_files import atomic_path
from voiceveil.evaluation.protocol import protocol_document
from voiceveil.evaluation.results import Results

__all__ = ["write_export"]

_SUBMISSION = ("id", "team", "system", "submitted", "state", "late", "status", "reason", "sha256", "description")
_FIGURE = ("id", "team", "system", "kind", "metric", "dataset", "subset", "gender", "value", "low", "high", "by")
_END_OF_TIME = float("inf")  # nothing is hidden then


def write_export(contest: Contest, store: Store, out: Path) -> list[Path]:
    """Write the tables and results of a contest into the new folder ``out``, and return the files."""
    entries = all_entries(contest, store, store.all())
    rows, figures = [], []
    for entry in entries:
        own = entry.submission
        status = entry.status() if own.state == "scored" else own.state
        rows.append(
            (own.id, own.team, own.system, datetime.fromtimestamp(own.submitted, UTC).isoformat(timespec="seconds"),
             own.state, entry.late, status, own.reason, own.sha256, entry.description)
        )  # fmt: skip
        recomputed = entry.verification.figures if entry.verification is not None else ()
        for kind, listed in (("submitted", own.figures), ("recomputed", recomputed)):
            figures += [
                (own.id, own.team, own.system, kind, f.metric, f.dataset, f.subset, f.gender, f.value, f.low, f.high,
                 f.evaluator)
                for f in listed
            ]  # fmt: skip
    files = [
        _write_csv(out / "submissions.csv", _SUBMISSION, rows),
        _write_csv(out / "figures.csv", _FIGURE, figures),
    ]
    if contest.protocol == TDSV:
        return files
    info = {"protocol": protocol_document(contest.rules)}
    for entry in board_entries(contest, store, _END_OF_TIME).values():
        if entry.disqualified:  # it would be ranked with the others
            continue
        own = entry.submission
        place = out / "results" / own.team / f"{own.system}{'-late' if entry.late else ''}" / "results.json"
        results = Results(entry.name, contest.rules.name, entry.figures, info)
        with atomic_path(place) as part:
            part.write_text(json.dumps(results.as_dict(), indent=1) + "\n", encoding="utf-8")
        files.append(place)
    return files


def _write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Path:
    with atomic_path(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([_cell(value) for value in row] for row in rows)
    return path


def _cell(value: object) -> object:
    """Return a cell; text that a spreadsheet would take for a formula gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
