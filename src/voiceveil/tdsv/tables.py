"""Answers and their keys from files, and the figures as a person reads them on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from voiceveil.core.errors import InputError
from voiceveil.core.terminal import escaped
from voiceveil.corpus.faults import strict
from voiceveil.corpus.lines import read_lines
from voiceveil.stats import Estimate
from voiceveil.tdsv.evaluation import NONTARGETS, Evaluation
from voiceveil.tdsv.lists import Key, read_keys, read_trials
from voiceveil.tdsv.phrases import phrases

__all__ = ["phrase_texts", "read_matching_keys", "shown", "table"]


def read_matching_keys(trials: Path, keys: Path) -> tuple[Key, ...]:
    """The keys in the order of the trials; each trial must have one."""
    found = {(key.model, key.test): key for key in read_keys(keys)}
    ordered = []
    for trial in read_trials(trials):
        key = found.get((trial.model, trial.test))
        if key is None:
            what = f"no key for {trial.model} {trial.test} in {keys.name}"
            raise InputError(what, where=trials, line=trial.line, fix="give the keys of these trials")
        ordered.append(key)
    if not ordered:
        raise InputError("no trials", where=trials)
    return tuple(ordered)


def phrase_texts(docs: Path, keys: Sequence[Key]) -> dict[str, str]:
    """Phrase id -> what it says: from ``phrases.txt`` beside the keys, or the challenge's own; none if unknown."""
    path = docs / "phrases.txt"
    if path.is_file():
        rows = [line.split(" ", 2) for number, line in read_lines(path, strict) if number > 1]
        return {row[0]: row[2] for row in rows if len(row) == 3}
    ours = {key: phrase.text for key, phrase in phrases().items()}
    used = {key.phrase for key in keys if key.phrase}
    return ours if used and used <= set(ours) else {}


def shown(estimate: Estimate) -> str:
    """Rates in percent, costs with three digits; with their interval."""
    if estimate.unit == "%":
        return f"{str(estimate).replace(' %', '', 1)} %"
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def table(evaluations: Sequence[Evaluation]) -> str:
    """All parts of all answers, and what is accepted."""
    lines = []
    for one in evaluations:
        first = one.overall
        lines.append(f"{one.name}: {first.targets + first.nontargets} trials, intervals over {one.units}")
        cells = [("", "minDCF [95 %]", "actual DCF [95 %]", "EER [95 %]")]
        for part in one.parts:
            title = (
                NONTARGETS.get(part.name, part.name) if part.group in ("all", "type") else f"{part.group} {part.name}"
            )
            cells.append((title, shown(part.min_dcf), shown(part.act_dcf), shown(part.eer)))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines += ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        accepted = ", ".join(f"{a.type} {shown(a.accepted)}" for a in one.acceptance)
        lines += [f"  accepted at the challenge's costs: {accepted}", ""]
    return "\n".join(map(escaped, lines[:-1]))
