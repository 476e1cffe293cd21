"""The report on a listening test: one HTML file, tables as CSV, and everything as JSON.

Conventions: the page is as that of :mod:`voiceveil.report`: no script, nothing loaded, everything escaped.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from voiceveil.apps.listen.analysis import Analysis, Rules, analyze
from voiceveil.apps.listen.answers import Answers
from voiceveil.apps.listen.cluster_effects import MEASURES
from voiceveil.apps.listen.cluster_figures import cumulative_svg, densities_svg, means_svg
from voiceveil.apps.listen.export import plain, tables, write_csv
from voiceveil.apps.listen.figures import violins_svg
from voiceveil.apps.listen.objective import Comparison, comparisons, read_objective
from voiceveil.apps.listen.responses import load_responses
from voiceveil.apps.listen.study import ORIGINAL, Study
from voiceveil.apps.web.database import open_database
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_overlap
from voiceveil.report.curves import det_figure
from voiceveil.report.html import environment, style_and_policy
from voiceveil.run.outputs import recorded
from voiceveil.stats.values import Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["write_analysis"]


def write_analysis(
    folder: Path,
    database: str | None,
    out: Path,
    rules: Rules | None = None,
    results: Sequence[str] = (),
    *,
    overwrite: bool = False,
) -> Analysis:
    """Analyze a study; write ``report.html``, ``analysis.json`` and the tables into ``out``.

    Parameters
    ----------
    folder
        The study.
    database
        Address of the database (default: ``answers.sqlite`` in the folder).
    out
        Folder for the files.
    rules
        Which evaluators count.
    results
        Objective results to compare with, each NAME=FILE.
    overwrite
        Replace files in ``out`` that are not of an earlier analysis.

    Raises
    ------
    InputError
        If there are no answers yet, or files are in the way.
    """
    refuse_overlap(out, [folder / "audio", folder / "design.json"])
    study = Study.load(folder)
    where = database or str(folder / "answers.sqlite")
    if "://" not in where and not Path(where).is_file():
        raise InputError("no answers yet", where=where, fix="`voiceveil listen serve` collects them")
    fingerprint = hashlib.sha256((folder / "design.json").read_bytes()).hexdigest()
    analysis = analyze(study, load_responses(study, Answers(open_database(where), fingerprint)), rules)
    compared = comparisons(analysis, read_objective(results, study.systems))
    rows_of = tables(analysis)
    targets = [out / name for name in (*(f"{name}.csv" for name in rows_of), "analysis.json", "report.html")]
    with recorded(out, {"verb": "listen analyze"}, lambda: targets, overwrite=overwrite):
        for name, rows in rows_of.items():
            write_csv(out / f"{name}.csv", rows)
        with atomic_path(out / "analysis.json") as part:
            part.write_text(json.dumps(plain(analysis, compared), indent=1) + "\n", encoding="utf-8")
        with atomic_path(out / "report.html") as part:
            part.write_text(render(analysis, compared), encoding="utf-8")
    return analysis


def render(analysis: Analysis, compared: Sequence[Comparison]) -> str:
    """Return the HTML of the analysis."""
    style, policy = style_and_policy(("voiceveil.apps.listen", "analysis.css"))
    sources = list(analysis.sources)
    first = analysis.study.systems[0]
    violins = {
        aspect: violins_svg({s: g.normalized for s, g in groups.items()}, aspect, "normalized rating", reference=first)
        for aspect, groups in analysis.groups.items()
    }
    axes = ("false alarms (%)", "misses (%)")
    curves = {
        title: det_figure([(sources.index(d.source), d.curve, d.eer.value) for d in dets], title, axes)
        for title, dets in analysis.dets.items()
    }
    context = {
        "title": f"{analysis.study.name}: what people heard",
        "policy": policy,
        "style": style,
        "analysis": analysis,
        "study": analysis.study,
        "sources": sources,
        "violins": violins,
        "curves": curves,
        "clusters": _cluster_figures(analysis),
        "measures": MEASURES,
        "compared": compared,
        "reference": first,
    }
    templates = environment("voiceveil.apps.listen")
    templates.filters |= {"estimate": _estimate, "p_value": _p_value}
    return templates.get_template("analysis.html").render(context)


def _cluster_figures(analysis: Analysis) -> dict[str, str]:
    """Return title -> drawing: Figures 18 (differences of groups) and 19 (purity and F1 of the panels)."""
    import numpy as np

    clustering, effects = analysis.clustering, analysis.cluster_effects
    if clustering is None:
        return {}

    def values(measure: str, system: str) -> NDArray[np.float64]:
        return np.array([getattr(score, measure) for score in clustering.scores if score.panel.system == system])

    drawings = {
        f"Density of {title} (Figure 19a)": densities_svg(
            {system: values(measure, system) for system in clustering.systems}, f"density of {title}", title
        )
        for measure, title in (("purity", "purity"), ("f1", "F1"))
    }
    if ORIGINAL in clustering.systems:
        control = {"purity": values("purity", ORIGINAL), "F1": values("f1", ORIGINAL)}
        title = "Purity and F1 of the control panels (Figure 19b)"
        drawings[title] = cumulative_svg(control, title, "purity or F1")
    for measure, groups in ({} if effects is None else effects.groups).items():
        for factors, means in groups.items():
            name = MEASURES[measure]
            drawings[f"Difference of {name} by {factors} (Figure 18)"] = means_svg(
                means, f"difference of {name} by {factors}", f"control - anonymized, {name}"
            )
    return drawings


def _estimate(value: Estimate | None, digits: int = 2, percent: bool = False) -> str:
    if value is None or not math.isfinite(value.value):
        return "–"
    factor, unit = (100.0, "%") if percent else (1.0, "")
    number = f"{factor * value.value:.{digits}f}{unit}"
    if value.n < 2 or not (math.isfinite(value.low) and math.isfinite(value.high)):
        return f"{number} (no interval)"
    return f"{number} [{factor * value.low:.{digits}f}, {factor * value.high:.{digits}f}]"


def _p_value(p: float) -> str:
    return f"{p:.2g}" if p >= 1e-4 else "< 0.0001"
