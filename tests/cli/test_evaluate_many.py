"""Many systems under one protocol: one bad system does not stop the others, and all stand in one table and one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.small_challenge import make_challenge
from voiceveil import metrics
from voiceveil.api.evaluating import _resolved, protocol_systems
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.results import Figure, Results
from voiceveil.evaluation.settings import EvaluationSettings
from voiceveil.evaluation.tasks.distinctiveness import _dominance, speaker_intervals
from voiceveil.report.comparison import compare, measures_table, shown
from voiceveil.report.comparison_page import scatter_svg
from voiceveil.systems import systems
from voiceveil.systems.resynthesis.pool import load_pool


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_challenge(tmp_path_factory.mktemp("data"), only=("dev",))


def test_all_systems_of_the_challenge_are_known() -> None:
    chosen = protocol_systems(load_protocol("vpc2020"))
    resynthesis = ["a1", "a2", "k2", "m1", "m1c1", "m1c2", "m1c3", "m1c4", "o1", "o1c1", "s1", "s1c1", "s2", "s2c1"]
    submitted = [*resynthesis, "d1", "i1"]
    assert {name for name, *_ in chosen} == {*submitted, "b1a", "b1b", "b2-2020"}
    assert all(name in systems for name, *_ in chosen)
    assert ["k2", "pool=evaluation"] in chosen
    with pytest.raises(InputError, match="the protocol vpc2024 names no systems"):
        protocol_systems(load_protocol("vpc2024"))


@pytest.mark.slow
def test_several_systems_are_compared(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = [
        "evaluate",
        "--protocol",
        "vpc2020",
        "--data",
        str(data),
        "--system",
        "identity,nosuch,d1",
        "--seed",
        "1",
    ]
    command += ["--attackers", "bumps", "--recognizers", "counter", "--jobs", "1", "--no-report", "--quiet"]
    assert main([*command, "--out", str(out)]) == 1  # nosuch
    printed = capsys.readouterr()
    assert "nosuch: unknown system 'nosuch'" in printed.err
    lines = {line.split()[0]: line for line in printed.out.splitlines()}
    assert lines["system"].split()[1:] == ["EER", "oa", "EER", "aa", "WER", "DeID", "G_VD", "(dB)"]
    assert lines["nosuch"].split(maxsplit=1)[1].startswith("not measured: unknown system 'nosuch'")
    comparison = json.loads((out / "comparison.json").read_text())
    rows = {row["system"]: row["values"] for row in comparison["rows"]}
    assert list(rows) == ["original", "identity", "nosuch", "d1"]
    # A system that changes nothing has the figures of the original.
    assert rows["identity"]["eer_aa"]["value"] == rows["original"]["eer_aa"]["value"]
    assert rows["identity"]["wer"] == rows["original"]["wer"]
    assert rows["identity"]["deid"]["value"] == pytest.approx(0, abs=0.02)
    assert rows["identity"]["gvd"]["value"] == pytest.approx(0, abs=0.1)
    assert rows["d1"]["deid"]["value"] > 0.1
    assert all(rows["d1"][name]["low"] <= rows["d1"][name]["value"] <= rows["d1"][name]["high"] for name in rows["d1"])
    page = (out / "comparison.html").read_text()
    for number in ("7", "8", "9", "10", "14", "15"):
        assert f"As Figure {number}:" in page
    assert "<script" not in page
    # The same command goes on where it stopped: nothing is anonymized again, and the table is the same.
    times = {path: path.stat().st_mtime_ns for path in (out / "d1").rglob("*.wav")}
    before = (out / "comparison.json").read_text()
    assert main([*command, "--out", str(out)]) == 1
    assert {path: path.stat().st_mtime_ns for path in (out / "d1").rglob("*.wav")} == times
    assert (out / "comparison.json").read_text() == before


def test_settings_with_several_systems_are_rejected(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--data", str(data), "--system", "b2,d1", "--set", "alpha=0.5"]) == 1
    assert "--set is for one system" in capsys.readouterr().err


def test_pool_can_be_made_of_the_evaluation_speakers(data: Path, tmp_path: Path) -> None:
    settings = EvaluationSettings(data, load_protocol("vpc2020"), tmp_path)
    system = _resolved(settings, "k2", ["pool=evaluation", "epsilon=50"], planned=False)
    assert system.parameters()["epsilon"] == 50
    file = Path(system.parameters()["pool"])
    assert file.is_relative_to(tmp_path)
    pool = load_pool(file)
    assert sorted(pool.ids) == [str(k) for k in (*range(10, 14), *range(20, 24))]
    with pytest.raises(InputError, match="system b2 has no parameter 'pool'"):
        _resolved(settings, "b2", ["pool=evaluation"], planned=False)


def test_intervals_over_speakers_equal_a_plain_loop() -> None:
    rng = np.random.default_rng(3)
    matrix, weights = rng.random((5, 5)), np.array([[1.0, 1, 1, 1, 1], [3, 0, 1, 1, 0], [0, 4, 0, 0, 1]])
    expected = [metrics.diagonal_dominance(matrix, row) for row in weights]
    np.testing.assert_allclose(_dominance(matrix, weights), expected)
    low, high = speaker_intervals([matrix + 2 * np.eye(5), matrix, matrix + np.eye(5)])
    assert low[0] < metrics.deid(matrix + 2 * np.eye(5), matrix) < high[0]
    assert low[1] < metrics.gvd(matrix + 2 * np.eye(5), matrix + np.eye(5)) < high[1]


def test_measures_table_has_every_figure_once() -> None:
    table = measures_table([results("a", 0.3, -2.0), results("b", 0.4, -5.0)])
    assert table.columns == ("measure", "original", "a", "b")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["EER, campplus (unprotected), test"][0] == "2.0% [1.0, 12.0] / 2.0% [1.0, 12.0]"
    assert rows["EER, campplus (lazy-informed), test"] == (
        "",
        "30.0% [15.0, 40.0] / 30.0% [15.0, 40.0]",
        "40.0% [20.0, 50.0] / 40.0% [20.0, 50.0]",
    )
    assert rows["gain of voice distinctiveness (G_VD), test"][2].startswith("-5 dB [-6, -4]")
    assert rows["WER, dev"] == ("", "40.0%", "40.0%")


def test_side_by_side_protocol_measures_systems_into_one_table(tmp_path: Path) -> None:
    data = make_challenge(tmp_path / "data", only=("dev",))
    toml = (Path(__file__).parents[2] / "benchmarks" / "side_by_side.toml").read_text()
    (tmp_path / "small.toml").write_text(toml.replace('"dnsmos", ', "").replace("sample = 100", "sample = 2"))
    command = ["evaluate", "--protocol", str(tmp_path / "small.toml"), "--data", str(data), "--seed", "1", "--quiet"]
    command += ["--attackers", "bumps", "--recognizers", "counter", "--jobs", "1", "--no-report"]
    assert main([*command, "--system", "identity,b2", "--out", str(tmp_path / "out")]) == 0
    lines = (tmp_path / "out" / "comparison.md").read_text().splitlines()
    assert lines[0] == "| measure | original | identity | b2 |"
    measures = [line.split(" | ")[0].removeprefix("| ") for line in lines[2:] if line.startswith("|")]
    assert "EER, bumps (ignorant), dev" in measures
    assert "WER, counter, dev" in measures
    assert any(name.startswith("pitch correlation") for name in measures)


def results(system: str, eer: float, gvd: float) -> Results:
    places = [("libri_test", "f"), ("libri_test", "m")]
    figures = []
    for dataset, gender in places:
        spot: dict[str, Any] = {"dataset": dataset, "split": "test", "gender": gender}
        for condition, knowledge, value in (
            ("oo", "unprotected", 0.02),
            ("oa", "ignorant", 0.5),
            ("aa", "lazy-informed", eer),
        ):
            by: dict[str, Any] = {"condition": condition, "attacker": "campplus", "knowledge": knowledge}
            figures.append(Figure("eer", value, low=value / 2, high=value + 0.1, **by, **spot))
            figures.append(Figure("eer", 0.9, condition=condition, attacker="free", knowledge="free", **spot))
        figures.append(Figure("gvd", gvd, low=gvd - 1, high=gvd + 1, **spot))
    figures.append(Figure("wer", 0.1, dataset="libri_test", split="test", condition="a", low=0.05, high=0.2))
    figures.append(Figure("wer", 0.4, dataset="libri_dev", split="dev", condition="a"))
    return Results(system, "vpc2020", tuple(figures))


def test_rows_are_means_over_the_test_sets_of_the_right_attackers() -> None:
    comparison = compare("vpc2020", [results("o1", 0.3, -4.0)], {"x": "broken"}, ["x", "o1"])
    assert (comparison.split, comparison.sets, comparison.encoder) == ("test", ("libri_test",), "campplus")
    original, fault, row = comparison.rows
    assert original.values["eer_aa"].value == pytest.approx(0.02)
    assert fault.fault == "broken"
    assert row.values["eer_oa"].value == pytest.approx(0.5)
    assert row.values["eer_aa"].value == pytest.approx(0.3)
    assert row.values["wer"].value == pytest.approx(0.1)
    assert shown("wer", row.values["wer"]) == "10.0 [5.0, 20.0]"
    assert shown("gvd", row.values["gvd"]).startswith("-4.00 [")
    assert shown("deid", None) == "–"
    drawing = scatter_svg([original, row], "eer_aa", "gvd")
    assert drawing.count("<circle") == 2
    assert "-4" in drawing
