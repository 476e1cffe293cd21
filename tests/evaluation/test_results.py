"""Figures have fields; results.json is written in format 2, and format 1 can still be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from voiceveil.core.errors import InputError
from voiceveil.evaluation.results import Figure, Results, upgraded_figure

FORMAT_1 = Path(__file__).parent / "data" / "results_format1.json"


def test_format_1_gets_fields() -> None:
    results = Results.load(FORMAT_1)
    assert len(results.figures) == 45
    eer = results.one("eer", attacker="campplus-adapted")
    assert (eer.knowledge, eer.condition, eer.model) == ("semi-informed", "aa", "")
    assert results.one("zebra_individual", attacker="mcadams-inversion").knowledge == "inverting"
    assert {(f.attacker, f.knowledge) for f in results.find("cllr", condition="oo")} == {("campplus", "unprotected")}
    assert [(f.model, f.attacker, f.condition) for f in results.find("wer")] == [
        ("moonshine", "", "o"),
        ("moonshine", "", "a"),
    ]
    assert results.one("gvd").model == "campplus"


def test_format_2_is_written_and_read_back(tmp_path: Path) -> None:
    results = Results.load(FORMAT_1)
    results.save(tmp_path / "results.json")
    assert json.loads((tmp_path / "results.json").read_text())["format"] == "voiceveil results 2"
    assert Results.load(tmp_path / "results.json") == results


def test_attackers_of_the_challenges_in_format_1() -> None:
    row = {"metric": "eer", "value": 0.1, "dataset": "libri_dev", "conditions": "oa", "model": "ASV_eval"}
    assert Figure(**upgraded_figure(row)).evaluator == "ASV_eval (ignorant)"
    assert Figure(**upgraded_figure({**row, "model": "ASV_eval^anon"})).knowledge == "semi-informed"
    assert Figure(**upgraded_figure({**row, "model": "net"})).attacker == "net"


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({**json.loads(FORMAT_1.read_text()), "format": "voiceveil results 3"}))
    with pytest.raises(InputError, match="not the results of an evaluation"):
        Results.load(path)


def test_a_figure_is_found_by_name_or_by_name_and_knowledge() -> None:
    figure = Figure("eer", 0.1, "libri_dev", attacker="net", knowledge="ignorant")
    assert [figure.is_by(name) for name in (None, "net", "net (ignorant)", "other")] == [True, True, True, False]
