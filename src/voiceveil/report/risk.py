"""The report on a risk assessment, for a data-protection officer: one self-contained HTML file.

Conventions: as in :mod:`voiceveil.report.html`; rates are shown in percent with 95% intervals. Plain words first,
then the plots of the paper's Figure 1, then how to repeat it. It informs a legal assessment and does not replace it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.report.html import environment, style_and_policy
from voiceveil.report.risk_figures import STYLES, risk_svg
from voiceveil.report.summary import UNKNOWN, percent
from voiceveil.risk.assessment import Assessment
from voiceveil.risk.assumptions import state_assumptions
from voiceveil.risk.curves import METRICS, Curve
from voiceveil.risk.sets import ATTACKERS
from voiceveil.risk.verdicts import Outcome
from voiceveil.risk.wording import criterion_answer, needed_sentence, overall_sentence

__all__ = ["write_risk_report"]

TITLES = {"singling_out": "Singling Out", "linkability": "Linkability", "one_minus_eer": "1 − EER"}
#: The question that each criterion of the Opinion asks.
QUESTIONS = {
    "singling_out": "Can one person be isolated in the data, even without a name?",
    "linkability": "Can two recordings of one person be recognized as such?",
    "inference": "Can something about a person be deduced from the voice?",
}
#: How each outcome is shown; even "not found" is not called good, as other attackers may succeed.
GRADES: dict[Outcome, str] = {"found": "poor", "not found": "middling", "cannot be said": "unknown"}
LIMITS = (
    "Only these attackers were tried. A stronger one may do better; no failed attack proves that none can succeed.",
    "Only the voice was attacked. Names, places and stories in what is said, background sounds, file names, dates and "
    "lengths can identify people, and none of that is measured here.",
    "The figures hold for people like those recorded here, speaking as they do here. Another language, microphone or "
    "situation can differ, and one person can be far less protected than the average.",
    "The attacker is assumed to know that a person is in the data, and all recordings of a set to be equally likely to "
    "be attacked.",
    "Intervals cover the choice of speakers, not the choice of encoders or of the protocol.",
    "Extrapolations assume that the trend continues. They are tested only on smaller numbers of speakers of the same "
    "data.",
)


@dataclass(frozen=True)
class _Card:
    """A criterion in plain words: whether it is covered, and the result."""

    question: str
    name: str
    grade: str
    answer: str
    text: str


def write_risk_report(assessment: Assessment, path: str | Path, *, title: str = "") -> Path:
    """Write the report of an assessment to ``path`` and return it; an empty ``title`` stands for the usual one."""
    target = Path(path)
    with atomic_path(target) as part:
        part.write_text(render(assessment, title), encoding="utf-8")
    return target


def render(assessment: Assessment, title: str = "") -> str:
    """Return the HTML of the report."""
    style, policy = style_and_policy(("voiceveil.report", "risk.css"))
    templates = environment("voiceveil.report")
    templates.filters["percent"] = percent
    return templates.get_template("risk.html").render(
        policy=policy,
        style=style,
        title=title or "Re-identification risk of anonymized speech",
        assessment=assessment,
        overall=overall_sentence(assessment).removeprefix("Verdict: "),
        overall_grade=GRADES[assessment.outcome],
        needed_sentence=needed_sentence,
        cards=_cards(assessment),
        rows=_figures(assessment),
        attackers=[(name, STYLES[name], ATTACKERS[name], about) for name, about in assessment.attackers.items()],
        tables=[(TITLES[metric], _table(assessment, metric)) for metric in METRICS],
        evidence=_evidence(assessment),
        assumptions=state_assumptions(assessment.attackers, assessment.plan.lengths, assessment.about),
        titles=TITLES,
        limits=LIMITS,
    )


def _cards(assessment: Assessment) -> list[_Card]:
    return [_criterion(assessment, "singling_out"), _criterion(assessment, "linkability"), _inference(assessment)]


def _criterion(assessment: Assessment, metric: Any) -> _Card:
    """Return the card of a criterion: the strongest attacker on anonymized speech at the largest N."""
    question, name = QUESTIONS[metric], TITLES[metric]
    verdict = assessment.criterion(metric)
    if verdict is None:
        return _Card(question, name, "unknown", "Not covered", "No attack on anonymized speech was measured.")
    if assessment.checks:
        return _Card(question, name, "unknown", UNKNOWN, "The figures may be false: checks have failed.")
    rate = percent(verdict.value, verdict.low, verdict.high)
    act = (
        "a sample of a voice isolates exactly one of them"
        if metric == "singling_out"
        else "a recording is linked with the right one of them"
    )
    text = (
        f"The strongest attacker ({verdict.attacker}: it {ATTACKERS[verdict.attacker]}) hears "
        f"{_utterances(verdict.length)} of each person. Among {verdict.speakers:,} people, {act} in {rate} of the "
        f"cases; guessing does so in {percent(verdict.chance)}."
    )
    plain = assessment.curve("original", metric, verdict.length)
    if plain is not None:
        text += f" Without protection: {percent(float(plain.value[plain.at()]))}."
    text = " ".join(filter(None, (text, needed_sentence(verdict))))
    return _Card(question, name, GRADES[verdict.outcome], criterion_answer(verdict), text)


def _utterances(length: int) -> str:
    return "one utterance" if length == 1 else f"{length} utterances"


def _inference(assessment: Assessment) -> _Card:
    question = QUESTIONS["inference"]
    tried = [inference for inference in assessment.inferences if inference.attacker != "original"]
    if not tried:
        text = "There were no labels (gender, age, accent, emotion) of anonymized speech to test it with."
        return _Card(question, "Inference", "unknown", "Not covered", text)
    worst = max(tried, key=lambda inference: (inference.value - inference.baseline) / (1 - inference.baseline))
    better = worst.low > max(worst.baseline, worst.control)
    names = ", ".join(sorted({inference.attribute for inference in tried}))
    text = (
        f"Tried: {names}. The attribute that is inferred best, {worst.attribute} ({worst.attacker} attacker, "
        f"{_utterances(worst.length)}), is right in {percent(worst.value, worst.low, worst.high)} of the cases, mean "
        f"over {len(worst.classes)} classes; guessing: {percent(worst.baseline)}. Other attributes may be inferred "
        "as well."
    )
    answer = f"Yes: {worst.attribute}" if better else "None of those tried, by these attackers"
    return _Card(question, "Inference", "poor" if better else "middling", answer, text)


def _figures(assessment: Assessment) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return rows of panels as in Figure 1: a row for each metric, a panel (heading, SVG) for each L."""
    rows = []
    for metric in METRICS:
        panels = []
        for length in sorted(assessment.plan.lengths):
            curves = [curve for curve in assessment.curves if (curve.metric, curve.length) == (metric, length)]
            growth = [g for g in assessment.growth if (g.metric, g.along, g.length) == (metric, "speakers", length)]
            heading = f"L = {length}"
            if curves:
                panels.append((heading, risk_svg(curves, growth, _description(metric, curves))))
        rows.append((TITLES[metric], panels))
    return rows


def _description(metric: str, curves: Sequence[Curve]) -> str:
    """Return the ends of the curves in words, for screen readers."""
    ends = "; ".join(
        f"{curve.attacker} {100 * curve.value[0]:.0f}% among {curve.sizes[0]:,}, {100 * curve.value[-1]:.0f}% among "
        f"{curve.sizes[-1]:,}"
        for curve in curves
    )
    return f"{TITLES[metric]}, L = {curves[0].length}: {ends}"


def _table(assessment: Assessment, metric: str) -> list[dict[str, Any]]:
    """Return the cells of every point of every curve of a metric."""
    return [
        {
            "attacker": curve.attacker,
            "length": curve.length,
            "speakers": size,
            "value": percent(float(curve.value[at]), float(curve.low[at]), float(curve.high[at])),
            "chance": f"{100 * curve.chance[at]:.2f}%",
            "control": "–" if curve.control is None else f"{100 * curve.control[at]:.2f}%",
            "maximum": "–" if curve.maximum is None else percent(float(curve.maximum[at])),
        }
        for curve in assessment.curves
        if curve.metric == metric
        for at, size in enumerate(curve.sizes)
    ]


def _evidence(assessment: Assessment) -> list[dict[str, Any]]:
    """Return the cells of the evidence in ranks, of each attacker and length, as likelihood ratios."""
    return [
        {
            "attacker": curve.attacker,
            "length": curve.length,
            "speakers": ranks.candidates,
            "top": f"{_times(ranks.top)} [{_times(ranks.low)}, {_times(ranks.high)}]",
            "worst": _times(ranks.worst),
            "rank": ranks.rank,
            "floor": _times(ranks.floor),
        }
        for curve in assessment.curves
        if (ranks := curve.disclosure) is not None
    ]


def _times(llr: float) -> str:
    """Return a log10 likelihood ratio as a ratio of two digits."""
    if math.isinf(llr):
        return "∞" if llr > 0 else "0"
    ratio = 10**llr
    return f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}"
