"""Speed of B2: ratios against a plain implementation in the same run, on one core.

    python benchmarks/b2.py [--corpus DIR]

* conversion: samples in, samples out, against the method as the papers describe it (frame by frame, librosa's Burg
  recursion in numpy, ``np.roots``, ``scipy.signal.lfilter``);
* memory: the peak of a run, for recordings of different length;
* two processes against one, on 500 files.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
import soundfile
from numpy.typing import NDArray
from scipy.signal import lfilter

import voiceveil as vv
from timing import seconds
from voiceveil.audio import save
from voiceveil.dsp.mcadams import McAdams
from voiceveil.testing import synthetic_voice

EPSILON = np.finfo(np.float32).eps
Signal = NDArray[np.float64]


def plain_burg(frame: Signal, order: int) -> Signal:
    a = np.zeros(order + 1)
    a[0] = 1.0
    forward, backward = frame[1:], frame[:-1]
    denominator = np.dot(forward, forward) + np.dot(backward, backward)
    for i in range(order):
        reflection = -2 * np.dot(forward, backward) / denominator
        a[1 : i + 2] += reflection * a[i::-1][: i + 1]
        forward, backward = forward + reflection * backward, backward + reflection * forward
        denominator = (1 - reflection**2) * denominator - backward[-1] ** 2 - forward[0] ** 2
        forward, backward = forward[1:], backward[:-1]
    return a


def plain_mcadams(samples: NDArray[np.float32], alpha: float) -> Signal:
    hann = np.hanning(320)
    window = np.sqrt(hann / (hann.sum() / 160))
    signal = samples + EPSILON
    out = np.zeros(len(signal))
    for start in range(0, len(signal) - 319, 160):
        frame = signal[start : start + 320] * window
        a = plain_burg(frame + EPSILON, 20)
        roots = np.roots(a)
        angle = np.angle(roots)
        angle = np.where(roots.imag != 0, np.sign(angle) * np.abs(angle) ** alpha, angle)
        moved = np.real(np.poly(np.abs(roots) * np.exp(1j * angle)))
        out[start : start + 320] += lfilter([1.0], moved, lfilter(a, [1.0], frame)) * window
    return out


def conversion(speech: NDArray[np.float32]) -> None:
    length = len(speech) / 16000
    transform = McAdams(0.7, whole=False)
    fast, plain = transform(speech), plain_mcadams(speech, 0.7)
    error = np.abs(fast - plain).max() / np.abs(plain).max()
    fast_time = seconds(lambda: transform(speech), 7)
    plain_time = seconds(lambda: plain_mcadams(speech, 0.7), 2)
    print(f"conversion of {length:.0f} s, one core")
    print(f"  plain     {length / plain_time:6.1f} x real time")
    print(f"  voiceveil {length / fast_time:6.1f} x real time")
    print(f"  ratio     {plain_time / fast_time:6.1f}       largest difference {error:.1e} of the peak")


def memory(folder: Path) -> None:
    code = (
        "import sys, voiceveil as vv\nfrom voiceveil.testing.memory import peak_memory\n"
        "vv.anonymize(sys.argv[1], sys.argv[2], seed=1)\n"
        "print(peak_memory())"
    )
    block = synthetic_voice(1, seconds=60.0).int16()
    print("memory of a run, block by block")
    for minutes in (15, 60, 120):
        path = folder / f"{minutes}.wav"
        with soundfile.SoundFile(path, "w", samplerate=16000, channels=1) as file:
            for _ in range(minutes):
                file.write(block)
        command = [sys.executable, "-c", code, str(path), str(folder / "out" / f"{minutes}.wav")]
        peak = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        whole = minutes * 60 * 64e3 / 2**20
        print(f"  {minutes:4d} min of audio: {peak:6.0f} MB   (the samples alone, as float32: {whole:.0f} MB)")


def processes(folder: Path, corpus: Path | None) -> None:
    source = folder / "in" if corpus is None else corpus
    if corpus is None:
        for i in range(500):
            save(source / f"{i:03d}.wav", synthetic_voice(i % 20, i, seconds=12.6))
    times: dict[int, float] = {}
    for attempt in range(2):
        for jobs in (1, 2):
            out = folder / f"out-{jobs}-{attempt}"
            times[jobs] = min(
                times.get(jobs, np.inf), vv.anonymize(source, out, seed=1, jobs=jobs, system="b2").seconds
            )
    print(f"processes, on {source.name if corpus else '500 files of 12.6 s, the mean of LibriSpeech train-clean-360'}")
    print(f"  --jobs 1: {times[1]:.1f} s   --jobs 2: {times[2]:.1f} s   ratio {times[1] / times[2]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help="a corpus for the comparison of processes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        conversion(synthetic_voice(1, seconds=30.0).samples)
        memory(folder)
        processes(folder, args.corpus)


if __name__ == "__main__":
    main()
