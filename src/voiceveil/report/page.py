"""The report: one self-contained HTML file, made from the folder of an evaluation's results.

Conventions: data is never code. Everything that comes from corpora or results is escaped by the template; the drawings
are made of numbers and escaped text. The page has no script, loads nothing, and its policy (CSP) allows only its own
style sheet, by its hash, and ``data:`` audio.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_files, refuse_same_files
from voiceveil.evaluation.results import Results
from voiceveil.official import read_results
from voiceveil.report import sections
from voiceveil.report.excerpts import excerpts
from voiceveil.report.html import environment, style_and_policy
from voiceveil.report.privacy_utility_plot import planes
from voiceveil.report.published import published_table
from voiceveil.report.report_data import ReportData, load_report_data
from voiceveil.report.summary import KNOWLEDGE, caveats, findings, percent, shown, warnings
from voiceveil.report.task_parts import task_parts
from voiceveil.run.outputs import ledger_of, recorded

if TYPE_CHECKING:
    import jinja2

__all__ = ["Options", "render", "write_report"]


@dataclass(frozen=True)
class Options:
    """Options of a report.

    Parameters
    ----------
    title : str
        Heading of the page; empty for one with the name of the system.
    compare : sequence of paths or str
        Other results to compare with, each PATH or NAME=PATH.
    audio : int
        Number of speakers, the worst protected first, whose recordings are put into the page.
    overwrite : bool
        Replace the output file even if this program did not write it.
    """

    title: str = ""
    compare: Sequence[str | Path] = ()
    audio: int = 0
    overwrite: bool = False


def write_report(path: str | Path, out: str | Path | None = None, options: Options | None = None) -> Path:
    """Write the report of an evaluation and return its path.

    Parameters
    ----------
    path
        A folder of results, or a results file.
    out
        The HTML file; by default ``report.html`` in the folder of the results.
    options
        Title, results to compare with, audio.

    Raises
    ------
    InputError
        If the results cannot be read, or ``out`` is a file that this program did not write.
    """
    chosen = Options() if options is None else options
    if chosen.audio < 0:
        raise InputError(f"audio must be a number of speakers, not {chosen.audio}", fix="give 0 or more")
    source = Path(path)
    data = load_report_data(source)
    others = [_other(spec) for spec in chosen.compare]
    target = (source if source.is_dir() else source.parent) / "report.html" if out is None else Path(out)
    read = [source / "results.json" if source.is_dir() else source, *(_path(spec) for spec in chosen.compare)]
    refuse_same_files([target], lambda: read)
    with _place(target, source if source.is_dir() else source.parent, chosen.overwrite):
        html = render(data, others, chosen)
        with atomic_path(target) as part:
            part.write_text(html, encoding="utf-8")
    return target


@contextmanager
def _place(target: Path, results: Path, overwrite: bool) -> Iterator[None]:
    """Refuse to replace a file that the program did not write, as far as an evaluation keeps a record of its files."""
    if target.parent.resolve() == results.resolve() and ledger_of(results).exists():
        with recorded(results, None, lambda: [target], overwrite=overwrite):
            yield
        return
    refuse_files([target], overwrite=overwrite)
    yield


def _other(spec: str | Path) -> Results:
    """Return results to compare with: a path, or NAME=PATH."""
    name, equals, _ = str(spec).partition("=")
    named = equals and not Path(spec).exists()
    return read_results(_path(spec), system=name) if named else read_results(spec)


def _path(spec: str | Path) -> Path:
    """Return the path of PATH or NAME=PATH."""
    _, equals, path = str(spec).partition("=")
    return Path(path) if equals and not Path(spec).exists() else Path(spec)


def render(data: ReportData, others: Sequence[Results], options: Options) -> str:
    """Return the HTML of the report."""
    style, policy = style_and_policy()
    speakers = sections.speakers(data)
    context: dict[str, Any] = {
        "policy": policy,
        "title": options.title or f"{data.results.system}: how well does it protect?",
        "results": data.results,
        "info": data.results.info,
        "findings": findings(data),
        "checks": data.results.checks,
        "warnings": warnings(data),
        "caveats": caveats(data),
        "notes": sections.notes(data),
        "strongest": data.strongest(),
        "planes": planes(data, others),
        "published": None if data.protocol is None else published_table(data.protocol),
        "parts": task_parts(data),
        "genders": sections.genders(data),
        "speakers": speakers,
        "excerpts": excerpts(data, speakers.worst, options.audio, _folders(others, options.compare)),
        "further": sections.further(data),
        "health": sections.health(data),
        "command": sections.command(data),
    }
    return _template().render(context, style=style)


def _folders(others: Sequence[Results], compare: Sequence[str | Path]) -> dict[str, Path]:
    """Return system -> folder of the compared results that are an evaluation's own, which may have audio."""
    paths = {other.system: _path(spec) for other, spec in zip(others, compare, strict=True)}
    folders = {name: path if path.is_dir() else path.parent for name, path in paths.items()}
    return {name: folder for name, folder in folders.items() if (folder / "details").is_dir()}


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    templates = environment("voiceveil.report")
    templates.filters |= {"percent": percent, "shown": shown}
    templates.globals["knowledge_of"] = KNOWLEDGE
    return templates.get_template("report.html")
