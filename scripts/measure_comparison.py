"""Measure the reference scores of `voiceveil compare`: what same and different people, and real recordings, score.

    python scripts/measure_comparison.py data/libri_train --held-out data/libri_dev_trials_f data/libri_dev_trials_m \
        > src/voiceveil/evaluation/comparison_reference.toml

Of each speaker the first utterances in a shuffled order that are long enough, cut to each length. Cosines of CAM++
embeddings between different utterances of one speaker, and between utterances of two speakers; DNSMOS of the
utterances. The held-out speakers show how often the thresholds judge other people rightly: shares with 95% intervals
over speakers, as a comment of the file.
"""

from __future__ import annotations

import argparse
import sys
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform, load
from voiceveil.corpus import open_corpus
from voiceveil.corpus.sampling import shuffled_utterances
from voiceveil.models.naturalness import DNSMOS
from voiceveil.models.speaker.encoders import encoder
from voiceveil.stats import mean

RATE = 16000
LENGTHS = (2.0, 4.0, 8.0)  # seconds
PERCENTILES = (5, 50, 95)


def recordings(corpora: list[str], count: int) -> dict[str, list[Waveform]]:
    """Return speaker -> ``count`` utterances of at least the greatest length; speakers with fewer are left out."""
    chosen: dict[str, list[Waveform]] = {}
    for corpus in corpora:
        for speaker, spoken in sorted(open_corpus(corpus).by_speaker.items()):
            waves: list[Waveform] = []
            for u in shuffled_utterances(spoken, 0, "comparison"):
                wave = load(u.path, rate=RATE, start=u.start, duration=u.duration)
                if wave.duration >= LENGTHS[-1] and len(waves) < count:
                    waves.append(wave)
            if len(waves) == count:
                chosen[speaker] = waves
    return chosen


def scores(people: dict[str, list[Waveform]], seconds: float) -> dict[str, tuple[NDArray[np.float64], list[str]]]:
    """Return "same" and "different" -> cosines, and the (first) speaker of each pair."""
    model = encoder("campplus")
    vectors = {}
    for speaker, waves in people.items():
        cut = [model(Waveform(wave.samples[: int(seconds * RATE)], RATE)) for wave in waves]
        vectors[speaker] = np.array([vector / np.linalg.norm(vector) for vector in cut], dtype=np.float64)
    same, owners, different, firsts = [], [], [], []
    for speaker, rows in vectors.items():
        cosines = [float(rows[i] @ rows[j]) for i, j in combinations(range(len(rows)), 2)]
        same += cosines
        owners += [speaker] * len(cosines)
    for first, second in combinations(vectors, 2):
        cosines = (vectors[first] @ vectors[second].T).reshape(-1).tolist()
        different += cosines
        firsts += [first] * len(cosines)
    return {"same": (np.array(same), owners), "different": (np.array(different), firsts)}


def main() -> None:
    """Print the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", help="with speakers")
    parser.add_argument("--held-out", nargs="+", required=True, metavar="CORPUS", help="corpora of other speakers")
    parser.add_argument("--utterances", type=int, default=6, help="of each speaker (default: 6)")
    args = parser.parse_args()
    people, others = recordings(args.corpora, args.utterances), recordings(args.held_out, 4)
    print("# Measured by scripts/measure_comparison.py; percentiles 5, 50 and 95.")
    print(f"speakers = {len(people)}\nutterances = {sum(map(len, people.values()))}")
    for seconds in LENGTHS:
        print(f"{seconds:g} s", file=sys.stderr)
        known, held_out = scores(people, seconds), scores(others, seconds)
        high = np.percentile(known["different"][0], 95)
        low = (np.percentile(known["same"][0], 5) + high) / 2  # see voiceveil.evaluation.recording_comparison
        print(f"\n[[similarity]]\nseconds = {seconds}")
        for kind, (values, _) in known.items():
            quantiles = ", ".join(f"{value:.3f}" for value in np.percentile(values, PERCENTILES))
            print(f"{kind} = [{quantiles}]")
        for kind, (values, owners) in held_out.items():
            like = mean((values >= low).astype(float), owners)
            unlike = mean((values <= high).astype(float), owners)
            for name, share in (("same", like), ("different", unlike)):
                interval = f"[{max(100 * share.low, 0):.1f}, {min(100 * share.high, 100):.1f}]"
                print(f"# {len(others)} held-out speakers, {kind} people: {name} {100 * share.value:.1f}% {interval}")
    ratings = [DNSMOS()(wave)["ovr"] for waves in people.values() for wave in waves[:3]]
    quantiles = ", ".join(f"{value:.2f}" for value in np.percentile(ratings, PERCENTILES))
    print(f"\n[naturalness]\nrecordings = {len(ratings)}\novr = [{quantiles}]")


if __name__ == "__main__":
    main()
