"""``to_frame`` of every result, by the real pandas: a row for each record, numbers as numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import voiceveil as vv
from tests.support.pitch_bumps import make_corpus  # registers the encoder `pitch-bumps`
from tests.support.small_challenge import make_challenge
from voiceveil.core.tables import Tabular
from voiceveil.evaluation.results import Figure
from voiceveil.testing import synthetic_voice

pandas = pytest.importorskip("pandas", reason="pandas is not installed: it is part of voiceveil[dev]")
pytestmark = pytest.mark.slow

#: Result -> its columns of numbers.
NUMBERS = {
    "AttackResult": ["trials", "eer", "eer_low", "eer_high"],
    "RecordingComparison": ["similarity"],
    "Results": ["value", "low", "high"],
    "Risk": ["value", "low", "high"],
    "SystemList": ["rate"],
    "Transcripts": [],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tabular]:
    """One result of each class, measured rather than made up where that needs no model."""
    home = tmp_path_factory.mktemp("frames")
    make_corpus(home, "recordings", range(20), range(8))
    vv.anonymize(home / "recordings", home, system="b2", seed=1)
    encoders = {"original": "pitch-bumps", "ignorant": "pitch-bumps", "informed": "pitch-bumps-adapted"}
    risk = vv.assess_risk(
        home / "recordings",
        home / "recordings_b2",
        plan=vv.RiskPlan(lengths=(2,), draws=1),
        options=vv.RiskOptions(amounts=(4, 4), unit="utterances", encoders=encoders),
    )
    wave = synthetic_voice(0, 1, seconds=1.0)
    figures = (
        Figure("eer", 0.331, "libri_test", 0.3, 0.36, condition="aa", attacker="campplus", knowledge="ignorant"),
        Figure("gvd", -4.0, "libri_test", model="campplus"),  # without an interval
    )
    listed: list[Tabular] = [
        vv.attack(make_challenge(home / "data", only=("dev",)), attackers=["free:f0"]),
        vv.compare(wave, wave),
        vv.Results("b2", "vpc2024", figures),
        risk,
        vv.systems(),
        vv.Transcripts({"a": "HELLO", "b": ""}),
    ]
    return {type(result).__name__: result for result in listed}


def test_every_class_of_results_is_here(results: dict[str, Tabular]) -> None:
    # a class that others derive from is no result by itself
    derived = {result for kind in Tabular.__subclasses__() for result in kind.__subclasses__() or [kind]}
    assert set(results) == {result.__name__ for result in derived} == set(NUMBERS)


@pytest.mark.parametrize("name", NUMBERS)
def test_frame_has_a_row_for_each_record(results: dict[str, Tabular], name: str, tmp_path: Path) -> None:
    frame, records = results[name].to_frame(), results[name].records()
    assert len(frame) == len(records) > 0
    assert list(frame.columns) == list(records[0])
    for number, record in enumerate(records):
        for column, value in record.items():
            cell = frame[column].iloc[number]
            assert (cell == value) if value is not None else (cell is None or cell != cell), (number, column)
    for column in NUMBERS[name]:
        assert pandas.api.types.is_numeric_dtype(frame[column]), f"{column} is {frame[column].dtype}"
    frame.to_csv(tmp_path / "frame.csv", index=False)
    again = pandas.read_csv(tmp_path / "frame.csv", keep_default_na=False)
    assert list(again.columns) == results[name].to_csv().splitlines()[0].split(",")
