"""The report on answers to a challenge: one HTML file that needs nothing else (see :mod:`voiceveil.report.html`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from voiceveil import metrics
from voiceveil.core.atomic_files import atomic_path
from voiceveil.report.curves import det_figure
from voiceveil.report.html import environment, style_and_policy
from voiceveil.tdsv.evaluation import BAYES_THRESHOLD, NONTARGETS, Evaluation
from voiceveil.tdsv.tables import shown

__all__ = ["write_page"]

_GROUPS = {"language": "Languages", "gender": "Women and men", "phrase": "Phrases"}
_AXES = ("false alarms (%): accepted, but should not be", "misses (%): rejected, but should not be")
_LOWEST = 0.0019  # of the axes


def write_page(
    path: str | Path,
    evaluations: Sequence[Evaluation],
    *,
    title: str = "Who speaks, and is it the passphrase?",
    texts: Mapping[str, str] | None = None,
) -> Path:
    """Write the page on one or several answers to the same trials; ``texts``: phrase id -> what it says."""
    with atomic_path(path) as part:
        part.write_text(_render(evaluations, title, texts or {}), encoding="utf-8")
    return Path(path)


def _render(evaluations: Sequence[Evaluation], title: str, texts: Mapping[str, str]) -> str:
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
        kinds=[one.type for one in first.acceptance],
        groups=[(name, words) for name, words in _GROUPS.items() if any(e.group(name) for e in evaluations)],
        texts=texts,
    )


def _panels(evaluations: Sequence[Evaluation], styles: Sequence[int]) -> list[tuple[str, str]]:
    """A figure of all trials and one for each type of nontargets, with a curve for each answer."""
    panels = []
    for number, part in enumerate((evaluations[0].overall, *evaluations[0].group("type"))):
        curves = []
        for style, one in zip(styles, evaluations, strict=False):
            own = (one.overall, *one.group("type"))[number]
            others = one.types != "TC" if number == 0 else one.types == own.name
            curve = metrics.det_curve(one.scores[one.types == "TC"], one.scores[others])
            curves.append((style, curve, own.eer.value))
        name = NONTARGETS.get(part.name, "All trials")
        panels.append((name, det_figure(curves, f"DET curves of {len(curves)} answers, {name}", _AXES, _LOWEST)))
    return panels
