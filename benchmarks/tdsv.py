"""Text-dependent verification on the digit challenge: both tasks, with and without free text, before and after B2, b1b.

    python benchmarks/tdsv.py DIGITS --scratch DIR [--phrases 10] [--speakers 20] [--anonymize b2,b1b]

DIGITS is AudioMNIST as a Kaldi directory with utt2phrase (60 speakers, ten digits, ten recordings of each). Passphrases
are four to six digits of one speaker. Speakers of training and evaluation are different people. Everything that is
measured in recordings is kept in DIR: a second run is quick. ``--phrases``: score only the models of the last so many
passphrases, of which four are those of task 2.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from numpy.typing import NDArray

from voiceveil.corpus import open_corpus
from voiceveil.metrics import ScoredTrials, estimate_all
from voiceveil.metrics import measures as m
from voiceveil.models.speaker.encoders import encoder as encoder_of
from voiceveil.report.tdsv import write_page
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.stats import Estimate
from voiceveil.tdsv.challenge import Challenge, open_challenge
from voiceveil.tdsv.challenge_design import ChallengePlan, design
from voiceveil.tdsv.challenge_writer import write_challenge
from voiceveil.tdsv.evaluation import TdsvEvaluation, evaluate, scored_trials
from voiceveil.tdsv.features import extract_features
from voiceveil.tdsv.lists import TdsvKey, Trial
from voiceveil.tdsv.scoring import TrialScores, anonymized_tests, score, score_trials
from voiceveil.tdsv.serialization import save_system
from voiceveil.tdsv.system import System
from voiceveil.tdsv.tables import shown, table
from voiceveil.tdsv.training import train

SEED = 1


def challenge_of(task: int, digits: Path, scratch: Path, jobs: int) -> Challenge:
    folder = scratch / f"d{task}"
    if not folder.exists():
        made = design(open_corpus(digits), ChallengePlan(task=task, join=(4, 6), language="English"))
        write_challenge(made, folder, source="AudioMNIST", jobs=jobs)
    return open_challenge(folder)


def chosen_keys(challenge: Challenge, phrases: int, speakers: int) -> list[TdsvKey]:
    """Keys of the models of the last passphrases, with tests of these and of free text; two men for each woman."""
    keys = challenge.subset("eval").keys or ()
    men, women = (sorted({k.speaker for k in keys if k.speaker and k.gender == gender}) for gender in ("m", "f"))
    few = speakers < len(men) + len(women)
    people = {*men[: speakers - speakers // 3], *women[: speakers // 3]} if few else {*men, *women}
    keys = tuple(key for key in keys if key.speaker in people and key.test_speaker in people)
    known = sorted({key.phrase for key in keys if key.phrase})[-phrases:]
    said = {key.test: key.phrase for key in keys if key.type in ("TC", "IC")}
    return [key for key in keys if key.phrase in known and said.get(key.test, known[0]) in known]


def with_impostors(keys: Sequence[TdsvKey]) -> list[TdsvKey]:
    """The keys, and all trials of impostors of the same gender with another passphrase."""
    tests = {(key.test, key.test_speaker, key.phrase) for key in keys if key.type == "TC"}
    genders = {key.speaker: key.gender for key in keys}
    extra = [
        TdsvKey(one.model, test, "IW", one.speaker, other, one.gender, one.phrase, one.language)
        for one in {key.model: key for key in keys}.values()
        for test, other, phrase in sorted(tests, key=str)
        if other != one.speaker and phrase != one.phrase and genders[other] == one.gender
    ]
    return [*keys, *extra]


def trials_of(keys: Sequence[TdsvKey]) -> list[Trial]:
    return [Trial(key.model, key.test) for key in keys]


def speed(system: System, challenge: Challenge, keys: Sequence[TdsvKey], context: RunContext) -> None:
    """Measure the scoring of 50,000 trials, without the extraction of features; the trials are repeated."""
    models = challenge.subset("eval").models
    network = encoder_of(system.encoder)
    claimed, wanted = {key.model for key in keys}, {key.test for key in keys}
    free = {file for model in models.values() for file in model.free_text}
    files = {file for key in claimed for file in models[key].files}
    enrolled = extract_features(
        [u for u in challenge.enrollment("eval") if u.id in files],
        network,
        system.content,
        voice_only=free,
        context=context,
    )
    tests = [u for u in challenge.tests("eval") if u.id in wanted]
    tested = extract_features(tests, network, system.content, context=context)
    listed = (trials_of(keys) * (50_000 // len(keys) + 1))[:50_000]
    wall, cpu = time.perf_counter(), time.process_time()
    score_trials(system, models, listed, enrolled, tested)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"50,000 trials of task {challenge.task} scored in {cpu:.1f} s of one core ({wall:.1f} s by the clock)")


def types_table(rows: Sequence[tuple[str, TrialScores]], keys: Sequence[TdsvKey]) -> str:
    """EER of voice, wording and both between two types of trials, with its interval over speakers."""
    kinds = np.array([key.type for key in keys])
    lines = ["| test speech | scores | TC-TW | TC-IC | TC-IW | TW-IW |", "|---|---|---|---|---|---|"]
    pairs = (("TC", "TW"), ("TC", "IC"), ("TC", "IW"), ("TW", "IW"))
    for name, scores in rows:
        for part in ("voice", "wording", "llr"):
            every = scored_trials(getattr(scores, part), keys)
            cells = [str(_between(every, kinds == a, kinds == b)) for a, b in pairs]
            lines.append(f"| {name} | {'both' if part == 'llr' else part} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _between(every: ScoredTrials, target: NDArray[np.bool_], nontarget: NDArray[np.bool_]) -> Estimate:
    kept = target | nontarget
    arrays = (every.score[kept], target[kept], every.enroll[kept], every.speaker[kept])
    (estimate,) = estimate_all(ScoredTrials(*arrays, every.of, text_dependent=True), [m.eer()])
    return estimate


def passphrases(
    system: System, challenge: Challenge, keys: Sequence[TdsvKey], args: argparse.Namespace, context: RunContext
) -> list[TdsvEvaluation]:
    """Score the same trials with anonymized test speech: does a passphrase survive, does it help an attacker?"""
    every = with_impostors(keys)
    chosen = challenge.with_trials("eval", trials_of(every))
    rows = [("original", score(system, chosen, context=context))]
    for name in args.anonymize.split(",") if args.anonymize else []:
        folder = args.scratch / f"anon_{name}"
        tests = anonymized_tests(chosen.test_corpus("eval"), name, folder, seed=SEED, context=context)
        rows.append((name, score(system, chosen, tests=tests, context=context)))
    print(f"\n{types_table(rows, every)}\n")
    evaluations = [evaluate(scores.llr[: len(keys)], keys, name=name) for name, scores in rows]
    for evaluation in evaluations:
        accepted = ", ".join(f"{a.type} {shown(a.accepted)}" for a in evaluation.acceptance)
        print(f"{evaluation.name}: minDCF {shown(evaluation.overall.min_dcf)}; accepted {accepted}", flush=True)
    return evaluations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("digits", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--tasks", default="1,2")
    parser.add_argument("--phrases", type=int, default=10)
    parser.add_argument("--speakers", type=int, default=20, help="of the evaluation")
    parser.add_argument("--anonymize", default="b2,b1b", help="of task 2; empty: nothing")
    parser.add_argument("--ecapa", default="", help="folder of an ECAPA-TDNN, to compare with")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    context = RunContext(Cache(args.scratch / "cache.sqlite"), args.jobs)
    for task in map(int, args.tasks.split(",")):
        challenge = challenge_of(task, args.digits, args.scratch, args.jobs)
        keys = chosen_keys(challenge, args.phrases, args.speakers)
        evaluations = []
        encoders = ["campplus", *([f"ecapa:{args.ecapa}"] if args.ecapa else [])]
        systems = {}
        for spec in encoders:
            system = systems[spec] = train(challenge, encoder=spec, context=context)
            save_system(args.scratch / f"task{task}-{spec.partition(':')[0]}.npz", system)
            for free in (True, False) if task == 2 else (True,):
                chosen = challenge.with_trials("eval", trials_of(keys))
                scores = score(system, chosen, free_text=free, context=context)
                label = spec.partition(":")[0] + ("" if task == 1 else ", with free text" if free else ", without")
                evaluations.append(evaluate(scores.llr, keys, name=label))
        print(f"\ntask {task}\n{table(evaluations)}", flush=True)
        speed(systems["campplus"], challenge, keys, context)
        if task == 2:
            evaluations += passphrases(systems["campplus"], challenge, keys, args, context)[1:]
        write_page(args.scratch / f"task{task}.html", evaluations, title=f"Digits as passphrases, task {task}")


if __name__ == "__main__":
    main()
