"""Make the before-and-after samples of the README in docs/samples: original, b2 and veil as MP3, a few seconds each.

    make samples

The recordings are four of the demo corpus (LibriSpeech dev-clean, CC BY 4.0, see NOTICE); the seed is fixed, so that
the same version of a system makes the same samples.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

import voiceveil as vv
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.core.atomic_files import atomic_path
from voiceveil.corpus import open_corpus

SAMPLES = Path(__file__).resolve().parents[1] / "docs" / "samples"
SYSTEMS = ("b2", "veil")
UTTERANCES = {
    "woman-1": "1993-147965-0000",
    "woman-2": "6313-66129-0008",
    "man-1": "6241-61946-0017",
    "man-2": "2803-154328-0022",
}


def main() -> None:
    """Write the files and print their texts."""
    spoken = {u.id: u for name in ("demo_trials_f", "demo_trials_m") for u in open_corpus(SPEECH / name)}
    systems = {name: vv.system(name) for name in SYSTEMS}
    for name, utterance in UTTERANCES.items():
        wave = vv.load(spoken[utterance].path)
        write(SAMPLES / f"{name}-original.mp3", wave)
        for system, anonymizer in systems.items():
            write(SAMPLES / f"{name}-{system}.mp3", anonymizer.convert(wave, np.random.default_rng(1)))
        print(f"{name}: {utterance} {(spoken[utterance].text or '').lower()}")


def write(path: Path, wave: vv.Waveform) -> None:
    """Write a small MP3 file, which every browser plays."""
    with atomic_path(path) as part:
        soundfile.write(part, wave.samples, wave.rate, format="MP3", compression_level=0.8)


if __name__ == "__main__":
    main()
