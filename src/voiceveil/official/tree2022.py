"""The tree below ``exp`` that the scripts of 2020 and 2022 write, from the figures of an evaluation.

    results-<time>.orig/  by ASV_eval, and the words of original speech; in 2020 there is ``results-<time>/`` alone
    results-<time>/       by ASV_eval^anon, and all else
        ASV-<enrollment>-<trials>/{scores,EER,Cllr,linkability_log,zebra}
        ASR-<set>_asr[_anon]        results.txt
        results_summary.txt         2022, in ``results-<time>/``
        NOTE.txt                    see :mod:`.labels`

Conventions: see :mod:`.lines2022`; anonymized sets have the suffix ``_anon``, whatever their own is. A line of Cllr
needs log-likelihood ratios, and is left out if scores are none. minDCF is Kaldi's, with unit costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from voiceveil import metrics
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.corpus import Trials
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official.lines2022 import ATTACK_METRICS, attack_lines, wer_text
from voiceveil.official.names import attack_name, speech_name
from voiceveil.official.results2022 import write_results
from voiceveil.official.summary2022 import write_summary
from voiceveil.official.tree2024 import copy_scores

__all__ = ["write_2022"]

_FILES = {"Cllr": ("Cllr", "ROCCH-EER"), "linkability_log": ("linkability",), "zebra": ("Population", "Individual")}
_OF_SETS = ("pitch_correlation", "deid", "gvd")


def write_2022(
    results: Results, out: Path, layout: str, *, trials: Mapping[str, Trials], time: datetime
) -> Iterator[Path]:
    """Write the tree into ``out/exp`` and yield its files; ``results`` are those of :func:`.labels.as_published`.

    ``layout``: ``vpc2020`` or ``vpc2022``.
    """
    plain = out / "exp" / f"results-{time:%Y-%m-%d-%H-%M-%S}"
    original = plain if layout == "vpc2020" else plain.with_name(f"{plain.name}.orig")
    homes = {"ASV_eval": original}
    if layout != "vpc2020":  # 2020 had no attacker who learned from anonymized speech
        homes["ASV_eval^anon"] = plain
    shown: dict[Path, list[Figure]] = {original: [], plain: []}
    for figure in results.figures:
        if figure.metric in ATTACK_METRICS and figure.attacker in homes:
            shown[homes[figure.attacker]].append(figure)
        elif figure.metric == "wer":
            shown[original if figure.condition == "o" else plain].append(figure)
        elif figure.metric in _OF_SETS:
            shown[plain].append(figure)
    for home, figures in shown.items():
        if figures:
            yield from _home(replace(results, figures=tuple(figures)), home, out, trials)
    if layout == "vpc2022":
        kept = [f for f in results.figures if f.metric != "eer" or (f.condition, f.attacker) in _SUMMARY]
        try:
            write_summary(replace(results, figures=tuple(kept)), plain / "results_summary.txt")
        except InputError:  # nothing that a summary shows
            return
        yield plain / "results_summary.txt"


_SUMMARY = (("oo", "ASV_eval"), ("aa", "ASV_eval^anon"))


def _home(results: Results, home: Path, out: Path, trials: Mapping[str, Trials]) -> Iterator[Path]:
    attacks: dict[str, dict[str, Figure]] = {}
    for figure in results.figures:
        if figure.metric in ATTACK_METRICS:
            attacks.setdefault(f"ASV-{attack_name(figure)}", {})[figure.metric] = figure
        elif figure.metric == "wer":
            yield _write(home / f"ASR-{speech_name(figure)}", [wer_text(figure)])
    for name, figures in attacks.items():
        yield copy_scores(figures["eer"], out, home / name)
        lines = list(attack_lines(figures))
        costs = _costs(home / name / "scores", trials[figures["eer"].detail["set"]])
        yield _write(home / name / "EER", [line for line in lines if line.startswith("EER")] + costs)
        for file, starts in _FILES.items():
            chosen = [line for line in lines if line.startswith(starts)]
            if chosen:
                yield _write(home / name / file, chosen)
    write_results(results, home / "results.txt")
    yield home / "results.txt"


def _costs(scores: Path, trials: Trials) -> list[str]:
    import numpy as np

    values = np.array([float(line.split()[2]) for line in scores.read_text().splitlines()])
    target, nontarget = values[trials.target], values[~trials.target]
    rates = [
        (p, metrics.min_dcf(target, nontarget, p_target=p, c_miss=1.0, c_fa=1.0, method="kaldi")) for p in (0.01, 0.001)
    ]
    return [f"minDCF(p-target={p:g}): {cost:.4f}" for p, cost in rates]


def _write(path: Path, lines: list[str]) -> Path:
    with atomic_path(path) as file:
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
