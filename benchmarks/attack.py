"""The attackers on the official LibriSpeech development trials: original speech, and B2.

    python benchmarks/attack.py DATA --scratch DIR [--jobs 2] [--train-utterances N]

DATA holds ``libri_dev_enrolls``, ``libri_dev_trials_f``, ``libri_dev_trials_m`` and, for the adapted attacker, the
training speech ``libri_train`` and ``libri_pool``, as Kaldi directories. B2 runs with a fixed seed into DIR, where
embeddings are kept too: a second run is quick. Prints the EERs with their intervals, the health of the attackers, the
speed of the encoder on one core, and the time of each step.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

import voiceveil as vv
from voiceveil.attack import AttackOptions, AttackRequest, run
from voiceveil.corpus import Corpus, open_corpus, write_kaldi
from voiceveil.models.speaker.campplus import CamPlusPlus
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.run.extract import extract

SEED = 2024
TRIALS = ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m")
TRAINING = ("libri_train", "libri_pool")


def speed(corpus: Corpus) -> None:
    """Embedding of some utterances, decoding included, in this process."""
    chosen = corpus.utterances[:40]
    encoder = CamPlusPlus()
    encoder(vv.load(chosen[0].path, rate=16000))
    audio = sum(vv.load(u.path).duration for u in chosen)
    start, wall = time.process_time(), time.perf_counter()
    for utterance in chosen:
        encoder(vv.load(utterance.path, rate=16000))
    cpu, wall = time.process_time() - start, time.perf_counter() - wall
    print(f"CAM++: {audio / cpu:.0f} x real time a core, by processor time ({audio / wall:.0f} x by the clock)")


def few(corpus: Corpus, most: int | None, folder: Path) -> Path:
    """The corpus with at most so many utterances of each speaker, as a Kaldi directory."""
    counts: Counter[str | None] = Counter()
    kept = set()
    for utterance in corpus:
        counts[utterance.speaker] += 1
        if most is None or counts[utterance.speaker] <= most:
            kept.add(utterance.id)
    write_kaldi(corpus.filter(lambda utterance: utterance.id in kept), folder)
    return folder


def hours(corpora: list[Corpus]) -> float:
    return sum(vv.audio.info(u.path).duration for corpus in corpora for u in corpus) / 3600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--scratch", type=Path, required=True, help="for anonymized speech and embeddings")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--train-utterances", type=int, help="at most, of each training speaker (default: all)")
    args = parser.parse_args()
    speech = args.scratch / "speech"
    training = [name for name in TRAINING if (args.data / name).is_dir()]
    speed(open_corpus(args.data / TRIALS[0]))

    start = time.perf_counter()
    sources = [args.data / name for name in TRIALS]
    sources += [few(open_corpus(args.data / n), args.train_utterances, args.scratch / "chosen" / n) for n in training]
    for source in sources:
        summary = vv.anonymize(source, speech, system="b2", seed=SEED, jobs=args.jobs)
        assert not summary.failures, summary.failures[0]
    print(f"B2 of {hours([open_corpus(s) for s in sources]):.1f} h: {time.perf_counter() - start:.0f} s")

    cache = Cache(args.scratch / "embeddings.sqlite")
    for names, label in ((TRIALS, "trials, original and B2"), (training, "training speech by B2")):
        start = time.perf_counter()
        corpora = [open_corpus(speech / f"{name}_b2") for name in names]
        corpora += [open_corpus(args.data / name) for name in names if name in TRIALS]
        for corpus in corpora:
            extract(corpus, CamPlusPlus().trunk(), cache=cache, jobs=args.jobs)
        print(f"embedding of {label}, {hours(corpora):.1f} h: {time.perf_counter() - start:.0f} s", flush=True)

    start = time.perf_counter()
    names = ["campplus", *(["campplus-adapted"] if training else []), "free"]
    request = AttackRequest(
        args.data,
        anon="_b2",
        attackers=names,
        train=[speech / f"{name}_b2" for name in training],
        options=AttackOptions(anon_data=speech),
    )
    result = run(request, RunContext(cache, args.jobs))
    print(f"attack on cached embeddings: {time.perf_counter() - start:.0f} s\n\n{result}\n")
    for health in result.health:
        for candidate, rate in health.tried:
            print(f"  tried by {health.attacker}: {candidate:24} {rate:6.1%} EER on held-out speakers")
    for attacker, condition in dict.fromkeys((row.attacker, row.condition) for row in result.rows):
        print(f"  mean {attacker:18} {condition}: {result.mean(attacker, condition)}")
    assert np.mean([row.eer.value for row in result.rows if row.condition == "oo"]) < 0.05


if __name__ == "__main__":
    main()
