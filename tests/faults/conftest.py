"""A small world to be disturbed: 15 recordings, a protocol, commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.faults.runs import PROTOCOL
from tests.faults.victims import Victims, victims
from voiceveil.audio import save
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.testing import synthetic_voice


@pytest.fixture(scope="package")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victims]:
    """One process to fork from, for all tests."""
    with victims(tmp_path_factory.mktemp("logs")) as made:
        yield made


@pytest.fixture(scope="package")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set to enroll and one of trials."""
    data = tmp_path_factory.mktemp("data")
    spoken = {}
    for role, numbers in (("enroll", range(1)), ("trial", range(1, 5))):
        spoken[role] = tuple(
            Utterance(f"{s}-{i}", data / "audio" / f"{s}-{i}.wav", speaker=str(s), gender="f", role=role)
            for s in (1, 2, 3)
            for i in numbers
        )
        for u in spoken[role]:
            save(u.path, synthetic_voice(int(u.speaker or 0), int(u.id[-1]), seconds=0.5))
    pairs = [(str(s), u.id, str(s) == u.speaker) for s in (1, 2, 3) for u in spoken["trial"]]
    trials = Trials(*(np.array(column) for column in zip(*pairs, strict=True)))
    write_kaldi(Corpus("libri_dev_enrolls", spoken["enroll"]), data / "libri_dev_enrolls")
    write_kaldi(Corpus("libri_dev_trials_f", spoken["trial"], trials), data / "libri_dev_trials_f")
    (data / "small.toml").write_text(PROTOCOL)
    return data


@pytest.fixture(scope="session")
def loaded() -> None:
    """Import what is imported late, before limits on time and memory are set."""
    import safetensors.torch  # noqa: F401
