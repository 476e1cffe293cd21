"""Lines of the result files of 2020 and 2022, read and written.

Conventions: figures are fractions, the files hold percent for EER and WER; G_VD is in dB. An EER is Kaldi's, printed
with four digits (``2.89%``); ZEBRA has three decimals, or one digit and an exponent below 0.0005, or ``0``.

    EER: 8.665%                          eer
    Cllr (min/act): 0.304/42.857         min_cllr, cllr
    ROCCH-EER: 8.600%                    eer_rocch
    linkability: 0.801426                d_sys                               2022
    Population: 0.492 bit                zebra_population                    2022
    Individual: 3.829 (C)                zebra_individual, detail["tag"]     2022
    %WER 3.82 [ 1518 / 39783, 185 ins, 140 del, 1193 sub ] <decode folder>/wer_13_0.0      wer
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from voiceveil.core.errors import InputError
from voiceveil.evaluation.results import Figure
from voiceveil.official.source import Line

__all__ = ["ATTACK_METRICS", "attack_lines", "attack_values", "eer_text", "wer_figure", "wer_text"]

#: The metrics of an attack, in the order of the file.
ATTACK_METRICS = ("eer", "min_cllr", "cllr", "eer_rocch", "d_sys", "zebra_population", "zebra_individual")

_ATTACK = (
    ("EER", re.compile(r"EER: (\S+)%"), ("eer",)),
    ("Cllr", re.compile(r"Cllr \(min/act\): ([^\s/]+)/([^\s/]+)"), ("min_cllr", "cllr")),
    ("ROCCH-EER", re.compile(r"ROCCH-EER: (\S+)%"), ("eer_rocch",)),
    ("linkability", re.compile(r"linkability: (\S+)"), ("d_sys",)),
    ("Population", re.compile(r"Population: (\S+) bit"), ("zebra_population",)),
    ("Individual", re.compile(r"Individual: (\S+) \((\w)\)"), ("zebra_individual",)),
)
_WER = re.compile(r"%WER (\S+) \[ (\d+) / (\d+), (\d+) ins, (\d+) del, (\d+) sub \] (\S+)", re.ASCII)
_COUNTS = ("errors", "words", "insertions", "deletions", "substitutions")
_PERCENT = ("eer", "eer_rocch")


def attack_values(line: Line, text: str) -> Iterator[tuple[str, float, dict[str, str]]]:
    """Yield metric, value and detail of each number in a line of an attack's block."""
    for _, pattern, metrics in _ATTACK:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        detail = {"tag": match[2]} if metrics == ("zebra_individual",) else {}
        for metric, number in zip(metrics, match.groups(), strict=False):
            if metric in _PERCENT:
                yield metric, line.percent(number, metric), detail
            elif metric == "cllr" and number == "inf":  # a target with a likelihood ratio of zero
                yield metric, math.inf, detail
            else:
                yield metric, line.value(number, metric, least=0.0), detail
        return
    raise line.error(
        f"not a line of results: {text[:60]!r}", fix=f"expected one of {', '.join(name for name, _, _ in _ATTACK)}"
    )


def attack_lines(figures: Mapping[str, Figure]) -> Iterator[str]:
    """Yield the lines of an attack's block, for the metrics that are given."""
    values = {metric: figure.value for metric, figure in figures.items()}
    if "eer" in values:
        yield f"EER: {eer_text(values['eer'])}%"
    if "min_cllr" in values and "cllr" in values:
        yield f"Cllr (min/act): {values['min_cllr']:.3f}/{values['cllr']:.3f}"
    if "eer_rocch" in values:
        yield f"ROCCH-EER: {100 * values['eer_rocch']:.3f}%"
    if "d_sys" in values:
        yield f"linkability: {values['d_sys']:.6f}"
    if "zebra_population" in values:
        yield f"Population: {_zebra_text(values['zebra_population'])} bit"
    if "zebra_individual" in values:
        from voiceveil.metrics.disclosure import zebra_tag

        tag = figures["zebra_individual"].detail.get("tag") or zebra_tag(values["zebra_individual"])
        yield f"Individual: {_zebra_text(values['zebra_individual'])} ({tag})"


def eer_text(value: float) -> str:
    """Return an EER in percent as Kaldi's compute-eer prints it: four digits, without trailing zeros."""
    return f"{100 * value:.4g}"


def _zebra_text(value: float) -> str:
    return "0" if value == 0 else f"{value:.0e}" if value <= 5e-4 else f"{value:.3f}"


def wer_figure(line: Line, text: str, fields: Mapping[str, str]) -> Figure:
    """Return the figure of a ``%WER`` line; its counts must agree with each other and with the rate."""
    match = _WER.fullmatch(text)
    if match is None:
        fix = "expected `%WER <percent> [ <errors> / <words>, <n> ins, <n> del, <n> sub ] <decode folder>/wer_<n>_<p>`"
        raise line.error(f"not a WER: {text[:60]!r}", fix=fix)
    value = line.percent(match[1], "WER", most=1e6)
    errors, words, *kinds = (int(line.value(number, "a count", most=1e12)) for number in match.groups()[1:6])
    if sum(kinds) != errors:
        raise line.error(f"{' + '.join(map(str, kinds))} is not {errors} errors")
    if not words or abs(100 * errors / words - 100 * value) > 0.0051:
        raise line.error(f"{errors} errors in {words} words is not a WER of {match[1]}%")
    counts = dict(zip(_COUNTS, (errors, words, *kinds), strict=True))
    model = "ASR_eval^anon" if "asr_eval_anon" in match[7] else "ASR_eval"
    figure = Figure("wer", value, fields["dataset"], split=fields["split"], condition=fields["condition"], model=model)
    return replace(figure, detail={**counts, "language_model": _language_model(match[7]), "decoded": match[7]})


def _language_model(folder: str) -> str:
    """Return ``tgsmall`` or ``tglarge`` from the name of a decode folder, or ""."""
    match = re.search(r"_(tg\w+?)/", folder)
    return match[1] if match else ""


def wer_text(figure: Figure) -> str:
    """Return the ``%WER`` line of a figure, whose ``detail`` must hold the counts."""
    missing = [name for name in _COUNTS if not isinstance(figure.detail.get(name), int)]
    if missing:
        raise InputError(f"{figure}: no count of {missing[0]}", fix="a WER line of 2020 and 2022 needs all counts")
    errors, words, insertions, deletions, substitutions = (figure.detail[name] for name in _COUNTS)
    counts = f"{errors} / {words}, {insertions} ins, {deletions} del, {substitutions} sub"
    decoded = figure.detail.get("decoded") or f"{figure.model.replace(' ', '-') or 'asr'}/wer"
    return f"%WER {100 * figure.value:.2f} [ {counts} ] {decoded}"
