"""The report on scores of a TdSV challenge: one self-contained HTML file (see :mod:`voiceveil.report.html`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from voiceveil import metrics
from voiceveil.core.atomic_files import atomic_path
from voiceveil.report.curves import det_figure
from voiceveil.report.html import environment, style_and_policy
from voiceveil.tdsv.evaluation import BAYES_THRESHOLD, NONTARGETS, TdsvEvaluation
from voiceveil.tdsv.tables import shown

__all__ = ["write_page"]

_GROUPS = {"language": "Languages", "gender": "Women and men", "phrase": "Phrases"}
_AXES = ("false alarms (%): accepted, but should not be", "misses (%): rejected, but should not be")
_LOWEST = 0.0019  # rate at which the axes of the DET curves begin


def write_page(
    path: str | Path,
    evaluations: Sequence[TdsvEvaluation],
    *,
    title: str = "Who speaks, and is it the passphrase?",
    texts: Mapping[str, str] | None = None,
) -> Path:
    """Write the report of one or several systems' scores on the same trials.

    Parameters
    ----------
    path
        The HTML file.
    evaluations
        One for each system; the first is emphasized.
    title
        Heading of the page.
    texts
        Phrase id -> its words, shown in the table of phrases.
    """
    with atomic_path(path) as part:
        part.write_text(_render(evaluations, title, texts or {}), encoding="utf-8")
    return Path(path)


def _render(evaluations: Sequence[TdsvEvaluation], title: str, texts: Mapping[str, str]) -> str:
    style, policy = style_and_policy()
    first = evaluations[0]
    kinds = [part.name for part in first.group("type")]
    types = [
        (NONTARGETS[kind], [(e.name, p) for e in evaluations for p in e.group("type") if p.name == kind])
        for kind in kinds
    ]
    styles = [3, *(number for number in range(10) if number != 3)] * (1 + len(evaluations) // 10)
    templates = environment("voiceveil.report")
    templates.filters["shown"] = shown
    return templates.get_template("tdsv.html").render(
        policy=policy,
        style=style,
        title=title,
        first=first,
        evaluations=evaluations,
        types=types,
        styles=styles,
        panels=_panels(evaluations, styles),
        threshold=BAYES_THRESHOLD,
        kinds=[acceptance.type for acceptance in first.acceptance],
        groups=[(name, words) for name, words in _GROUPS.items() if any(e.group(name) for e in evaluations)],
        texts=texts,
    )


def _panels(evaluations: Sequence[TdsvEvaluation], styles: Sequence[int]) -> list[tuple[str, str]]:
    """Return (heading, SVG) of all trials and of each type of nontargets, with a DET curve for each system."""
    panels = []
    for number, part in enumerate((evaluations[0].overall, *evaluations[0].group("type"))):
        curves = []
        for style, evaluation in zip(styles, evaluations, strict=False):
            own = (evaluation.overall, *evaluation.group("type"))[number]
            others = evaluation.types != "TC" if number == 0 else evaluation.types == own.name
            curve = metrics.det_curve(evaluation.scores[evaluation.types == "TC"], evaluation.scores[others])
            curves.append((style, curve, own.eer.value))
        name = NONTARGETS.get(part.name, "All trials")
        panels.append((name, det_figure(curves, f"DET curves of {len(curves)} answers, {name}", _AXES, _LOWEST)))
    return panels
