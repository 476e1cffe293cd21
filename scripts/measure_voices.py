"""Measure the table of voices of `i1`: median F0, F1 to F5 (Hz), syllables a second, one speaker a line.

    python scripts/measure_voices.py data/libri_pool --speakers 60 > src/voiceveil/systems/signal/voices.tsv

The first utterance of the first speakers of each gender by name, so that the table can be made again. Names stay out
of it, and so does their order: lines are sorted by what they say. Speech of LibriSpeech: CC BY 4.0.
"""

from __future__ import annotations

import argparse
import sys

from voiceveil.audio import load
from voiceveil.corpus import open_corpus
from voiceveil.dsp.formants import measure_voice

RATE = 16000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="with genders")
    parser.add_argument("--speakers", type=int, default=60, help="of each gender (default: 60)")
    args = parser.parse_args()
    corpus = open_corpus(args.corpus)
    rows = []
    for gender in ("f", "m"):
        found = 0
        for spoken in (group for _, group in sorted(corpus.by_speaker.items()) if group[0].gender == gender):
            wave = load(spoken[0].path, rate=RATE, start=spoken[0].start, duration=spoken[0].duration)
            voice, _ = measure_voice(wave.samples, RATE)
            if voice is None or not voice.f0 or found == args.speakers:
                continue
            found += 1
            values = (f"{value:.0f}" for value in (voice.f0, *voice.formants))
            rows.append("\t".join([gender, *values, f"{voice.rate:.2f}"]))
        if found < args.speakers:
            sys.exit(f"{found} speakers of gender {gender} with a voice, not {args.speakers}")
    print("gender\tf0\tF1\tF2\tF3\tF4\tF5\trate", *sorted(rows), sep="\n")


if __name__ == "__main__":
    main()
