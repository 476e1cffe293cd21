"""What a data-protection officer reads beside the rates: worst speaker, evidence in ranks, recipient and means, CSV."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.risk.test_assessment import PLAN, attack, save
from voiceveil.cli.main import main
from voiceveil.metrics import legal, rank_disclosure_from_scores
from voiceveil.report.risk import render
from voiceveil.risk import Assessment, RiskPlan, assess
from voiceveil.risk.assumptions import ANYBODY, state_assumptions
from voiceveil.risk.curves import measure_linking


@pytest.fixture(scope="module")
def assessment() -> Assessment:
    return assess([attack("original", 1.5), attack("informed", 0.8)], PLAN)


def test_maximum_is_the_rate_of_the_worst_speaker(assessment: Assessment) -> None:
    for curve in assessment.curves:
        if curve.components is None:
            assert curve.maximum is None
            continue
        assert curve.maximum is not None
        for k in range(len(curve.sizes)):
            by_speaker = dict(zip(curve.speakers, curve.components[:, k].tolist(), strict=True))
            assert curve.maximum[k] == max(by_speaker.values()) >= curve.value[k]
    assert "worst speaker" in render(assessment)


def test_evidence_in_ranks_equals_that_of_the_score_matrix() -> None:
    """One draw: the same utterances, and all cosines at once."""
    single = attack("informed", 0.5)
    plan = RiskPlan(lengths=(1,), draws=1)
    ranks = measure_linking(single, plan, 1)[0].disclosure
    part = single.parts[0]
    tests = legal.draw_conversations(part.b, 1, most=1, rng=np.random.default_rng([plan.seed, 2]))
    enrolled = legal.speaker_means(part.a)
    scores = tests.vectors.astype(np.float64) @ enrolled.vectors.T.astype(np.float64)
    assert ranks == rank_disclosure_from_scores(scores, tests.speakers, enrolled.speakers)
    assert ranks is not None
    assert ranks.shows_evidence


def test_evidence_in_ranks_is_in_the_result_and_the_page(assessment: Assessment) -> None:
    curves = assessment.as_dict()["curves"]
    linked = [curve for curve in curves if curve["metric"] == "linkability"]
    assert all(curve["rank_llr"]["candidates"] == 80 for curve in linked)
    assert all(curve["rank_llr"] is None for curve in curves if curve["metric"] != "linkability")
    assert "Worst-case evidence" in render(assessment)


def test_means_follow_from_the_attackers_unless_they_are_stated() -> None:
    derived = state_assumptions(["original", "informed"], (1, 30), {})
    assert derived.recipient == ANYBODY
    assert "up to 30 of their utterances" in derived.means[0]
    assert [text.startswith("this anonymization system") for text in derived.means] == [False, True]
    stated = state_assumptions(["informed"], (1,), {"recipient": "a hospital", "means": "its own staff list"})
    assert (stated.recipient, stated.means, stated.named) == (
        "a hospital",
        ("its own staff list",),
        ("recipient", "means"),
    )


def test_command_names_the_recipient_and_writes_all_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    informed = save(tmp_path, "informed.npz", 0.8)
    page, table = tmp_path / "risk.html", tmp_path / "curves.csv"
    command = [
        "risk", "--embeddings", f"informed={informed}", "--lengths", "1", "--enrolled", "10", "--draws", "1", "--quiet",
        "--report", str(page), "--csv", str(table), "--recipient", "a <hospital>", "--json",
    ]  # fmt: skip
    assert main(command) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["assumptions"]["recipient"] == "a <hospital>"
    text = page.read_text(encoding="utf-8")
    assert "a &lt;hospital&gt;" in text
    assert "C-413/23 P" in text
    assert "this anonymization system" in text
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    points = sum(len(curve["speakers"]) for curve in result["curves"])
    assert len(rows) == points
    assert {row["criterion"] for row in rows} == {"singling_out", "linkability", "one_minus_eer"}
    assert main(command) == 1  # both files are there
    assert "--overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0


def test_csv_is_not_written_over_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    informed = save(tmp_path, "informed.npz", 0.8)
    before = informed.read_bytes()
    assert main(["risk", "--embeddings", f"informed={informed}", "--csv", str(informed), "--overwrite"]) == 1
    assert informed.read_bytes() == before
    assert main(["risk", "--embeddings", f"informed={informed}", "--csv", str(tmp_path / "curves.txt")]) == 1
    assert "--csv" in capsys.readouterr().err
