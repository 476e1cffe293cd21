"""Processor seconds for a second of audio: what each step of an evaluation takes, on one core.

    python benchmarks/pace.py FOLDER_OF_SPEECH

The figures are those of `_PACES` in voiceveil.evaluation.plan, which a plan uses where no earlier run has left
better ones. Reading the file is part of a step.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np

import voiceveil as vv
from voiceveil import models as utility
from voiceveil.attack.model_free import Cues
from voiceveil.audio import Waveform, load
from voiceveil.corpus import Utterance, open_corpus
from voiceveil.models.emotion.functionals import Functionals
from voiceveil.models.speaker.campplus import CamPlusPlusTrunk

FILES = 20


def pace(step: Callable[[Waveform], object], utterances: list[Utterance]) -> float:
    step(load(utterances[0].path, rate=16000))  # weights are loaded, loops compiled
    start, audio = time.process_time(), 0.0
    for utterance in utterances:
        wave = load(utterance.path, rate=16000, start=utterance.start, duration=utterance.duration)
        step(wave)
        audio += wave.duration
    return (time.process_time() - start) / audio


def converter(name: str) -> Callable[[Waveform], object]:
    system = vv.system(name)
    return lambda wave: system.convert(wave, np.random.default_rng(0))


def main() -> None:
    utterances = list(open_corpus(sys.argv[1]))[:FILES]
    steps: dict[str, Callable[[Waveform], object]] = {name: converter(name) for name in ("b2", "identity")}
    steps |= {"CamPlusPlusTrunk": CamPlusPlusTrunk(), "Moonshine": utility.recognizer("moonshine"), "Cues": Cues()}
    steps |= {"Functionals": Functionals(), "Autocorrelation": utility.tracker()}
    for name, step in steps.items():
        print(f"{name:20} {pace(step, utterances):.4f}", flush=True)


if __name__ == "__main__":
    main()
