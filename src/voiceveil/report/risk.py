"""The report on a risk assessment, for a data-protection officer: one HTML file that needs nothing else.

Conventions: as in :mod:`voiceveil.report.html`; rates are shown in percent with 95% intervals. Plain words first,
then the figures of the paper's Figure 1, then how to repeat it. It informs a legal assessment and is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.report.html import environment, style_and_policy
from voiceveil.report.risk_figures import STYLES, risk_svg
from voiceveil.report.summary import UNKNOWN, percent
from voiceveil.risk.assessment import Assessment
from voiceveil.risk.curves import METRICS, Curve
from voiceveil.risk.sets import ATTACKERS

__all__ = ["write_risk_report"]

TITLES = {"singling_out": "Singling Out", "linkability": "Linkability", "one_minus_eer": "1 − EER"}
#: What each criterion of the Opinion asks, and what was done about it.
QUESTIONS = {
    "singling_out": "Can one person be isolated in the data, even without a name?",
    "linkability": "Can two recordings of one person be recognized as such?",
    "inference": "Can something about a person be deduced from the voice?",
}
LIMITS = (
    "Only these attackers were tried. A stronger one may do better; no attack that fails proves that none succeeds.",
    "Only the voice was attacked. Names, places and stories in what is said, background sounds, file names, dates and "
    "lengths can identify people, and none of that is measured here.",
    "The figures hold for people like those recorded here, speaking as they do here. Another language, microphone or "
    "situation can differ, and one person can be far less protected than the average.",
    "The people are taken as known to be in the data, and all recordings of a set as equally likely to be attacked.",
    "Intervals cover the choice of speakers, not the choice of encoders or of the protocol.",
    "Extrapolations assume that the trend goes on. They are tested on smaller numbers of the same data, nothing else.",
)


@dataclass(frozen=True)
class _Card:
    """A criterion in plain words: is it covered, and what was found."""

    question: str
    name: str
    grade: str
    answer: str
    text: str


def write_risk_report(found: Assessment, path: str | Path, *, title: str = "") -> Path:
    """Write the page."""
    target = Path(path)
    with atomic_path(target) as part:
        part.write_text(render(found, title), encoding="utf-8")
    return target


def render(found: Assessment, title: str = "") -> str:
    """The page."""
    style, policy = style_and_policy(("voiceveil.report", "risk.css"))
    templates = environment("voiceveil.report")
    templates.filters["percent"] = percent
    return templates.get_template("risk.html").render(
        policy=policy,
        style=style,
        title=title or "Re-identification risk of anonymized speech",
        found=found,
        cards=_cards(found),
        rows=_figures(found),
        attackers=[(name, STYLES[name], ATTACKERS[name], about) for name, about in found.attackers.items()],
        tables=[(TITLES[metric], _table(found, metric)) for metric in METRICS],
        titles=TITLES,
        limits=LIMITS,
    )


def _cards(found: Assessment) -> list[_Card]:
    return [_criterion(found, "singling_out"), _criterion(found, "linkability"), _inference(found)]


def _criterion(found: Assessment, metric: Any) -> _Card:
    """The strongest protected attacker at the largest N."""
    question, name = QUESTIONS[metric], TITLES[metric]
    curve = found.strongest(metric)
    if curve is None:
        return _Card(question, name, "unknown", "Not covered", "No attack on anonymized speech was measured.")
    if found.checks:
        return _Card(question, name, "unknown", UNKNOWN, "The figures may be false: checks have failed.")
    at = curve.at()
    base = max(float(curve.chance[at]), 0.0 if curve.control is None else float(curve.control[at]))
    better = float(curve.low[at]) > base
    rate = percent(float(curve.value[at]), float(curve.low[at]), float(curve.high[at]))
    act = (
        "a sample of a voice isolates exactly one of them"
        if metric == "singling_out"
        else "a recording is linked with the right one of them"
    )
    text = (
        f"The strongest attacker ({curve.attacker}: it {ATTACKERS[curve.attacker]}) hears {_said(curve.length)} of "
        f"each person. Among {curve.sizes[at]:,} people, {act} in {rate} of the cases; guessing does so in "
        f"{percent(base)}."
    )
    plain = found.curve("original", metric, curve.length)
    if plain is not None:
        text += f" Without protection: {percent(float(plain.value[plain.at()]))}."
    answer = "Yes, more often than by guessing" if better else "Not more often than by guessing, by these attackers"
    return _Card(question, name, "poor" if better else "middling", answer, text)


def _said(length: int) -> str:
    return "one utterance" if length == 1 else f"{length} utterances"


def _inference(found: Assessment) -> _Card:
    question = QUESTIONS["inference"]
    tried = [one for one in found.inferences if one.attacker != "original"]
    if not tried:
        text = "There were no labels (gender, age, accent, emotion) of anonymized speech to test it with."
        return _Card(question, "Inference", "unknown", "Not covered", text)
    worst = max(tried, key=lambda one: (one.value - one.baseline) / (1 - one.baseline))
    better = worst.low > max(worst.baseline, worst.control)
    names = ", ".join(sorted({one.attribute for one in tried}))
    text = (
        f"Tried: {names}. What is inferred best, {worst.attribute} ({worst.attacker} attacker, "
        f"{_said(worst.length)}), is right in {percent(worst.value, worst.low, worst.high)} of the cases, mean over "
        f"{len(worst.classes)} classes; guessing: {percent(worst.baseline)}. Other attributes may be inferred as well."
    )
    answer = f"Yes: {worst.attribute}" if better else "Not what was tried, by these attackers"
    return _Card(question, "Inference", "poor" if better else "middling", answer, text)


def _figures(found: Assessment) -> list[tuple[str, list[tuple[str, str]]]]:
    """Rows of panels as in Figure 1: a row for each metric, a panel for each L."""
    rows = []
    for metric in METRICS:
        panels = []
        for length in sorted(found.plan.lengths):
            curves = [one for one in found.curves if (one.metric, one.length) == (metric, length)]
            ahead = [one for one in found.growth if (one.metric, one.along, one.length) == (metric, "speakers", length)]
            heading = f"L = {length}"
            if curves:
                panels.append((heading, risk_svg(curves, ahead, _alt(metric, curves))))
        rows.append((TITLES[metric], panels))
    return rows


def _alt(metric: str, curves: Sequence[Curve]) -> str:
    """The figure in words."""
    ends = "; ".join(
        f"{one.attacker} {100 * one.value[0]:.0f}% among {one.sizes[0]:,}, {100 * one.value[-1]:.0f}% among "
        f"{one.sizes[-1]:,}"
        for one in curves
    )
    return f"{TITLES[metric]}, L = {curves[0].length}: {ends}"


def _table(found: Assessment, metric: str) -> list[dict[str, Any]]:
    """Every point of every curve."""
    return [
        {
            "attacker": curve.attacker,
            "length": curve.length,
            "speakers": size,
            "value": percent(float(curve.value[at]), float(curve.low[at]), float(curve.high[at])),
            "chance": f"{100 * curve.chance[at]:.2f}\N{NO-BREAK SPACE}%",
            "control": "–" if curve.control is None else f"{100 * curve.control[at]:.2f}\N{NO-BREAK SPACE}%",
        }
        for curve in found.curves
        if curve.metric == metric
        for at, size in enumerate(curve.sizes)
    ]
