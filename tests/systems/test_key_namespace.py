"""One key for several corpora: the name of the corpus is part of the draw, unless a namespace is given."""

from __future__ import annotations

import shutil
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.faults.runs import PROTOCOL
from voiceveil.audio import save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.systems import batch
from voiceveil.testing import synthetic_voice

anonymize = partial(batch.anonymize, system="b2")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "secret.key"
    path.write_bytes(b"a secret of thirty-two bytes ok.")
    path.chmod(0o600)
    return path


def folder(path: Path) -> Path:
    for speaker in ("s0", "s1"):
        save(path / speaker / "u.wav", synthetic_voice(0, seconds=0.2))
    return path


def audio(path: Path) -> dict[str, bytes]:
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in sorted(path.rglob("*.wav"))}


@pytest.mark.parametrize("level", ["utterance", "speaker"])
def test_equal_ids_in_two_corpora_get_different_pseudo_speakers(tmp_path: Path, key: Path, level: str) -> None:
    outputs = []
    for name in ("one", "two"):
        anonymize(folder(tmp_path / name), tmp_path / f"{name}-out", level=level, key_file=key)  # type: ignore[arg-type]
        outputs.append(audio(tmp_path / f"{name}-out"))
    assert outputs[0].keys() == outputs[1].keys()
    assert all(outputs[0][id] != outputs[1][id] for id in outputs[0])


def test_namespace_or_moved_corpus_repeats_the_draw(tmp_path: Path, key: Path) -> None:
    for number, (source, namespace) in enumerate([("one", None), ("elsewhere/one", None), ("two", "one")]):
        anonymize(folder(tmp_path / source), tmp_path / f"out{number}", key_file=key, key_namespace=namespace)
    assert audio(tmp_path / "out0") == audio(tmp_path / "out1") == audio(tmp_path / "out2")


def test_a_seed_has_a_namespace_only_if_one_is_given(tmp_path: Path) -> None:
    for name in ("one", "two"):
        anonymize(folder(tmp_path / name), tmp_path / f"{name}-out", seed=1)
    assert audio(tmp_path / "one-out") == audio(tmp_path / "two-out")
    anonymize(tmp_path / "one", tmp_path / "three-out", seed=1, key_namespace="x")
    assert audio(tmp_path / "one-out") != audio(tmp_path / "three-out")
    with pytest.raises(InputError, match=r"a key namespace needs a key \(give a key file"):
        anonymize(tmp_path / "one", tmp_path / "four-out", key_namespace="x")


def test_run_resumes_only_in_its_own_namespace(tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A renamed folder has another namespace; giving the old name restores the draws."""
    command = ["--system", "b2", "--quiet", "--level", "speaker", "--key-file", str(key)]
    out = tmp_path / "out"
    assert main(["anonymize", str(folder(tmp_path / "one")), str(out), *command]) == 0
    before = audio(out)
    (tmp_path / "one").rename(tmp_path / "two")
    shutil.rmtree(out / "s1")
    assert main(["anonymize", str(tmp_path / "two"), str(out), *command]) == 1
    assert "holds the results of another run: key_namespace was " in capsys.readouterr().err
    assert main(["anonymize", str(tmp_path / "two"), str(out), *command, "--key-namespace", "one"]) == 0
    assert audio(out) == before
    assert b"one" not in (out / ".voiceveil" / "ledger.jsonl").read_bytes().splitlines()[0]


@pytest.mark.parametrize("keyed", [True, False])
def test_evaluate_has_one_key_and_namespace_for_all_sets(tmp_path: Path, key: Path, keyed: bool) -> None:
    """A speaker has one pseudo-speaker in all trial sets, and another one in enrollment data."""
    data = tmp_path / "data"
    wave = synthetic_voice(0, seconds=0.4)
    save(data / "audio" / "a.wav", wave)
    for name, role in [
        ("libri_dev_enrolls", "enroll"),
        ("libri_dev_trials_f", "trial"),
        ("libri_dev_trials_m", "trial"),
    ]:
        spoken = tuple(
            Utterance(f"{role}-{s}", data / "audio" / "a.wav", speaker=s, gender="f", role=role) for s in ("s1", "s2")
        )
        pairs = [(s, u.id, s == u.speaker) for s in ("s1", "s2") for u in spoken]
        trials = Trials(*(np.array(column) for column in zip(*pairs, strict=True))) if role == "trial" else None
        write_kaldi(Corpus(name, spoken, trials), data / name)
    protocol = PROTOCOL.replace('enroll = "utterance", trial = "utterance"', 'enroll = "speaker", trial = "speaker"')
    both = 'trials = [{ set = "libri_dev_trials_f", gender = "f" }, { set = "libri_dev_trials_m", gender = "m" }]'
    protocol = protocol.replace('trials = [{ set = "libri_dev_trials_f", gender = "f" }]', both)
    (tmp_path / "small.toml").write_text(protocol)
    where = ["--data", str(data), "--out", str(tmp_path / "out"), "--protocol", str(tmp_path / "small.toml")]
    options = ["--system", "b2", "--jobs", "1", "--quiet", "--attackers", "free:f0", "--no-report"]
    assert main(["evaluate", *where, *options, *(["--key-file", str(key)] if keyed else [])]) == 0
    outputs = {path.parent.parent.name + path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*.wav")}
    trial = {content for name, content in outputs.items() if name.endswith("trial-s1.wav")}
    enroll = {content for name, content in outputs.items() if name.endswith("enroll-s1.wav")}
    assert len(trial) == len(enroll) == 1
    assert trial != enroll
    assert (len(outputs), len(set(outputs.values()))) == (6, 4)


def test_command_warns_about_a_readable_key(tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key.chmod(0o644)
    command = ["anonymize", str(folder(tmp_path / "one")), str(tmp_path / "out"), "--system", "b2", "--quiet"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main([*command, "--key-file", str(key)]) == 0
    assert capsys.readouterr().err.startswith(f"voiceveil: warning: {key}: others can read this key")
