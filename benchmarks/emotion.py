"""What B2 leaves of emotion, intonation and naturalness, on real speech.

    python benchmarks/emotion.py PATH [--jobs N] [--cache FILE]

PATH holds Kaldi directories: ``emodb`` (emotional speech, with ``utt2emo``) and ``libri_dev_trials_f``,
``libri_dev_trials_m``. Emotions: UAR of ang, hap, neu and sad, each speaker judged by recognizers trained on the
original speech of the others. Intonation and naturalness: 60 utterances, three of each of ten women and ten men.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import voiceveil as vv
from voiceveil.corpus import Utterance
from voiceveil.models import (
    emotion_folds,
    evaluate_emotion,
    evaluate_naturalness,
    evaluate_pitch,
    trackers,
    train_emotion_recognizer,
)
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

#: Utterances of a speaker, speakers of a gender.
EACH, SPEAKERS = 3, 10


@contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"  {what}: {time.perf_counter() - start:.1f} s", flush=True)


def b2_of(corpus: vv.Corpus, folder: Path) -> vv.Corpus:
    """The corpus under B2, a pseudo-speaker an utterance; the same in every run."""
    summary = vv.anonymize(corpus, folder, system="b2", level="utterance", seed=1)
    assert not summary.failures
    return vv.open_corpus(summary.output)


def emotions(original: vv.Corpus, anonymized: vv.Corpus, cache: Cache, jobs: int) -> None:
    folds = emotion_folds(original)
    print(f"emotions: {len(folds.fold)} utterances, {len(folds.names)} folds, chance {1 / len(folds.emotions):.0%}")
    modes: tuple[Literal["corpus", "training"], ...] = ("corpus", "training")
    for mode in modes:
        with timed(f"training, standardized by {mode}"):
            recognizer = train_emotion_recognizer(original, folds, normalize=mode, context=RunContext(cache, jobs))
        for what, corpus in (("original", original), ("B2", anonymized)):
            with timed("judging"):
                result = evaluate_emotion(corpus, folds, recognizer, context=RunContext(cache, jobs))
            recalls = "  ".join(f"{label} {recall:.0%}" for label, recall in result.folds.recalls.items())
            print(f"  UAR {what:8s} {result.uar}   {recalls}")


def intonation(original: vv.Corpus, anonymized: vv.Corpus, cache: Cache, jobs: int) -> None:
    print(f"pitch correlation of {len(original)} utterances with B2")
    methods: tuple[Literal["published", "official"], ...] = ("published", "official")
    for tracker in trackers:
        try:
            with timed(tracker):
                for method in methods:
                    found = evaluate_pitch(
                        original, anonymized, tracker=tracker, method=method, context=RunContext(cache, jobs)
                    )
                    print(f"  {tracker:16s} {method:10s} rho {found.rho}   sd {found.std:.2f}")
        except vv.InputError as error:
            print(f"  {tracker}: {error}")


def naturalness(original: vv.Corpus, anonymized: vv.Corpus, cache: Cache, jobs: int) -> None:
    print(f"DNSMOS of {len(original)} utterances")
    for what, corpus in (("original", original), ("B2", anonymized)):
        with timed("rating"):
            found = evaluate_naturalness(corpus, context=RunContext(cache, jobs))
        print(f"  {what:8s} sig {found.sig}   bak {found.bak}   ovr {found.ovr}")


def sixty(path: Path) -> vv.Corpus:
    """Three utterances of each of ten women and ten men."""
    chosen: list[Utterance] = []
    for gender in "fm":
        corpus = vv.open_corpus(path / f"libri_dev_trials_{gender}")
        for speaker in corpus.speakers()[:SPEAKERS]:
            chosen.extend(corpus.by_speaker[speaker][:EACH])
    return replace(corpus, name="sixty", utterances=tuple(chosen), trials=None, kind="folder")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cache", type=Path)
    args = parser.parse_args()
    emodb = vv.open_corpus(args.path / "emodb")
    read = sixty(args.path)
    cache = Cache(args.cache)
    with tempfile.TemporaryDirectory() as scratch:
        emotions(emodb, b2_of(emodb, Path(scratch) / "emodb"), cache, args.jobs)
        anonymized = b2_of(read, Path(scratch) / "read")
        intonation(read, anonymized, cache, args.jobs)
        naturalness(read, anonymized, cache, args.jobs)


if __name__ == "__main__":
    main()
