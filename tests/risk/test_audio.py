"""The risk assessment from audio: design of the sets, anonymization, four attackers, one command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import voiceveil as vv
from tests.support.pitch_bumps import make_corpus
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.risk.audio import Recordings, attacks_from_audio
from voiceveil.risk.sets import read_split
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

pytestmark = pytest.mark.slow  # for its fixtures

PEOPLE = 20


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty people with eight utterances; sets A and B; by B2 and, as a similar system, by D1."""
    folder = tmp_path_factory.mktemp("data")
    make_corpus(folder, "toy", range(PEOPLE), range(8))
    design = ["corpus", "protocol", str(folder / "toy"), str(folder), "--name", "toy", "--legal"]
    assert main([*design, "--a-utterances", "4", "--b-utterances", "4"]) == 0
    for system in ("b2", "d1"):
        assert not vv.anonymize(folder / "toy", folder, system=system, seed=1).failures
    return folder


def command(data: Path) -> list[str]:
    sides = [f"--original={data / name}" for name in ("toy_A", "toy_B")]
    anonymized = next(path for path in sorted(data.iterdir()) if path.name.startswith("toy_b2"))
    similar = next(path for path in sorted(data.iterdir()) if path.name.startswith("toy_d1"))
    encoders = [
        f"--encoder={name}={encoder}"
        for name, encoder in {
            "original": "pitch-bumps",
            "ignorant": "pitch-bumps",
            "semi-informed": "pitch-bumps-adapted",
            "informed": "pitch-bumps-adapted",
        }.items()
    ]
    return [
        "risk", f"--protocol={data / 'protocol.toml'}", *sides, f"--anonymized={anonymized}",
        f"--train-similar={similar}", *encoders, "--lengths=2", "--draws=1",
    ]  # fmt: skip


def test_command_assesses_audio(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "risk.html"
    assert main([*command(data), "--report", str(report), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result["attackers"]) == ["original", "ignorant", "semi-informed", "informed"]
    assert result["sets"] == {
        "A": {"speakers": PEOPLE, "utterances": 80},
        "B": {"speakers": PEOPLE, "utterances": 80},
    }
    assert result["criteria"]["inference"] == ["gender"]
    assert result["attackers"]["informed"]["training"]["models"] == 5
    linked = {(c["attacker"], c["length"]): c["value"][-1] for c in result["curves"] if c["metric"] == "linkability"}
    assert linked["original", 2] > 3 / PEOPLE
    assert len(result["about"]["protocol"]["sha256"]) == 64
    page = report.read_text(encoding="utf-8")
    assert "each trained without the speakers it attacks" in page


def test_adapted_models_attack_only_held_out_speakers(data: Path) -> None:
    split = read_split(data / "protocol.toml")
    original = (open_corpus(str(data / "toy")),)
    recordings = Recordings(split, original, original)
    context = RunContext(Cache(None))
    (attack,) = attacks_from_audio(recordings, {"informed": "pitch-bumps-adapted"}, context, {})
    attacked = [speaker for part in attack.parts for speaker in sorted(part.only or ())]
    assert sorted(attacked) == sorted({str(u.speaker) for u in original[0]})
    models = [part.a.matrix for part in attack.parts]
    assert len(models) == 5
    assert attack.about["training"]["speakers"] == PEOPLE - PEOPLE // 5
    strangers = open_corpus(str(data / "toy")).filter(lambda u: (u.speaker or "") < "p16")
    some = {key: side for key, side in split.items() if key.startswith(("p16", "p17", "p18", "p19"))}
    (other,) = attacks_from_audio(
        Recordings(some, original, original, (strangers,)), {"informed": "pitch-bumps-adapted"}, context, {}
    )
    assert [part.only for part in other.parts] == [None]  # the release is not in the training speech: one model
    assert np.isfinite(other.parts[0].a.matrix).all()


def test_incomplete_recordings_are_rejected(data: Path) -> None:
    split = read_split(data / "protocol.toml")
    toy = (open_corpus(str(data / "toy")),)
    few = (toy[0].filter(lambda u: u.id != "p03-02"),)
    context = RunContext(Cache(None))
    with pytest.raises(InputError, match=r"1 utterance\(s\) of the protocol are not among the anonymized recordings"):
        attacks_from_audio(Recordings(split, toy, few), {"ignorant": "pitch-bumps"}, context, {})
    with pytest.raises(InputError, match="needs speech of a similar system"):
        attacks_from_audio(Recordings(split, toy, toy), {"semi-informed": "pitch-bumps-adapted"}, context, {})
    with pytest.raises(InputError, match="unknown attacker 'nosy'"):
        attacks_from_audio(Recordings(split, toy, toy), {"nosy": "pitch-bumps"}, context, {})
