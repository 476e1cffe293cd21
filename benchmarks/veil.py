"""`veil` against the strongest attackers that there are, and the frontier of privacy against words and feelings.

    python benchmarks/veil.py DATA --scratch DIR [--privacy 0 0.5 1] [--default 0.5]

DATA holds the sets of `benchmarks/side_by_side.toml`, whose table is printed for B2, B1.b and veil at each privacy.
Then, for the default: encoders that are trained on its own output (libri_train and libri_pool), ECAPA-TDNN from nothing
and CAM++ tuned, each alone and with a learned back-end; the cues that need no model; what emotions reveal; and the
speaker level, where G_VD says how far the voices differ. DIR/frontier.svg is the plane of privacy and utility. All is
kept in DIR, and a killed run continues.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np

from voiceveil.api.evaluating import evaluate_system
from voiceveil.attack import AttackOptions, TrainingSpeech, attack
from voiceveil.attack.embedding import embed
from voiceveil.attack.encoder_attackers import AdaptedAttacker
from voiceveil.corpus import open_corpus
from voiceveil.evaluation.evaluate import Evaluation, evaluate, prepare
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.ranking import rank_systems
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.settings import EvaluationOptions, EvaluationSettings
from voiceveil.metrics import ScoredTrials, estimate
from voiceveil.models.speaker.encoders import encoder
from voiceveil.report.comparison import measures_table
from voiceveil.report.figures import privacy_utility_svg
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.systems.contract import find_system
from voiceveil.training.asv import AsvSettings, train_asv
from voiceveil.training.training_run import TrainingRun

SEED = 2024
PROTOCOL = Path(__file__).with_name("side_by_side.toml")
ENCODERS = ("ecapa", "campplus-tuned")
ATTACKERS = ("campplus", "campplus-adapted", "moonshine-adapted")


def say(line: str) -> None:
    """Print progress."""
    print(line, file=sys.stderr, flush=True)


def measure(spec: str, args: argparse.Namespace) -> Results:
    """Evaluate a system, ``NAME[,PARAMETER=VALUE...]``; all that is computed is kept in the scratch folder."""
    name, *parameters = spec.split(",")
    settings = EvaluationSettings(
        args.data,
        load_protocol(PROTOCOL),
        args.scratch / spec,
        attackers=ATTACKERS,
        seed=args.seed,
        jobs=args.jobs,
        options=EvaluationOptions(
            recognizers=("moonshine", "pocketsphinx") if args.second else ("moonshine",),
            cache=args.scratch / "cache.sqlite",
            progress=not args.quiet,
        ),
    )
    return replace(evaluate_system(settings, name, parameters), system=spec)


def strongest(evaluation: Evaluation, args: argparse.Namespace) -> None:
    """Encoders trained on what they attack, and what needs no model at all."""
    inventory, suffix = evaluation.inventory, evaluation.suffix
    data = evaluation.out / "data"
    train = [data / f"{name}{suffix}" for name in inventory.training]
    attackers = ["free"]
    for model in args.encoders:
        say(f"training {model} on the output of veil")
        folder = evaluation.out / model
        record = train_asv(
            [open_corpus(path) for path in train],
            folder,
            AsvSettings(
                model=model,
                epochs=args.epochs,
                channels=args.channels if model == "ecapa" else None,
                trained_on="anonymized",
                seed=SEED,
            ),
            TrainingRun(jobs=args.jobs, quiet=args.quiet),
        )
        print(
            f"{model}: {record['accuracy']:.1%} of its training chunks recognized after {args.epochs} epochs",
            flush=True,
        )
        attackers += [f"trained:{folder}", f"trained-adapted:{folder}"]
    result = attack(
        args.data,
        anon=suffix,
        attackers=attackers,
        sets=inventory.enrollment_of,
        train=train,
        jobs=args.jobs,
        options=AttackOptions(anon_data=data, cache=args.scratch / "cache.sqlite", progress=not args.quiet),
    )
    for row in result.rows:
        if row.condition == "aa":
            name = row.attacker.replace(f"{evaluation.out}/", "")
            print(f"{name:32} {row.knowledge:14} {row.gender}  EER {row.eer}", flush=True)
    for health in result.health:
        for warning in health.warnings:
            print(f"warning: {health.attacker}: {warning}", flush=True)


def feelings(evaluation: Evaluation, args: argparse.Namespace) -> None:
    """Does what stays of feelings tell who has them? Pairs of recordings of one emotion and gender, adapted CAM++."""
    folder, suffix = evaluation.out / "data", evaluation.suffix
    if not (folder / f"emodb{suffix}").is_dir():
        return
    training = tuple(open_corpus(folder / f"{name}{suffix}") for name in evaluation.inventory.training)
    cache = Cache(args.scratch / "cache.sqlite")
    context, attacker = RunContext(cache, args.jobs, progress=not args.quiet), AdaptedAttacker(encoder("campplus"))
    attacker.fit(TrainingSpeech(training), context)
    learned = attacker.adapted
    assert learned is not None
    made = embed(open_corpus(folder / f"emodb{suffix}"), attacker.encoder, context, trunk=learned.candidate.on_trunk)
    cache.close()
    original = open_corpus(args.data / "emodb")
    scores = learned.scorer(made.vectors, np.ones(len(made.ids), dtype=np.int64), made.vectors)
    speaker, gender, emotion = (
        np.array([getattr(original[key], what) for key in made.ids]) for what in ("speaker", "gender", "emotion")
    )
    number = np.unique(speaker, return_inverse=True)[1].reshape(-1)
    first, second = np.triu_indices(len(made.ids), 1)
    alike = (gender[first] == gender[second]) & (emotion[first] == emotion[second])
    for name in np.unique(emotion):
        kept = alike & (emotion[first] == name)
        one, other = number[first[kept]], number[second[kept]]
        trials = ScoredTrials(scores[first[kept], second[kept]], one == other, one, other)
        print(f"emodb, two recordings of {name}: EER {estimate(trials)}", flush=True)


def speaker_level(spec: str, args: argparse.Namespace) -> None:
    """One voice a speaker and role: are the voices as different as the speakers are?"""
    name, *parameters = spec.split(",")
    whole = load_protocol(PROTOCOL)
    levels: dict[str, Literal["utterance", "speaker"]] = dict.fromkeys(("enroll", "trial"), "speaker")
    protocol = replace(
        whole, metrics=("eer", "gvd"), emotion=(), recognition=(), training=None, levels=levels, ranking=None
    )
    settings = EvaluationSettings(
        args.data,
        protocol,
        args.scratch / f"{spec}, speaker level",
        attackers=("campplus",),
        seed=args.seed,
        jobs=args.jobs,
        options=EvaluationOptions(cache=args.scratch / "cache.sqlite", report=False, progress=not args.quiet),
    )
    results = evaluate(prepare(settings, system=find_system(name, parameters)))
    for figure in results.find("eer", condition="aa"):
        print(f"speaker level: EER {figure.gender} {figure.value:.1%} [{figure.low:.1%}, {figure.high:.1%}]")
    for figure in results.find("gvd"):
        print(
            f"speaker level: G_VD {figure.gender} {figure.value:.2f} dB [{figure.low:.2f}, {figure.high:.2f}]",
            flush=True,
        )


def for_figure(results: Results) -> Results:
    """Return the results with the EERs of the strongest semi-informed attacker alone: rankings know one attacker."""
    semi = [f for f in results.find("eer") if f.knowledge == "semi-informed"]
    mean = {name: np.mean([f.value for f in semi if f.attacker == name]) for name in {f.attacker for f in semi}}
    strongest = min(mean, key=lambda name: mean[name])
    kept = [f for f in results.figures if f.metric != "eer" or f.attacker not in mean or f.attacker == strongest]
    renamed = (replace(f, attacker="strongest") if f.attacker == strongest else f for f in kept)
    return replace(results, figures=tuple(renamed))


def main() -> None:
    """The table, the frontier, the strongest attackers, the speaker level."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--scratch", type=Path, required=True, help="folder for anonymized speech and all results")
    parser.add_argument("--second", action="store_true", help="recognize words with PocketSphinx too, which is slow")
    parser.add_argument("--seed", type=int, default=SEED, help="of the pseudo-speakers; each needs a DIR of its own")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--privacy", nargs="+", default=["0", "0.5", "1"], metavar="P")
    parser.add_argument("--default", default="0.5", metavar="P", help="the privacy that is attacked hardest")
    parser.add_argument("--encoders", nargs="*", default=ENCODERS, choices=ENCODERS, help="to train on it")
    parser.add_argument("--epochs", type=int, default=3, help="of their training")
    parser.add_argument("--channels", type=int, help="of ECAPA-TDNN, fewer to save time (default: as published)")
    parser.add_argument("--others", nargs="*", default=["b2", "b1b"], metavar="SYSTEM")
    args = parser.parse_args()
    args.scratch.mkdir(parents=True, exist_ok=True)
    specs = [*args.others, *(f"veil,privacy={p}" for p in args.privacy)]
    results = [measure(spec, args) for spec in specs]
    text = measures_table(results).to_markdown()
    (args.scratch / "veil.md").write_text(text + "\n")
    print(f"\n{text}\n", flush=True)
    ranking = rank_systems([for_figure(one) for one in results], load_protocol(PROTOCOL), split="dev")
    (args.scratch / "frontier.svg").write_text(privacy_utility_svg(ranking))
    default = f"veil,privacy={args.default}"
    settings = EvaluationSettings(args.data, load_protocol(PROTOCOL), args.scratch / default)
    evaluation = prepare(settings, system=find_system("veil", [f"privacy={args.default}"]))
    feelings(evaluation, args)
    strongest(evaluation, args)
    speaker_level(default, args)


if __name__ == "__main__":
    main()
