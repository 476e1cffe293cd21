"""Text-dependent speaker verification as in the TdSV Challenge 2024: the right person, with the right passphrase.

DIR is a challenge in its own layout: docs/{dev,eval}_model_enrollment.txt, docs/{dev,eval}_trials.txt,
docs/train_labels.txt, wav/{enrollment,evaluation,train}; keys, where there are any, are docs/{dev,eval}_keys.txt.
Task 1 has ten known phrases; in task 2 users chose passphrases of their own, which are not in the training.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from voiceveil.cli.options import add_json
from voiceveil.cli.tdsv_arguments import add_evaluate, add_make, add_score, add_submit, add_train
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines

if TYPE_CHECKING:
    from voiceveil.run.context import RunContext

EXAMPLES = """\
examples:
  voiceveil tdsv check task1
  voiceveil tdsv make data/digits task2 --task 2 --join 4-6 --language English
  voiceveil tdsv train task2 system.npz --cache tdsv.sqlite --jobs 2
  voiceveil tdsv train task1 plda.npz --backend plda --train deepmine:DeepMine libri_train
  voiceveil tdsv score system.npz task2 --subset eval --out answer.txt --cache tdsv.sqlite
  voiceveil tdsv score system.npz task2 --out answer-b2.txt --anonymize b2 --anonymized-to speech/b2 --seed 1
  voiceveil tdsv evaluate answer.txt B2=answer-b2.txt --trials task2/docs/eval_trials.txt \\
      --keys task2/docs/eval_keys.txt --report report.html
  voiceveil tdsv submit answer.txt --trials task2/docs/eval_trials.txt --out submission.zip
  voiceveil tdsv submit --check submission.zip --trials task2/docs/eval_trials.txt
"""
AFTER_INTERRUPTION = "; the same command starts again, and takes what --cache keeps"
_SHOWN = 50  # faults that a person reads


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|make|train|score|evaluate|submit")
    check = actions.add_parser("check", help="list every fault of a challenge, with its file and line")
    check.add_argument("challenge", type=Path, metavar="DIR", help="folder of the challenge")
    check.add_argument("--no-audio", action="store_true", help="do not open the recordings")
    add_json(check)
    add_make(actions.add_parser("make", help="build a challenge, with keys, from a corpus with phrase labels"))
    add_train(actions.add_parser("train", help="train a system on the training part of a challenge"))
    add_score(actions.add_parser("score", help="score the trials of a challenge: one log-likelihood ratio a line"))
    add_evaluate(
        actions.add_parser("evaluate", help="compute minDCF, actual DCF and EER, overall and by group, with a report")
    )
    add_submit(actions.add_parser("submit", help="pack answer.txt for the challenge, or check such a ZIP"))


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    actions: dict[str, Callable[[argparse.Namespace], int]] = {
        "check": _check,
        "make": _make,
        "train": _train,
        "score": _score,
        "evaluate": _evaluate,
        "submit": _submit,
    }
    return actions[args.action](args)


def _check(args: argparse.Namespace) -> int:
    from voiceveil.tdsv.challenge import check

    challenge, listed = check(args.challenge, audio=not args.no_audio)
    faults = list(listed)
    wrong = sum(not fault.note for fault in faults)
    if args.json:
        sizes = {"train": len(challenge.labels)}
        sizes |= {name: len(subset.trials) for name, subset in challenge.subsets.items()}
        rows = [{"file": str(f.file), "line": f.line, "what": f.what, "note": f.note} for f in faults]
        print(json.dumps({"task": challenge.task, "sizes": sizes, "faults": rows}, indent=1))
        return 1 if wrong else 0
    for fault in faults[:_SHOWN]:
        print_lines(f"{'note: ' if fault.note else ''}{fault}")
    if len(faults) > _SHOWN:
        print_lines(f"... and {len(faults) - _SHOWN} more; --json lists all")
    print_lines(f"task {challenge.task or '?'}: {len(challenge.labels)} training files")
    for name, subset in challenge.subsets.items():
        keys = "no keys" if subset.keys is None else "with keys"
        print_lines(f"{name}: {len(subset.models)} models, {len(subset.trials)} trials, {keys}")
    print_lines(f"{args.challenge}: {'good' if not wrong else f'{wrong} fault(s)'}")
    return 1 if wrong else 0


def _make(args: argparse.Namespace) -> int:
    from voiceveil.api.tdsv import make_challenge
    from voiceveil.tdsv.challenge_design import ChallengePlan

    plan = ChallengePlan(
        task=args.task,
        join=_range(args.join),
        phrases=args.phrases,
        known=args.known,
        tests=args.tests,
        repetitions=args.repetitions,
        free=args.free,
        most=args.most,
        impostor_wrong=args.impostor_wrong,
        language=args.language,
        seed=args.seed,
    )
    design = make_challenge(args.corpus, args.out, plan, jobs=args.jobs, quiet=args.quiet)
    print_lines(
        f"{args.out}: task {plan.task}, {len(design.passphrases)} passphrases, {len(design.labels)} training files"
    )
    for subset, keys in design.keys.items():
        counts = ", ".join(f"{count} {kind}" for kind, count in design.trial_counts(subset).items())
        print_lines(f"{subset}: {len(design.models[subset])} models, {len(keys)} trials ({counts})")
    return 0


def _range(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    low, dash, high = text.partition("-")
    if not dash or not low.isdecimal() or not high.isdecimal():
        raise InputError(f"--join {text}", fix="write two numbers, e.g. --join 4-6")
    return int(low), int(high)


def _context(args: argparse.Namespace) -> RunContext:
    from voiceveil.run.cache import Cache
    from voiceveil.run.context import RunContext

    return RunContext(Cache(args.cache), args.jobs, args.device, progress=not args.quiet)


def _train(args: argparse.Namespace) -> int:
    from voiceveil.api.tdsv import SystemSettings, train_system
    from voiceveil.cli.train_options import augmentation

    settings = SystemSettings(
        encoder=args.encoder,
        backend=args.backend,
        content=args.content,
        epochs=args.epochs,
        channels=args.channels,
        augmentation=augmentation(args, seed=0),
        train=args.train,
    )
    system = train_system(args.challenge, args.out, settings, _context(args), overwrite=args.overwrite)
    record = system.record
    trials = ", ".join(f"{count} {kind}" for kind, count in record["calibration_trials"].items())
    print_lines(
        f"{args.out}: task {system.task}, voices by {system.encoder} ({record['backend']}), "
        f"phrases by {system.content}",
        f"trained on {record['recordings']} recordings of {record['speakers']} speakers; calibrated on {trials}",
    )
    return 0


def _score(args: argparse.Namespace) -> int:
    from voiceveil.api.tdsv import AnswerOptions, score_challenge

    options = AnswerOptions(
        subset=args.subset,
        free_text=not args.no_free_text,
        anonymizer=args.anonymize,
        anonymized_to=args.anonymized_to,
        seed=args.seed,
        parts=args.parts,
        overwrite=args.overwrite,
    )
    scores = score_challenge(args.system, args.challenge, args.out, options, _context(args))
    print_lines(f"{args.out}: {len(scores.llr)} trials")
    return 0


def _evaluate(args: argparse.Namespace) -> int:
    from voiceveil.api.tdsv import REPORT_TITLE, TrialLists, evaluate_answers
    from voiceveil.cli.sanity import print_checks
    from voiceveil.tdsv.tables import table

    evaluations, checks = evaluate_answers(
        [_named_file(spec) for spec in args.answers],
        TrialLists(args.trials, args.keys, args.models),
        resamples=args.resamples,
        report=args.report,
        title=args.title or REPORT_TITLE,
        overwrite=args.overwrite,
    )
    if args.json:
        print(json.dumps([evaluation.as_dict() for evaluation in evaluations], indent=1))
    else:
        print(table(evaluations))
    if args.report is not None:
        print_lines(f"report: {args.report}", file=sys.stderr if args.json else sys.stdout)
    print_checks(checks)
    return 0


def _named_file(spec: str) -> tuple[str, Path]:
    """Return name and file of ``[NAME=]FILE``; the default name is that of the file without its ending."""
    name, equals, path = spec.partition("=")
    if equals and not Path(spec).exists():
        return name, Path(path)
    return Path(spec).stem, Path(spec)


def _submit(args: argparse.Namespace) -> int:
    from voiceveil.api.tdsv import pack_answer
    from voiceveil.tdsv.answers import check_submission
    from voiceveil.tdsv.lists import read_trials

    if (args.answer is None) == (args.check is None):
        raise InputError("give either an answer or --check ZIP")
    if args.check is not None:
        scores = check_submission(args.check, len(read_trials(args.trials)))
        print_lines(f"{args.check}: good, {len(scores)} scores")
        return 0
    path, count = pack_answer(args.answer, args.trials, args.out, overwrite=args.overwrite)
    print_lines(f"{path}: {count} scores")
    return 0
