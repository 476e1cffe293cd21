"""The parts of a report beside those of the tasks: each function returns the content of one part of the template.

Conventions: ``missing`` is a sentence for the reader if a part could not be made, else empty. Drawings are SVG.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any

from voiceveil.evaluation.model_choice import ModelChoice
from voiceveil.evaluation.protocol_checks import known_metric
from voiceveil.evaluation.results import Figure
from voiceveil.evaluation.tasks import all_tasks
from voiceveil.report.plots import Dot, dots_svg
from voiceveil.report.report_data import ReportData, set_name
from voiceveil.report.speakers import SpeakerEer, by_speaker
from voiceveil.report.task_parts import NO_DETAILS, Panel

__all__ = ["command", "further", "genders", "health", "notes", "speakers"]

_SHOWN = 40  # speakers of a dot plot


@dataclass(frozen=True)
class Part:
    """Panels and rows of a section, or the reason why there are none."""

    panels: tuple[Panel, ...] = ()
    rows: tuple[Any, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Speakers:
    """The EERs of the speakers: a dot plot for each set, and all speakers, the worst protected first."""

    panels: tuple[Panel, ...] = ()
    worst: tuple[SpeakerEer, ...] = ()
    missing: str = ""


def genders(data: ReportData) -> Part:
    """Return the EERs of women and men, by dataset, of all attackers that use a model."""
    figures = [
        f for f in data.results.find("eer") if f.gender in ("f", "m") and f.knowledge not in ("free", "metadata")
    ]
    if len({f.gender for f in figures}) < 2:
        return Part(missing="The trials are not given for women and men separately.")
    panels = []
    for name in dict.fromkeys(" ".join(filter(None, [f.dataset, f.subset])) for f in figures):
        here = [f for f in figures if " ".join(filter(None, [f.dataset, f.subset])) == name]
        dots = [
            Dot(f"{_short(f)} {f.gender}", f.value, f.low, f.high, "k-main" if f.gender == "f" else "k-other")
            for f in here
        ]
        dots.sort(key=lambda dot: dot.name[:-1])
        panels.append(Panel(name, dots_svg(dots, f"EER by gender on {name}", "EER (%), 95% intervals")))
    return Part(tuple(panels))


def _short(figure: Figure) -> str:
    """Return a short label: the knowledge of the attacker, or its name."""
    return figure.knowledge or figure.attacker


def speakers(data: ReportData) -> Speakers:
    """Return the EER of each speaker under the strongest attacker, the worst protected first."""
    main = data.strongest()
    scored = data.scores_of(main) if main else ()
    if not scored:
        return Speakers(missing=NO_DETAILS)
    panels, everybody = [], []
    for entry in scored:
        rates = by_speaker(entry)
        everybody += rates
        dots = [Dot(s.speaker, s.eer.value, s.eer.low, s.eer.high) for s in rates[:_SHOWN]]
        name = set_name(entry.figure)
        note = f"the {_SHOWN} worst protected of {len(rates)} speakers" if len(rates) > _SHOWN else ""
        if dots:
            panels.append(Panel(name, dots_svg(dots, f"EER by speaker on {name}", "EER (%), 95% intervals"), note))
    everybody.sort(key=lambda s: (s.eer.value, s.eer.high))
    missing = "" if everybody else "No speaker has trials of their own and of others."
    return Speakers(tuple(panels), tuple(everybody), missing)


def further(data: ReportData) -> Part:
    """Return the figures that no task shows in a section of its own."""
    shown = {metric for task in all_tasks() for metric in task.metrics}
    titles = {"eer_rocch": "EER by the convex hull"}
    for metric in {figure.metric for figure in data.results.figures} - shown:
        if (info := known_metric(metric)) is not None:
            titles[metric] = info.title
    rows = tuple((titles[figure.metric], figure) for figure in data.results.figures if figure.metric in titles)
    return Part(rows=rows, missing="" if rows else f"{data.results.protocol} has no further metrics.")


def health(data: ReportData) -> Part:
    """Return the health checks of each attacker."""
    rows = tuple(row for row in data.results.info.get("health", ()) if isinstance(row, Mapping))
    return Part(rows=rows, missing="" if rows else "The results hold no health checks of the attackers.")


def notes(data: ReportData) -> dict[str, list[str]]:
    """Return the notes of the evaluation: missing sets, and remarks."""
    lines = [str(line) for line in data.results.info.get("notes", ())]
    missing = [line.removeprefix("missing: ") for line in lines if line.startswith("missing: ")]
    return {"missing": missing, "remarks": [line for line in lines if not line.startswith("missing: ")]}


def command(data: ReportData) -> str:
    """Return the command that computes these results again, with DATA for the folder of the corpora.

    Everything that comes from the results is quoted: the command may be pasted into a shell.
    """
    info = data.results.info
    if "voiceveil" not in info:
        return ""
    parts = ["voiceveil evaluate", f"--protocol {quote(data.results.protocol)}", "--data DATA"]
    chosen = f"--anon {quote(str(info.get('suffix')))}" if info.get("given") else ""
    parts.append(chosen or f"--system {quote(data.results.system)}")
    for name, value in dict(info.get("parameters") or {}).items():
        setting = f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        parts.append(f"--set {quote(setting)}")
    if info.get("training"):
        parts.append(f"--train {' '.join(map(quote, info['training']))}")
    emotional = dict.fromkeys(f.dataset for f in data.results.find("uar") if not f.split)
    if emotional:
        parts.append(f"--emotion {' '.join(map(quote, emotional))}")
    if info.get("attackers"):
        parts.append(f"--attackers {quote(','.join(info['attackers']))}")
    others = data.results.find("eer_trials")
    if sizes := sorted({f.trial_utterances for f in others} - {1}):
        parts.append(f"--trial-utterances {','.join(map(str, [1, *sizes]))}")
    if any(f.trials == "mixed" for f in others):
        parts.append("--trials mixed")
    parts.append(f"--recognizers {quote(','.join(info.get('recognizers') or ['moonshine']))}")
    defaults = vars(ModelChoice() if data.protocol is None else data.protocol.models)
    for option in ("anonymized_recognizers", "similarity", "similarity_scoring", "pitch_tracker"):
        value = info.get(option)
        if value and value != (list(defaults[option]) if isinstance(value, list) else defaults[option]):
            text = ",".join(value) if isinstance(value, list) else str(value)
            parts.append(f"--{option.replace('_', '-')} {quote(text)}")
    if info.get("emotion_models", ["functionals"]) != ["functionals"]:
        parts.append(f"--emotion-models {quote(','.join(info['emotion_models']))}")
    if info.get("seed") is not None:
        parts.append(f"--seed {quote(str(info['seed']))}")
    return " \\\n    ".join([*parts, "--out OUT"])
