"""Assess the risk of re-identification: Singling Out, Linkability and inference (Opinion 05/2014), with a report.

The protocol is that of Vauquier et al. 2025, validated by the French data protection authority. Two folders with a
sub-folder for each speaker are enough: sets A and B and the lengths of conversations are chosen by what the recordings
allow. `voiceveil corpus protocol --legal` designs sets that can be kept, see --protocol. Each verdict is found, not
found, or cannot be said with so few people. It informs a legal assessment and does not replace one.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from voiceveil.cli.options import (
    add_cache,
    add_device,
    add_executor,
    add_jobs,
    add_json,
    add_overwrite,
    add_progress,
    add_seed,
    add_train,
    chosen_jobs,
)
from voiceveil.cli.parser import UsageError
from voiceveil.cli.sanity import print_checks
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines

if TYPE_CHECKING:
    from voiceveil.risk import RiskLimits, RiskPlan

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
  other column (gender, age, accent, emotion) is an attribute whose inference is tried. Or a folder: a set of enrollment
  in emb_xvect of the challenges' evaluation (A; the trials beside it with the same suffix are B), or a Kaldi directory
  with spk2utt and xvector.h5 or xvector.scp.
scores: .npz with scores (tests, enrolled speakers), test_speakers, enroll_speakers and length; or .npy with .npy.json,
  as the authors of the paper publish theirs.

examples:
  voiceveil risk recordings/ hidden/                                    writes hidden.risk.html
  voiceveil risk recordings/ hidden/ --max-linkability 5% --jobs 4 --cache risk.sqlite
  voiceveil corpus protocol commonvoice:cv-corpus/en legal --legal      writes legal/en_A, en_B and protocol.toml
  voiceveil anonymize legal/en_A hidden                                 writes hidden/en_A_veil
  voiceveil anonymize legal/en_B hidden
  voiceveil risk --protocol legal/protocol.toml --original legal/en_A --original legal/en_B \\
      --anonymized hidden/en_A_veil --anonymized hidden/en_B_veil --cache risk.sqlite --report risk.html
  voiceveil risk --embeddings informed=anon.npz --protocol legal/protocol.toml --max-linkability 0.05
  voiceveil risk --embeddings informed=exp/asv_anon_b2/cosine_out/emb_xvect/libri_dev_enrolls_b2
  voiceveil risk --scores informed=scores_L1.npz,scores_L3.npz --max-linkability 5%
  voiceveil risk --embeddings original=A.npz,B.npz --embeddings informed=A_anon.npz,B_anon.npz --lengths 1,3 --json
"""
AFTER_INTERRUPTION = "; embeddings in the --cache are kept"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "%(prog)s ORIGINAL ANONYMIZED [options]\n       %(prog)s --protocol FILE.toml ... [options]"
    parser.add_argument(
        "folders",
        nargs="*",
        metavar="FOLDER",
        help="the folder of original recordings, with a sub-folder for each speaker, and that of the anonymized ones",
    )
    given = parser.add_argument_group("from audio")
    given.add_argument(
        "--original", action="append", default=[], metavar="CORPUS", help="original recordings; repeatable"
    )
    given.add_argument(
        "--anonymized",
        action="append",
        default=[],
        metavar="CORPUS",
        help="anonymized recordings with the same ids; repeatable",
    )
    add_train(given, "speech of other speakers, anonymized by this system, which attackers learn from")
    add_train(given, "speech of other speakers, anonymized by a similar system", name="--train-similar")
    given.add_argument("--encoder", action="append", default=[], metavar="ATTACKER=ENCODER", help="see below")
    add_cache(given)
    _add_vectors(parser)
    _add_plan(parser)
    _add_limits(parser)
    _add_outputs(parser)
    add_jobs(parser)
    add_device(parser)
    add_executor(parser)
    add_progress(parser)
    add_json(parser, "the result, with rates as fractions,")


def _add_vectors(parser: argparse.ArgumentParser) -> None:
    """Declare embeddings and scores."""
    vectors = parser.add_argument_group("from embeddings")
    vectors.add_argument(
        "--embeddings",
        action="append",
        default=[],
        metavar="ATTACKER=PATH[,PATH]",
        help="embeddings of both sets in one file or folder, or of A and B in two; see below",
    )
    vectors.add_argument(
        "--scores",
        action="append",
        default=[],
        metavar="ATTACKER=FILE[,FILE]",
        help="matrices of scores instead of embeddings, one for each conversation length; see below",
    )
    vectors.add_argument(
        "--distractors",
        action="append",
        default=[],
        metavar="ATTACKER=PATH",
        help="embeddings of more speakers for A, who are never the right answer",
    )
    vectors.add_argument(
        "--norm",
        choices=("check", "unit", "raw"),
        default="check",
        help="normalization of the vectors (default: %(default)s)",
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    """Declare the files to write, and what the report says of the recipient."""
    parser.add_argument(
        "--report", type=Path, metavar="HTML", help="write a report for decision makers as one HTML file"
    )
    parser.add_argument("--csv", type=Path, metavar="CSV", help="write every point of every curve as one CSV file")
    parser.add_argument("--recipient", default="", metavar="TEXT", help="who is to have the data, for the report")
    parser.add_argument(
        "--means",
        default="",
        metavar="TEXT",
        help="means that the recipient is reasonably likely to use, for the report (default: those of the attackers)",
    )
    add_overwrite(parser, "replace the files of --report and --csv if there are any")


def _add_plan(parser: argparse.ArgumentParser) -> None:
    """Declare the numbers of the assessment."""
    plan = parser.add_argument_group("protocol (defaults: those of --protocol, else the paper's)")
    plan.add_argument(
        "--protocol",
        type=Path,
        metavar="FILE.toml",
        help="protocol with a table [legal], beside its sets A and B, as `corpus protocol --legal` writes it (default: "
        "sets drawn from the original recordings, 2 and 3 minutes, or what they allow)",
    )
    plan.add_argument("--lengths", metavar="L[,L]", help="utterances in a conversation (of 1,3,30 those that fit)")
    plan.add_argument("--speakers", metavar="N[,N]", help="numbers of speakers (all, halved down to 20)")
    plan.add_argument("--enrolled", type=int, metavar="N", help="speakers of B enrolled for Singling Out (495)")
    plan.add_argument("--draws", type=int, metavar="N", help="random draws of utterances (5)")
    add_seed(plan, "all draws")
    plan.add_argument("--labels", type=Path, metavar="CSV", help="columns speaker or utterance, and attributes")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """Declare the limits that decide on the exit code."""
    gate = parser.add_argument_group(
        "limits: exit code 1 unless the whole 95% interval is at or below each, and no check fails"
    )
    gate.add_argument("--max-linkability", metavar="RATE", help="largest linkability, e.g. 5%% or 0.05")
    gate.add_argument("--max-singling-out", metavar="RATE", help="largest singling-out rate, e.g. 5%% or 0.05")
    gate.add_argument(
        "--max-inference", metavar="RATE", help="largest unweighted average recall of an inferred attribute"
    )
    gate.add_argument(
        "--at-speakers",
        type=int,
        metavar="N",
        help="number of speakers to judge at, the nearest measured (default: the largest)",
    )
    gate.add_argument("--at-length", type=int, metavar="L", help="conversation length to judge at (default: the worst)")


def run(args: argparse.Namespace) -> int:
    """Assess, print, write the report; 1 if a limit is exceeded, or cannot be judged."""
    from voiceveil.api.risk_assessment import RiskOptions, RiskSettings, assess_settings

    original, anonymized, report = _folders(args)
    with chosen_jobs(args) as jobs:
        settings = RiskSettings(
            original=original,
            anonymized=anonymized,
            train=args.train,
            embeddings=_files(args.embeddings, "--embeddings"),
            scores=_files(args.scores, "--scores"),
            norm=args.norm,
            protocol=args.protocol,
            labels=args.labels,
            plan=_plan(args),
            limits=_limits(args),
            jobs=jobs,
            device=args.device,
            options=RiskOptions(
                train_similar=args.train_similar,
                encoders=_pairs(args.encoder, "--encoder"),
                distractors=_pairs(args.distractors, "--distractors"),
                cache=args.cache,
                progress=not (args.quiet or args.json),
                recipient=args.recipient,
                means=args.means,
            ),
            fit_lengths=args.lengths is None and args.protocol is None,
        )
        if args.csv is not None and args.csv.suffix.lower() != ".csv":
            raise InputError("--csv writes CSV", where=args.csv, fix="give a name that ends in .csv")
        for output in (report, args.csv):
            if output is not None:
                settings.refuse_report(output, overwrite=args.overwrite)
        risk = assess_settings(settings, command=_command())
    if report is not None:
        risk.report(report, overwrite=args.overwrite)
    if args.csv is not None:
        risk.save(args.csv, overwrite=args.overwrite)
    print(risk.to_json() if args.json else risk)
    if report is not None and not args.json:
        print_lines(f"report: {report}")
    print_checks(risk.checks)
    return 0 if risk.acceptable else 1


def _folders(args: argparse.Namespace) -> tuple[list[str], list[str], Path | None]:
    """Return the original and the anonymized corpora, and the report; two plain folders have one by default."""
    if not args.folders:
        return args.original, args.anonymized, args.report
    if len(args.folders) != 2 or args.original or args.anonymized or args.embeddings or args.scores:
        raise UsageError(
            f"{len(args.folders)} folder(s) given",
            fix="give ORIGINAL and ANONYMIZED, without --original, --anonymized and --embeddings",
        )
    original, anonymized = args.folders
    return [original], [anonymized], args.report or Path(f"{Path(anonymized).resolve().name}.risk.html")


def _limits(args: argparse.Namespace) -> RiskLimits:
    """Return the limits of the options, which may be written in percent."""
    from voiceveil.risk import RiskLimits
    from voiceveil.risk.verdicts import parse_rate

    names = ("linkability", "singling_out", "inference")
    options = {name: getattr(args, f"max_{name}") for name in names}
    rates = {
        name: None if text is None else parse_rate(text, f"--max-{name.replace('_', '-')}")
        for name, text in options.items()
    }
    return RiskLimits(**rates, speakers=args.at_speakers, length=args.at_length)


def _command() -> str:
    """Return the command line, for the report."""
    return shlex.join(["voiceveil", *sys.argv[1:]]) if sys.argv[1:2] == ["risk"] else ""


def _plan(args: argparse.Namespace) -> RiskPlan:
    """Return the numbers of the assessment: those of the options, else of the protocol, else of the paper."""
    from voiceveil.evaluation.protocol import Legal
    from voiceveil.risk import RiskPlan
    from voiceveil.risk.sets import load_legal

    legal = Legal("", "") if args.protocol is None else load_legal(args.protocol)
    speakers = _numbers(args.speakers, "--speakers") if args.speakers else legal.speakers
    return RiskPlan(
        lengths=_numbers(args.lengths, "--lengths") if args.lengths else legal.lengths,
        sizes=speakers or None,
        enrolled=legal.enrolled if args.enrolled is None else args.enrolled,
        draws=legal.draws if args.draws is None else args.draws,
        seed=args.seed,
    )


def _numbers(text: str, option: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text} is not a list of whole numbers", fix="write e.g. 1,3,30") from None


def _files(given: list[str], option: str) -> dict[str, list[Path]]:
    """Return attacker -> files of options ``ATTACKER=FILE[,FILE]``."""
    return {name: [Path(file) for file in files.split(",")] for name, files in _pairs(given, option).items()}


def _pairs(given: list[str], option: str) -> dict[str, str]:
    """Return attacker -> value of options ``ATTACKER=VALUE``."""
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise InputError(f"{option} {text}", fix="write ATTACKER=VALUE, e.g. informed=...")
        if name in pairs:
            raise InputError(f"{option} names the attacker {name} twice", fix="give each attacker once")
        pairs[name] = value
    return pairs
