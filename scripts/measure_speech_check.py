"""Measure how well `voiceveil.models.asr.speech_check` tells English speech from other languages, music and noise.

    python scripts/measure_speech_check.py --english data/libri_dev_trials_f data/libri_dev_trials_m \
        --other german=data/emodb --music DIR

The threshold on the entropy is chosen on one half of the speakers (by name, every second one) and reported on the
other: the rate of false alarms on English speech, and of detection on everything else, with 95% intervals over
speakers (recordings of music and noise). Noise is white, pink and brown; mixtures are of English speech with pink
noise or music at each signal-to-noise ratio.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from voiceveil.audio import Samples, Waveform, load
from voiceveil.corpus import open_corpus
from voiceveil.corpus.folder import walk_files
from voiceveil.corpus.sampling import shuffled_utterances
from voiceveil.models.asr.speech_check import FEW_TOKENS, SpeechCheck
from voiceveil.stats import Estimate, accuracy, ratio

RATE = 16000
RATIOS = (20, 10, 5, 0, -5)  # dB
Row = tuple[str, str, dict[str, float]]


def spoken(corpora: list[str], count: int) -> Iterator[tuple[str, Samples]]:
    """Yield the speaker and the samples of ``count`` utterances of each speaker, of 1.5 s or more."""
    for corpus in corpora:
        for speaker, utterances in sorted(open_corpus(corpus).by_speaker.items()):
            for u in shuffled_utterances(utterances, 0, "speech check")[:count]:
                wave = load(u.path, rate=RATE, start=u.start, duration=u.duration)
                if wave.duration >= SpeechCheck.minimum:
                    yield speaker, wave.samples


def colored(rng: np.random.Generator, samples: int, slope: float) -> Samples:
    """Return noise whose power falls with frequency to the power of ``slope``."""
    frequency = np.maximum(np.fft.rfftfreq(samples, 1 / RATE), RATE / samples)
    spectrum = rng.standard_normal(len(frequency)) + 1j * rng.standard_normal(len(frequency))
    noise = np.fft.irfft(frequency ** (-slope / 2) * spectrum, samples)
    return np.asarray(0.3 * noise / np.abs(noise).max(), dtype=np.float32)


def mixed(speech: Samples, noise: Samples, ratio: float) -> Samples:
    """Return speech with noise at a signal-to-noise ratio in dB."""
    other = np.resize(noise, len(speech))
    gain = np.sqrt(np.mean(speech**2) / (np.mean(other**2) + 1e-12) / 10 ** (ratio / 10))
    return np.asarray(speech + gain * other, dtype=np.float32)


def share(flags: list[bool], speakers: list[str]) -> Estimate:
    """Return the share of recordings that are flagged, with its interval over speakers; none or all have Wilson's."""
    if np.mean(flags) > 0.5:
        return accuracy([True] * len(flags), flags, speakers)
    return ratio(np.array(flags, dtype=float), np.ones(len(flags)), speakers, top=1.0)


def measure(args: argparse.Namespace) -> list[Row]:
    """Return kind, speaker and measurement of every recording."""
    check, rng = SpeechCheck(), np.random.default_rng(0)
    rows: list[Row] = []

    def add(kind: str, speaker: str, samples: Samples) -> None:
        rows.append((kind, speaker, check(Waveform(samples, RATE))))

    english = list(spoken(args.english, args.utterances))
    for speaker, samples in english:
        add("english", speaker, samples)
    for name, _, corpus in (text.partition("=") for text in args.other):
        for speaker, samples in spoken([corpus], 4 * args.utterances):
            add(name, speaker, samples)
    files = sorted(walk_files(args.music, {".ogg"})) if args.music else []
    music = [load(path, rate=RATE, start=4.0, duration=8.0).samples for path in files if load(path).duration >= 12.0]
    for number, samples in enumerate(music):
        add("music", f"{number}", samples)
    for number in range(24):
        add("noise", f"{number}", colored(rng, 6 * RATE, number % 3))
    for level in RATIOS:
        for number, (speaker, samples) in enumerate(english[::2]):
            in_music = bool(music) and number % 2 == 1
            noise = music[number % len(music)] if in_music else colored(rng, len(samples), 1.0)
            add(f"{'music' if in_music else 'noise'} at {level} dB", speaker, mixed(samples, noise, level))
    return rows


def main() -> None:
    """Print the threshold and the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--english", nargs="+", required=True, metavar="CORPUS")
    parser.add_argument("--other", nargs="+", required=True, metavar="NAME=CORPUS", help="other languages")
    parser.add_argument("--music", type=Path, metavar="DIR", help="folder of .ogg files (default: no music)")
    parser.add_argument("--utterances", type=int, default=3, help="of each English speaker (default: 3)")
    args = parser.parse_args()
    rows = measure(args)
    names = {kind: sorted({speaker for k, speaker, _ in rows if k == kind}) for kind, _, _ in rows}
    half = {(kind, speaker): number % 2 for kind in names for number, speaker in enumerate(names[kind])}
    chosen = [row for row in rows if half[row[0], row[1]] == 0]
    highest = np.percentile([m["entropy"] for kind, _, m in chosen if kind == "english"], 98)
    lowest = np.percentile([m["entropy"] for kind, _, m in chosen if kind in [o.split("=")[0] for o in args.other]], 2)
    threshold = (highest + lowest) / 2
    print(f"threshold chosen on half of the speakers: {threshold:.2f} nats ({highest:.2f} to {lowest:.2f})")
    for kind in dict.fromkeys(kind for kind, _, _ in rows):
        tested = [(speaker, m) for k, speaker, m in rows if k == kind and half[k, speaker] == 1]
        speakers = [speaker for speaker, _ in tested]
        unsure = [m["entropy"] > threshold for _, m in tested]
        hardly = [u and bool(m["repeated"] or m["tokens_per_second"] < FEW_TOKENS)
                  for u, (_, m) in zip(unsure, tested, strict=True)]  # fmt: skip
        texts = [str(share(flags, speakers)) for flags in (unsure, hardly)]
        print(f"{kind}: {len(tested)} recordings, not clear English {texts[0]}, hardly speech {texts[1]}", flush=True)


if __name__ == "__main__":
    main()
