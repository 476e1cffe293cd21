"""Measure the table of voices of `i1`: median F0, F1 to F5 (Hz), syllables a second, one speaker a line.

    python scripts/measure_voices.py data/libri_pool > src/voiceveil/systems/signal/voices.tsv

The first utterance of every speaker. Names stay out of the table, and so does their order: lines are sorted by what
they say. A speaker whose formants or F0 cannot be measured is left out, and named. Speech of LibriSpeech: CC BY 4.0.
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
    rows = []
    for speaker, utterances in sorted(open_corpus(parser.parse_args().corpus).by_speaker.items()):
        first = utterances[0]
        wave = load(first.path, rate=RATE, start=first.start, duration=first.duration)
        voice, _ = measure_voice(wave.samples, RATE)
        if voice is None or not voice.f0:
            print(f"left out: {speaker}, no voice in {first.id}", file=sys.stderr)
            continue
        values = (f"{value:.0f}" for value in (voice.f0, *voice.formants))
        rows.append("\t".join([first.gender or "", *values, f"{voice.rate:.2f}"]))
    print("gender\tf0\tF1\tF2\tF3\tF4\tF5\trate", *sorted(rows), sep="\n")


if __name__ == "__main__":
    main()
