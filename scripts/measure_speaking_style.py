"""Measure how height, reach and effort of speech go together: over speakers, and over emotions where they are known.

    python scripts/measure_speaking_style.py data/libri_train data/libri_pool
    python scripts/measure_speaking_style.py data/emodb

What `voiceveil.systems.resynthesis.speaking_style` stands on. Means, deviations and correlations of the three, in
deviations between speakers of the pool of each gender; and the share of recordings whose style `veil` takes for a
feeling's at its default. With genders as the corpus has them. At most 20 recordings of a speaker count.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import load
from voiceveil.corpus import Utterance, open_corpus
from voiceveil.dsp.effort import RATE, spectral_balance, vocal_effort
from voiceveil.models.pitch.trackers import f0_on_frames, tracker
from voiceveil.models.weights import store
from voiceveil.systems.resynthesis.pool import load_pool
from voiceveil.systems.resynthesis.speaking_style import SpeakingStyle, f0_statistics
from voiceveil.systems.resynthesis.veil import Veil

MOST = 20


def style_of(utterance: Utterance) -> SpeakingStyle | None:
    """None: there is too little of a voice."""
    swift, wave = tracker("swift"), load(utterance.path, rate=RATE, start=utterance.start, duration=utterance.duration)
    f0 = f0_on_frames(swift(wave), swift, len(wave.samples))
    statistics, found = f0_statistics(f0), spectral_balance(wave.samples, f0 > 0)
    if statistics is None or found is None or utterance.gender is None:
        return None
    return statistics.style(load_pool(store.path("pool")).f0_population(utterance.gender), vocal_effort(found))


def printed(name: str, styles: list[SpeakingStyle]) -> None:
    """Print a line: mean and deviation of each, and the share that counts as emotional."""
    values = np.array(styles, dtype=np.float64)
    felt = float(np.mean([style.emotion_weight(Veil().prosody().arousal_threshold) > 0.5 for style in styles]))
    cells = (f"{mean:+.2f} ({deviation:.2f})" for mean, deviation in zip(values.mean(0), values.std(0), strict=True))
    print(f"{name:12} {len(styles):5}  {'  '.join(cells)}  {felt:.0%}")


def correlations(name: str, rows: list[NDArray[np.float64]]) -> None:
    """Of height and reach, height and effort, reach and effort."""
    found = np.corrcoef(np.array(rows).T)
    print(f"correlations over {len(rows)} {name}: {found[0, 1]:.2f} {found[0, 2]:.2f} {found[1, 2]:.2f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", help="with speakers, genders, and emotions if there are any")
    args = parser.parse_args()
    groups = [group for path in args.corpora for _, group in sorted(open_corpus(path).by_speaker.items())]
    chosen = [u for group in groups for u in (group if group[0].emotion else sorted(group, key=lambda u: u.id)[:MOST])]
    heard = [(u, style) for u in chosen if (style := style_of(u)) is not None]
    print("             recordings; mean (deviation) of height, reach, effort; felt")
    printed("all", [style for _, style in heard])
    for emotion in sorted({u.emotion for u, _ in heard if u.emotion}):
        printed(emotion, [style for u, style in heard if u.emotion == emotion])
    of_speaker: dict[str | None, list[SpeakingStyle]] = {}
    for utterance, style in heard:
        of_speaker.setdefault(utterance.speaker, []).append(style)
    correlations("speakers", [np.mean(np.array(group, dtype=np.float64), axis=0) for group in of_speaker.values()])
    correlations("recordings", [np.array(style, dtype=np.float64) for _, style in heard])


if __name__ == "__main__":
    main()
