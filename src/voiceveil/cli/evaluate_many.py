"""Evaluate several systems under one protocol, and put them side by side: ``--system all``, ``--system a2,o1,i1``.

Each system has a folder of its own below OUT. A system that fails is reported, and the others are evaluated all the
same. The same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from voiceveil.api.evaluating import (
    evaluate_systems,
    plan_evaluation,
    protocol_systems,
    settings_of_system,
    systems_folder,
)
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines
from voiceveil.evaluation.settings import EvaluationSettings
from voiceveil.report.comparison import Comparison

__all__ = ["run_many"]


def run_many(args: argparse.Namespace, settings: EvaluationSettings) -> int:
    """Evaluate one after the other, and print the table; 1 if a system could not be measured."""
    if args.set:
        raise InputError("--set is for one system", fix="evaluate that system alone, into another folder")
    systems = [[name.strip()] for name in args.system.split(",") if name.strip()]
    if args.system == "all":
        systems = protocol_systems(settings.protocol)
    if args.plan:
        return _plan_many(systems, settings, args.jobs)
    comparison = evaluate_systems(settings, systems)
    faults = [row for row in comparison.rows if row.fault]
    if not settings.options.progress:
        print_lines(*(f"{row.system}: {row.fault}" for row in faults), file=sys.stderr)
    if args.json:
        print((systems_folder(settings) / "comparison.json").read_text(encoding="utf-8"), end="")
    else:
        _print(comparison, settings)
    for row in comparison.rows:
        for check in row.checks:
            print_lines(f"(!) {row.system}: {check}", file=sys.stderr)
    return 1 if faults else 0


def _plan_many(systems: Sequence[Sequence[str]], settings: EvaluationSettings, jobs: int) -> int:
    """Print time and disk of each system; 1 if one cannot be evaluated."""
    failed = False
    for name, *parameters in systems:
        try:
            _, plan = plan_evaluation(settings_of_system(settings, name), name, parameters)
        except InputError as error:
            print_lines(f"{name}: {error}", file=sys.stderr)
            failed = True
        else:
            print_lines(f"{name}: about {plan.seconds(jobs) / 60:.0f} minutes, {plan.disk / 1e9:.2f} GB")
    return 1 if failed else 0


def _print(comparison: Comparison, settings: EvaluationSettings) -> None:
    lines = comparison.table()
    widths = [max(len(line[k]) for line in lines if len(line) > 2) for k in range(len(lines[0]))]
    for line in lines:
        print_lines("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip())
    for row in comparison.rows:
        for check in row.checks:
            print_lines(f"(!) {row.system}: {check}")
    print_lines(f"figures: {systems_folder(settings) / 'comparison.html'}")
