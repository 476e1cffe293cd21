"""Keys of trials and texts of phrases from files, and tables of figures for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.core.terminal import escaped
from voiceveil.corpus.faults import strict
from voiceveil.corpus.lines import read_lines
from voiceveil.stats import Estimate
from voiceveil.tdsv.evaluation import NONTARGETS, TdsvEvaluation
from voiceveil.tdsv.lists import TdsvKey, read_keys, read_trials
from voiceveil.tdsv.phrases import phrases

__all__ = ["phrase_texts", "read_matching_keys", "shown", "table"]


def read_matching_keys(trials: Path, keys: Path) -> tuple[TdsvKey, ...]:
    """Return the keys in the order of the trials.

    Raises
    ------
    InputError
        If there are no trials, or a trial has no key.
    """
    by_trial = {(key.model, key.test): key for key in read_keys(keys)}
    ordered = []
    for trial in read_trials(trials):
        key = by_trial.get((trial.model, trial.test))
        if key is None:
            fault = f"no key for {trial.model} {trial.test} in {keys.name}"
            raise InputError(fault, where=trials, line=trial.line, fix="give the keys of these trials")
        ordered.append(key)
    if not ordered:
        raise InputError("no trials", where=trials)
    return tuple(ordered)


def phrase_texts(docs: Path, keys: Sequence[TdsvKey]) -> dict[str, str]:
    """Return phrase id -> text, from ``phrases.txt`` beside the keys or from the challenge; empty if unknown."""
    path = docs / "phrases.txt"
    if path.is_file():
        rows = [line.split(" ", 2) for number, line in read_lines(path, strict) if number > 1]
        return {row[0]: row[2] for row in rows if len(row) == 3}
    known = {key: phrase.text for key, phrase in phrases().items()}
    used = {key.phrase for key in keys if key.phrase}
    return known if used and used <= set(known) else {}


def shown(estimate: Estimate) -> str:
    """Return an estimate with its interval: rates in percent, costs with three digits."""
    if estimate.unit == "%":
        return str(estimate)
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def table(evaluations: Sequence[TdsvEvaluation]) -> str:
    """Return a table of all parts of all answers, and the rates of acceptance."""
    lines = []
    for evaluation in evaluations:
        first = evaluation.overall
        lines.append(f"{evaluation.name}: {first.targets + first.nontargets} trials, intervals over {evaluation.units}")
        cells = [("", "minDCF [95%]", "actual DCF [95%]", "EER [95%]")]
        for part in evaluation.parts:
            title = (
                NONTARGETS.get(part.name, part.name) if part.group in ("all", "type") else f"{part.group} {part.name}"
            )
            cells.append((title, shown(part.min_dcf), shown(part.act_dcf), shown(part.eer)))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines += ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        accepted = ", ".join(f"{a.type} {shown(a.accepted)}" for a in evaluation.acceptance)
        lines += [f"  accepted at the challenge's costs: {accepted}", ""]
    return "\n".join(map(escaped, lines[:-1]))
