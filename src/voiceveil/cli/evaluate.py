"""Evaluate systems by the protocol of a challenge: privacy, words, emotions, pitch and naturalness.

Sets that are missing in DATA are left out and named; `--plan` lists them beforehand, with what is cached and the time
and disk space that the rest will take. A second run computes only what is new, and a killed one is resumed. OUT holds
the anonymized sets, the score files, results.json, report.html with its details, and the cache of the evaluators, which
contains embeddings of the speakers: biometric data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from voiceveil.api.evaluating import evaluate_system, plan_evaluation
from voiceveil.cli.evaluate_many import run_many
from voiceveil.cli.options import (
    add_cache,
    add_device,
    add_executor,
    add_former_name,
    add_jobs,
    add_json,
    add_key,
    add_out,
    add_overwrite,
    add_progress,
    add_system_parameters,
    add_train,
    add_trial_options,
    chosen_jobs,
)
from voiceveil.cli.sanity import print_checks
from voiceveil.core.terminal import clock, print_lines
from voiceveil.evaluation.evaluate import DEFAULT_ATTACKERS, Evaluation
from voiceveil.evaluation.plan import Plan
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.settings import EvaluationOptions, EvaluationSettings
from voiceveil.run.executor import default_jobs

EXAMPLES = """\
examples:
  voiceveil evaluate --data data --system b2                    into results/vpc2024/b2
  voiceveil evaluate --data data --system b2 --plan             what it would do, in a second
  voiceveil evaluate --data data --system my_system:MySystem    a class of yours, found from the working directory
  voiceveil evaluate --protocol vpc2024 --data data --anon _mine --out results/mine
  voiceveil evaluate --protocol vpc2020 --data data --system all        every system of the challenge, side by side
  voiceveil evaluate --protocol vpc2020 --data data --system a2,o1,i1   some of them, into results/vpc2020
  voiceveil evaluate --protocol vpc2022 --data data --system b2-2022 --out results/b2-2022 --plan
  voiceveil evaluate --protocol vpc2024 --data data --system b2 --out results/b2 --train my_train --emotion my_emotions
"""
AFTER_INTERRUPTION = "; the same command resumes the run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--protocol", default="vpc2024", help="vpc2020, vpc2022, vpc2024, vpc2026 or a .toml file (default: vpc2024)"
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of Kaldi directories with the names of the protocol"
    )
    add_out(parser, "folder for all results (default: results/PROTOCOL/SYSTEM)")
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument(
        "--system",
        metavar="NAME",
        help="see `voiceveil systems`, or MODULE:CLASS; several as A,B, or all of the protocol",
    )
    subject.add_argument(
        "--anon", metavar="SUFFIX", help="evaluate the sets in DATA with this suffix, which are anonymized already"
    )
    add_system_parameters(parser)
    add_train(parser, "sets that attackers learn from, instead of the protocol's", metavar="SET")
    parser.add_argument(
        "--emotion", nargs="+", default=[], metavar="SET", help="sets with emotion labels, instead of the protocol's"
    )
    parser.add_argument(
        "--attackers",
        metavar="LIST",
        help=f"see `voiceveil attack --help` (default: {','.join(DEFAULT_ATTACKERS)} and those made for the system)",
    )
    add_trial_options(parser)
    _add_models(parser)
    add_jobs(parser, default=default_jobs(), default_text="one a core, at most 8")
    add_device(parser)
    add_executor(parser)
    add_cache(parser, "intermediate results", "a file in OUT")
    add_key(parser, corpus="the name of DATA without its folder, for all sets")
    add_overwrite(parser, "start again where other results are, replace existing files (never the data)")
    parser.add_argument("--no-report", action="store_true", help="write no report.html and no details for it")
    parser.add_argument(
        "--plan",
        action="store_true",
        help="print what would be done, how long it takes and what is missing, and do nothing",
    )
    add_progress(parser)
    add_json(parser, "the results")


def _add_models(parser: argparse.ArgumentParser) -> None:
    """Declare the models that measure; without them those of the protocol do."""
    parser.add_argument(
        "--recognizers",
        metavar="LIST",
        help="speech recognizers for the WER: moonshine, pocketsphinx, models, or speechbrain:exp/asr of the 2024 "
        "challenge, with +lm=FILE after a CTC model for a language model; rankings use the first "
        "(default: those of the protocol, or moonshine)",
    )
    parser.add_argument(
        "--anonymized-recognizers",
        metavar="LIST",
        help="recognizers of the anonymized speech, e.g. one that `voiceveil train asr` trained on anonymized speech; "
        "--recognizers are then for the original speech alone (default: as --recognizers)",
    )
    parser.add_argument(
        "--emotion-models",
        metavar="LIST",
        help="emotion recognizers: functionals, pretrained models, or speechbrain:exp/ser of the 2024 challenge; "
        "rankings use the first (default: those of the protocol, or functionals)",
    )
    parser.add_argument(
        "--similarity",
        metavar="ATTACKER",
        help="attacker that compares voices for DeID and G_VD, as in --attackers (default: that of the protocol, or "
        "campplus)",
    )
    parser.add_argument(
        "--similarity-scoring",
        choices=("cosine", "plda"),
        help="how it compares embeddings (default: that of the protocol, or cosine)",
    )
    parser.add_argument(
        "--pitch-tracker",
        metavar="NAME",
        help="autocorrelation, praat, swift or yaapt (default: that of the protocol, or autocorrelation)",
    )
    add_former_name(parser, "--recogniser", "--recognizers")


def run(args: argparse.Namespace) -> int:
    """Plan, or evaluate and print a table."""
    with chosen_jobs(args) as jobs:
        settings = EvaluationSettings(
            data=args.data,
            protocol=load_protocol(args.protocol),
            out=args.out,
            attackers=_listed(args.attackers),
            seed=args.seed,
            jobs=jobs,
            device=args.device,
            options=EvaluationOptions(
                train=args.train,
                emotion=args.emotion,
                trial_utterances=args.trial_utterances,
                mixed=args.trials == "mixed",
                recognizers=_listed(args.recognizers),
                anonymized_recognizers=_listed(args.anonymized_recognizers),
                emotion_models=_listed(args.emotion_models),
                similarity=args.similarity,
                similarity_scoring=args.similarity_scoring,
                pitch_tracker=args.pitch_tracker,
                key_file=args.key_file,
                key_namespace=args.key_namespace,
                cache=args.cache,
                overwrite=args.overwrite,
                report=not args.no_report,
                progress=not args.quiet,
            ),
        )
        if args.system and (args.system == "all" or "," in args.system):
            return run_many(args, settings)
        if args.plan:
            print_plan(*plan_evaluation(settings, args.system, args.set, anon=args.anon), args.jobs)
            return 0
        results = evaluate_system(settings, args.system, args.set, anon=args.anon)
    if args.json:
        print(results.to_json())
    else:
        print(results)
        out = settings.results_folder(results.system)
        print_lines(f"results: {out / 'results.json'}")
        if settings.options.report:
            print_lines(f"report: {out / 'report.html'}")
    print_checks(results.checks)
    return 0


def _listed(text: str | None) -> list[str] | None:
    """Return the names between commas; None if the option was not given."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def print_plan(evaluation: Evaluation, plan: Plan, jobs: int) -> None:
    """Print the sets and those that are missing, then the steps: cached and remaining utterances, time, disk space."""
    inventory = evaluation.inventory
    subject = f"system {evaluation.name}" if evaluation.system else f"given data {evaluation.suffix}"
    print_lines(f"{inventory.protocol.title}, {subject}, into {evaluation.out}")
    for name, corpus in inventory.corpora.items():
        role, level = inventory.roles[name], inventory.level(name)
        print_lines(f"  {name}: {role}, {len(corpus)} utterances, {len(corpus.speakers())} speakers; {level} level")
    for name in inventory.missing:
        print_lines(f"  {name}: MISSING")
    for remark in (*inventory.remarks, *(f"not as in the plan: {text}" for text in inventory.differences)):
        print_lines(f"  {remark}")
    print_lines(
        f"metrics: {', '.join(inventory.protocol.metrics)}; conditions: {', '.join(inventory.protocol.conditions)}"
    )
    width = max(len(step.name) for step in plan.steps)
    print_lines(f"{'step':<{width}}  utterances  cached   to do     audio      time")
    for step in plan.steps:
        time = "unknown" if step.seconds is None else clock(step.seconds / jobs)
        print_lines(f"{step.name:<{width}}  {step.utterances:>10}  {step.cached:>6}  {step.left:>6}  "
              f"{clock(step.audio):>8}  {time:>8}" + (f"  again: {step.again}" if step.again else ""))  # fmt: skip
    print_lines(_needs(plan, jobs))


def _needs(plan: Plan, jobs: int) -> str:
    """Return the sentence about time and disk space."""
    about = "about " if plan.sampled else ""
    rest = f", and the time of {', '.join(plan.unknown)}, which was never measured here" if plan.unknown else ""
    short = "; THE DISK IS TOO SMALL" if plan.disk > plan.free else ""
    return (
        f"needs: about {clock(plan.seconds(jobs))} (h:mm:ss) with {jobs} job{'s' if jobs > 1 else ''}{rest}; "
        f"{about}{plan.disk / 1e9:.2f} GB of disk, of {plan.free / 1e9:.0f} GB that are free{short}"
    )
