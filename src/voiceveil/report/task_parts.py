"""The parts of a report that show the tasks: the table of each task's section, and drawings from details and scores.

Every task has a part, made from :meth:`~voiceveil.evaluation.tasks.Task.section`; the functions in :data:`_ADDITIONS`
add tables and drawings (SVG) to some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from voiceveil.evaluation.results import Figure
from voiceveil.evaluation.tasks import Section, SectionTable, all_tasks
from voiceveil.evaluation.tasks.contract import Cell
from voiceveil.report.curves import det_svg
from voiceveil.report.plots import correlation_svg, pitch_svg, similarity_svg
from voiceveil.report.report_data import ReportData, set_name
from voiceveil.report.words import LostWord, lost_words
from voiceveil.stats import Estimate, mean, wilson

__all__ = ["NO_DETAILS", "LegendEntry", "Panel", "TaskPart", "task_parts"]

NO_DETAILS = "The results have no details: evaluate again (all that is known is in the cache), without --no-report."
#: Rates of single speakers in the details of an EER, and their headings.
_SPEAKER_RATES = {
    "worst": "EER of the worst speaker",
    "below": "speakers below 20%",
    "identified": "utterances identified",
}
_STYLES = 10  # of lines
_WORDS = 15  # rows of a table of words
_MIN_OCCURRENCES = 10  # of a word in the table "lost most surely"


@dataclass(frozen=True)
class Panel:
    """A drawing with its heading."""

    title: str
    drawing: str
    note: str = ""


@dataclass(frozen=True)
class LegendEntry:
    """A line style of the drawings, and what it stands for."""

    style: int
    label: str


@dataclass(frozen=True)
class TaskPart:
    """A section with what the report adds to it.

    Parameters
    ----------
    section : Section
        Of the task.
    heading, text, note : str
        Of the additions: their heading, and sentences above and below them.
    tables, panels, legend : tuples
        The additions.
    highlighted : tuple
        Rows of the section's table to emphasize.
    missing : str
        Why there are no additions.
    """

    section: Section
    heading: str = ""
    text: str = ""
    tables: tuple[SectionTable, ...] = ()
    panels: tuple[Panel, ...] = ()
    legend: tuple[LegendEntry, ...] = ()
    note: str = ""
    highlighted: tuple[object, ...] = ()
    missing: str = ""


def task_parts(data: ReportData) -> list[TaskPart]:
    """Return the parts of all tasks, in their order."""
    parts = []
    for task in all_tasks():
        section = task.section(data.results)
        if section is not None:
            add = _ADDITIONS.get(task.name)
            parts.append(TaskPart(section) if add is None else add(data, section))
    return parts


def _attacks(data: ReportData, section: Section) -> TaskPart:
    """Emphasize the strongest attacker, and draw the DET curves of each set, all attackers in one panel."""
    strongest = data.strongest()
    own = strongest.figures if strongest else ()
    rows = tuple(row for row in section.table.rows if any(cell is figure for cell in row for figure in own))
    part = TaskPart(section, "DET curves", highlighted=rows, tables=_further_trials(data))
    if not data.scored:
        return replace(part, missing=NO_DETAILS)
    styles = {(attack.attacker, attack.condition): number % _STYLES for number, attack in enumerate(data.attacks())}
    panels = []
    for name in dict.fromkeys(set_name(scored.figure) for scored in data.scored):
        chosen = [
            (styles[scored.figure.attacker, scored.figure.condition], scored)
            for scored in data.scored
            if set_name(scored.figure) == name
        ]
        panels.append(Panel(name, det_svg(chosen, f"DET curves of {len(chosen)} attacks on {name}")))
    legend = tuple(
        LegendEntry(
            styles[attack.attacker, attack.condition],
            ", ".join(filter(None, [attack.attacker, attack.knowledge, attack.condition])),
        )
        for attack in data.attacks()
    )
    text = (
        "Both kinds of mistakes at every setting of the attacker; dots are EERs, the dashed line is where both are "
        "equal. The farther from the lower left, the better the protection."
    )
    return replace(part, text=text, panels=tuple(panels), legend=legend)


def _further_trials(data: ReportData) -> tuple[SectionTable, ...]:
    """Return the tables of trials of several utterances and of both genders, and of single speakers."""
    tables = []
    others = data.results.find("eer_trials")
    if others:
        columns = ("attacker", "set", "trials", "EER [95%]")
        rows = tuple((f.attacker, set_name(f), f.trial_kind, f) for f in others)
        tables.append(SectionTable(columns, rows, "Several utterances of one person in a trial, and both genders"))
    strongest = data.strongest()
    if strongest is None:
        return tuple(tables)
    own = [f for f in others if (f.attacker, f.condition) == (strongest.attacker, strongest.condition)]
    cells = tuple(
        (set_name(f), f.trial_kind or "single utterances", *(_speaker_rate(f, name) for name in _SPEAKER_RATES))
        for f in (*strongest.figures, *own)
        if f.detail.get("speaker_rates")
    )
    if cells:
        heads = ("set", "trials", *(f"{title} [95%]" for title in _SPEAKER_RATES.values()))
        tables.append(SectionTable(heads, cells, f"Single speakers, by {strongest.attacker}"))
    return tuple(tables)


def _speaker_rate(figure: Figure, name: str) -> Cell:
    """Return a rate of single speakers with its interval, as far as the details have them."""
    rates = figure.detail["speaker_rates"]
    if name not in rates:
        return "–"
    return Estimate(rates[name], rates.get(f"{name}_low", np.nan), rates.get(f"{name}_high", np.nan), unit="%")


def _similarity(data: ReportData, section: Section) -> TaskPart:
    """Draw the similarity matrices."""
    similarity = data.details.similarity
    if not similarity:
        return TaskPart(section, missing=NO_DETAILS if not data.details.utterances else "")
    panels = tuple(
        Panel(
            f"{name}, {len(matrices.speakers)} speakers",
            similarity_svg(matrices, f"Voice similarity of speakers of {name}"),
        )
        for name, matrices in similarity.items()
    )
    return TaskPart(replace(section, missing=""), panels=panels)


def _words(data: ReportData, section: Section) -> TaskPart:
    """Show the words that are lost: most often, and most surely."""
    rows = [row for rows in data.details.utterances.values() for row in rows]
    lost = lost_words(rows)
    part = TaskPart(section, "Words most often lost")
    if not lost:
        return replace(part, missing="There are no transcripts to compare with." if rows else NO_DETAILS)
    worse = [word for word in lost if word.extra > 0]
    surely = [word for word in worse if word.occurrences >= _MIN_OCCURRENCES]
    surely.sort(key=lambda word: (-wilson(word.extra, word.occurrences).low, word.word))  # few occurrences prove little
    tables = (
        _lost_table(worse, "Lost most often: the most losses more than in the original speech"),
        _lost_table(
            surely,
            "Lost most surely: the largest share more than in the original speech, of words said ten times or more",
        ),
    )
    note = (
        "A word is lost when it is not recognized or recognized as another. Intervals take its occurrences as "
        "independent."
    )
    return replace(part, tables=tables, note=note)


def _lost_table(words: list[LostWord], title: str) -> SectionTable:
    columns = ("word", "lost, anonymized", "share [95%]", "recognized instead", "lost, original", "said")
    rows = tuple(
        (
            word.word,
            word.lost_anonymized,
            word.share,
            ", ".join(f"{other or '(nothing)'} {count}" for other, count in word.instead),
            word.lost_original,
            word.occurrences,
        )
        for word in words[:_WORDS]
    )
    return SectionTable(columns, rows, title)


def _pitch(data: ReportData, section: Section) -> TaskPart:
    """Show the pitch of each set before and after, and the correlations of its utterances."""
    panels: list[Panel] = []
    rows: list[tuple[Cell, ...]] = []
    for name, records in data.details.utterances.items():
        tracked = [record for record in records if record.number("pitch_correlation") is not None]
        if not tracked:
            continue
        correlations = [record.number("pitch_correlation") or 0.0 for record in tracked]
        rho = mean(correlations, [record.speaker or record.utterance for record in tracked])
        rho = replace(rho, low=max(rho.low, -1.0), high=min(rho.high, 1.0))
        sides = [(record.number("f0_original"), record.number("f0_anonymized")) for record in tracked]
        voiced = [(before, after) for before, after in sides if before and after]
        ratio = f"{np.median([after / before for before, after in voiced]):.2f}" if voiced else "–"
        rows.append((name, rho, ratio))
        if voiced:
            panels.append(Panel(f"{name}: mean F0", pitch_svg(voiced, f"Mean F0 before and after, {name}")))
        drawing = correlation_svg(correlations, rho.value, f"Pitch correlations of {len(tracked)} utterances, {name}")
        panels.append(Panel(f"{name}: correlation", drawing))
    if not rows:
        return TaskPart(replace(section, missing="" if section.table.rows else NO_DETAILS))
    table = SectionTable(("set", "pitch correlation [95%]", "pitch after / before"), tuple(rows))
    text = (
        "Each point is an utterance: on the dashed line its mean pitch is unchanged. The correlation compares the "
        "course of the pitch, 1 is unchanged; it is by our own autocorrelation tracker unless the table says otherwise."
    )
    return TaskPart(replace(section, table=table, missing=""), text=text, panels=tuple(panels))


#: Task -> the function that adds details and drawings to its section.
_ADDITIONS: dict[str, Callable[[ReportData, Section], TaskPart]] = {
    "verification": _attacks,
    "distinctiveness": _similarity,
    "words": _words,
    "pitch": _pitch,
}
