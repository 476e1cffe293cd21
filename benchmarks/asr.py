"""What anonymization does to the words: WER of the official development trials, original and through B2.

    python benchmarks/asr.py PATH [--share 0.33] [--jobs 2] [--recognizer moonshine] [--cache FILE]

PATH holds the Kaldi directories libri_dev_trials_f and libri_dev_trials_m. Printed are the WER with its interval over
speakers (transcripts in plain words, and with one English spelling), the difference that B2 makes, and the speed of
the recognizer on one core, against the length of the audio.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

import voiceveil as vv
from voiceveil.audio import load
from voiceveil.corpus import Corpus, write_kaldi
from voiceveil.models.asr.recognition import (
    Recognizer,
    WordErrorRate,
    compare_word_error_rates,
    recognizer,
    transcribe,
    word_error_rate,
)
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.stats import average


def chosen(corpus: Corpus, share: float) -> Corpus:
    """A fixed random share of the utterances of each speaker."""
    rng = np.random.default_rng(0)
    keep = {
        utterances[i].id
        for utterances in corpus.by_speaker.values()
        for i in rng.permutation(len(utterances))[: max(1, round(share * len(utterances)))]
    }
    return corpus.filter(lambda utterance: utterance.id in keep)


def speed(corpus: Corpus, model: Recognizer, utterances: int = 30) -> None:
    waves = [load(u.path, rate=model.rate, start=u.start, duration=u.duration) for u in corpus.utterances[:utterances]]
    model(waves[0])  # loads the weights
    start = time.process_time()
    for wave in waves:
        model(wave)
    seconds = time.process_time() - start
    length = sum(wave.duration for wave in waves)
    print(f"speed: {length / seconds:.1f} x real time a core ({length:.0f} s of audio in {seconds:.1f} s)", flush=True)


def measure(corpus: Corpus, model: Recognizer, cache: Cache, jobs: int) -> dict[str, WordErrorRate]:
    transcripts = transcribe(corpus, model, context=RunContext(cache, jobs, progress=True))
    return {words: word_error_rate(corpus, transcripts, normalization=words) for words in ("plain", "english")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--share", type=float, default=1.0, help="of the utterances of each speaker (default: 1)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--recognizer", default="moonshine", metavar="SPEC")
    parser.add_argument("--cache", type=Path, help="keeps the transcripts")
    args = parser.parse_args()
    model, cache = recognizer(args.recognizer), Cache(args.cache)
    results: dict[tuple[str, str, str], WordErrorRate] = {}
    with tempfile.TemporaryDirectory() as folder:
        for gender in "fm":
            original = chosen(vv.open_corpus(args.path / f"libri_dev_trials_{gender}"), args.share)
            if gender == "f":
                speed(original, model)
            write_kaldi(original, Path(folder) / f"in_{gender}")
            done = vv.anonymize(
                Path(folder) / f"in_{gender}", folder, system="b2", draws="keyed", seed=1, jobs=args.jobs
            )
            for name, corpus in (("original", original), ("B2", vv.open_corpus(done.output))):
                for words, result in measure(corpus, model, cache, args.jobs).items():
                    results[name, words, gender] = result
                    print(f"{name:8} {gender} {words:8} WER {result.wer}  ({_counts(result)})", flush=True)
    for words in ("plain", "english"):
        for name in ("original", "B2"):
            print(f"{name:8} mean of f and m, {words:8} {average([results[name, words, g].wer for g in 'fm'])}")
        for gender in "fm":
            difference = compare_word_error_rates(results["original", words, gender], results["B2", words, gender])
            print(f"B2 - original, {gender}, {words:8} {difference}")


def _counts(result: WordErrorRate) -> str:
    e = result.errors
    return (
        f"{e.words} words in {len(e.utterances)} utterances: {e.substitutions} sub {e.deletions} del {e.insertions} ins"
    )


if __name__ == "__main__":
    main()
