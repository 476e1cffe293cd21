"""Pseudo-speakers of an evaluation at speaker level: one for each speaker and role, in all sets of that role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.tiny_decoder import write_decoder
from voiceveil.audio import Samples, save
from voiceveil.cli.main import main
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.systems import anonymize, system
from voiceveil.systems.resynthesis import pipeline
from voiceveil.systems.resynthesis.synthesis import synthesize
from voiceveil.testing import synthetic_voice

pytestmark = pytest.mark.slow  # it evaluates

SPEAKERS = ("s1", "s2")
PROTOCOL = """
name = "sets"
title = "Trial sets that share speakers"
metrics = ["eer"]
conditions = ["aa"]
levels = { enroll = "speaker", trial = "speaker" }

[[verification]]
dataset = "vctk_dev"
split = "dev"
enroll = "vctk_dev_enrolls"
trials = [{ set = "vctk_dev_trials_f", gender = "f" }]

[[verification]]
dataset = "vctk_dev"
split = "dev"
subset = "common"
enroll = "vctk_dev_enrolls"
trials = [{ set = "vctk_dev_trials_f_common", gender = "f" }]

[[recognition]]
dataset = "vctk_dev"
split = "dev"
sets = ["vctk_dev_trials_f_all"]
"""
#: Set -> numbers of each speaker's utterances; the last one is a combination of the others.
SETS = {
    "vctk_dev_enrolls": (1, 2),
    "vctk_dev_trials_f": (3, 4),
    "vctk_dev_trials_f_common": (5,),
    "vctk_dev_trials_f_all": (3, 4, 5),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Sets of two women; some have neither ``enrolls`` nor ``trials``."""
    data = tmp_path / "data"
    for name, numbers in SETS.items():
        spoken = []
        for index, speaker in enumerate(SPEAKERS):
            for number in numbers:
                path = data / "audio" / f"{speaker}-{number}.wav"
                if not path.exists():
                    save(path, synthetic_voice(index, number, seconds=0.8))
                spoken.append(Utterance(path.stem, path, speaker=speaker, gender="f", text="ONE"))
        trials = None
        if name in ("vctk_dev_trials_f", "vctk_dev_trials_f_common"):
            pairs = [(speaker, u.id, speaker == u.speaker) for speaker in SPEAKERS for u in spoken]
            trials = Trials(*(np.array(column) for column in zip(*pairs, strict=True)))
        write_kaldi(Corpus(name, tuple(spoken), trials), data / name)
    (tmp_path / "sets.toml").write_text(PROTOCOL)
    return data


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Samples]:
    """Embeddings of the pseudo-speakers, in the order of the recordings."""
    embeddings: list[Samples] = []

    def recorded(stages: Any, content: Any, f0: Any, embedding: Samples, *rest: Any) -> Samples:
        embeddings.append(embedding)
        return synthesize(stages, content, f0, embedding, *rest)

    monkeypatch.setattr(pipeline, "synthesize", recorded)
    return embeddings


def evaluate(data: Path, *options: str) -> Path:
    out = data.parent / "out"
    where = ["--data", str(data), "--out", str(out), "--protocol", str(data.parent / "sets.toml")]
    fixed = ["--jobs", "1", "--quiet", "--attackers", "free:f0", "--no-report"]
    assert main(["evaluate", *where, *fixed, *options]) == 0
    return out / "data"


def test_speaker_is_one_pseudo_speaker_in_all_trial_sets(data: Path) -> None:
    """Whatever files a directory has: the ``_all`` set has no trials, the enrollment set no ``enrolls``."""
    out = evaluate(data, "--system", "b2")
    made = {name: {f.name: f.read_bytes() for f in (out / f"{name}_b2" / "wav").iterdir()} for name in SETS}
    separate = made["vctk_dev_trials_f"] | made["vctk_dev_trials_f_common"]
    assert made["vctk_dev_trials_f_all"] == separate


def test_enrollment_has_other_pseudo_speakers_than_trials(tmp_path: Path, data: Path) -> None:
    """Also where no file tells one from the other."""
    same = tmp_path / "data" / "vctk_dev_enrolls"
    (same / "wav.scp").write_text((same / "wav.scp").read_text().replace("s1-1.wav", "s1-3.wav"))
    out = evaluate(data, "--system", "b2", "--seed", "1")
    enroll = (out / "vctk_dev_enrolls_b2/wav/s1-1.wav").read_bytes()
    assert enroll != (out / "vctk_dev_trials_f_all_b2/wav/s1-3.wav").read_bytes()


def test_resynthesis_draws_equal_pseudo_speakers_from_mean_embeddings(
    data: Path, tmp_path: Path, drawn: list[Samples]
) -> None:
    """Equal in all three trial sets, not merely alike; others in the enrollment set."""
    weights = write_decoder(tmp_path / "decoder")
    evaluate(data, "--system", "b1b", "--set", f"weights={weights}", "--seed", "1")
    assert len(drawn) == sum(2 * len(numbers) for numbers in SETS.values())
    distinct = {embedding.tobytes() for embedding in drawn}
    assert len(distinct) == 4  # two speakers in two roles


def test_utterance_level_takes_the_embedding_of_the_utterance(data: Path, tmp_path: Path, drawn: list[Samples]) -> None:
    b1b = system("b1b", weights=str(write_decoder(tmp_path / "decoder")))
    for level, count in (("utterance", 4), ("speaker", 2)):
        drawn.clear()
        anonymize(data / "vctk_dev_trials_f", tmp_path / level, system=b1b, level=level, seed=1)  # type: ignore[arg-type]
        assert len({embedding.tobytes() for embedding in drawn}) == count


def test_mean_embeddings_do_not_depend_on_processes(data: Path, tmp_path: Path) -> None:
    b1b = system("b1b", weights=str(write_decoder(tmp_path / "decoder")))
    for jobs in (1, 2):
        anonymize(data / "vctk_dev_trials_f", tmp_path / str(jobs), system=b1b, level="speaker", seed=1, jobs=jobs)
    one, two = ({f.name: f.read_bytes() for f in (tmp_path / str(jobs)).rglob("*.wav")} for jobs in (1, 2))
    assert one == two
    assert len(one) == 4
