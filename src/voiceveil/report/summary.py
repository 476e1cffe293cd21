"""The summary of an evaluation in plain words, for readers who decide about data and have no time for tables.

Conventions: each finding has a grade (good, middling, poor, unknown), shown by a word and a sign, never by color alone.
The thresholds of the grades are this package's own and are printed beside them; no law and no challenge has set them.
A grade is given by the less favorable end of the 95% interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from voiceveil.evaluation.averages import Average, counting_figures
from voiceveil.evaluation.protocol_checks import known_metric
from voiceveil.evaluation.results import Figure
from voiceveil.report.report_data import Attack, ReportData
from voiceveil.stats import Estimate, average

__all__ = ["KNOWLEDGE", "UNKNOWN", "SummaryCard", "caveats", "findings", "mean_of", "percent", "shown", "warnings"]

Grade = Literal["good", "middling", "poor", "unknown"]
_HARDLY_UNDERSTOOD = 0.5  # a WER of the original speech above which that of the anonymized speech says nothing
_LOW_PITCH_CORRELATION = 0.3  # the minimum of the 2022 challenge: not above it is poor

#: What an attacker knows, for a sentence that begins with "it".
KNOWLEDGE = {
    "unprotected": "hears original speech on both sides",
    "ignorant": "does not know that the recordings are anonymized",
    "lazy-informed": "knows the system and anonymizes its own recordings of a person with it",
    "semi-informed": "knows the system, and was trained on speech that the system has anonymized",
    "similar-system": "was trained on speech that a similar system has anonymized",
    "inverting": "undoes the anonymization as far as it can, and knows the person's original voice",
    "free": "uses no model of voices, only what anybody can measure",
    "metadata": "uses no audio, only the order of the files",
}
#: The answer where failed checks make figures doubtful.
UNKNOWN = "Not known: read the warnings first"
_OTHER_RATES = ("eer_rocch", "average_eer", "average_wer")  # of official files


@dataclass(frozen=True)
class SummaryCard:
    """One line of the summary: a question, its answer in few words with a grade, and what was measured."""

    question: str
    grade: Grade
    answer: str
    text: str
    limits: str = ""  # thresholds of the grades, in words


def percent(value: float, low: float | None = None, high: float | None = None) -> str:
    r"""Return a rate in percent with its interval.

    >>> percent(0.0809, 0.0607, 0.114).replace("\N{NO-BREAK SPACE}", " "), percent(0.3)
    ('8.1% [6.1, 11.4]', '30.0%')
    """
    rate = f"{100 * value:.1f}%"
    if low is None or high is None or low != low or high != high:
        return rate
    return f"{rate} [{100 * low:.1f},\N{NO-BREAK SPACE}{100 * high:.1f}]"


def shown(figure: Figure | Estimate | int) -> str:
    """Return a figure or an estimate with its interval, in its unit; a plain number as it is."""
    if not isinstance(figure, Figure):
        if isinstance(figure, Estimate) and figure.unit == "%":
            return percent(figure.value, figure.low, figure.high)
        return str(figure)
    info = known_metric(figure.metric)
    if figure.metric in _OTHER_RATES or (info is not None and info.unit == "%"):
        return percent(figure.value, figure.low, figure.high)
    unit = f" {info.unit}" if info is not None and info.unit else ""
    interval = "" if figure.low is None or figure.high is None else f" [{figure.low:.3g}, {figure.high:.3g}]"
    return f"{figure.value:.3g}{unit}{interval}"


def mean_of(figures: tuple[Figure, ...] | list[Figure]) -> Average:
    """Return the plain mean over sets of different speakers, with an interval if all have one."""
    if any(f.low is None or f.high is None for f in figures):
        return Average(sum(f.value for f in figures) / len(figures))
    pooled = average([Estimate(f.value, f.low or 0.0, f.high or 0.0, se=0.0) for f in figures])
    return Average(pooled.value, pooled.low, pooled.high)


def findings(data: ReportData) -> list[SummaryCard]:
    """Return the findings on privacy, words, emotions and intonation."""
    return [_privacy(data), _words(data), _emotions(data), _intonation(data)]


def _shown(average: Average) -> str:
    return percent(average.value, average.low, average.high)


def _privacy(data: ReportData) -> SummaryCard:
    question = "Can somebody still tell who speaks?"
    main = data.strongest()
    if main is None:
        return SummaryCard(question, "unknown", "Not measured", "No attacker was run on the anonymized speech.")
    eer = mean_of(main.figures)
    low = eer.value if eer.low is None else eer.low
    grade: Grade = "poor" if low < 0.2 else "middling" if low < 0.4 else "good"
    if data.results.checks:
        return SummaryCard(question, "unknown", UNKNOWN, "The figures may be false: checks have failed.")
    answer = {
        "poor": "Often, yes: weak protection",
        "middling": "Sometimes: partial protection",
        "good": "Hardly, with the attackers that were tried",
    }[grade]
    if main.knowledge in ("ignorant", "lazy-informed", "inverting", "free"):
        if grade == "good":
            grade = "middling"
        answer += " (no attacker was trained on speech of the system)"
    knowledge = f": it {KNOWLEDGE[main.knowledge]}" if main.knowledge in KNOWLEDGE else ""
    text = (
        f"The strongest attacker that was tried ({main.evaluator}{knowledge}) is given two recordings and says whether "
        f"the same person speaks in both. With its threshold set so that both kinds of mistakes are equally frequent, "
        f"it is wrong in {_shown(eer)} of the cases. Guessing is wrong in 50%: that would be perfect protection."
    )
    plain = next((attack for attack in data.attacks() if attack.condition == "oo" and not attack.is_free), None)
    if plain is not None:
        text += f" Without any protection, an attacker is wrong in {_shown(mean_of(plain.figures))}."
    limits = "weak: EER below 20%; partial: below 40%"
    return SummaryCard(question, grade, answer, text, limits)


def _words(data: ReportData) -> SummaryCard:
    question = "Are the words kept?"
    pair = _before_and_after(data, "wer")
    if pair is None:
        return SummaryCard(question, "unknown", "Not measured", "No recognizer was run on the anonymized speech.")
    before, after = pair
    if before.value > _HARDLY_UNDERSTOOD:
        text = (
            f"The speech recognizer gets {_shown(before)} of the words wrong in the original speech already, and "
            f"{_shown(after)} in the anonymized speech: it does not understand these recordings (another language?), "
            "and cannot tell whether words are kept."
        )
        return SummaryCard(question, "unknown", "Not known: the recognizer fails on the original speech", text)
    high = after.value if after.high is None else after.high
    added = high - before.value
    grade: Grade = "good" if added <= 0.05 else "middling" if added <= 0.15 else "poor"
    answer = {"good": "Yes, nearly all", "middling": "Mostly", "poor": "Many are lost, to a machine at least"}[grade]
    text = (
        f"A speech recognizer gets {_shown(before)} of the words wrong in the original speech and {_shown(after)} in "
        f"the anonymized speech. People may understand more, or less, than it does."
    )
    return SummaryCard(question, grade, answer, text, "good: up to 5 points more errors; mostly: up to 15")


def _emotions(data: ReportData) -> SummaryCard:
    question = "Are emotions kept?"
    pair = _before_and_after(data, "uar")
    if pair is None:
        return SummaryCard(question, "unknown", "Not measured", "No speech with emotion labels was evaluated.")
    before, after = pair
    classes = max((len(f.detail.get("recalls", {})) for f in data.results.find("uar")), default=0) or 4
    chance = 1 / classes
    low = after.value if after.low is None else after.low
    kept = (low - chance) / max(before.value - chance, 1e-9)
    grade: Grade = "good" if kept >= 0.8 else "middling" if kept >= 0.5 else "poor"
    answer = {"good": "Yes, mostly", "middling": "In part", "poor": "Largely lost, to a machine at least"}[grade]
    text = (
        f"A recognizer of {classes} emotions is right in {_shown(before)} of the original and {_shown(after)} of the "
        f"anonymized speech (mean over the emotions); guessing gives {100 * chance:.0f}%."
    )
    return SummaryCard(question, grade, answer, text, "good: 80% of the accuracy above chance is kept; in part: 50%")


def _intonation(data: ReportData) -> SummaryCard:
    question = "Is the intonation kept?"
    rows = [
        row for rows in data.details.utterances.values() for row in rows if row.number("pitch_correlation") is not None
    ]
    figures = data.results.find("pitch_correlation")
    if figures:
        rho = mean_of(figures)
    elif rows:
        from voiceveil.stats import mean

        known = [row.number("pitch_correlation") or 0.0 for row in rows]
        estimate = mean(known, [row.speaker or row.utterance for row in rows])
        rho = Average(estimate.value, max(estimate.low, -1.0), min(estimate.high, 1.0))
    else:
        return SummaryCard(question, "unknown", "Not measured", "No pitch was tracked.")
    low = rho.value if rho.low is None else rho.low
    grade: Grade = "good" if low >= 0.7 else "middling" if low > _LOW_PITCH_CORRELATION else "poor"
    answer = {"good": "Yes", "middling": "In part", "poor": "No"}[grade]
    interval = "" if rho.low is None or rho.high is None else f" [{rho.low:.2f}, {rho.high:.2f}]"
    text = (
        f"The correlation of the pitch curves before and after is {rho.value:.2f}{interval}, where 1 is unchanged. "
        f"The 2022 challenge asks for more than {_LOW_PITCH_CORRELATION:g} on every data set."
    )
    return SummaryCard(question, grade, answer, text, "good: 0.7 or more; in part: above 0.3")


def _before_and_after(data: ReportData, metric: str) -> tuple[Average, Average] | None:
    sides = []
    for condition in ("o", "a"):
        figures = counting_figures(data.results, metric, data.protocol, condition=condition)
        if not figures:
            return None
        sides.append(mean_of(figures))
    return sides[0], sides[1]


def warnings(data: ReportData) -> list[str]:
    """Return warnings to read before any figure: unreliable attackers, and kinds of attackers that are missing."""
    return [*_health_warnings(data), *_missing_attackers(data.attacks())]


def _health_warnings(data: ReportData) -> Iterator[str]:
    for record in data.results.info.get("health", ()):
        if isinstance(record, dict):
            yield from (f"{record.get('attacker', 'an attacker')}: {line}" for line in record.get("warnings") or ())


def _missing_attackers(attacks: tuple[Attack, ...]) -> Iterator[str]:
    against = [attack for attack in attacks if "a" in attack.condition]
    if against and not any(attack.knowledge in ("semi-informed", "similar-system") for attack in against):
        yield (
            "No attacker was trained on speech of this system. Attackers that are trained on it are usually far "
            "stronger: the protection may be much weaker than these figures say."
        )


def caveats(data: ReportData) -> list[str]:
    """Return the limits of what the figures show."""
    names = {row.speaker for rows in data.details.utterances.values() for row in rows if row.speaker}
    speakers = f"the {len(names)} speakers" if names else "the speakers"
    return [
        "Only the attackers listed here were tried. A stronger one may recognize more; no failed attack proves that "
        "none can succeed.",
        "The words themselves can identify a person (names, places, style). They are neither hidden nor measured here.",
        f"The figures are averages over {speakers} of these recordings. They may differ for another language, "
        "microphone or way of speaking, and a single person may be far less protected than the average (see the "
        "speakers).",
        "An error rate is not a legal assessment. Whether data are anonymous also depends on what other information an "
        "attacker has.",
        "Words, emotions and intonation were measured by machines, not judged by people.",
    ]
