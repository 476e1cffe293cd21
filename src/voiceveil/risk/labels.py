"""Labels of speakers or utterances, from a CSV file: attributes whose inference is tried."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.core.files import bounded_lines, open_file
from voiceveil.corpus.ids import safe_id

__all__ = ["AttributeLabels", "read_labels"]

_KEYS = ("utterance", "speaker")


@dataclass(frozen=True)
class AttributeLabels:
    """Attribute -> id -> label, where ids are those of utterances or of speakers, as ``key`` says."""

    key: str
    attributes: dict[str, dict[str, str]]

    def columns(self, utterances: Iterable[str], speakers: Iterable[str]) -> dict[str, list[str]]:
        """Return attribute -> the label of each utterance, its own or its speaker's; "" where there is none."""
        ids = list(utterances if self.key == "utterance" else speakers)
        return {name: [labels.get(id, "") for id in ids] for name, labels in self.attributes.items()}


def read_labels(path: Path) -> AttributeLabels:
    """Read a CSV file with a column ``speaker`` or ``utterance`` and a column for each attribute.

    Raises
    ------
    InputError
        If the file cannot be read, or has neither column, no attribute, or a row of another length.
    """
    try:
        with io.TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(bounded_lines(stream, path)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"not readable as CSV: {error}", where=path) from error
    key = next((name for name in _KEYS if rows and name in rows[0]), None)
    if key is None:
        raise InputError("no column speaker or utterance", where=path, fix="write a header such as speaker,age,accent")
    attributes: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows, start=2):
        if row.get(key) in (None, "") or None in row or None in row.values():
            raise InputError("not as many fields as the header has", where=path, line=number)
        for name, value in row.items():
            if name not in _KEYS:
                attributes.setdefault(name, {})[safe_id(row[key])] = value
    if not attributes:
        raise InputError("no attribute", where=path, fix="add a column such as age")
    return AttributeLabels(key, attributes)
