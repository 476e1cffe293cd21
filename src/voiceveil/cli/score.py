"""Compute verification metrics, each with its interval, from score files.

A score file holds `<speaker> <utterance> <score>` lines, with a trial list (--trials) of `<speaker> <utterance>
target|nontarget` lines; or `<score> target|nontarget` lines, without a list. Scores are those of the attacker: a
higher one says that both recordings are of one speaker. Intervals come from a bootstrap over speakers.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from voiceveil.cli.options import (
    add_json,
    add_seed,
)
from voiceveil.cli.sanity import print_checks
from voiceveil.core.checks import Check
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.core.terminal import print_lines
from voiceveil.metrics import Zebra

if TYPE_CHECKING:
    from voiceveil.metrics import Measure, ScoredTrials
    from voiceveil.stats import Difference, Estimate

HELP = "compute EER, Cllr, D_sys, ZEBRA ... from score files"
EXAMPLES = """\
examples:
  voiceveil score scores --trials test_trials_f/trials --utt2spk test_trials_f/utt2spk
  voiceveil score scores.txt --metrics eer,min_dcf          # lines of `<score> target|nontarget`
  voiceveil score b2.scores b5.scores --trials trials       # and how they differ, with p-values
  voiceveil score scores --trials trials --method official  # as the challenges' own scripts compute them
"""

#: Metric -> how it is computed with --method exact, and with --method official.
_HOW = {
    "eer": ("convex hull of the ROC", ""),
    "eer_speechbrain": ("", "SpeechBrain: VoicePrivacy 2024"),
    "eer_kaldi": ("", "Kaldi: VoicePrivacy 2020, 2022"),
    "eer_rocch": ("", "convex hull, ties by class: VoicePrivacy 2020"),
    "min_dcf": ("normalised, p_target {p_target:g}, costs {c_miss:g}, {c_fa:g}",) * 2,
    "act_dcf": ("as min_dcf, at the Bayes threshold; for scores that are LLRs",) * 2,
    "cllr": ("for scores that are LLRs",) * 2,
    "min_cllr": ("PAV, ties pooled", "PAV, ties by class, ramp"),
    "d_sys": ("linkability, integral of histograms", "linkability, trapezoid on bin centres"),
    "zebra_population": ("expected disclosure, 0 to 0.721 bit",) * 2,
    "zebra_individual": ("worst case, log10 of a likelihood ratio", "worst case, log10, ties by class"),
}

#: With so few resamples their spread, hence the width of an interval, is known to 7 %: 1 / sqrt(2 * 100).
_FEWEST = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="score files; the others are compared with the first")
    parser.add_argument("--trials", metavar="FILE", help="trial list: `<speaker> <utterance> target|nontarget`")
    parser.add_argument("--utt2spk", metavar="FILE", help="speakers of the trial utterances: `<utterance> <speaker>`")
    parser.add_argument("--metrics", metavar="LIST", help="e.g. eer,min_dcf (default: all)")
    parser.add_argument(
        "--method",
        choices=("exact", "official"),
        default="exact",
        help="official: as the scripts of the challenges compute it (default: exact)",
    )
    parser.add_argument(
        "--p-target",
        type=float,
        default=0.01,
        metavar="P",
        help="prior of target trials in the DCFs (default: %(default)s)",
    )
    parser.add_argument("--c-miss", type=float, default=10.0, metavar="C", help="cost of a miss (default: %(default)s)")
    parser.add_argument(
        "--c-fa", type=float, default=1.0, metavar="C", help="cost of a false alarm (default: %(default)s)"
    )
    parser.add_argument(
        "--resamples", type=int, metavar="N", help="bootstrap resamples (default: 1000, fewer for huge files)"
    )
    add_seed(parser, "the bootstrap")
    add_json(parser, "the result, with rates as fractions,")


@dataclass
class _Scored:
    """One file: its trials and what had to be assumed about them."""

    file: str
    trials: ScoredTrials
    notes: list[str]


def run(args: argparse.Namespace) -> int:
    """Read, compute, print."""
    names = _chosen(args)
    if args.resamples is not None and args.resamples < _FEWEST:
        raise InputError(f"--resamples {args.resamples}", fix=f"use 1000, at least {_FEWEST}")
    scored = _read(args)
    resamples = args.resamples or _affordable(len(scored[0].trials.score))
    results = [_measure(one, names, args, resamples) for one in scored]
    differences = []
    if args.trials and _measures(names, args):
        differences = [_differ(scored[0], one, names, args, resamples) for one in scored[1:]]
    if args.json:
        print(json.dumps({"files": results, "differences": differences}, indent=1, default=_plain))
    else:
        _print(results, differences, args, resamples)
    print_checks(Check(**check) for result in results for check in result["checks"])
    return 0


def _chosen(args: argparse.Namespace) -> list[str]:
    """The metrics that are asked for and that the method has."""
    from voiceveil.metrics import MEASURES

    column = ("exact", "official").index(args.method)
    known = [name for name, how in _HOW.items() if how[column]]
    if args.metrics is None:
        return known
    known += [name for name in MEASURES if name not in _HOW]  # of third parties
    names = [name.strip() for name in args.metrics.split(",") if name.strip()]
    if not names:
        raise InputError("--metrics names no metric", fix=f"known: {', '.join(known)}")
    if args.method == "official":  # the EER has a name for each official definition
        names = [n for name in names for n in ([k for k in known if k.startswith("eer")] if name == "eer" else [name])]
    for name in names:
        if name not in known:
            raise InputError(f"unknown metric {name!r} in --metrics", fix=did_you_mean(name, known))
    return names


def _affordable(trials: int) -> int:
    """1000 resamples, but no more than 10^8 weighted trials; never too few."""
    return int(np.clip(100_000_000 // trials, _FEWEST, 1000))


def _read(args: argparse.Namespace) -> list[_Scored]:
    from voiceveil.corpus.score_files import read_key, read_labelled, read_scores, read_speakers
    from voiceveil.metrics import ScoredTrials

    if not args.trials:
        if args.utt2spk:
            raise InputError("--utt2spk without --trials", fix="give the trial list as well")
        note = "speakers unknown: intervals take trials for independent and are too narrow; give --trials"
        return [_Scored(file, ScoredTrials.independent(*read_labelled(file)), [note]) for file in args.files]
    key = read_key(args.trials)
    speaker, unknown = read_speakers(key, args.utt2spk)
    notes = []
    if not args.utt2spk:
        notes.append("speakers of the trial utterances taken from the target trials (no --utt2spk)")
    if unknown:
        count = f"{unknown} of {len(key.utterances)} utterances"
        notes.append(f"{count} are nobody's target: each taken for a speaker of its own; give --utt2spk")
    return [
        _Scored(file, ScoredTrials(read_scores(file, key), key.target, key.enroll, speaker), notes)
        for file in args.files
    ]


def _measures(names: list[str], args: argparse.Namespace) -> dict[str, Measure]:
    """The metrics that have an interval."""
    from voiceveil.metrics import MEASURES, measures

    costs = (args.p_target, args.c_miss, args.c_fa)
    official = args.method == "official"
    made = {
        "eer": measures.eer(),
        "eer_speechbrain": measures.eer("speechbrain"),
        "eer_kaldi": measures.eer("kaldi"),
        "eer_rocch": measures.eer("rocch-official"),
        "min_dcf": measures.min_dcf(*costs, "kaldi" if official else "exact"),
        "act_dcf": measures.act_dcf(*costs),
        "cllr": measures.cllr(),
        "min_cllr": measures.min_cllr(args.method),
        "d_sys": measures.d_sys(method=args.method),
        "zebra_population": measures.zebra_population(args.method),
    }
    others = {name: MEASURES[name]() for name in names if name not in _HOW}
    return {name: {**made, **others}[name] for name in names if name in made or name in others}


def _computable(one: _Scored, names: list[str]) -> list[str]:
    """Leave out, and say so, what these scores do not allow."""
    left_out = {}
    if np.isinf(one.trials.score).any():
        left_out = {"d_sys": "needs finite scores", "cllr": "needs finite scores"}
    elif one.trials.target.sum() < 20:
        left_out = {"d_sys": "needs 20 target trials"}
    one.notes = one.notes + [f"no {name}: it {why}" for name, why in left_out.items() if name in names]
    return [name for name in names if name not in left_out]


def _measure(one: _Scored, names: list[str], args: argparse.Namespace, resamples: int) -> dict[str, Any]:
    from voiceveil import metrics
    from voiceveil.attack.checks import check_trials

    names = _computable(one, names)
    measures = _measures(names, args)
    estimates = metrics.estimate_all(one.trials, list(measures.values()), resamples=resamples, seed=args.seed)
    found: dict[str, Any] = dict(zip(measures, estimates, strict=True))
    if "zebra_individual" in names:
        found["zebra_individual"] = metrics.zebra(*one.trials.classes(), method=args.method)
    target = int(one.trials.target.sum())
    return {
        "file": one.file,
        "target_trials": target,
        "nontarget_trials": len(one.trials.score) - target,
        "units": {"count": one.trials.n_units, "of": one.trials.of},
        "resamples": resamples,
        "seed": args.seed,
        "metrics": {name: {"method": _how(name, args), "result": found[name]} for name in names},
        "notes": one.notes,
        "checks": [check.as_dict() for check in check_trials(one.trials, where=one.file, seed=args.seed)],
    }


def _how(name: str, args: argparse.Namespace) -> str:
    return _HOW[name][args.method == "official"].format(**vars(args)) if name in _HOW else ""


def _differ(first: _Scored, one: _Scored, names: list[str], args: argparse.Namespace, resamples: int) -> dict[str, Any]:
    from voiceveil import metrics

    measures = _measures(_computable(first, _computable(one, names)), args)
    differences = metrics.compare_all(
        first.trials, one.trials, list(measures.values()), resamples=resamples, seed=args.seed
    )
    found = {
        name: {"result": difference, "detectable": _detectable(difference)}
        for name, difference in zip(measures, differences, strict=True)
    }
    return {"file": one.file, "minus": first.file, "metrics": found}


def _detectable(difference: Difference) -> float | None:
    from voiceveil.stats import minimal_detectable_difference

    return minimal_detectable_difference(difference.se, difference.n) if difference.n > 1 else None


def _plain(value: Estimate | Zebra) -> dict[str, Any]:
    """The results that JSON does not know."""
    if isinstance(value, Zebra):
        return {"value": value.individual, "tag": value.tag, "unit": "log10"}
    return value.as_dict()


def _print(results: list[dict[str, Any]], differences: list[dict[str, Any]], args: argparse.Namespace, n: int) -> None:
    for result in results:
        units = f"{result['units']['count']} {'target ' * bool(args.trials)}{result['units']['of']}"
        print_lines(
            f"{result['file']}: {result['target_trials']} target, {result['nontarget_trials']} nontarget, {units}"
        )
        rows = [(name, _show(entry["result"]), entry["method"]) for name, entry in result["metrics"].items()]
        _table(rows)
        for note in result["notes"]:
            print_lines(f"  note: {note}")
        for check in result["checks"]:
            print_lines(f"  {Check(**check)}")
        print()
    for difference in differences:
        print_lines(f"{difference['file']} minus {difference['minus']}:")
        rows = []
        for name, entry in difference["metrics"].items():
            scale, unit = (100.0, " %") if entry["result"].unit == "%" else (1.0, "")
            least = entry["detectable"]
            power = "" if least is None else f"detectable with 80 % power: {least * scale:.2g}{unit}"
            rows.append((name, str(entry["result"]), power))
        _table(rows)
        print()
    if any(set(result["metrics"]) - {"zebra_individual"} for result in results):
        of = results[0]["units"]["of"]
        print_lines(f"[low, high]: 95 % intervals, {n} resamples of {of}, seed {args.seed}. Method: {args.method}.")


def _show(result: Estimate | Zebra) -> str:
    return f"{result.individual:.3f} ({result.tag})" if isinstance(result, Zebra) else str(result)


def _table(rows: list[tuple[str, str, str]]) -> None:
    widths = [max(len(row[k]) for row in rows) for k in (0, 1)] if rows else [0, 0]
    for name, value, how in rows:
        print_lines(f"  {name:<{widths[0]}}  {value:<{widths[1]}}  {how}")
