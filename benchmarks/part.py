"""A part of the data that the other benchmarks take, the same on every machine, as the whole takes hours.

    python benchmarks/part.py DATA OUT [--training 20] [--trials 12] [--enrolls 0] [--sets SET [SET ...]]

Of each speaker, so many utterances of the training speech (libri_train, libri_pool), of the trials and of the
enrollments, drawn with a fixed seed; 0: all of them. Of the pairs to compare, all whose utterances are kept. ``emodb``
is taken whole. ``--sets`` takes these sets alone. OUT holds lists alone; the audio stays where it is.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from voiceveil.corpus import Corpus, open_corpus, write_kaldi

SEED = 7


def part_of(corpus: Corpus, count: int) -> Corpus:
    """``count`` utterances of each speaker, or all of them if it is 0."""
    rng = random.Random(SEED)
    kept: set[str] = set()
    for _, utterances in sorted(corpus.by_speaker.items(), key=lambda item: str(item[0])):
        names = sorted(utterance.id for utterance in utterances)
        rng.shuffle(names)
        kept.update(names[: count or None])
    return corpus.filter(lambda utterance: utterance.id in kept)


def main() -> None:
    """Write the part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--training", type=int, default=20, help="utterances a speaker (%(default)s)")
    parser.add_argument("--trials", type=int, default=12, help="utterances a speaker (%(default)s)")
    parser.add_argument("--enrolls", type=int, default=0, help="utterances a speaker (%(default)s: all)")
    parser.add_argument("--sets", nargs="+", metavar="SET", help="names of the sets to take (default: all of these)")
    args = parser.parse_args()
    counts = {
        "libri_train": args.training,
        "libri_pool": args.training,
        "libri_dev_enrolls": args.enrolls,
        "libri_dev_trials_f": args.trials,
        "libri_dev_trials_m": args.trials,
        "emodb": 0,
    }
    for name, count in counts.items():
        if (args.data / name).is_dir() and name in (args.sets or counts):
            part = part_of(open_corpus(args.data / name), count)
            write_kaldi(part, args.out / name)
            print(f"{name}: {len(part)} utterances", flush=True)


if __name__ == "__main__":
    main()
