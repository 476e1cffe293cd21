"""Training resources: every system that ships declares them, and protocols check them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.tiny_decoder import write_decoder
from voiceveil.audio import Samples
from voiceveil.cli.main import main
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.resource_rules import resource_faults
from voiceveil.models.weights import store
from voiceveil.systems import Anonymizer, system, systems
from voiceveil.systems.resources import resources_of


@pytest.mark.parametrize("name", [n for n in sorted(systems) if getattr(systems[n], "shipped", None) != ""])
def test_every_system_declares_known_resources(name: str) -> None:
    resources = system(name).resources()
    assert resources is not None
    assert "undeclared" not in {resource.kind for resource in resources}
    assert all(resource.source and resource.used_in for resource in resources)


@pytest.mark.parametrize("name", store.names())
def test_resources_of_weights_are_those_of_their_cards(name: str) -> None:
    """A card says in words which parts of LibriSpeech the weights were trained on."""
    data = str(store.card(name)["data"])
    declared = {resource.name for resource in resources_of([f"weights {name}"]) if resource.kind == "data"}
    assert declared == {
        f"LibriSpeech {part}" for part in ("train-clean-5", "train-clean-100", "test-other") if part in data
    }


def test_veil_declares_models_and_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["systems", "veil", "--resources"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("Moonshine tiny (model, https://github.com/moonshine-ai/moonshine): ") for line in lines)
    assert any(line.startswith("LibriSpeech train-clean-100 (data, ") and "weights pool" in line for line in lines)
    assert main(["systems", "b2", "--resources"]) == 0
    assert capsys.readouterr().out == "b2: no part of it is trained\n"


def test_protocol_limits_resources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2022, section 7: nothing but the training sets of Table 1."""
    assert main(["systems", "veil", "--resources", "--protocol", "vpc2022", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert any("Moonshine tiny (of content moonshine" in fault for fault in shown["not_allowed"])
    assert not any("train-clean-100 " in fault for fault in shown["not_allowed"])
    assert main(["systems", "b2-2022", "--resources", "--protocol", "vpc2022"]) == 0
    names = [resource["name"] for resource in shown["resources"]]
    text = (
        'name = "own"\ntitle = "Own"\nmetrics = ["wer"]\n[[recognition]]\ndataset = "d"\nsplit = "dev"\nsets = ["d"]\n'
    )
    (tmp_path / "own.toml").write_text(f"{text}[resources]\nallowed = {json.dumps(names)}\n")
    assert main(["systems", "veil", "--resources", "--protocol", str(tmp_path / "own.toml")]) == 0


def test_weights_of_the_users_own_are_undeclared(tmp_path: Path) -> None:
    weights = write_decoder(tmp_path / "decoder")
    (fault,) = [
        f for f in resource_faults(load_protocol("vpc2022"), system("b1b", weights=str(weights))) if "decoder" in f
    ]
    assert fault.startswith(f"weights {weights}/")


def test_system_of_others_has_to_declare_its_resources() -> None:
    class Other(Anonymizer):
        name = "other"

        def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
            return samples

    faults = resource_faults(load_protocol("vpc2022"), Other())
    assert faults == ["other does not declare its training resources, which vpc2022 limits"]
    assert resource_faults(load_protocol("vpc2024"), Other()) == []


def test_command_explains_missing_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["systems", "--resources"]) == 1
    assert "--resources without a system" in capsys.readouterr().err
    assert main(["systems", "veil", "--protocol", "vpc2022"]) == 1
    assert "--protocol without --resources" in capsys.readouterr().err
