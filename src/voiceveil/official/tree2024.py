"""The tree below ``exp`` that the scripts of 2024 and 2026 write, from the figures of an evaluation.

    results_summary/eval_orig<suffix>/results_orig.txt      results_summary/result_for_rank<suffix>
    results_summary/eval_anon<suffix>/results_anon.txt      results_summary/NOTE<suffix>.txt: see :mod:`.labels`
    asv_orig/results<suffix>.csv, asv_orig/<enrollment>-<trials>/{scores,EER}               by ASV_eval
    asv_anon<suffix>/results<suffix>.csv, asv_anon<suffix>/<enrollment>-<trials>/{scores,EER}     by ASV_eval^anon
    asr/results<suffix>.csv, asr/<set>_asr[<suffix>]/{text,wer}
    ser/results<suffix>.csv, ser/results_folds<suffix>.csv

In 2026 the first two lines are below ``results_summary/track1`` or ``track2``, ``asv_ssl`` is the folder of
``ASV_eval``, and the summary shows its EERs of anonymized enrollment and trials.

Conventions: see :mod:`.exp2024` and :mod:`.summary2024`. Files without figures are not written.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from voiceveil.core.atomic_files import atomic_path
from voiceveil.evaluation.protocol import Official
from voiceveil.evaluation.results import Figure, Results
from voiceveil.metrics.wer import WordErrors
from voiceveil.official.exp2024 import Table, write_csv, write_eer
from voiceveil.official.names import attack_name, speech_name
from voiceveil.official.summary2024 import write_summary
from voiceveil.official.transcripts import write_transcripts

__all__ = ["asv_folder", "copy_scores", "summary_folder", "write_2024"]

_METRICS = ("eer", "wer", "uar")


def asv_folder(attacker: str, suffix: str, layout: str = "vpc2024") -> str:
    """Return the folder below ``exp`` of an attacker's scores; ``layout``: ``vpc2024`` or ``vpc2026``."""
    if attacker == "ASV_eval^anon":
        return f"asv_anon{suffix}"
    return "asv_ssl" if layout == "vpc2026" else "asv_orig"


def summary_folder(layout: str, track: int = 1) -> str:
    """Return the folder of ``result_for_rank<suffix>``; ``track`` is that of 2026."""
    return f"exp/results_summary/track{track}" if layout == "vpc2026" else "exp/results_summary"


def write_2024(
    results: Results,
    out: Path,
    *,
    suffix: str,
    word_errors: Mapping[tuple[str, str], WordErrors],
    time: datetime,
    official: Official,
) -> Iterator[Path]:
    """Write the tree into ``out/exp`` and yield its files; ``results`` are those of :func:`.labels.as_published`.

    ``official``: layout ``vpc2024`` or ``vpc2026``, and track.
    """
    exp, layout = out / "exp", official.layout
    shown = replace(results, figures=tuple(f for f in results.figures if f.metric in _METRICS), info={})
    for figure in shown.find("eer"):
        yield from _attack(figure, out, exp / asv_folder(figure.attacker, suffix, layout), suffix)
    for figure in shown.find("wer"):
        errors = word_errors.get((figure.dataset, figure.condition))
        if errors is not None:
            yield from write_transcripts(exp / "asr" / speech_name(figure, suffix), errors)
    yield from _tables(shown, exp, suffix, layout)
    # The summary has one condition of each attacker: original speech by ASV_eval (in 2026 anonymized speech), and
    # anonymized speech by ASV_eval^anon.
    condition = "aa" if layout == "vpc2026" else "oo"
    in_summary = (("ASV_eval", condition), ("ASV_eval^anon", "aa"))
    chosen = tuple(f for f in shown.figures if f.metric != "eer" or (f.attacker, f.condition) in in_summary)
    summary = replace(shown, figures=chosen)
    if not summary.figures:
        return
    folder = out / summary_folder(layout, official.track)
    parts = {"orig": folder / f"eval_orig{suffix}" / "results_orig.txt", "rank": folder / f"result_for_rank{suffix}"}
    if any(f.attacker == "ASV_eval^anon" for f in summary.figures):
        parts["anon"] = folder / f"eval_anon{suffix}" / "results_anon.txt"
    for part, path in parts.items():
        write_summary(summary, path, part=part, time=time, asv_condition=condition)  # type: ignore[arg-type]
        yield path


def _attack(figure: Figure, out: Path, folder: Path, suffix: str) -> Iterator[Path]:
    attack = folder / attack_name(figure, suffix)
    yield copy_scores(figure, out, attack)
    write_eer(attack / "EER", figure.value)
    yield attack / "EER"


def copy_scores(figure: Figure, out: Path, folder: Path) -> Path:
    """Copy the score file that an EER was computed from."""
    with atomic_path(folder / "scores") as part:
        shutil.copyfile(out / figure.detail["scores"], part)
    return folder / "scores"


def _tables(shown: Results, exp: Path, suffix: str, layout: str) -> Iterator[Path]:
    tables: list[tuple[Path, Table, Results]] = []
    for attacker in ("ASV_eval", "ASV_eval^anon"):
        of_attacker = replace(shown, figures=tuple(f for f in shown.find("eer") if f.attacker == attacker))
        tables.append((exp / asv_folder(attacker, suffix, layout) / f"results{suffix}.csv", "asv", of_attacker))
    tables.append((exp / "asr" / f"results{suffix}.csv", "asr", replace(shown, figures=shown.find("wer"))))
    emotions = replace(shown, figures=shown.find("uar"))
    tables.append((exp / "ser" / f"results{suffix}.csv", "ser", emotions))
    tables.append((exp / "ser" / f"results_folds{suffix}.csv", "ser_folds", emotions))
    for path, table, figures in tables:
        if figures.figures:
            write_csv(figures, path, table)
            yield path
