"""The result files of 2020 (published as ``RESULTS_*``) and 2022 (``results.orig_*`` and ``results.anon_*``).

Conventions: see :mod:`.lines2022`. A name has a line of its own; the figures follow, indented by two blanks:

    ASV-libri_dev_enrolls-libri_dev_trials_f     the metrics of an attack
    ASR-libri_dev_asr_anon                       WER with the small, then with the large language model
    libri_dev_trials_f  Pitch_correlation: mean=0.6374 std=0.1711
    libri_dev_trials_f                           De-Identification and Gain of voice distinctiveness

A file holds the figures of one attacker, which its name tells: ``results.orig*`` and the files of 2020 are of
``ASV_eval``, trained on original speech, the other files of 2022 of ``ASV_eval^anon``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.evaluation.results import Figure, Results, challenge_attacker
from voiceveil.official.lines2022 import ATTACK_METRICS, attack_lines, attack_values, wer_figure, wer_text
from voiceveil.official.names import (
    attack_fields,
    attack_name,
    speech_fields,
    speech_name,
    trial_fields,
    trial_name,
)
from voiceveil.official.source import Line

__all__ = [
    "distinct_figure",
    "gvd_text",
    "parse_results",
    "pitch_figure",
    "pitch_text",
    "results_text",
    "set_order",
    "write_results",
]

_PITCH = re.compile(r"(\S+)  Pitch_correlation: mean=(\S+) std=(\S+)")
_DISTINCT = {"De-Identification : ": "deid", "Gain of voice distinctiveness : ": "gvd"}


def parse_results(lines: Sequence[Line], system: str, model: str | None = None) -> Results:
    """Return the results in the lines of a file of 2020 or 2022.

    Parameters
    ----------
    lines : sequence of Line
        All lines of the file.
    system : str
        Name of the evaluated system.
    model : str, optional
        Attacker, ``ASV_eval`` or ``ASV_eval^anon``; by default by the name of the file.

    Raises
    ------
    InputError
        If a line is not of such a file, with its number.
    """
    edition = "vpc2022" if any("linkability: " in line.text for line in lines) else "vpc2020"
    if model is None:
        folder = lines[0].path.absolute().parent.name
        original = edition == "vpc2020" or ".orig" in lines[0].path.name or ".orig" in folder
        model = "ASV_eval" if original else "ASV_eval^anon"
    figures: dict[tuple[str, ...], Figure] = {}
    head: Line | None = None
    for line in lines:
        text = line.text.rstrip()
        new: Iterable[Figure] = ()
        if text.startswith("  "):
            if head is None:
                raise line.error("figures without the name of an evaluation above them")
            new = _block_figures(head, line, model)
        elif "Pitch_correlation" in text:
            new = [pitch_figure(line)]
        elif text:
            head = line
            _fields(line)
        for figure in new:
            if figures.setdefault(_key(figure), figure) is not figure:
                raise line.error(f"there twice: {figure}", fix="keep one of them")
    if not figures:
        raise lines[0].error("no results below the names")
    return Results(system, edition, tuple(figures.values()), {})


def _key(figure: Figure) -> tuple[str, ...]:
    """Return the fields that distinguish a figure from all others of its file."""
    language_model = str(figure.detail.get("language_model"))
    return (figure.metric, figure.dataset, figure.gender, figure.subset, figure.condition, language_model)


def _fields(line: Line) -> Mapping[str, str]:
    """Return the fields of a figure from the name on a line."""
    name = line.text.rstrip()
    if name.startswith("ASV-"):
        fields = attack_fields(name.removeprefix("ASV-"))
    elif name.startswith("ASR-"):
        fields = speech_fields(name.removeprefix("ASR-"))
    else:
        fields = trial_fields(name)
    if fields is None:
        fix = "expected ASV-<enrollment set>-<trial set>, ASR-<set>_asr, or a trial set"
        raise line.error(f"not the name of an evaluation: {name[:80]!r}", fix)
    return fields


def _block_figures(head: Line, line: Line, model: str) -> Iterator[Figure]:
    """Yield the figures of a line below a name."""
    fields, text = _fields(head), line.text.strip()
    if head.text.startswith("ASV-"):
        for metric, value, detail in attack_values(line, text):
            yield Figure(metric, value, detail=detail, **fields, **challenge_attacker(model, fields["condition"]))  # type: ignore[arg-type]
    elif head.text.startswith("ASR-"):
        yield wer_figure(line, text, fields)
    else:
        yield distinct_figure(line, text, fields)


def pitch_figure(line: Line) -> Figure:
    """Return the figure of a line of pitch correlation."""
    match = _PITCH.fullmatch(line.text.rstrip())
    fields = trial_fields(match[1]) if match else None
    if match is None or fields is None:
        raise line.error(
            f"not a pitch correlation: {line.text[:60]!r}", "expected `<set>  Pitch_correlation: mean=<x> std=<y>`"
        )
    value = line.value(match[2], "the pitch correlation", least=-1.0, most=1.0)
    return Figure("pitch_correlation", value, detail={"std": line.value(match[3], "std", least=0.0)}, **fields)  # type: ignore[arg-type]


def pitch_text(figure: Figure) -> str:
    """Return the line of a pitch correlation: the inverse of :func:`pitch_figure`."""
    std = figure.detail.get("std")
    if not isinstance(std, int | float):
        raise InputError(f"{figure}: no standard deviation", fix='it stands in detail["std"]')
    return f"{trial_name(figure)}  Pitch_correlation: mean={figure.value:.4f} std={std:.4f}"


def distinct_figure(line: Line, text: str, fields: Mapping[str, str]) -> Figure:
    """Return the figure of a line of de-identification or of gain of voice distinctiveness."""
    for label, metric in _DISTINCT.items():
        if text.startswith(label):
            value = line.value(text.removeprefix(label), label.strip(" :"))
            return Figure(metric, value, **fields)  # type: ignore[arg-type]
    raise line.error(f"not a line of results: {text[:60]!r}", fix=f"expected {' or '.join(map(repr, _DISTINCT))}")


def gvd_text(figure: Figure) -> str:
    """Return the line of a de-identification or gain of voice distinctiveness, with all digits."""
    label = next(label for label, metric in _DISTINCT.items() if metric == figure.metric)
    return f"{label}{float(figure.value)!r}"


def set_order(figure: Figure) -> tuple[bool, int, int, bool, str]:
    """Return the sort key of a trial set in the files: dev first, libri, vctk, vctk (common), f before m."""
    corpora = ("libri", "vctk")
    corpus = figure.dataset.removesuffix(f"_{figure.split}")
    place = corpora.index(corpus) if corpus in corpora else len(corpora)
    return (figure.split != "dev", place, 1 if figure.subset else 0, figure.gender != "f", figure.dataset)


def results_text(results: Results, *, attacker: str | None = None) -> str:
    """Return a result file in the layout of 2020 and 2022, in the order of the official scripts.

    Parameters
    ----------
    results : Results
        The figures.
    attacker : str, optional
        Attacker whose figures are written, needed if there are several.

    Raises
    ------
    InputError
        If there are several attackers, or no figures for the file.
    """
    blocks: dict[str, dict[str, Figure]] = {}
    words: dict[str, list[Figure]] = {}
    for figure in results.figures:
        if figure.metric in ATTACK_METRICS and figure.is_by(attacker):
            block = blocks.setdefault(f"ASV-{attack_name(figure)}", {})
            if block.setdefault(figure.metric, figure) is not figure:
                models = f"{block[figure.metric].evaluator!r} and {figure.evaluator!r}"
                raise InputError(f"{figure}: two attackers, {models}", fix="name one of them")
        elif figure.metric == "wer":
            words.setdefault(f"ASR-{speech_name(figure)}", []).append(figure)
    lines: list[str] = []
    for name in sorted(blocks):
        lines += [name, *(f"  {text}" for text in attack_lines(blocks[name]))]
    for name in sorted(words):
        decodings = sorted(words[name], key=lambda figure: figure.detail.get("language_model") != "tgsmall")
        lines += [name, *(f"  {wer_text(figure)}" for figure in decodings)]
    lines += [pitch_text(figure) for figure in sorted(results.find("pitch_correlation"), key=set_order)]
    distinct = sorted(results.find("deid") + results.find("gvd"), key=set_order)
    for name in dict.fromkeys(map(trial_name, distinct)):
        lines += [name, *(f"  {gvd_text(figure)}" for figure in distinct if trial_name(figure) == name)]
    if not lines:
        raise InputError(f"{results.system}: no figure that a result file of 2022 shows")
    return "".join(f"{line}\n" for line in lines)


def write_results(results: Results, path: Path, *, attacker: str | None = None) -> None:
    """Write :func:`results_text` to a file, atomically."""
    text = results_text(results, attacker=attacker)
    with atomic_path(path) as file:
        file.write_text(text)
