"""Evaluate several systems under one protocol, and put them side by side: ``--system all``, ``--system a2,o1,i1``.

Each system has a folder of its own below OUT, with all that a single evaluation writes; what models have heard of the
original speech, to attack it or to take it apart, is kept in OUT for all. A system that fails is said to, and the
others are run all the same. The same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voiceveil.cli.executors import chosen_jobs
from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.terminal import print_lines
from voiceveil.evaluation.evaluate import evaluate, prepare
from voiceveil.evaluation.inventory import take_inventory
from voiceveil.evaluation.plan import make_plan
from voiceveil.evaluation.protocol import Protocol
from voiceveil.evaluation.results import Results
from voiceveil.run.outputs import recorded, refuse_corpora
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.resolve import find_system
from voiceveil.systems.resynthesis.pipeline import kept_features

__all__ = ["chosen_systems", "made_system", "run_many"]

_EVALUATION = "pool=evaluation"


def chosen_systems(text: str, protocol: Protocol) -> list[list[str]]:
    """Systems and their settings: those of the protocol for "all", else those between commas; one list for each."""
    if text != "all":
        return [[name.strip()] for name in text.split(",") if name.strip()]
    if not protocol.systems:
        raise InputError(f"the protocol {protocol.name} names no systems", fix="write their names: --system b2,b1b")
    return [entry.split() for entry in protocol.systems]


def made_system(
    spec: str, settings: Sequence[str], args: argparse.Namespace, protocol: Protocol, out: Path | None = None
) -> tuple[Anonymizer, Path]:
    """The system, and the folder of its results, in which ``pool=evaluation`` makes a pool of whom is anonymized."""
    others = [setting for setting in settings if setting != _EVALUATION]
    plain = find_system(spec, others)
    folder = out or args.out or Path("results") / protocol.name / plain.name
    if len(others) == len(settings):
        return plain, folder
    if "pool" not in plain.parameters():
        raise InputError(f"system {spec} has no parameter 'pool'", fix="leave out pool=evaluation")
    target = folder / "pool" / "pool.safetensors"
    if not target.is_file() and not args.plan:
        _build_pool(str(plain.parameters().get("speaker", "campplus")), args, protocol, folder, target)
    return find_system(spec, [*others, f"pool={target}"] if target.is_file() else others), folder


def _build_pool(speaker: str, args: argparse.Namespace, protocol: Protocol, out: Path, target: Path) -> None:
    from voiceveil.models.pitch.correlation import tracker
    from voiceveil.models.speaker.encoders import encoder
    from voiceveil.run.cache import Cache
    from voiceveil.systems.resynthesis.pool import build_pool, save_pool

    inventory = take_inventory(protocol, args.data, train=args.train, emotion=args.emotion)
    refuse_corpora(out, inventory.corpora.values())
    spoken = [
        u for name, corpus in inventory.corpora.items() if inventory.roles[name] in ("enroll", "trial") for u in corpus
    ]
    distinct = list({u.id: u for u in spoken}.values())
    target.parent.mkdir(parents=True, exist_ok=True)
    cache = Cache(args.cache or out / "cache.sqlite")
    try:
        pool = build_pool(distinct, encoder(speaker), tracker("swift"), cache=cache, jobs=args.jobs, quiet=args.quiet)
    finally:
        cache.close()
    save_pool(target, pool)


def run_many(args: argparse.Namespace, protocol: Protocol, options: dict[str, Any]) -> int:
    """Evaluate one after the other, then the table and the page; 1 if a system could not be measured."""
    if args.set:
        raise InputError("--set is for one system", fix="evaluate that system alone, into another folder")
    chosen = chosen_systems(args.system, protocol)
    home = args.out or Path("results") / protocol.name
    args.cache = options["cache_file"] = args.cache or home / "cache.sqlite"
    inventory = take_inventory(protocol, args.data, train=args.train, emotion=args.emotion)
    refuse_corpora(home, inventory.corpora.values())
    if args.plan:
        return _evaluate_all(chosen, args, protocol, options, home)
    settings = {"protocol": protocol.name, "systems": "side by side"}
    pages = [home / "comparison.json", home / "comparison.html"]
    with recorded(home, settings, lambda: pages, overwrite=args.overwrite):
        return _evaluate_all(chosen, args, protocol, options, home)


def _evaluate_all(
    chosen: list[list[str]], args: argparse.Namespace, protocol: Protocol, options: dict[str, Any], home: Path
) -> int:
    """Evaluate each system into a folder below ``home``, and compare them; 1 if one could not be measured."""
    measured: list[Results] = []
    faults: dict[str, str] = {}
    for number, (name, *settings) in enumerate(chosen, 1):
        if not args.quiet:
            print_lines(f"[{number}/{len(chosen)}] {' '.join([name, *settings])}", file=sys.stderr)
        try:
            with kept_features(home / "features.sqlite"):
                results = _one(name, settings, args, protocol, home / name.replace(":", "_"), options)
        except OutputError:  # there is no room for the others either
            raise
        except InputError as error:
            faults[name] = str(error)
            print_lines(f"{name}: {error}", file=sys.stderr)
            continue
        measured += [results] if results is not None else []
    if not args.plan:
        _side_by_side(protocol, measured, faults, [name for name, *_ in chosen], home, args)
    for results in measured:
        for check in results.checks:
            print_lines(f"(!) {results.system}: {check}", file=sys.stderr)
    return 1 if faults else 0


def _one(
    name: str, settings: list[str], args: argparse.Namespace, protocol: Protocol, out: Path, options: dict[str, Any]
) -> Results | None:
    """The results of a system; None for a plan."""
    made, _ = made_system(name, settings, args, protocol, out)
    made.models()  # what is missing is found before the data are read
    evaluation = prepare(
        args.data, out, protocol=protocol, system=made, train=args.train, emotion=args.emotion, overwrite=args.overwrite
    )
    if args.plan:
        plan = make_plan(evaluation, **options)
        print_lines(f"{name}: about {plan.seconds(args.jobs) / 60:.0f} minutes, {plan.disk / 1e9:.2f} GB")
        return None
    with chosen_jobs(args) as jobs:
        results = evaluate(
            evaluation,
            **options,
            jobs=jobs,
            details=not args.no_report,
            quiet=args.quiet,
            say=lambda line: None if args.quiet else print_lines(f"  {line}", file=sys.stderr),
        )
    if not args.no_report:
        from voiceveil.report.page import Options, write_report

        write_report(out, options=Options(overwrite=args.overwrite))
    return results


def _side_by_side(
    protocol: Protocol,
    measured: list[Results],
    faults: dict[str, str],
    order: list[str],
    home: Path,
    args: argparse.Namespace,
) -> None:
    from voiceveil.report.comparison import compare
    from voiceveil.report.comparison_page import write_comparison

    found = compare(protocol.name, measured, faults, order)
    home.mkdir(parents=True, exist_ok=True)
    found.save(home / "comparison.json")
    page = write_comparison(found, home / "comparison.html")
    if args.json:
        print((home / "comparison.json").read_text(encoding="utf-8"), end="")
        return
    lines = found.table()
    widths = [max(len(line[k]) for line in lines if len(line) > 2) for k in range(len(lines[0]))]
    for line in lines:
        print_lines("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip())
    for row in found.rows:
        for check in row.checks:
            print_lines(f"(!) {row.system}: {check}")
    print_lines(f"figures: {page}")
