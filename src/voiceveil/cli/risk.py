"""Assess the risk of re-identification: Singling Out, Linkability and inference (Opinion 05/2014), with a report.

The protocol is that of Vauquier et al. 2025, validated by the French data protection authority. It needs two sets of
recordings of the same people, A and B, which `voiceveil corpus protocol --legal` designs and writes down. It informs a
legal assessment and is none.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiceveil.cli.executors import add_executor_arguments, chosen_jobs
from voiceveil.cli.options import add_overwrite
from voiceveil.cli.sanity import print_checks
from voiceveil.core.checks import check_lines
from voiceveil.core.errors import InputError
from voiceveil.core.files import bounded_lines, open_file
from voiceveil.core.output_guard import refuse_files, refuse_same_files
from voiceveil.core.registry import did_you_mean
from voiceveil.core.terminal import escaped, print_lines
from voiceveil.run.outputs import refuse_inputs

if TYPE_CHECKING:
    from voiceveil.core.checks import Check
    from voiceveil.risk import Assessment, RiskAttack

__all__ = ["EXAMPLES", "add_arguments", "run"]

EXAMPLES = """\
attackers, and the encoder that each has if --encoder does not say otherwise:
  original        campplus           original recordings: no protection
  ignorant        campplus           anonymized recordings, an encoder of original speech
  semi-informed   campplus-adapted   it has learned from speech of a similar system (--train-similar)
  informed        campplus-adapted   it has learned from speech of this system (--train; default: the release itself;
                                     nobody is attacked by a model that has heard them)
  The challenges call the informed attacker "semi-informed".

embeddings: .npz or .parquet with the columns utterance, speaker, vector; set (A or B), if there is no --protocol; any
  other column (gender, age, accent, emotion) is an attribute whose inference is tried.

examples:
  voiceveil corpus protocol commonvoice:cv-corpus/en legal --legal      writes legal/en_A, en_B and protocol.json
  voiceveil anonymize legal/en_A hidden                                 writes hidden/en_A_veil
  voiceveil anonymize legal/en_B hidden
  voiceveil risk --protocol legal/protocol.json --original legal/en_A --original legal/en_B \\
      --anonymized hidden/en_A_veil --anonymized hidden/en_B_veil --cache risk.sqlite --report risk.html
  voiceveil risk --embeddings informed=anon.npz --protocol legal/protocol.json --max-linkability 0.05
  voiceveil risk --embeddings original=A.npz,B.npz --embeddings informed=A_anon.npz,B_anon.npz --lengths 1,3 --json
"""
AFTER_INTERRUPTION = "; embeddings in the --cache are kept"

_DEFAULTS = {"original": "campplus", "ignorant": "campplus"}
_LEARNED = {"semi-informed": "campplus-adapted", "informed": "campplus-adapted"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    given = parser.add_argument_group("from audio")
    given.add_argument("--original", action="append", default=[], metavar="CORPUS", help="recordings; repeatable")
    given.add_argument("--anonymized", action="append", default=[], metavar="CORPUS", help="the same ids; repeatable")
    given.add_argument("--train", action="append", default=[], metavar="CORPUS", help="anonymized by this system")
    given.add_argument("--train-similar", action="append", default=[], metavar="CORPUS", help="by a similar system")
    given.add_argument("--encoder", action="append", default=[], metavar="ATTACKER=ENCODER", help="see below")
    given.add_argument("--cache", type=Path, metavar="FILE", help="keeps embeddings (biometric data!) for the next run")
    vectors = parser.add_argument_group("from embeddings")
    vectors.add_argument(
        "--embeddings", action="append", default=[], metavar="ATTACKER=FILE[,FILE]", help="both sets, or A's and B's"
    )
    vectors.add_argument("--norm", choices=("check", "unit", "raw"), default="check", help="of vectors (%(default)s)")
    plan = parser.add_argument_group("protocol (defaults: the paper's)")
    plan.add_argument("--protocol", type=Path, metavar="FILE", help="protocol.json of `corpus protocol --legal`")
    plan.add_argument("--lengths", default="1,3,30", metavar="L[,L]", help="utterances a conversation (%(default)s)")
    plan.add_argument("--speakers", metavar="N[,N]", help="N and N' (default: all, halved down to 20)")
    plan.add_argument("--enrolled", type=int, default=495, metavar="N", help="speakers who single out (%(default)s)")
    plan.add_argument("--draws", type=int, default=5, metavar="N", help="(%(default)s)")
    plan.add_argument("--seed", type=int, default=0, metavar="N", help="of all draws (%(default)s)")
    plan.add_argument("--labels", type=Path, metavar="CSV", help="columns speaker or utterance, and attributes")
    gate = parser.add_argument_group(
        "limits: exit code 1 if the upper end of a 95% interval is above one, or a check fails"
    )
    gate.add_argument("--max-linkability", type=float, metavar="RATE", help="e.g. 0.05")
    gate.add_argument("--max-singling-out", type=float, metavar="RATE")
    gate.add_argument("--max-inference", type=float, metavar="RATE", help="unweighted average recall")
    gate.add_argument("--at-speakers", type=int, metavar="N", help="judge at the N nearest to this (default: largest)")
    gate.add_argument("--at-length", type=int, metavar="L", help="judge at this L (default: the worst)")
    parser.add_argument("--report", type=Path, metavar="HTML", help="write a report: one file, for those who decide")
    add_overwrite(parser, "replace the file of --report if there is one")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes and threads (%(default)s)")
    add_executor_arguments(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="print JSON; rates are fractions there")


def run(args: argparse.Namespace) -> int:
    """Measure, print, write the report; 1 if a limit is exceeded, or cannot be judged."""
    from voiceveil.risk import RiskLimits, RiskPlan, assess

    if bool(args.embeddings) == bool(args.original or args.anonymized):
        raise InputError("give embeddings, or corpora of audio", fix="--embeddings, or --original and --anonymized")
    plan = RiskPlan(
        lengths=_numbers(args.lengths, "--lengths"),
        sizes=_numbers(args.speakers, "--speakers") if args.speakers else None,
        enrolled=args.enrolled,
        draws=args.draws,
        seed=args.seed,
    )
    limits = RiskLimits(
        args.max_linkability, args.max_singling_out, args.max_inference, args.at_speakers, args.at_length
    )
    if args.at_length is not None and args.at_length not in plan.lengths:
        raise InputError(f"--at-length {args.at_length} is not measured", fix=f"--lengths are {args.lengths}")
    if args.report is not None and not args.report.absolute().parent.is_dir():
        raise InputError("no such folder", where=args.report.parent, fix="make it first")
    if args.report is not None:
        _check_report(args)
    labels = _read_labels(args.labels) if args.labels else {}
    attacks, checks = (_from_embeddings(args, labels), []) if args.embeddings else _from_audio(args, labels)
    quiet = args.quiet or args.json
    found = assess(
        attacks,
        plan,
        limits=limits,
        jobs=args.jobs,
        about=_about(args),
        checks=checks,
        progress=None if quiet else lambda text: print_lines(text, file=sys.stderr),
    )
    if args.report is not None:
        from voiceveil.report.risk import write_risk_report

        write_risk_report(found, args.report)
    print(json.dumps(found.as_dict(), indent=1) if args.json else table(found))
    print_checks(found.checks)
    return 1 if found.exceeded or (found.verdicts and found.checks) else 0


def _check_report(args: argparse.Namespace) -> None:
    """Refuse to write the report over or into what is read, and over a file that is there."""
    refuse_inputs(args.report, [*args.original, *args.anonymized, *args.train, *args.train_similar])
    embeddings = [Path(file) for spec in args.embeddings for file in spec.partition("=")[2].split(",")]
    refuse_same_files([args.report], lambda: [*embeddings, *filter(None, (args.protocol, args.labels, args.cache))])
    refuse_files([args.report], overwrite=args.overwrite)


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text}: not whole numbers", fix="e.g. 1,3,30") from None


def _pairs(given: list[str], option: str) -> dict[str, str]:
    """ATTACKER=VALUE."""
    from voiceveil.risk.sets import ATTACKERS

    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise InputError(f"{option} {text}", fix="write ATTACKER=VALUE, e.g. informed=...")
        if name not in ATTACKERS:
            raise InputError(f"unknown attacker {name!r}", fix=did_you_mean(name, list(ATTACKERS)))
        if name in found:
            raise InputError(f"{option}: the attacker {name} is there twice")
        found[name] = value
    return found


def _from_embeddings(args: argparse.Namespace, labels: dict[str, dict[str, str]]) -> list[RiskAttack]:
    from dataclasses import replace

    import numpy as np

    from voiceveil.risk import attack_from_tables, read_split, read_table
    from voiceveil.risk.sets import ATTACKERS, divide
    from voiceveil.run.ledger import sha256_file

    split = read_split(args.protocol) if args.protocol else None
    attacks = []
    for name, value in _pairs(args.embeddings, "--embeddings").items():
        files = [Path(part) for part in value.split(",")]
        if len(files) > 2:
            raise InputError(f"{len(files)} files for the attacker {name}", fix="give one, or A's and B's")
        tables = [read_table(file, norm=args.norm) for file in files]
        a, b = tables if len(tables) == 2 else divide(tables[0], split)
        told = {key: _column(of, a.utterance.tolist(), a.speaker.tolist()) for key, of in labels.items()}
        a = replace(a, attributes={**a.attributes, **{key: np.array(column) for key, column in told.items()}})
        about = {"knows": ATTACKERS[name], "files": {file.name: sha256_file(file) for file in files}}
        attacks.append(attack_from_tables(name, a, b, about))
    return attacks


def _from_audio(args: argparse.Namespace, labels: dict[str, dict[str, str]]) -> tuple[list[RiskAttack], list[Check]]:
    from voiceveil.corpus import open_corpus
    from voiceveil.corpus.ids import with_safe_ids
    from voiceveil.risk import read_split
    from voiceveil.risk.audio import Recordings, attacks_from_audio
    from voiceveil.risk.checks import check_recordings
    from voiceveil.run.cache import Cache
    from voiceveil.run.context import RunContext

    if args.protocol is None:
        raise InputError("which utterances are in A and which in B?", fix="give --protocol (`corpus protocol --legal`)")
    sides = [
        tuple(with_safe_ids(open_corpus(spec)) for spec in specs)
        for specs in (args.original, args.anonymized, args.train, args.train_similar)
    ]
    recordings = Recordings(read_split(args.protocol), *sides)
    wanted: dict[str, str] = {}
    if args.original:
        wanted["original"] = _DEFAULTS["original"]
    if args.anonymized:
        wanted["ignorant"] = _DEFAULTS["ignorant"]
        if args.train_similar:
            wanted["semi-informed"] = _LEARNED["semi-informed"]
        wanted["informed"] = _LEARNED["informed"]
    wanted |= _pairs(args.encoder, "--encoder")
    known = recordings.known()
    attributes = {"gender": {key: known[key].gender or "" for key in recordings.split}}
    attributes["emotion"] = {key: known[key].emotion or "" for key in recordings.split}
    for name, of in labels.items():
        keys = list(recordings.split)
        column = _column(of, keys, [str(known[key].speaker) for key in keys])
        attributes[name] = dict(zip(keys, column, strict=True))
    used = {name: of for name, of in attributes.items() if any(of.values())}
    with chosen_jobs(args) as jobs:
        context = RunContext(Cache(args.cache), jobs=jobs, quiet=args.quiet or args.json)
        return attacks_from_audio(recordings, wanted, context, used), check_recordings(recordings, context.cache)


def _read_labels(path: Path) -> dict[str, dict[str, str]]:
    """Attribute -> speaker or utterance id -> label; keys begin with the column's name and a NUL."""
    import csv
    import io

    from voiceveil.corpus.ids import safe_id

    try:
        with io.TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(bounded_lines(stream, path)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"not readable as CSV: {error}", where=path) from error
    key = next((name for name in ("utterance", "speaker") if rows and name in rows[0]), None)
    if key is None:
        raise InputError("no column speaker or utterance", where=path, fix="write a header such as speaker,age,accent")
    found: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows, start=2):
        if row.get(key) in (None, "") or None in row or None in row.values():
            raise InputError("not as many fields as the header has", where=path, line=number)
        for name, value in row.items():
            if name not in ("utterance", "speaker"):
                found.setdefault(name, {})[f"{key}\0{safe_id(row[key])}"] = value
    if not found:
        raise InputError("no attribute", where=path, fix="add a column such as age")
    return found


def _column(of: dict[str, str], utterances: list[str], speakers: list[str]) -> list[str]:
    """The label of each utterance: its own or its speaker's."""
    return [
        of.get(f"utterance\0{utterance}", of.get(f"speaker\0{speaker}", ""))
        for utterance, speaker in zip(utterances, speakers, strict=True)
    ]


def _about(args: argparse.Namespace) -> dict[str, Any]:
    """What it takes to do the same again."""
    import platform
    import shlex
    from importlib.metadata import version

    import numpy

    from voiceveil.run.ledger import sha256_file

    about: dict[str, Any] = {
        "voiceveil": version("voiceveil"),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "command": shlex.join(["voiceveil", *sys.argv[1:]]) if sys.argv[1:2] == ["risk"] else "",
    }
    for name in ("protocol", "labels"):
        path = getattr(args, name)
        if path is not None and path.is_file():
            about[name] = {"file": path.name, "sha256": sha256_file(path)}
    return about


def table(found: Assessment) -> str:
    """Smallest and largest N of each curve, inference, warnings, limits."""
    names = {"singling_out": "Singling Out", "linkability": "Linkability", "one_minus_eer": "1 - EER"}
    rows = [("criterion", "attacker", "L", "N", "value [95 %]", "chance", "control")]
    for curve in found.curves:
        for at in sorted({0, len(curve.sizes) - 1}):
            rows.append(
                (
                    names[curve.metric],
                    curve.attacker,
                    str(curve.length),
                    str(curve.sizes[at]),
                    _rate(curve.value[at], curve.low[at], curve.high[at]),
                    f"{100 * curve.chance[at]:.2f}",
                    "" if curve.control is None else f"{100 * curve.control[at]:.2f}",
                )
            )
    for one in found.inferences:
        what = f"inference: {one.attribute}"
        rate = _rate(one.value, one.low, one.high)
        chance, control = f"{100 * one.baseline:.2f}", f"{100 * one.control:.2f}"
        rows.append((what, one.attacker, str(one.length), str(one.speakers), rate, chance, control))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += ["", *check_lines(found.checks), *(f"warning: {text}" for text in found.warnings)]
    for verdict in found.verdicts:
        sign = "EXCEEDED" if verdict.exceeded else "NOT JUDGED (see the WARNING)" if found.checks else "kept"
        who = f"{verdict.attacker}, L = {verdict.length}, {verdict.speakers} speakers"
        rate = f"{verdict.value:.1%} (up to {verdict.high:.1%}) of {verdict.limit:.1%}"
        lines.append(f"limit {sign}: {verdict.criterion} {rate}, {who}")
    lines.append("This informs a legal assessment and is none.")
    return "\n".join(map(escaped, lines))


def _rate(value: float, low: float, high: float) -> str:
    return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
