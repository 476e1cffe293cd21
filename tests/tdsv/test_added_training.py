"""Several corpora in one training: names apart, no recording of the challenge, voices without phrases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tdsv.test_system import measured
from voiceveil import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.tdsv.challenge import Challenge, Subset
from voiceveil.tdsv.features import RecordingFeatures
from voiceveil.tdsv.lists import Label, TdsvModel, Trial
from voiceveil.tdsv.serialization import load_system, save_system
from voiceveil.tdsv.training import VOICE_ONLY, added_training, fit_system

COURSES = {"01": [0, 1, 2, 3], "02": [3, 2, 1, 0], "03": [4, 5, 6, 7]}


def challenge(root: Path) -> Challenge:
    model = TdsvModel("m", "f", ("e1", "e2", "e3"))
    subset = Subset("eval", {"m": model}, (Trial("m", "v1"),))
    return Challenge(root, 2, (Label("t1", "s1", "01"),), {"eval": subset})


def test_recordings_of_the_challenge_are_left_out(tmp_path: Path) -> None:
    """Whatever they are called elsewhere, and also behind symbolic links."""
    opened = challenge(tmp_path)
    for part, file in (("train", "t1"), ("enrollment", "e1"), ("enrollment", "e2"), ("evaluation", "v1")):
        path = opened.path(part, file)  # type: ignore[arg-type]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"RIFF")
    link = tmp_path / "link.wav"
    link.symlink_to(opened.path("evaluation", "v1"))
    paths = {
        "own": opened.path("train", "t1"), "enrolled": opened.path("enrollment", "e2"), "linked": link,
        "new": tmp_path / "new.wav", "plain": tmp_path / "plain.wav",
    }  # fmt: skip
    phrases = {"plain": None}
    utterances = tuple(Utterance(k, p, speaker="s1", phrase=phrases.get(k, "07")) for k, p in paths.items())
    nobody = Utterance("nobody", tmp_path / "nobody.wav")
    added = added_training(opened, [Corpus("x", (*utterances, nobody)), Corpus("y", utterances[3:4])])
    assert added.labels == (
        Label("1:new", "1:s1", "07"), Label("1:plain", "1:s1", VOICE_ONLY), Label("2:new", "2:s1", "07"),
    )  # fmt: skip
    assert [u.id for u in added.utterances] == ["1:new", "1:plain", "2:new"]
    assert added.names == ("x", "y")
    with pytest.raises(InputError, match="nothing to train on"):
        added_training(opened, [Corpus("x", utterances[:3])])


def world(speakers: range, prefix: str, seed: int = 7) -> tuple[list[Label], dict[str, RecordingFeatures]]:
    rng = np.random.default_rng(seed)
    people = np.random.default_rng(3).standard_normal((40, 12))
    labels, files = [], {}
    for s in speakers:
        for phrase, course in COURSES.items():
            for k in range(4):
                name = f"{prefix}{s}-{phrase}-{k}"
                labels.append(Label(name, f"{prefix}{s}", phrase))
                files[name] = measured(rng, people[s], course)
    return labels, files


@pytest.mark.parametrize("backend", ["wccn", "plda"])
def test_added_speakers_join_cohort_and_calibration(backend: str, tmp_path: Path) -> None:
    labels, files = world(range(10), "a")
    more, other = world(range(10, 14), "1:b", seed=8)
    voices = [Label(label.file, label.speaker, VOICE_ONLY) for label in world(range(14, 18), "2:c")[0]]
    silent = {k: RecordingFeatures(v.voice) for k, v in world(range(14, 18), "2:c")[1].items()}
    names = ("some", "print", "moonshine")
    alone = fit_system(1, labels, files, backend=backend, names=names)
    joined = fit_system(1, [*labels, *more, *voices], files | other | silent, backend=backend, names=names)
    assert (len(alone.voices.cohort), len(joined.voices.cohort)) == (10, 18)
    assert joined.record["speakers"] == 18
    trials = [system.record["calibration_trials"]["TC"] for system in (alone, joined)]
    assert trials == [10 * 3 * 4, 14 * 3 * 4]  # those whose phrases are not known give no trials
    again = load_system(save_system(tmp_path / "system.npz", joined))
    features = [files[label.file] for label in labels[:3]]
    model, test = joined.enroll(features, phrase="01"), joined.analyze(files[labels[3].file])
    assert joined.score(model, test) == again.score(
        again.enroll(features, phrase="01"), again.analyze(files["a0-01-3"])
    )
    impostor = joined.analyze(files["a1-01-0"])
    assert joined.score(model, test).llr > 0 > joined.score(model, impostor).llr


def test_damaged_plda_is_refused(tmp_path: Path) -> None:
    labels, files = world(range(10), "a")
    file = save_system(tmp_path / "system.npz", fit_system(1, labels, files, backend="plda"))
    arrays = dict(np.load(file))
    arrays["plda_within"] = -arrays["plda_within"]
    np.savez(file, **arrays)
    with pytest.raises(InputError, match="not a system, or a damaged one"):
        load_system(file)
