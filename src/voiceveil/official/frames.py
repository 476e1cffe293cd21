"""Tables as pandas prints them (``DataFrame.to_string`` and ``to_csv``), written without pandas.

Conventions: the cells of a column are all text or all numbers; numbers are already in the file's unit. The official
scripts of 2024 print their results this way, so that the layout is part of the format:

* the index is flush left, every other column flush right and one blank apart; a cell has one blank before it, and so
  has the heading of a column of numbers unless headings have two rows;
* numbers have as many decimals as the one that needs most, at least one and at most six;
* in ``to_csv`` a number is what ``repr`` writes, and the index is the first, nameless column.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Frame", "FrameColumn"]


@dataclass(frozen=True)
class FrameColumn:
    """A column with its heading; ``second`` is the second row of a two-level heading."""

    name: str
    cells: Sequence[str] | Sequence[float]
    second: str = ""

    @property
    def is_number(self) -> bool:
        """True if the cells are numbers."""
        return not any(isinstance(cell, str) for cell in self.cells)


@dataclass(frozen=True)
class Frame:
    """A table: ``index`` names the rows; columns are as long as it is."""

    index: Sequence[int]
    columns: Sequence[FrameColumn]

    def to_string(self) -> list[str]:
        """Return the lines that ``DataFrame.to_string`` prints.

        >>> Frame([0, 4], [Column("asr", ["original", "anon"]), Column("WER", [1.807, 10.44])]).to_string()
        ['        asr     WER', '0  original   1.807', '4      anon  10.440']
        """
        two_levels = any(column.second for column in self.columns)
        names = ["", *([""] if two_levels else []), *map(str, self.index)]
        width = max(map(len, names))
        blocks = [[name.ljust(width) for name in names]]
        blocks += [_shown(column, two_levels) for column in self.columns]
        return [" ".join(parts) for parts in zip(*blocks, strict=True)]

    def to_csv(self) -> str:
        """Return the text that ``DataFrame.to_csv`` writes."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["", *(column.name for column in self.columns)])
        if any(column.second for column in self.columns):
            writer.writerow(["", *(column.second for column in self.columns)])
        cells = [
            column.cells if not column.is_number else [repr(float(c)) for c in column.cells] for column in self.columns
        ]
        for row, name in enumerate(self.index):
            writer.writerow([name, *(column[row] for column in cells)])
        return stream.getvalue()


def _shown(column: FrameColumn, two_levels: bool) -> list[str]:
    """Return headings and cells of a column, of equal width."""
    lead = " " if column.is_number and not two_levels else ""
    texts = [lead + column.name, *([lead + column.second] if two_levels else [])]
    cells = _decimals([float(cell) for cell in column.cells]) if column.is_number else column.cells
    texts += [f" {cell}" for cell in cells]
    width = max(map(len, texts))
    return [text.rjust(width) for text in texts]


def _decimals(values: Sequence[float]) -> list[str]:
    """Return all values with the number of decimals that the longest one needs, from one to six."""
    texts = [f"{value:.6f}" for value in values]
    spare = min((len(text) - len(text.rstrip("0")) for text in texts), default=0)
    return [text[: len(text) - min(spare, 5)] for text in texts]
