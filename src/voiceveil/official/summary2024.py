"""The result summaries of 2024: ``results_orig.txt``, ``results_anon.txt``, and ``result_for_rank<suffix>``, both.

Conventions: see :mod:`.rows2024`. A summary is a line of time, then blocks with a blank line before each:

    ---- Time: 29-03-24_10:45 ----

    ---- ASR results ----
      dataset split       asr     WER
    0   libri   dev  original   1.807
    4   libri   dev      anon  10.442

The time, the order of rows and columns, and the numbers of the rows (places in a larger table, of which the summary
shows a part) are no results; they are kept in ``info["layout"]``, so that a file that is read and written again is
the same file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.evaluation.attackers import choose_attacker
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official.rows2024 import KINDS, TableKind, check_columns, figure_of, figures_by_key, frame_of, keys_of
from voiceveil.official.source import Line

__all__ = ["parse_summary", "summary_text", "write_summary"]

Part = Literal["orig", "anon", "rank"]
Layout = list[Any]  # lines of text, and dictionaries where a table stands

_TITLE = re.compile(r"---- (.+) results ----")
_TIME = re.compile(r"---- Time: (.+) ----")
_BLOCKS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "orig": (("SER", "ASV_eval", "ASR"),),
    "anon": (("ASV_eval^anon",),),
    "rank": (("SER", "ASV_eval", "ASR"), ("ASV_eval^anon",)),
}
_SHOWN = {"ASV_eval": "oo", "ASV_eval^anon": "aa"}
_TRANSCRIBED = ("libri_dev", "libri_test", "IEMOCAP_dev", "IEMOCAP_test")


def parse_summary(lines: Sequence[Line], system: str) -> Results:
    """Return the results in the lines of a summary."""
    figures: list[Figure] = []
    layout: Layout = []
    rest = list(lines)
    while rest:
        line = rest.pop(0)
        text = line.text.rstrip()
        match = _TITLE.fullmatch(text)
        if match is not None and match[1] in KINDS:
            layout.append(_parse_table(match[1], line, rest, figures))
        elif not text or _TIME.fullmatch(text):
            layout.append(text)
        else:
            titles = ", ".join(f"`---- {title} results ----`" for title in KINDS)
            raise line.error(f"not a part of a summary: {text[:60]!r}", fix=f"expected one of {titles}")
    if not figures:
        raise lines[0].error("a summary without results")
    return Results(system, _protocol_name(figures), tuple(figures), {"layout": layout})


def _protocol_name(figures: Iterable[Figure]) -> str:
    """Return the protocol of a summary: in 2026 genders are mixed, and track 2 has languages instead of LibriSpeech."""
    corpora = {f.dataset.removesuffix(f"_{f.split}") for f in figures if f.metric == "eer" and not f.gender}
    if not corpora:
        return "vpc2024"
    if corpora == {"libri"}:
        return "vpc2026"
    return f"vpc2026-{corpora.pop()}" if len(corpora) == 1 else "vpc2026-track2"


def _parse_table(title: str, line: Line, rest: list[Line], figures: list[Figure]) -> dict[str, Any]:
    """Read the table below a title, take its lines from ``rest``, and return its layout."""
    kind = KINDS[title]
    if not rest:
        raise line.error("a title without a table")
    body = [rest.pop(0)]
    while rest and rest[0].text.strip() and not rest[0].text.startswith("----"):
        body.append(rest.pop(0))
    columns = body[0].text.split()
    emotions = check_columns(kind, columns, body[0])
    heading = 1
    if kind.has_recalls:
        heading = 2
        if len(body) < 2 or body[1].text.split() != ["mean"] * (1 + len(emotions)):
            raise body[min(1, len(body) - 1)].error(
                "no second heading", fix="the challenge writes `mean` below UAR and below each ACC"
            )
    index, keys = [], []
    for row in body[heading:]:
        cells = row.text.split()
        if len(cells) != 1 + len(columns):
            raise row.error(f"{len(cells)} cells instead of {1 + len(columns)}")
        figure = figure_of(kind, cells[1:], emotions, row)
        index.append(int(row.value(cells[0], "the number of the row", least=0, most=1e9)))
        if keys_of(kind, figure) in keys:
            raise row.error(f"{' '.join(keys_of(kind, figure))} is there twice")
        keys.append(keys_of(kind, figure))
        figures.append(figure)
    if not keys:
        raise body[-1].error("a table without rows")
    blanks = {str(i): line.text[len(line.text.rstrip()) :] for i, line in enumerate(body)}
    trailing = {i: text for i, text in blanks.items() if text}
    table = {"table": title, "index": index, "keys": keys, "emotions": emotions, "trailing": trailing}
    lazy = title == "ASV_eval" and all(key[-2:] == ["anon", "anon"] for key in keys)
    mixed = title in _SHOWN and any("mixed" in key for key in keys)
    return table | ({"condition": "aa"} if lazy or mixed else {})


def summary_text(
    results: Results,
    *,
    part: Part = "rank",
    time: datetime | None = None,
    attacker: str | None = None,
    asv_condition: str = "oo",
) -> str:
    """Return the summary as the challenge's scripts write it.

    Parameters
    ----------
    results : Results
        The figures; those read from a summary keep their layout unless another argument is given.
    part : {"orig", "anon", "rank"}
        Which of the three files.
    time : datetime, optional
        Time in the heading; now by default.
    attacker : str, optional
        Attacker whose EERs stand as ``ASV_eval^anon``; by default the semi-informed one.
    asv_condition : {"oo", "aa"}
        Condition of the EERs of ``ASV_eval``: "oo" in 2024, "aa" in 2026.
    """
    layout = results.info.get("layout")
    if not isinstance(layout, list) or time is not None or attacker is not None or part != "rank":
        layout = _default_layout(results, part, time or datetime.now(), attacker, asv_condition)
    lines: list[str] = []
    try:
        for item in layout:
            lines += [item] if isinstance(item, str) else _table_lines(results, item, attacker)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{results.system}: the layout is not of the right form: {error!r}") from error
    return "".join(f"{line}\n" for line in lines)


def write_summary(
    results: Results,
    path: Path,
    *,
    part: Part = "rank",
    time: datetime | None = None,
    attacker: str | None = None,
    asv_condition: str = "oo",
) -> None:
    """Write :func:`summary_text` to a file, atomically."""
    text = summary_text(results, part=part, time=time, attacker=attacker, asv_condition=asv_condition)
    with atomic_path(path) as file:
        file.write_text(text)


def _table_lines(results: Results, item: Mapping[str, Any], attacker: str | None) -> list[str]:
    title = item["table"]
    kind = KINDS[title]
    chosen = _figures(results, title, attacker, item.get("condition"))
    missing = [" ".join(key) for key in item["keys"] if tuple(key) not in chosen]
    if missing:
        raise InputError(f"{results.system}: no {kind.heading} for {missing[0]}")
    figures = [chosen[tuple(key)] for key in item["keys"]]
    lines = frame_of(kind, item["index"], item["keys"], figures, item["emotions"]).to_string()
    for number, blanks in item.get("trailing", {}).items():
        lines[int(number)] += blanks
    return [f"---- {title} results ----", *lines]


def _figures(
    results: Results, title: str, attacker: str | None, condition: str | None = None
) -> dict[tuple[str, ...], Figure]:
    """Return keys -> figure for a table; EERs of one attacker in one condition (None: that of 2024)."""
    if title not in _SHOWN:
        return figures_by_key(results.figures, KINDS[title])
    figures = results.find("eer", condition=condition or _SHOWN[title])
    if condition is not None:  # both attackers have figures of it
        figures = tuple(figure for figure in figures if figure.attacker == title)
        attacker = None
    elif figures:
        attacker = choose_attacker(figures, results.system, attacker if title == "ASV_eval^anon" else None)
    return figures_by_key(figures, KINDS[title], attacker)


def _default_layout(results: Results, part: Part, time: datetime, attacker: str | None, asv_condition: str) -> Layout:
    """Return the layout of a run of the challenge's scripts."""
    layout: Layout = []
    for titles in _BLOCKS[part]:
        layout += [""] if layout else []
        layout.append(f"---- Time: {time:%d-%m-%y_%H:%M} ----")
        for title in titles:
            condition = "aa" if asv_condition == "aa" and title in _SHOWN else None
            chosen = _figures(results, title, attacker, condition)
            if chosen:
                layout += ["", _default_table(title, chosen) | ({"condition": condition} if condition else {})]
    if not any(isinstance(item, dict) for item in layout):
        raise InputError(f"{results.system}: no figure that a summary of 2024 shows")
    return layout


def _default_table(title: str, chosen: Mapping[tuple[str, ...], Figure]) -> dict[str, Any]:
    """Return the rows, sorted by dataset and split, with the number of each in the challenge's larger table."""
    kind: TableKind = KINDS[title]
    if title == "SER":
        places = {key: place for place, key in enumerate(sorted(chosen))}
    elif title == "ASR":
        transcribed = [figure.dataset for figure in chosen.values()]
        sets = _ordered([*_TRANSCRIBED, *transcribed] if set(_TRANSCRIBED) & set(transcribed) else transcribed)
        rows = [(name, label) for label in "oa" for name in sets]
        places = {key: rows.index((figure.dataset, figure.condition)) for key, figure in chosen.items()}
    else:
        pairs = _ordered(sorted(key[:3] for key in chosen))
        places = {key: 3 * pairs.index(key[:3]) + (2 if key[3:] == ("anon", "anon") else 0) for key in chosen}
    keys = sorted((key for key in chosen if key[0] != "IEMOCAP" or title == "SER"), key=lambda k: (k[:2], places[k]))
    emotions = list(next(iter(chosen.values())).detail.get("recalls", {})) if kind.has_recalls else []
    return {"table": title, "index": [places[k] for k in keys], "keys": [list(k) for k in keys], "emotions": emotions}


def _ordered(items: Iterable[Any]) -> list[Any]:
    """Return each item once, in the order of first appearance."""
    return list(dict.fromkeys(items))
