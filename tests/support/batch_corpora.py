"""Small corpora to anonymize, and what was written."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from voiceveil.audio import save
from voiceveil.corpus import Trials, Utterance, write_kaldi
from voiceveil.corpus.model import Corpus
from voiceveil.systems import batch
from voiceveil.testing import synthetic_voice

anonymize = partial(batch.anonymize, system="b2")


def make_folder(root: Path, speakers: int = 2, utterances: int = 2, seconds: float = 0.3) -> Path:
    for speaker in range(speakers):
        for utterance in range(utterances):
            wave = synthetic_voice(speaker, utterance, seconds=seconds)
            save(root / f"s{speaker}" / f"s{speaker}-u{utterance}.wav", wave)
    return root


def make_kaldi(root: Path, role: str = "trial") -> Path:
    folder = make_folder(root / "audio")
    utterances = tuple(
        Utterance(path.stem, path, speaker=path.parent.name, gender="f", text="HELLO", role=role)
        for path in sorted(folder.rglob("*.wav"))
    )
    names = [u.id for u in utterances]
    trials = Trials(np.array(["s0"] * 4), np.array(names), np.array([True, True, False, False]))
    directory = root / f"toy_{role}s"
    write_kaldi(Corpus("toy", utterances, trials if role == "trial" else None), directory)
    return directory


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def audio(root: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(root).items() if name.endswith(".wav")}
