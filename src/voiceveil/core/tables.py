"""Results that print, export and show themselves in a notebook.

A result derives from :class:`Tabular` and gives two views of itself: :meth:`Tabular.records`, one dictionary of plain
numbers and strings per row, for programs (pandas, CSV, JSON); and :meth:`Tabular.table`, a :class:`Table` of formatted
cells, for people (text, Markdown, LaTeX, HTML).
"""

from __future__ import annotations

import csv
import html
import io
import json
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_files
from voiceveil.core.terminal import escaped

if TYPE_CHECKING:
    import pandas

__all__ = ["Table", "Tabular"]

_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
})  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A heading and rows of formatted cells, with lines of text that belong below it.

    >>> print(Table(("metric", "value"), (("EER", "33.1%"),), notes=("20 speakers",)))
    metric  value
    EER     33.1%
    20 speakers
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        cells = [[escaped(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        return "\n".join([*lines, *map(escaped, self.notes)])

    def to_markdown(self) -> str:
        """Return the table in Markdown.

        >>> print(Table(("metric", "value"), (("EER", "33.1%"),)).to_markdown())
        | metric | value |
        | --- | --- |
        | EER | 33.1% |
        """
        rows = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(escaped(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in rows)

    def to_latex(self) -> str:
        r"""Return the table as a LaTeX ``tabular``.

        >>> print(Table(("metric", "value"), (("EER", "33.1%"),)).to_latex())
        \begin{tabular}{ll}
        \hline
        metric & value \\
        \hline
        EER & 33.1\% \\
        \hline
        \end{tabular}
        """
        head, *body = (
            rf"{' & '.join(escaped(c).translate(_LATEX) for c in row)} \\" for row in (self.columns, *self.rows)
        )
        begin = rf"\begin{{tabular}}{{{'l' * len(self.columns)}}}"
        return "\n".join([begin, r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}"])

    def to_html(self) -> str:
        """Return the table and its notes as HTML, escaped."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.columns)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes if note)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"

    def _repr_html_(self) -> str:
        return self.to_html()


class Tabular(ABC):
    """Base of results: subclasses say what their records and their table are."""

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """Return one dictionary per row: plain numbers and strings, rates as fractions."""

    @abstractmethod
    def table(self) -> Table:
        """Return the formatted table."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return {"rows": self.records()}

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def to_frame(self) -> pandas.DataFrame:
        """Return the records as a pandas ``DataFrame``.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise InputError("the package pandas is not installed", fix="pip install pandas") from None
        return pandas.DataFrame.from_records(self.records())

    def to_markdown(self) -> str:
        """Return the table in Markdown, without its notes."""
        return self.table().to_markdown()

    def to_latex(self) -> str:
        """Return the table as a LaTeX ``tabular``, without its notes."""
        return self.table().to_latex()

    def to_csv(self) -> str:
        """Return the records as CSV, with a header."""
        records = self.records()
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(dict.fromkeys(key for record in records for key in record)))
        writer.writeheader()
        writer.writerows(records)
        return stream.getvalue()

    def to_json(self) -> str:
        """Return :meth:`as_dict` as JSON."""
        return json.dumps(self.as_dict(), indent=1)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the result in the format that the suffix names, and return the path.

        Parameters
        ----------
        path
            A file name that ends in ``.json``, ``.csv``, ``.md``, ``.tex`` or ``.html``.
        overwrite
            Replace the file if it exists; without it an existing file is an ``InputError``.
        """
        writers = {
            ".json": self.to_json, ".csv": self.to_csv, ".md": self.to_markdown, ".tex": self.to_latex,
            ".html": self._repr_html_,
        }  # fmt: skip
        target = Path(path)
        writer = writers.get(target.suffix.lower())
        if writer is None:
            raise InputError(
                f"no format has the suffix {target.suffix!r}", where=target, fix=f"use {', '.join(writers)}"
            )
        refuse_files([target], overwrite=overwrite)
        with atomic_path(target) as part:
            part.write_text(writer().rstrip("\n") + "\n", encoding="utf-8")
        return target
