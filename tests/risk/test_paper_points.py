"""The paper's Figure 1: what its text says, the source files where they are at hand, and the extrapolation on them."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from tests.support.paths import SHARED
from voiceveil.report.risk_figures import risk_svg
from voiceveil.risk import AttackPart, RiskAttack, RiskPlan
from voiceveil.risk.curves import measure_linking
from voiceveil.risk.paper_points import paper_curves, predict_paper
from voiceveil.testing.embeddings import EmbeddingWorld


def rate(metric: str, attacker: str, length: int, size: int) -> float:
    (curve,) = [c for c in paper_curves() if (c.metric, c.attacker, c.length) == (metric, attacker, length)]
    return float(np.interp(size, curve.sizes, curve.value))


def test_points_are_those_of_the_papers_text() -> None:
    """Section 4: Linkability 82% among 20 and 35% among 10,000 on original speech, 77% and 21% informed; and so on."""
    assert len(paper_curves()) == 36
    assert rate("linkability", "original", 1, 20) == pytest.approx(0.82, abs=0.005)
    assert rate("linkability", "original", 1, 10_000) == pytest.approx(0.35, abs=0.01)
    assert rate("linkability", "informed", 1, 20) == pytest.approx(0.77, abs=0.005)
    assert rate("linkability", "informed", 1, 10_000) == pytest.approx(0.21, abs=0.01)
    assert rate("singling_out", "original", 1, 30) == pytest.approx(0.57, abs=0.005)
    assert max(max(c.value) for c in paper_curves() if c.metric == "singling_out") == pytest.approx(0.99, abs=0.005)


def test_points_equal_the_source_files() -> None:
    folder = SHARED / "reference/legal_paper"
    if not folder.is_dir():
        pytest.skip("the source files are not here")
    for metric, column in (("linkability", "linkability_mean"), ("singling_out", "singling_out_mean")):
        with (folder / f"{metric}_results.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        source = {(r["attacker"].lower(), int(r["L"]), int(r["enrollment_speakers"])): float(r[column]) for r in rows}
        for curve in paper_curves():
            if curve.metric == metric:
                for size, value in zip(curve.sizes, curve.value, strict=True):
                    assert value == pytest.approx(source[curve.attacker, curve.length, size], abs=6e-5)


def test_extrapolation_from_2720_predicts_the_paper_up_to_21920() -> None:
    """The figures of docs/how-to/risk.md."""
    points = predict_paper()
    assert {point.predicted.speakers for point in points} == {5420, 10820, 21920}
    assert len(points) == 36
    errors = np.array([100 * abs(point.error) for point in points])
    assert errors.mean() == pytest.approx(0.36, abs=0.01)
    assert errors.max() == pytest.approx(2.0, abs=0.05)
    assert sum(point.covered for point in points) == 36
    # A guess that nothing changes beyond 2,720 is far worse: the test can fail.
    flat = [abs(rate("linkability", p.predicted.attacker, p.predicted.length, 2720) - p.measured) for p in points]
    assert 100 * np.mean(flat) > 3


def test_figure_shows_the_papers_curves_within_the_measured_range() -> None:
    world = EmbeddingWorld(speakers=160, speakers_b=20, utterances=160 * 10, utterances_b=20 * 32, dimension=16)
    attack = RiskAttack("informed", (AttackPart(*world.draw(0.8)),))
    linked, _ = measure_linking(attack, RiskPlan(lengths=(1,), draws=1), 1)
    drawn = risk_svg([linked], [], "figure")
    assert drawn.count('class="curve paper ') == 4
    other, _ = measure_linking(attack, RiskPlan(lengths=(2,), draws=1), 2)
    assert "paper" not in risk_svg([other], [], "figure")  # the paper has no L = 2
