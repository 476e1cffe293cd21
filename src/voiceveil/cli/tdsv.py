"""Text-dependent speaker verification as in the TdSV Challenge 2024: is it the right person, with the right passphrase?

DIR is a challenge in its own layout: docs/{dev,eval}_model_enrollment.txt, docs/{dev,eval}_trials.txt,
docs/train_labels.txt, wav/{enrollment,evaluation,train}; keys, where there are any, are docs/{dev,eval}_keys.txt.
Task 1 has ten known phrases, task 2 passphrases that users chose and nobody else has said.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from voiceveil.cli.options import (
    add_cache,
    add_former_name,
    add_jobs,
    add_json,
    add_out,
    add_overwrite,
    add_progress,
    add_seed,
    training_files,
)
from voiceveil.core.errors import InputError
from voiceveil.core.output_guard import refuse_files, refuse_overlap, refuse_same_files
from voiceveil.core.terminal import print_lines
from voiceveil.run.outputs import recorded, refuse_corpora

EXAMPLES = """\
examples:
  voiceveil tdsv check task1
  voiceveil tdsv make data/digits task2 --task 2 --join 4-6 --language English
  voiceveil tdsv train task2 system.npz --cache tdsv.sqlite --jobs 2
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
    """The actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|make|train|score|evaluate|submit")
    check = actions.add_parser("check", help="list every fault of a challenge, with its file and line")
    check.add_argument("challenge", type=Path, metavar="DIR", help="folder of the challenge")
    check.add_argument("--no-audio", action="store_true", help="do not open the recordings")
    add_json(check)
    _add_make(actions.add_parser("make", help="build a challenge, with keys, from a corpus with phrase labels"))
    _add_train(actions.add_parser("train", help="train a system on the training part of a challenge"))
    _add_score(actions.add_parser("score", help="score the trials of a challenge: one log-likelihood ratio a line"))
    _add_evaluate(
        actions.add_parser("evaluate", help="compute minDCF, actual DCF and EER, overall and by group, with a report")
    )
    _add_submit(actions.add_parser("submit", help="pack answer.txt for the challenge, or check such a ZIP"))


def _add_make(make: argparse.ArgumentParser) -> None:
    make.add_argument(
        "corpus", metavar="CORPUS", help="corpus with speaker and phrase labels, given as for `voiceveil anonymize`"
    )
    make.add_argument("out", type=Path, metavar="OUT", help="folder for the challenge")
    make.add_argument("--task", type=int, choices=(1, 2), required=True, help="task of the challenge")
    make.add_argument(
        "--join", metavar="N-M", help="build a passphrase of N to M phrases of the corpus, e.g. 4-6 digits"
    )
    make.add_argument(
        "--phrases", type=int, default=10, metavar="N", help="number of passphrases (default: %(default)s)"
    )
    make.add_argument(
        "--known",
        type=int,
        default=6,
        metavar="N",
        help="passphrases that also occur in the training of task 2 (default: 6)",
    )
    make.add_argument(
        "--tests", type=int, default=3, metavar="N", help="test utterances of each speaker and phrase (default: 3)"
    )
    make.add_argument(
        "--repetitions",
        type=int,
        default=4,
        metavar="N",
        help="training utterances of each speaker and phrase (default: %(default)s)",
    )
    make.add_argument(
        "--free",
        type=int,
        default=4,
        metavar="N",
        help="free-text utterances of each training speaker (default: %(default)s)",
    )
    make.add_argument(
        "--most",
        type=int,
        default=200,
        metavar="N",
        help="largest number of trials of each type for a model (default: %(default)s)",
    )
    make.add_argument(
        "--impostor-wrong",
        type=int,
        default=0,
        metavar="N",
        help="impostor-wrong trials for each model (default: %(default)s)",
    )
    make.add_argument("--language", default="", metavar="NAME", help="language of the corpus, written into the keys")
    add_seed(make, "all draws")
    _add_running(make)


def _add_train(train: argparse.ArgumentParser) -> None:
    train.add_argument("challenge", type=Path, metavar="DIR", help="folder of the challenge")
    train.add_argument("out", type=Path, metavar="SYSTEM", help="the file to write, e.g. system.npz")
    train.add_argument(
        "--encoder",
        default="campplus",
        metavar="NAME",
        help="speaker encoder: campplus (default); ecapa, the challenge's baseline, trained on the training files into "
        "SYSTEM-ecapa; or ecapa:FOLDER, trained by `voiceveil train asv` on more speech",
    )
    train.add_argument("--epochs", type=int, metavar="N", help="epochs of --encoder ecapa (default: 10)")
    train.add_argument(
        "--channels", type=int, metavar="N", help="channels of --encoder ecapa (default: the published 1024)"
    )
    train.add_argument("--backend", default="", metavar="NAME", help="cosine, centered, wccn, lda (default: wccn)")
    train.add_argument("--content", default="", metavar="NAME", help="content features (default: moonshine:3)")
    add_overwrite(train)
    add_cache(train, "embeddings and content features")
    _add_running(train)


def _add_score(score: argparse.ArgumentParser) -> None:
    score.add_argument("system", type=Path, metavar="SYSTEM", help="file that `tdsv train` wrote")
    score.add_argument("challenge", type=Path, metavar="DIR", help="folder of the challenge")
    add_out(score, "the answer to write, e.g. answer.txt", metavar="FILE", required=True)
    add_overwrite(score)
    score.add_argument("--subset", choices=("dev", "eval"), default="eval", help="trials to score (default: eval)")
    score.add_argument("--no-free-text", action="store_true", help="task 2: enroll voices from the passphrase only")
    score.add_argument("--parts", type=Path, metavar="FILE", help="also write `<voice> <wording> <LLR>` of each trial")
    score.add_argument("--anonymize", metavar="SYSTEM", help="anonymize the test recordings first, e.g. b2, b1b")
    score.add_argument(
        "--anonymized-to", type=Path, metavar="DIR", help="folder for the anonymized recordings, kept for later runs"
    )
    add_seed(score, "the pseudo-speakers", default=None)
    add_cache(score, "embeddings and content features")
    _add_running(score)


def _add_evaluate(evaluate: argparse.ArgumentParser) -> None:
    evaluate.add_argument("answers", nargs="+", metavar="[NAME=]ANSWER", help="one or more answers to the same trials")
    evaluate.add_argument("--trials", type=Path, required=True, metavar="FILE")
    evaluate.add_argument("--keys", type=Path, required=True, metavar="FILE")
    evaluate.add_argument(
        "--models", type=Path, metavar="FILE", help="enrollment list: genders and phrases of the keys"
    )
    evaluate.add_argument("--report", type=Path, metavar="FILE", help="write a page, e.g. report.html")
    add_overwrite(evaluate, "replace the page if there is one")
    evaluate.add_argument("--title", default="", help="title of the page")
    evaluate.add_argument(
        "--resamples", type=int, default=1000, metavar="N", help="bootstrap resamples (default: 1000)"
    )
    add_json(evaluate, "the result, with rates as fractions,")


def _add_submit(submit: argparse.ArgumentParser) -> None:
    submit.add_argument("answer", nargs="?", type=Path, metavar="ANSWER")
    submit.add_argument("--trials", type=Path, required=True, metavar="FILE", help="the trials that it answers")
    add_out(submit, "the archive to write (default: submission.zip beside the answer)", metavar="ZIP")
    add_former_name(submit, "--to", "--out")
    add_overwrite(submit, "replace the ZIP if there is one")
    submit.add_argument("--check", type=Path, metavar="ZIP", help="check this one instead")


def _add_running(parser: argparse.ArgumentParser) -> None:
    add_jobs(parser)
    add_progress(parser)


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

    challenge, faults = check(args.challenge, audio=not args.no_audio)
    found = list(faults)
    wrong = sum(not fault.note for fault in found)
    rows = {"train": len(challenge.labels)}
    rows |= {name: len(subset.trials) for name, subset in challenge.subsets.items()}
    if args.json:
        listed = [{"file": str(f.file), "line": f.line, "what": f.what, "note": f.note} for f in found]
        print(json.dumps({"task": challenge.task, "sizes": rows, "faults": listed}, indent=1))
        return 1 if wrong else 0
    for fault in found[:_SHOWN]:
        print_lines(f"{'note: ' if fault.note else ''}{fault}")
    if len(found) > _SHOWN:
        print_lines(f"... and {len(found) - _SHOWN} more; --json lists all")
    print_lines(f"task {challenge.task or '?'}: {len(challenge.labels)} training files")
    for name, subset in challenge.subsets.items():
        keys = "no keys" if subset.keys is None else "with keys"
        print_lines(f"{name}: {len(subset.models)} models, {len(subset.trials)} trials, {keys}")
    print_lines(f"{args.challenge}: {'good' if not wrong else f'{wrong} fault(s)'}")
    return 1 if wrong else 0


def _make(args: argparse.Namespace) -> int:
    from voiceveil.corpus import open_corpus
    from voiceveil.corpus.readers import find_reader
    from voiceveil.tdsv.challenge_design import ChallengePlan, design
    from voiceveil.tdsv.challenge_writer import write_challenge

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
    corpus = open_corpus(args.corpus)
    refuse_corpora(args.out, [corpus], [find_reader(args.corpus)[1]])
    made = design(corpus, plan)
    write_challenge(made, args.out, source=corpus.name, jobs=args.jobs, quiet=args.quiet)
    print_lines(f"{args.out}: task {plan.task}, {len(made.passphrases)} passphrases, {len(made.labels)} training files")
    for subset, keys in made.keys.items():
        counts = {kind: sum(key.type == kind for key in keys) for kind in ("TC", "TW", "IC", "IW")}
        shown = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        print_lines(f"{subset}: {len(made.models[subset])} models, {len(keys)} trials ({shown})")
    return 0


def _range(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    low, dash, high = text.partition("-")
    if not dash or not low.isdecimal() or not high.isdecimal():
        raise InputError(f"--join {text}", fix="write two numbers, e.g. --join 4-6")
    return int(low), int(high)


def _train(args: argparse.Namespace) -> int:
    from voiceveil.run.cache import Cache
    from voiceveil.tdsv.challenge import open_challenge
    from voiceveil.tdsv.features import CONTENT
    from voiceveil.tdsv.serialization import save_system
    from voiceveil.tdsv.training import DEFAULT_BACKEND, train, training_corpus

    challenge = open_challenge(args.challenge)
    refuse_overlap(args.out, [args.challenge])
    refuse_files([args.out], overwrite=args.overwrite)
    encoder = args.encoder
    if encoder == "ecapa":
        from voiceveil.training.asv import AsvSettings, TrainingRun, train_asv

        folder = args.out.with_name(f"{args.out.stem}-ecapa")
        refuse_overlap(folder, [args.challenge])
        with recorded(folder, None, lambda: training_files(folder), overwrite=args.overwrite):
            train_asv(
                [training_corpus(challenge)],
                folder,
                AsvSettings(epochs=args.epochs, channels=args.channels),
                TrainingRun(overwrite=args.overwrite, jobs=args.jobs, quiet=args.quiet),
            )
        encoder = f"ecapa:{folder}"
    system = train(
        challenge,
        encoder=encoder,
        backend=args.backend or DEFAULT_BACKEND,
        content=args.content or CONTENT,
        cache=None if args.cache is None else Cache(args.cache),
        jobs=args.jobs,
        quiet=args.quiet,
    )
    save_system(args.out, system)
    record = system.record
    trials = ", ".join(f"{count} {kind}" for kind, count in record["calibration_trials"].items())
    print_lines(
        f"{args.out}: task {system.task}, voices by {system.encoder} ({record['backend']}), phrases by {system.content}"
    )
    print_lines(
        f"learned from {record['recordings']} recordings of {record['speakers']} speakers; calibrated on {trials}"
    )
    return 0


def _score(args: argparse.Namespace) -> int:
    from voiceveil.corpus.lines import write_lines
    from voiceveil.run.cache import Cache
    from voiceveil.tdsv.answers import write_answer
    from voiceveil.tdsv.challenge import open_challenge
    from voiceveil.tdsv.scoring import anonymized_tests, score
    from voiceveil.tdsv.serialization import load_system

    written = [args.out, *([] if args.parts is None else [args.parts])]
    for path in (*written, *([] if args.anonymized_to is None else [args.anonymized_to])):
        refuse_overlap(path, [args.challenge, args.system])
    refuse_files(written, overwrite=args.overwrite)
    system = load_system(args.system)
    challenge = open_challenge(args.challenge)
    challenge.subset(args.subset)
    tests = None
    if args.anonymize is not None:
        if args.anonymized_to is None:
            raise InputError("--anonymize needs a folder for the speech", fix="add --anonymized-to DIR")
        tests = anonymized_tests(
            challenge,
            args.subset,
            args.anonymize,
            args.anonymized_to,
            seed=args.seed,
            overwrite=args.overwrite,
            jobs=args.jobs,
            quiet=args.quiet,
        )
    elif args.anonymized_to is not None:
        raise InputError("--anonymized-to without --anonymize", fix="name the system, e.g. --anonymize b2")
    scores = score(
        system,
        challenge,
        args.subset,
        free_text=not args.no_free_text,
        tests=tests,
        cache=None if args.cache is None else Cache(args.cache),
        jobs=args.jobs,
        quiet=args.quiet,
    )
    write_answer(args.out, scores.llr)
    if args.parts is not None:
        columns = zip(scores.voice.tolist(), scores.wording.tolist(), scores.llr.tolist(), strict=True)
        write_lines(args.parts, ["voice wording llr", *(f"{a:.6f} {b:.6f} {c:.6f}" for a, b, c in columns)])
    print_lines(f"{args.out}: {len(scores.llr)} trials")
    return 0


def _evaluate(args: argparse.Namespace) -> int:
    import numpy as np

    from voiceveil.attack.checks import check_scores
    from voiceveil.cli.sanity import print_checks
    from voiceveil.report.tdsv import write_page
    from voiceveil.tdsv.answers import read_answer
    from voiceveil.tdsv.evaluation import complete_keys, evaluate
    from voiceveil.tdsv.lists import read_models
    from voiceveil.tdsv.tables import phrase_texts, read_matching_keys, table

    if args.report is not None:
        answers = [Path(spec if Path(spec).exists() else spec.partition("=")[2]) for spec in args.answers]
        lists = [path for path in (args.trials, args.keys, args.models) if path is not None]
        refuse_same_files([args.report], lambda: [*answers, *lists])
        refuse_files([args.report], overwrite=args.overwrite)
    keys = read_matching_keys(args.trials, args.keys)
    keys = complete_keys(keys, None if args.models is None else read_models(args.models)[1])
    evaluations, checks = [], []
    is_target = np.array([key.type == "TC" for key in keys])
    for spec in args.answers:
        name, equals, path = spec.partition("=")
        if not equals or Path(spec).exists():
            name, path = Path(spec).stem, spec
        scores = read_answer(path, len(keys))
        evaluations.append(evaluate(scores, keys, name=name, resamples=args.resamples))
        checks += check_scores(scores[is_target], scores[~is_target], where=name)
    if args.json:
        print(json.dumps([one.as_dict() for one in evaluations], indent=1))
    else:
        print(table(evaluations))
    if args.report is not None:
        title = args.title or "Who speaks, and is it the passphrase?"
        write_page(args.report, evaluations, title=title, texts=phrase_texts(args.keys.parent, keys))
        print_lines(f"report: {args.report}", file=sys.stderr if args.json else sys.stdout)
    print_checks(checks)
    return 0


def _submit(args: argparse.Namespace) -> int:
    from voiceveil.tdsv.answers import check_submission, write_submission
    from voiceveil.tdsv.lists import read_trials

    if (args.answer is None) == (args.check is None):
        raise InputError("one of an answer and --check ZIP is needed")
    trials = len(read_trials(args.trials))
    if args.check is not None:
        check_submission(args.check, trials)
        print_lines(f"{args.check}: good, {trials} scores")
        return 0
    archive = args.out or args.answer.parent / "submission.zip"
    refuse_same_files([archive], lambda: [args.answer, args.trials])
    refuse_files([archive], overwrite=args.overwrite)
    path = write_submission(archive, args.answer, trials)
    print_lines(f"{path}: {trials} scores")
    return 0
