"""The result summaries of 2022: ``results_summary.txt``, published as ``RESULTS_summary_*``.

Conventions: see :mod:`.lines2022`; one figure per line, name and figure two blanks apart. EERs of original speech are
of ``ASV_eval``, those of anonymized speech of the semi-informed ``ASV_eval^anon``; WERs are with the large language
model. At the end stand the averages that systems are ranked by, computed from the figures *as printed* above them;
they are read as figures of their own, ``average_eer`` and so on, of the dataset "all".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.evaluation.attackers import choose_attacker
from voiceveil.evaluation.averages import dataset_of
from voiceveil.evaluation.protocol import protocol_of
from voiceveil.evaluation.results import Figure, Results, challenge_attacker
from voiceveil.metrics.challenge import average
from voiceveil.official.lines2022 import attack_values, eer_text, wer_figure, wer_text
from voiceveil.official.names import (
    attack_fields,
    attack_name,
    speech_fields,
    speech_name,
    trial_fields,
    trial_name,
)
from voiceveil.official.results2022 import distinct_figure, gvd_text, pitch_figure, pitch_text, set_order
from voiceveil.official.source import Line

__all__ = ["is_summary", "parse_summary", "summary_text", "write_summary"]

Metric = Literal["eer", "wer", "pitch_correlation", "gvd"]
_CONDITIONS = {"eer": {"orig": "oo", "anon": "aa"}, "wer": {"orig": "o", "anon": "a"}}
_AVERAGES: Mapping[str, Metric] = {
    "Weighted average EER": "eer",
    "Average WER": "wer",
    "Weighted average pitch correlation": "pitch_correlation",
    "Weighted average gain of voice distinctiveness": "gvd",
}
_AVERAGE = re.compile(rf"({'|'.join(_AVERAGES)}) (dev|test)(?: (orig|anon))?: (\S+)")
_NAMED = re.compile(r"(\S+)  (\S.*)")


def is_summary(line: Line) -> bool:
    """Return whether a file with this first line is a summary."""
    return bool(re.match(r"AS[VR]-\S+  \S", line.text)) or _AVERAGE.fullmatch(line.text.rstrip()) is not None


def parse_summary(lines: Sequence[Line], system: str) -> Results:
    """Return the results in the lines of a summary."""
    figures: dict[tuple[str, ...], Figure] = {}
    for line in lines:
        if not line.text.strip():
            continue
        figure = _figure(line)
        key = (figure.metric, figure.dataset, figure.split, figure.gender, figure.subset, figure.condition)
        if key in figures:
            raise line.error(f"there twice: {figure}", fix="keep one of them")
        figures[key] = figure
    return Results(system, "vpc2022", tuple(figures.values()), {})


def _figure(line: Line) -> Figure:
    """Return the figure of a line."""
    text = line.text.rstrip()
    match = _AVERAGE.fullmatch(text)
    if match is not None:
        return _average(line, match)
    if "Pitch_correlation" in text:
        return pitch_figure(line)
    named = _NAMED.fullmatch(text)
    if named is None:
        raise line.error(
            f"not a line of a summary: {text[:60]!r}", fix="expected `<name>  <figure>`, two blanks between"
        )
    name, rest = named.groups()
    if name.startswith("ASV-") and (fields := attack_fields(name.removeprefix("ASV-"))):
        values = list(attack_values(line, rest))
        attacker = challenge_attacker(
            "ASV_eval^anon" if fields["condition"] == "aa" else "ASV_eval", fields["condition"]
        )
        if [metric for metric, _, _ in values] == ["eer"]:
            return Figure("eer", values[0][1], **attacker, **fields)  # type: ignore[arg-type]
    elif name.startswith("ASR-") and (fields := speech_fields(name.removeprefix("ASR-"))):
        return wer_figure(line, rest, fields)
    elif fields := trial_fields(name):
        return distinct_figure(line, rest, fields)
    raise line.error(f"not a line of a summary: {text[:60]!r}", fix="expected ASV-<sets>, ASR-<set>_asr or a trial set")


def _average(line: Line, match: re.Match[str]) -> Figure:
    metric = _AVERAGES[match[1]]
    condition = _CONDITIONS.get(metric, {"": ""}).get(match[3] or "")
    if condition is None:
        raise line.error(
            f"not an average of the challenge: {match[0][:60]!r}", fix="EER and WER have orig or anon, others none"
        )
    value = line.value(match[4], match[1], least=-1e6, most=1e6)
    value = value / 100 if metric in _CONDITIONS else value
    return Figure(f"average_{metric}", value, "all", split=match[2], condition=condition)


def summary_text(results: Results, *, attacker: str | None = None) -> str:
    """Return the summary as the challenge's scripts write it; averages are computed from the figures as printed.

    An average whose datasets are not all there is left out.

    Parameters
    ----------
    results : Results
        The figures.
    attacker : str, optional
        Attacker whose EERs on anonymized speech are written; by default the semi-informed one.
    """
    lines: list[str] = []
    printed: dict[tuple[str, str, str], dict[str, float]] = {}

    def add(figures: Sequence[Figure], name: Callable[[Figure], str], text: Callable[[Figure], str]) -> None:
        for figure in figures:
            shown = text(figure)
            lines.append(shown if shown.startswith(name(figure)) else f"{name(figure)}  {shown}")
            condition = figure.condition if figure.metric in _CONDITIONS else ""
            group = printed.setdefault((figure.metric, figure.split, condition), {})
            where = dataset_of(figure)
            if where in group:
                raise InputError(f"{figure}: there twice", fix="name the attacker or recognizer that counts")
            group[where] = _as_printed(figure)

    add(sorted(results.find("eer", condition="oo"), key=set_order), _asv, lambda f: f"EER: {eer_text(f.value)}%")
    anonymized = results.find("eer", condition="aa")
    chosen = choose_attacker(anonymized, results.system, attacker) if anonymized else None
    add(
        sorted((f for f in anonymized if f.is_by(chosen)), key=_anonymized_order),
        _asv,
        lambda f: f"EER: {eer_text(f.value)}%",
    )
    for condition in "oa":
        words = [f for f in results.find("wer", condition=condition) if f.detail.get("language_model") != "tgsmall"]
        add(sorted(words, key=lambda f: f.dataset), lambda f: f"ASR-{speech_name(f)}", wer_text)
    add(sorted(results.find("pitch_correlation"), key=set_order), trial_name, pitch_text)
    add(sorted(results.find("gvd"), key=set_order), trial_name, lambda f: f"{trial_name(f)}  {gvd_text(f)}")
    lines += _average_lines(results, printed)
    if not lines:
        raise InputError(f"{results.system}: no figure that a summary of 2022 shows")
    return "".join(f"{line}\n" for line in lines)


def _asv(figure: Figure) -> str:
    return f"ASV-{attack_name(figure)}"


def _anonymized_order(figure: Figure) -> tuple[object, ...]:
    """Return the sort key on anonymized speech: the common trials of each gender follow its other trials."""
    first, corpus, subset, gender, dataset = set_order(figure)
    return (first, corpus, gender, subset, dataset)


def _as_printed(figure: Figure) -> float:
    if figure.metric == "eer":
        return float(eer_text(figure.value))
    if figure.metric == "wer":
        return round(100 * figure.value, 2)
    return round(figure.value, 4) if figure.metric == "pitch_correlation" else figure.value


def _average_lines(results: Results, printed: Mapping[tuple[str, str, str], Mapping[str, float]]) -> Iterator[str]:
    protocol = protocol_of(results)
    for label, metric in _AVERAGES.items():
        for word, conditions in _CONDITIONS.get(metric, {"": ""}).items():
            for split in ("dev", "test"):
                try:
                    value = average(printed.get((metric, split, conditions), {}), protocol.weights(metric, split))
                except InputError:
                    continue
                yield f"{label} {split}{' ' if word else ''}{word}: {value:.3f}"


def write_summary(results: Results, path: Path, *, attacker: str | None = None) -> None:
    """Write :func:`summary_text` to a file, atomically."""
    text = summary_text(results, attacker=attacker)
    with atomic_path(path) as file:
        file.write_text(text)
