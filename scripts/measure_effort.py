"""Measure the tables of vocal effort: the usual balance of voiced speech, and what a deviation of effort changes in it.

    python scripts/measure_effort.py data/libri_train data/libri_pool

Each recording says how its bands grow with the level of its voiced frames, by least squares; the mean over recordings
is the way in which effort changes a voice, whoever's it is. How far means of recordings differ along it is a deviation.
At most 20 recordings of a speaker count, the first in the order of their names. Speech of LibriSpeech: CC BY 4.0.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import load
from voiceveil.corpus import Utterance, open_corpus
from voiceveil.dsp.effort import RATE, voiced_levels
from voiceveil.models.pitch.trackers import f0_on_frames, tracker

Array = NDArray[np.float64]
MOST = 20


def levels(utterances: list[Utterance]) -> Iterator[Array]:
    """Levels (n, 20) of the voiced frames of each recording."""
    swift = tracker("swift")
    for utterance in utterances:
        wave = load(utterance.path, rate=RATE, start=utterance.start, duration=utterance.duration)
        f0 = f0_on_frames(swift(wave), swift, len(wave.samples))
        found = voiced_levels(wave.samples, f0 > 0)
        if len(found) > 1:
            yield found


def growth(bands: Array) -> tuple[Array, float]:
    """By how many dB each band grows with a dB of level, and the weight of that: the squared deviations of level."""
    level = 10 * np.log10((10 ** (bands / 10)).sum(axis=1))
    level -= level.mean()
    squares = float(level @ level)
    return level @ (bands - bands.mean(axis=0)) / max(squares, 1e-9), squares


def printed(name: str, values: Array) -> None:
    """As the source has it."""
    print(f"{name} = np.array([{', '.join(f'{value:.2f}' for value in values)}])")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", help="read speech with speakers")
    args = parser.parse_args()
    speakers = [group for path in args.corpora for _, group in sorted(open_corpus(path).by_speaker.items())]
    chosen = [u for group in speakers for u in sorted(group, key=lambda u: u.id)[:MOST]]
    recordings = list(levels(chosen))
    slopes, weights = zip(*map(growth, recordings), strict=True)
    way = np.average(slopes, axis=0, weights=weights)
    way = (way - way.mean()) / np.linalg.norm(way - way.mean())
    balances = np.array([bands.mean(axis=0) for bands in recordings])
    balances -= balances.mean(axis=1, keepdims=True)
    usual = balances.mean(axis=0)
    printed("MEAN_BALANCE", usual)
    printed("EFFORT_STEP", way * ((balances - usual) @ way).std())


if __name__ == "__main__":
    main()
