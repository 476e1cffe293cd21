"""The parts of a report: each function turns material into what the template shows, or says why there is nothing.

Conventions: ``missing`` is a sentence for the reader where a part could not be made, else empty. Drawings are SVG.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any

import numpy as np

from voiceveil.evaluation.results import Figure
from voiceveil.report.curves import det_svg
from voiceveil.report.plots import Dot, correlation_svg, dots_svg, pitch_svg, similarity_svg
from voiceveil.report.report_data import Material, set_name
from voiceveil.report.speakers import SpeakerEer, by_speaker
from voiceveil.report.words import LostWord, lost_words
from voiceveil.stats import Estimate, mean, wilson

__all__ = [
    "attacks",
    "command",
    "curves",
    "emotions",
    "further",
    "genders",
    "health",
    "notes",
    "pitch",
    "similarity",
    "speakers",
    "words",
]

NO_DETAILS = "The results have no details: evaluate again (all that is known is in the cache), without --no-report."
_SIDES = {"o": "original", "a": "anonymized"}
_STYLES = 10  # of lines
_SHOWN = 40  # speakers of a dot plot
_WORDS, _SAID = 15, 10  # words of a table, and how often one is said that "surely" may be said of
_FURTHER = {
    "cllr": "Cllr",
    "min_cllr": "min Cllr",
    "d_sys": "linkability D_sys",
    "zebra_population": "ZEBRA, population: mean disclosure",
    "zebra_individual": "ZEBRA, individual: worst case",
    "deid": "de-identification (DeID)",
    "gvd": "gain of voice distinctiveness (G_VD)",
    "eer_rocch": "EER by the convex hull",
}


@dataclass(frozen=True)
class Panel:
    """A drawing with its heading."""

    title: str
    drawing: str
    note: str = ""


@dataclass(frozen=True)
class Part:
    """Panels and rows of a section, or why there are none."""

    panels: tuple[Panel, ...] = ()
    rows: tuple[Any, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class Speakers:
    """The EERs of the speakers, a dot plot a set, and the worst of all."""

    panels: tuple[Panel, ...] = ()
    worst: tuple[SpeakerEer, ...] = ()
    missing: str = ""


def sides(condition: str) -> tuple[str, str]:
    """Enrollment and trial in words."""
    return _SIDES.get(condition[:1], "?"), _SIDES.get(condition[1:], "?")


def attacks(material: Material) -> Part:
    """Every EER with attacker, enrollment, trial and interval."""
    main = material.strongest()
    rows = []
    for number, one in enumerate(material.attacks()):
        enroll, trial = sides(one.condition)
        shared = {"attack": one, "enroll": enroll, "trial": trial, "strongest": one == main, "style": number % _STYLES}
        rows += [{**shared, "set": set_name(figure), "eer": figure} for figure in one.figures]
    return Part(rows=tuple(rows), missing="" if rows else "No verification trials were evaluated.")


def curves(material: Material) -> Part:
    """The DET curves of each set, all attackers in one panel."""
    if not material.scored:
        return Part(missing=NO_DETAILS)
    numbers = {(one.attacker, one.condition): n % _STYLES for n, one in enumerate(material.attacks())}
    panels = []
    for name in dict.fromkeys(set_name(one.figure) for one in material.scored):
        chosen = [
            (numbers[one.figure.attacker, one.figure.condition], one)
            for one in material.scored
            if set_name(one.figure) == name
        ]
        panels.append(Panel(name, det_svg(chosen, f"DET curves of {len(chosen)} attacks on {name}")))
    legend = tuple({"attack": one, "style": n % _STYLES} for n, one in enumerate(material.attacks()))
    return Part(tuple(panels), legend)


def genders(material: Material) -> Part:
    """EERs of women and men, by dataset, of all attackers that use a model."""
    figures = [
        f for f in material.results.find("eer") if f.gender in ("f", "m") and f.knowledge not in ("free", "metadata")
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
        panels.append(Panel(name, dots_svg(dots, f"EER by gender on {name}", "EER (%), 95 % intervals")))
    return Part(tuple(panels))


def _short(figure: Figure) -> str:
    """A label of few letters: what the attacker knew, or its name."""
    return figure.knowledge or figure.attacker


def speakers(material: Material) -> Speakers:
    """The EER of each speaker under the strongest attacker, the worst protected first."""
    main = material.strongest()
    scored = material.scores_of(main) if main else ()
    if not scored:
        return Speakers(missing=NO_DETAILS)
    panels, everybody = [], []
    for one in scored:
        found = by_speaker(one)
        everybody += found
        dots = [Dot(s.speaker, s.eer.value, s.eer.low, s.eer.high) for s in found[:_SHOWN]]
        name = set_name(one.figure)
        note = f"the {_SHOWN} worst protected of {len(found)} speakers" if len(found) > _SHOWN else ""
        if dots:
            panels.append(Panel(name, dots_svg(dots, f"EER by speaker on {name}", "EER (%), 95 % intervals"), note))
    everybody.sort(key=lambda s: (s.eer.value, s.eer.high))
    missing = "" if everybody else "No speaker has trials of their own and of others."
    return Speakers(tuple(panels), tuple(everybody), missing)


def similarity(material: Material) -> Part:
    """The composed similarity matrices."""
    found = material.details.similarity
    if not found:
        why = "No voice similarity was computed: it needs the attacker campplus." if material.details.utterances else ""
        return Part(missing=why or NO_DETAILS)
    panels = [
        Panel(f"{name}, {len(one.speakers)} speakers", similarity_svg(one, f"Voice similarity of speakers of {name}"))
        for name, one in found.items()
    ]
    return Part(tuple(panels))


@dataclass(frozen=True)
class Words:
    """WERs, and the words that are lost: most often, and most surely."""

    figures: tuple[Figure, ...] = ()
    often: tuple[LostWord, ...] = ()
    surely: tuple[LostWord, ...] = ()
    missing: str = ""


def words(material: Material) -> Words:
    """The WERs and, of utterances with transcripts, the words most often lost."""
    figures = tuple(material.results.find("wer"))
    rows = [row for rows in material.details.utterances.values() for row in rows]
    lost = lost_words(rows)
    why = "" if lost else NO_DETAILS if not rows else "There are no transcripts to compare with."
    worse = [one for one in lost if one.extra > 0]
    surely = [one for one in worse if one.said >= _SAID]
    surely.sort(key=lambda one: (-wilson(one.extra, one.said).low, one.word))  # few occurrences prove little
    return Words(figures, tuple(worse[:_WORDS]), tuple(surely[:_WORDS]), why)


def emotions(material: Material) -> Part:
    """UARs with the recall of each emotion."""
    rows = tuple(material.results.find("uar"))
    return Part(rows=rows, missing="" if rows else "No speech with emotion labels was evaluated.")


def pitch(material: Material) -> Part:
    """Pitch before and after of each set, and the correlations of its utterances."""
    panels, rows = [], []
    for name, heard in material.details.utterances.items():
        known = [row for row in heard if row.pitch_correlation is not None]
        if not known:
            continue
        rho = mean([row.pitch_correlation or 0.0 for row in known], [row.speaker or row.utterance for row in known])
        shift = [row.f0_anonymized / row.f0_original for row in known if row.f0_anonymized and row.f0_original]
        rows.append({"set": name, "rho": _clipped(rho), "shift": float(np.median(shift)) if shift else None})
        if shift:
            panels.append(Panel(f"{name}: mean F0", pitch_svg(known, f"Mean F0 before and after, {name}")))
        drawing = correlation_svg(known, rho.value, f"Pitch correlations of {len(known)} utterances, {name}")
        panels.append(Panel(f"{name}: correlation", drawing))
    figures = tuple(material.results.find("pitch_correlation"))
    if not panels and not figures:
        return Part(missing=NO_DETAILS)
    return Part(tuple(panels), tuple(rows) or figures)


def _clipped(rho: Estimate) -> Estimate:
    return Estimate(rho.value, max(rho.low, -1.0), min(rho.high, 1.0), n=rho.n, of=rho.of)


def further(material: Material) -> Part:
    """What else the protocol has measured."""
    rows = tuple((_FURTHER[f.metric], f) for f in material.results.figures if f.metric in _FURTHER)
    return Part(rows=rows, missing="" if rows else f"{material.results.protocol} has no further metrics.")


def health(material: Material) -> Part:
    """What is known of each attacker's training and soundness."""
    rows = tuple(one for one in material.results.info.get("health", ()) if isinstance(one, Mapping))
    return Part(rows=rows, missing="" if rows else "The results say nothing of the attackers' health.")


def notes(material: Material) -> dict[str, list[str]]:
    """What the evaluation has noted: the sets that were missing, and remarks."""
    lines = [str(line) for line in material.results.info.get("notes", ())]
    missing = [line.removeprefix("missing: ") for line in lines if line.startswith("missing: ")]
    return {"missing": missing, "remarks": [line for line in lines if not line.startswith("missing: ")]}


def command(material: Material) -> str:
    """Return the command that makes these results anew, with DATA for the folder of the corpora.

    Whatever comes from the results is quoted: the command may be pasted into a shell.
    """
    info = material.results.info
    if "voiceveil" not in info:
        return ""
    parts = ["voiceveil evaluate", f"--protocol {quote(material.results.protocol)}", "--data DATA"]
    chosen = f"--anon {quote(str(info.get('suffix')))}" if info.get("given") else ""
    parts.append(chosen or f"--system {quote(material.results.system)}")
    for name, value in dict(info.get("parameters") or {}).items():
        setting = f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        parts.append(f"--set {quote(setting)}")
    if info.get("training"):
        parts.append(f"--train {' '.join(map(quote, info['training']))}")
    emotional = dict.fromkeys(f.dataset for f in material.results.find("uar") if not f.split)
    if emotional:
        parts.append(f"--emotion {' '.join(map(quote, emotional))}")
    if info.get("attackers"):
        parts.append(f"--attackers {quote(','.join(info['attackers']))}")
    parts.append(f"--recogniser {quote(info.get('recogniser') or 'moonshine')}")
    if info.get("seed") is not None:
        parts.append(f"--seed {quote(str(info['seed']))}")
    return " \\\n    ".join([*parts, "--out OUT"])
