"""A part of the demo corpus, small enough for tests and large enough to train an attacker."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np

from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.corpus import Corpus, open_corpus, write_kaldi

#: Set -> speakers of each gender and utterances of each speaker.
_SIZES = {"demo_enrolls": (2, 1), "demo_trials_f": (2, 2), "demo_trials_m": (2, 2), "demo_train": (5, 4)}


def make_small_demo(folder: Path) -> Path:
    """Write the first speakers of each set, with the protocol and the note; the attacker can learn from it."""
    for name, (speakers, utterances) in _SIZES.items():
        corpus = open_corpus(SPEECH / name)
        genders: dict[str, list[str]] = defaultdict(list)
        for speaker, spoken in sorted(corpus.by_speaker.items()):
            genders[str(spoken[0].gender)].append(speaker)
        chosen = {speaker for group in genders.values() for speaker in group[:speakers]}
        kept = {u.id for speaker in chosen for u in corpus.by_speaker[speaker][:utterances]}
        _write(corpus, chosen, kept, folder / name)
    for name in ("NOTE.txt", "demo.toml"):
        shutil.copyfile(SPEECH / name, folder / name)
    return folder


def _write(corpus: Corpus, speakers: set[str], kept: set[str], folder: Path) -> None:
    """Write the chosen utterances, and the trials between them and the chosen speakers."""
    spoken = corpus.filter(lambda utterance: utterance.id in kept)
    trials = None if spoken.trials is None else spoken.trials[np.isin(spoken.trials.enroll, sorted(speakers))]
    audio = {u.id: folder / "audio" / u.path.name for u in spoken}
    (folder / "audio").mkdir(parents=True)
    for utterance in spoken:
        shutil.copyfile(utterance.path, audio[utterance.id])
    write_kaldi(Corpus(corpus.name, spoken.utterances, trials), folder, audio)
