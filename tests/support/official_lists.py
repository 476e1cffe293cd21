"""The official LibriSpeech sets of the VoicePrivacy challenges as Kaldi directories, without their audio."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.corpus.challenge_ids import libri_ids


def write_official_sets(folder: Path, dataset: str = "libri_dev") -> None:
    """Write ``{dataset}_enrolls``, ``{dataset}_trials_f`` and ``{dataset}_trials_m`` below ``folder``.

    Trials are all pairs of an enrolled speaker and a trial utterance of one gender, as in the official lists.
    """
    ids = {part: libri_ids()[f"{dataset}_{part}"] for part in ("enrolls", "trials_f", "trials_m")}
    genders = {_speaker(name): gender for gender in "fm" for name in ids[f"trials_{gender}"]}
    for part, names in ids.items():
        role = "enroll" if part == "enrolls" else "trial"
        utterances = tuple(
            Utterance(name, folder / "audio" / f"{name}.wav", _speaker(name), role=role, gender=genders[_speaker(name)])
            for name in names
        )
        trials = None
        if role == "trial":
            enrolled = sorted({_speaker(name) for name in ids["enrolls"] if genders[_speaker(name)] == part[-1]})
            pairs = [(speaker, name) for speaker in enrolled for name in names]
            target = np.array([speaker == _speaker(name) for speaker, name in pairs])
            trials = Trials(np.array([speaker for speaker, _ in pairs]), np.array([name for _, name in pairs]), target)
        name = f"{dataset}_{part}"
        write_kaldi(Corpus(name, utterances, trials=trials), folder / name)


def _speaker(utterance: str) -> str:
    return utterance.partition("-")[0]
