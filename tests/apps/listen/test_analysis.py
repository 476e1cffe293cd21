"""Analysis of listening tests: agreement and intervals against slow twins, known worlds, files."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.listen_world import answer_all, make_study
from tests.support.report_world import make_results
from voiceveil.apps.listen.analysis import Analysis, Rules, analyze
from voiceveil.apps.listen.answers import Answers, Move
from voiceveil.apps.listen.clusters import cluster_results
from voiceveil.apps.listen.crossed_bootstrap import crossed_interval, krippendorff_alpha, weighted_mean, weighted_median
from voiceveil.apps.listen.design import StudyPlan
from voiceveil.apps.listen.figures import density, violins_svg
from voiceveil.apps.listen.responses import PanelResponse, load_responses
from voiceveil.apps.listen.study import Study
from voiceveil.apps.web.database import open_database
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError

EVERYTHING = ("naturalness", "similarity", "intelligibility", "preference", "clustering")


def answers_of(folder: Path) -> Answers:
    fingerprint = hashlib.sha256((folder / "design.json").read_bytes()).hexdigest()
    return Answers(open_database(folder / "answers.sqlite"), fingerprint)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six evaluators who know the truth, but for some noise, and one who does not listen."""
    folder = tmp_path_factory.mktemp("analysis")
    plan = StudyPlan(
        evaluators=7, raters=4, items=20, attention=1, headphones=1, panels=2, tasks=EVERYTHING, name="world"
    )
    study = make_study(folder, plan, speakers=16, utterances=18, seconds=3.05)
    answer_all(study, answers_of(folder / "study"), careless=("e004",), background={"device": "=1+1", "native": "yes"})
    return folder / "study"


@pytest.fixture(scope="module")
def analysis(world: Path) -> Analysis:
    study = Study.load(world)
    return analyze(study, load_responses(study, answers_of(world)))


@pytest.mark.slow
def test_inattentive_evaluators_are_excluded(world: Path, analysis: Analysis) -> None:
    assert {person.name for person in analysis.kept} == {f"e{n:03d}" for n in (1, 2, 3, 5, 6, 7)}
    study = Study.load(world)
    everybody = analyze(study, load_responses(study, answers_of(world)), Rules(keep_all=True))
    assert len(everybody.kept) == 7
    assert len(everybody.ratings) == 7 * 20 * 3


def test_ratings_recover_the_simulated_quality(analysis: Analysis) -> None:
    for aspect in ("naturalness", "intelligibility", "similarity, same speaker"):
        groups = analysis.groups[aspect]
        assert groups["original"].mean.low > groups["good"].mean.value > groups["poor"].mean.value
        test = analysis.tests[aspect]["original", "poor"]
        assert test.superiority > 0.9
        assert test.p <= test.p_adjusted < 0.01
    different = analysis.groups["similarity, different speakers"]
    assert abs(different["original"].mean.value - different["good"].mean.value) < 0.15
    for groups in analysis.groups.values():
        for group in groups.values():
            assert 0.0 <= group.mean.low <= group.mean.value <= group.mean.high <= 1.0
            assert ((group.normalized >= 0) & (group.normalized < 1)).all()
            assert 1.0 <= group.raw.value <= 10.0
    assert sum(len(group.normalized) for group in analysis.groups["naturalness"].values()) == 6 * 20


def test_normalization_is_by_evaluator_and_question(analysis: Analysis) -> None:
    own = [i for i, r in enumerate(analysis.ratings) if (r.evaluator, r.question) == ("e001", "similarity")]
    values = [analysis.ratings[i].value for i in own]
    slow = [(sum(v < x for v in values) + (values.count(x) - 1) / 2) / len(values) for x in values]
    assert analysis.normalized[own].tolist() == pytest.approx(slow)


def test_detection_curves_are_as_in_figure_17(analysis: Analysis) -> None:
    assert list(analysis.dets) == [
        "naturalness",
        "intelligibility",
        "similarity, pairs of the same version",
        "similarity, same speaker, against original pairs",
        "similarity, different speakers, against original pairs",
    ]
    assert [det.source for det in analysis.dets["naturalness"]] == ["good", "poor"]
    own = {det.source: det.eer for det in analysis.dets["similarity, pairs of the same version"]}
    assert own["original"].value < 0.1 < own["poor"].value
    assert all(eer.low <= eer.value <= eer.high <= 0.5 for eer in own.values())


def test_agreement_and_preferences_are_reported(analysis: Analysis) -> None:
    assert [one.question for one in analysis.agreement] == ["naturalness", "similarity", "intelligibility"]
    for one in analysis.agreement:
        assert 0.4 < one.alpha < 0.99
        assert one.alpha_normalized > 0.4
        assert one.items == 40  # two sets
        assert min(one.correlations.values()) > 0.5
    (share,) = analysis.preferences
    assert (share.first, share.second, share.count) == ("good", "poor", 120)
    assert share.share.high < 0.5
    assert share.p_adjusted < 0.001


def test_clustering_is_compared_with_the_control_panel(analysis: Analysis) -> None:
    assert analysis.clustering is not None
    rows = analysis.clustering.systems
    assert next(iter(rows)) == "original"
    assert rows["original"].purity.value == rows["original"].f1.value == 1.0
    for system, row in rows.items():
        changes = [len(s.panel.moves) for s in analysis.clustering.scores if s.panel.system == system]
        assert row.change.value <= 17 / 16
        assert max(changes) == 17
        if system != "original":
            assert row.purity.value < 0.9
            assert row.purity_difference is not None
            own = [s.purity for s in analysis.clustering.scores if s.panel.system == system]
            assert row.purity_difference.value == pytest.approx(1 - np.mean(own))


def test_scores_of_one_panel_equal_hand_computation() -> None:
    speakers = tuple("aaaaaabbbbbccccd")
    clusters = tuple("1111112222233331")  # the distractor is put with a
    moves = tuple((str(n), cluster) for n, cluster in enumerate(clusters))
    extra = (("0", "2"), ("0", "1"), ("3", "1"))  # there and back again, and a drop where it is
    panel = PanelResponse(
        "e1", "p1", "original", "f", speakers, speakers, ("original",) * 16, clusters, (*moves, *extra)
    )
    score = cluster_results([panel]).scores[0]
    assert score.purity == pytest.approx(15 / 16)
    assert score.f1 == pytest.approx((2 * 6 / 13 + 1 + 1 + 0) / 4)
    assert score.change == 18 / 16
    assert (score.alone, score.clusters) == (False, 3)


# Krippendorff (2011), "Computing Krippendorff's alpha-reliability", the example with four observers and missing values.
KRIPPENDORFF = """\
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 ."""


def test_alpha_equals_the_published_example() -> None:
    columns = zip(*(line.split() for line in KRIPPENDORFF.splitlines()), strict=True)
    units = {str(n): [float(v) for v in column if v != "."] for n, column in enumerate(columns)}
    assert krippendorff_alpha(units, level="ordinal") == pytest.approx(0.815, abs=0.0006)
    assert krippendorff_alpha(units, level="interval") == pytest.approx(0.849, abs=0.0006)


def slow_alpha(units: dict[str, list[float]], ordinal: bool) -> float:
    """By the coincidences of all pairs."""
    pairable = [values for values in units.values() if len(values) > 1]
    pooled = sorted(value for values in pairable for value in values)
    n, counts = len(pooled), Counter(pooled)

    def distance(a: float, b: float) -> float:
        if not ordinal:
            return (a - b) ** 2
        low, high = min(a, b), max(a, b)
        between = sum(count for value, count in counts.items() if low <= value <= high)
        return float((between - (counts[low] + counts[high]) / 2) ** 2)

    seen = sum(distance(a, b) / (len(v) - 1) for v in pairable for a, b in permutations(v, 2)) / n
    chance = sum(distance(a, b) for a, b in permutations(pooled, 2)) / (n * (n - 1))
    return 1 - seen / chance


@given(st.lists(st.lists(st.integers(1, 10), min_size=1, max_size=4), min_size=2, max_size=8), st.booleans())
def test_alpha_equals_the_sum_over_all_pairs(rows: list[list[int]], ordinal: bool) -> None:
    units = {str(n): [float(v) for v in row] for n, row in enumerate(rows)}
    pooled = {v for row in rows if len(row) > 1 for v in row}
    found = krippendorff_alpha(units, level="ordinal" if ordinal else "interval")
    if len(pooled) < 2:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(slow_alpha(units, ordinal), abs=1e-9)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4)), min_size=1, max_size=20))
def test_weighted_median_equals_that_of_repeated_values(rows: list[tuple[int, int]]) -> None:
    values = [float(value) for value, _ in rows]
    weights = np.array([float(weight) for _, weight in rows])
    repeated = [float(value) for value, weight in rows for _ in range(weight)]
    if repeated:
        assert weighted_median(values)(weights) == np.median(repeated)
        assert weighted_mean(values)(weights) == pytest.approx(np.mean(repeated))


def test_intervals_cover_the_truth_when_evaluators_and_speakers_differ() -> None:
    """Crossed random effects of both: an interval over ratings alone would hold it in a third of the worlds."""
    rng = np.random.default_rng(2)
    held = alone = 0
    worlds = 120
    for _ in range(worlds):
        who, whom = np.repeat(np.arange(10), 12), np.tile(np.arange(12), 10)
        values = rng.normal(0, 0.1, 10)[who] + rng.normal(0, 0.1, 12)[whom] + rng.normal(0, 0.1, 120)
        found = crossed_interval(weighted_mean(values), who.tolist(), whom.tolist(), resamples=150, bounds=(-9.0, 9.0))
        held += found.low <= 0.0 <= found.high
        alone += abs(values.mean()) < 1.98 * values.std(ddof=1) / np.sqrt(120)
    assert held / worlds >= 0.92
    assert alone / worlds < 0.75


def test_single_evaluator_has_no_interval() -> None:
    found = crossed_interval(weighted_mean([0.2, 0.4]), ["a", "a"], ["x", "y"])
    assert found.value == pytest.approx(0.3)
    assert (found.low, found.high) == (0.0, 1.0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_violin_is_a_density(values: list[float]) -> None:
    at = np.linspace(-1.5, 2.5, 4001)
    assert float(density(np.array(values), at).sum() * (at[1] - at[0])) == pytest.approx(1.0, abs=0.02)


def test_names_are_escaped_in_figures() -> None:
    drawing = violins_svg({"<script>": np.array([0.1, 0.5]), "ok": np.array([0.2])}, 'a "title" & <b>', "y")
    assert "<script>" not in drawing
    assert "<b>" not in drawing


@pytest.mark.slow
def test_analysis_replaces_only_its_own_files(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["listen", "analyze", str(world), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert main(command) == 0, "its own files"
    table = tmp_path / "out" / "ratings.csv"
    table.write_text("mine")
    assert main(command) == 1
    assert f"{table}: this file exists, and the run did not write it" in capsys.readouterr().err
    assert table.read_text() == "mine"
    assert main([*command, "--overwrite"]) == 0
    assert main([*command[:-1], str(world), "--overwrite"]) == 1
    assert "the output folder holds the input" in capsys.readouterr().err


def test_command_writes_report_tables_and_json(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = make_results(tmp_path / "r") / "results.json"
    command = ["listen", "analyze", str(world), "--out", str(tmp_path / "out")]
    assert main([*command, "--results", f"good={results}", f"poor={results}"]) == 0
    out = capsys.readouterr().out
    assert "7 evaluators, 6 kept; 360 ratings by those" in out
    data = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert data["evaluators"] == {"consented": 7, "kept": 6}
    assert set(data["aspects"]["naturalness"]) == {"original", "good", "poor"}
    assert [(one["metric"], one["aspect"]) for one in data["objective"]] == [
        ("eer", "similarity, same speaker"),
        ("eer", "similarity, different speakers"),
        ("wer", "naturalness"),
        ("wer", "intelligibility"),
    ]
    assert data["objective"][2]["rows"][0]["objective"] == 0.30
    with (tmp_path / "out" / "ratings.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 7 * 20 * 3
    assert {row["normalized"] == "" for row in rows if row["kept"] == "False"} == {True}
    with (tmp_path / "out" / "evaluators.csv").open() as stream:
        people = list(csv.DictReader(stream))
    assert people[0]["device"] == "'=1+1"  # no formula for a spreadsheet
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        ".voiceveil", "analysis.json", "evaluators.csv", "excerpts.csv", "moves.csv", "panels.csv", "preferences.csv",
        "ratings.csv", "report.html",
    }  # fmt: skip
    html = (tmp_path / "out" / "report.html").read_text()
    assert "<script" not in html
    assert html.count('class="violin') == 4 * 3
    assert "Density of purity (Figure 19a)" in html
    assert main([*command, "--results", f"goood={results}"]) == 1
    assert "no system 'goood' in the study (did you mean good?)" in capsys.readouterr().err
    assert main([*command, "--results", str(results)]) == 1
    assert "names no system (--results NAME=results.json)" in capsys.readouterr().err


def test_missing_answers_are_reported(tmp_path: Path) -> None:
    study = make_study(tmp_path, StudyPlan(evaluators=1, raters=1, items=2), speakers=6, utterances=4)
    answers = answers_of(tmp_path / "study")
    with pytest.raises(InputError, match="no answers yet"):
        analyze(study, load_responses(study, answers))
    answers.consent("e001", {})
    answers.answer("e001", next(i for i in study.items if i.startswith("rating")), {"naturalness": "3"})
    assert load_responses(study, answers).ratings == ()  # a draft: the item is not finished
    with pytest.raises(InputError, match="no answers yet"):
        analyze(study, load_responses(study, answers))


def test_moves_are_numbered_without_gaps(tmp_path: Path) -> None:
    study = make_study(tmp_path, StudyPlan(evaluators=1, raters=1, items=2), speakers=6, utterances=4)
    answers = answers_of(tmp_path / "study")
    name = next(iter(study.evaluators))
    answers.consent(name, {})
    answers.move(name, "p", 0, Move(1, 2))
    answers.move(name, "p", 0, Move(1, 2))
    assert answers.moves(name, "p") == [Move(1, 2)]
