"""What a system makes of speech that is not clean: words before and after, naturalness, and that nothing breaks.

    python benchmarks/robustness.py DATA [--system veil] [--utterances 40]

DATA holds ``libri_dev_trials_f`` and ``libri_dev_trials_m`` and, for another language, ``emodb``. Each condition is
made from the same utterances: WER by Moonshine tiny of the spoilt recording, and of what the system makes of it. The
difference to the clean recording is the condition's fault, that between the two columns the system's. Where nothing
that the recognizer knows is said (German, music), only naturalness and level are told. Intervals are over speakers.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_toeplitz
from scipy.signal import butter, fftconvolve, lfilter, sosfilt

import voiceveil as vv
from voiceveil import metrics
from voiceveil import models as utility
from voiceveil.audio import Samples, Waveform
from voiceveil.corpus import Utterance, open_corpus
from voiceveil.evaluation.inventory import spread_sample
from voiceveil.models.asr.text_normalization import plain_words
from voiceveil.models.naturalness import DNSMOS
from voiceveil.stats import ratio
from voiceveil.systems import Anonymizer
from voiceveil.systems.contract import find_system

RATE = 16000
Spoil = Callable[[Samples, np.random.Generator], Samples]


def rms(samples: NDArray[np.floating[Any]]) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def clean(samples: Samples, rng: np.random.Generator) -> Samples:
    return samples


def noisy(samples: Samples, rng: np.random.Generator) -> Samples:
    """Pink noise, 10 dB below the speech."""
    spectrum = np.fft.rfft(rng.standard_normal(len(samples)))
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(1, np.arange(len(spectrum)))), n=len(samples))
    return (samples + noise * (rms(samples) / rms(noise) * 10 ** (-10 / 20))).astype(np.float32)


def reverberant(samples: Samples, rng: np.random.Generator) -> Samples:
    """A room whose sound falls by 60 dB in 0.6 s, as loud as the direct sound."""
    times = np.arange(int(0.6 * RATE)) / RATE
    tail = rng.standard_normal(len(times)) * np.exp(-6.9 * times / 0.6)
    tail[: int(0.002 * RATE)] = 0
    tail /= np.sqrt((tail**2).sum())
    tail[0] = 1.0
    return np.asarray(fftconvolve(samples, tail)[: len(samples)], dtype=np.float32)


def telephone(samples: Samples, rng: np.random.Generator) -> Samples:
    """300 to 3,400 Hz, 8-bit mu-law."""
    band = sosfilt(butter(6, [300, 3400], "bandpass", fs=RATE, output="sos"), samples)
    peak = max(1e-9, float(np.abs(band).max()))
    squeezed = np.sign(band) * np.log1p(255 * np.abs(band) / peak) / np.log(256)
    coded = np.round(squeezed * 127) / 127
    return np.asarray(np.sign(coded) * np.expm1(np.abs(coded) * np.log(256)) / 255 * peak, dtype=np.float32)


def whispered(samples: Samples, rng: np.random.Generator) -> Samples:
    """The vocal tract of the speech (linear prediction of order 20), excited by noise: no voice at all."""
    size, hop = 480, 240
    window = np.hanning(size + 1)[:-1]
    out = np.zeros(len(samples) + size)
    padded = np.pad(samples, (0, size)).astype(np.float64)
    for start in range(0, len(samples), hop):
        frame = padded[start : start + size] * window
        if rms(frame) > 1e-5:
            coefficients, gain = prediction(frame)
            breath = lfilter([gain], coefficients, rng.standard_normal(size))
            out[start : start + size] += breath * window
    return out[: len(samples)].astype(np.float32)


def prediction(frame: np.ndarray, order: int = 20) -> tuple[np.ndarray, float]:
    """Linear prediction of a frame, and the deviation of what is left."""
    correlation = np.correlate(frame, frame, "full")[len(frame) - 1 : len(frame) + order]
    correlation[0] *= 1.0001
    coefficients = np.concatenate([[1.0], -solve_toeplitz(correlation[:-1], correlation[1:])])
    left = lfilter(coefficients, [1.0], frame)
    return coefficients, rms(left)


def two_speakers(samples: Samples, rng: np.random.Generator) -> Samples:
    """The recording and itself backwards, 6 dB quieter, in a lower voice: somebody else in the room."""
    other = np.interp(np.arange(len(samples)) * 0.9, np.arange(len(samples)), samples[::-1])
    return np.asarray(samples + 0.5 * other, dtype=np.float32)


def behind_music(samples: Samples, rng: np.random.Generator) -> Samples:
    """Chords of decaying harmonics, 10 dB below the speech."""
    music = chords(len(samples), rng)
    return (samples + music * (rms(samples) / rms(music) * 10 ** (-10 / 20))).astype(np.float32)


def chords(length: int, rng: np.random.Generator) -> np.ndarray:
    times = np.arange(length) / RATE
    music = np.zeros(length)
    for beat in np.arange(0, length / RATE, 0.5):
        since = times - beat
        strike = np.where(since >= 0, np.exp(-4 * np.maximum(since, 0)), 0.0)
        for step in (0, 4, 7):
            tone = 110 * 2 ** ((int(rng.integers(12)) + step) / 12)
            music += strike * sum(np.sin(2 * np.pi * tone * k * times) / k for k in (1, 2, 3))
    return music


SPOILT: dict[str, Spoil] = {
    "clean": clean,
    "pink noise, 10 dB": noisy,
    "reverberant, T60 0.6 s": reverberant,
    "telephone": telephone,
    "whispered": whispered,
    "two speakers, 6 dB": two_speakers,
    "music behind, 10 dB": behind_music,
}


def converted(system: Anonymizer, samples: Samples, number: int) -> Samples:
    """What the system makes of it; finite and about as long as before, or the benchmark ends here."""
    made = system.convert(Waveform(samples, RATE), np.random.default_rng(number)).samples
    if not 0.8 < len(made) / len(samples) < 1.25 or not np.isfinite(made).all():
        raise SystemExit(f"{len(made)} samples of {len(samples)}, finite: {bool(np.isfinite(made).all())}")
    return made


def words(name: str, spoil: Spoil, system: Anonymizer, utterances: Sequence[Utterance]) -> str:
    """A row of the table: WER before and after, their ratio, DNSMOS after."""
    asr, mos = utility.recognizer("moonshine"), DNSMOS()
    said: list[str] = []
    heard: dict[str, list[str]] = {"before": [], "after": []}
    rated = []
    for number, utterance in enumerate(utterances):
        wave = vv.load(utterance.path, rate=RATE)
        before = spoil(wave.samples, np.random.default_rng(number))
        after = converted(system, before, number)
        said.append(plain_words(utterance.text or ""))
        for side, samples in (("before", before), ("after", after)):
            heard[side].append(plain_words(asr(Waveform(samples, RATE))))
        rated.append(mos(Waveform(after, RATE))["ovr"])
    by, lengths = [u.speaker or u.id for u in utterances], np.array([len(text.split()) for text in said])
    wrong = {side: [_wrong(*pair) for pair in zip(said, texts, strict=True)] for side, texts in heard.items()}
    rates = [str(ratio(np.array(errors), lengths, by)) for errors in wrong.values()]
    times = sum(wrong["after"]) / max(1, sum(wrong["before"]))
    return f"| {name} | {rates[0]} | {rates[1]} | {times:.2f} | {np.mean(rated):.2f} |"


def _wrong(said: str, heard: str) -> int:
    errors = metrics.word_errors([said], [heard])
    return errors.insertions + errors.deletions + errors.substitutions


def others(system: Anonymizer, data: Path, count: int) -> list[str]:
    """Speech in another language, and music alone."""
    mos, rng = DNSMOS(), np.random.default_rng(0)
    heard: dict[str, list[Samples]] = {"music alone": [chords(5 * RATE, rng).astype(np.float32) * 0.02]}
    if (data / "emodb").is_dir():
        corpus = open_corpus(str(data / "emodb"))
        heard["German (EmoDB)"] = [vv.load(u.path, rate=RATE).samples for u in list(corpus)[:: len(corpus) // count]]
    rows = []
    for name, recordings in heard.items():
        made = [converted(system, samples, number) for number, samples in enumerate(recordings)]
        level = 20 * np.log10(np.mean([rms(a) for a in made]) / np.mean([rms(b) for b in recordings]))
        rating = np.mean([mos(Waveform(samples, RATE))["ovr"] for samples in made])
        rows.append(f"| {name} | – | – | – | {rating:.2f} | level {level:+.1f} dB")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--system", default="veil", metavar="NAME[,PARAMETER=VALUE]")
    parser.add_argument("--utterances", type=int, default=40)
    args = parser.parse_args()
    name, *settings = args.system.split(",")
    system = find_system(name, settings)
    utterances = []
    for part in ("libri_dev_trials_f", "libri_dev_trials_m"):
        corpus = open_corpus(str(args.data / part))
        keep = set(spread_sample(corpus, args.utterances // 2))
        utterances += [u for u in corpus if u.id in keep]
    print("| condition | WER before | WER after | times | DNSMOS after |\n|---|---|---|---|---|", flush=True)
    for condition, spoil in SPOILT.items():
        print(words(condition, spoil, system, utterances), flush=True)
    print("\n".join(others(system, args.data, 20)))


if __name__ == "__main__":
    main()
