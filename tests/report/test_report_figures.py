"""Figures of a report: errors of speakers, lost words, curves, matrices, published baselines."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.support.paths import GOLDEN
from voiceveil import metrics
from voiceveil.evaluation.averages import dataset_of
from voiceveil.evaluation.details import UtteranceRecord
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.official import read_results
from voiceveil.report.curves import det_svg
from voiceveil.report.plots import similarity_svg
from voiceveil.report.privacy_utility_plot import planes
from voiceveil.report.published import published, published_table
from voiceveil.report.report_data import ReportData
from voiceveil.report.speakers import by_speaker
from voiceveil.report.words import lost_words


def test_speaker_eer_is_computed_from_their_trials(report_data: ReportData) -> None:
    scored = report_data.scores_of(report_data.strongest() or pytest.fail("no attack"))[0]
    lines = [
        line.split() for line in (report_data.folder / str(scored.figure.detail["scores"])).read_text().splitlines()
    ]
    for one in by_speaker(scored, resamples=50):
        own = [float(score) for speaker, name, score in lines if speaker == one.speaker and name.startswith(speaker)]
        others = [
            float(score) for speaker, name, score in lines if speaker == one.speaker and not name.startswith(speaker)
        ]
        assert one.eer.value == metrics.eer(own, others)
        assert one.targets == len(own) == 6
        best = max((float(score), name) for speaker, name, score in lines if speaker == one.speaker and speaker in name)
        assert one.closest == best[1]
        assert one.eer.low <= one.eer.value <= one.eer.high


def test_worst_protected_come_first_and_few_trials_have_no_interval(report_data: ReportData) -> None:
    scored = report_data.scored[-1]
    rates = [one.eer.value for one in by_speaker(scored, resamples=50)]
    assert rates == sorted(rates)
    trials = scored.trials
    keep = np.flatnonzero(~trials.target | (np.cumsum(trials.target) <= 3))
    fewer = type(trials)(trials.score[keep], trials.target[keep], trials.enroll[keep], trials.speaker[keep])
    (one,) = by_speaker(replace(scored, trials=fewer, utterances=scored.utterances[keep]), resamples=50)
    assert one.targets == 3
    assert np.isnan(one.eer.low)


def transcribed(name: str, reference: str, original: str, anonymized: str) -> UtteranceRecord:
    measured = {"reference": reference, "heard_original": original, "heard_anonymized": anonymized}
    return UtteranceRecord(name, measured=measured)


def test_lost_words_equal_plain_counting() -> None:
    rows = [
        transcribed("1", "A CAT SAT", "A CAT SAT", "A HAT"),
        transcribed("2", "A CAT", "A HAT", "A BAT"),
        transcribed("3", "A CAT", "A CAT", "A HAT"),
        UtteranceRecord("4"),
    ]
    found = {one.word: one for one in lost_words(rows)}
    assert {w: (o.occurrences, o.lost_original, o.lost_anonymized) for w, o in found.items()} == {
        "CAT": (3, 1, 3),
        "SAT": (1, 0, 1),
        "A": (3, 0, 0),
    }
    assert found["CAT"].instead == (("HAT", 2), ("BAT", 1))
    assert found["SAT"].instead == (("", 1),)
    assert [one.word for one in lost_words(rows)] == ["CAT", "SAT", "A"]
    assert lost_words([UtteranceRecord("4")]) == []


def test_det_curves_have_probit_axes(report_data: ReportData) -> None:
    scored = report_data.scored[1]
    drawn = det_svg([(0, scored)], "title")
    ticks = dict(re.findall(r'<text class="dim" x="([\d.]+)" y="346"[^>]*>([\d.]+)<', drawn))
    places = {float(name): float(x) for x, name in ticks.items()}
    # distances are those of the normal quantiles
    quantiles = {2.0: -2.0537, 10.0: -1.2816, 40.0: -0.2533, 80.0: 0.8416}
    pixels = (places[80.0] - places[2.0]) / (quantiles[80.0] - quantiles[2.0])
    for name, quantile in quantiles.items():
        assert places[name] == pytest.approx(places[2.0] + pixels * (quantile - quantiles[2.0]), abs=0.2)
    path = re.search(r'class="curve s0" d="M([^"]+)"', drawn)
    assert path is not None
    vertices = [tuple(map(float, pair.split())) for pair in path[1].split("L")]
    assert all(a[0] >= b[0] and a[1] >= b[1] for a, b in pairwise(vertices))  # misses rise


def test_similarity_matrix_is_arranged_as_in_the_2020_findings(report_data: ReportData) -> None:
    one = replace(
        report_data.details.similarity["libri_dev_trials_f"],
        speakers=("a", "b"),
        oo=((1.0, 0.0), (0.0, 1.0)),
        oa=((0.0, 1.0), (0.0, 0.0)),
        aa=((0.0, 0.0), (0.0, 1.0)),
    )
    dark = re.search(r'fill-opacity="1.00"[^>]* d="([^"]+)"', similarity_svg(one, "t"))
    assert dark is not None
    cells = {tuple(map(int, cell)) for cell in re.findall(r"M(\d) (\d)h1", dark[1])}  # (column, row)
    assert cells == {(0, 0), (1, 1), (3, 0), (0, 3), (3, 3)}


def test_published_baselines_equal_the_official_files() -> None:
    for edition in (2020, 2022, 2024):
        for one in published(f"vpc{edition}"):
            official = read_results(GOLDEN / f"vpc{edition}" / str(one.info["source"]))
            for figure in one.figures:
                same = [
                    f.value
                    for f in official.find(figure.metric, condition=figure.condition)
                    if dataset_of(f) == dataset_of(figure)
                    and f.attacker == figure.attacker
                    and f.model in (figure.model or f.model, "ASR_eval^anon" if edition == 2022 else f.model)
                    and f.detail.get("language_model") in (None, "tglarge")
                    and (figure.metric != "wer" or edition != 2022 or f.model == "ASR_eval^anon")
                ]
                assert same == [pytest.approx(figure.value, abs=1e-6)], (edition, one.system, str(figure))


def test_averages_of_published_figures_are_those_of_the_plans() -> None:
    """Tables 5 to 7 of the plan of 2022, and the averages of Tables 6 to 8 of version 1.0 of that of 2024."""
    table = published_table(load_protocol("vpc2022"))
    assert table is not None
    plan = np.array(  # the plan rounds some averages twice: -10.145 became -10.15
        [
            [11.74, 11.81, 7.94, 8.29, 0.77, 0.77, -9.71, -10.15],
            [9.93, 9.18, 7.59, 7.56, 0.80, 0.80, -6.44, -6.44],
            [6.53, 7.77, 8.04, 9.03, 0.61, 0.62, -1.72, -1.63],
        ]
    )
    shown = np.array([[float(cell.removesuffix("%")) for cell in row[2:]] for row in table.rows])
    np.testing.assert_allclose(shown, plan, atol=0.0101)
    table = published_table(load_protocol("vpc2024"))
    assert table is not None
    first = {row[0]: row for row in table.rows if "evaluation plan 1.0" in row[1]}
    assert first["B1"][2:] == ("8.68%", "8.63%", "3.41%", "6.27%", "43.13%", "42.31%")
    assert first["B2"][2:] == ("8.11%", "5.20%", "10.70%", "10.41%", "55.61%", "53.49%")
    later = {row[0]: row for row in table.rows if "evaluation plan 1.0" not in row[1]}
    assert later["B1"][1] == "2024, result files of the 2024 repository"
    assert later["B1"][2:] == ("9.20%", "6.07%", "3.07%", "2.91%", "42.71%", "42.78%")
    assert published_table(load_protocol("vpc2026")) is None


def test_published_figures_equal_the_evaluation_plans() -> None:
    b3 = next(one for one in published("vpc2024") if one.system == "B3")
    assert [f.value for f in b3.find("eer", split="dev")] == [0.28426, 0.22044]
    assert b3.one("wer", dataset="libri_test").value == 0.04352
    assert [one.system for one in published("vpc2022")] == ["B1.a", "B1.b", "B2"]
    assert published("vpc2021") == ()


def test_plot_averages_the_sets_of_the_evaluation(report_data: ReportData) -> None:
    plane = next(one for one in planes(report_data) if one.metric == "wer")
    point = {p.label: p for p in plane.points}
    assert point["B3"].x.value == pytest.approx((0.28426 + 0.22044) / 2)
    assert point["B3"].x.low is None
    strongest = report_data.strongest()
    assert strongest is not None
    assert point["mine"].x.value == pytest.approx(np.mean([f.value for f in strongest.figures]))
    assert point["mine"].y.value == 0.30
    assert (point["mine"].x.low or 1) < point["mine"].x.value < (point["mine"].x.high or 0)
    assert point["original"].y.value == 0.02
    other = replace(report_data.results, system="other", figures=report_data.results.find("wer"))
    assert "other" in planes(report_data, [other])[0].left_out  # it has no EER
