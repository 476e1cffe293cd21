"""Effects on the clustering differences of 72 simulated evaluators, as in the overview of 2020, and their figures."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_ind

from voiceveil.apps.listen.analysis import Analysis
from voiceveil.apps.listen.cluster_effects import ClusterEffects, GroupMean, cluster_effects
from voiceveil.apps.listen.cluster_figures import cumulative_svg, densities_svg, means_svg
from voiceveil.apps.listen.clusters import PanelScore, cluster_results
from voiceveil.apps.listen.page import render
from voiceveil.apps.listen.responses import PanelResponse, Person, Responses
from voiceveil.apps.listen.study import Study

#: Languages with the change of F1 that their speakers have on anonymized panels.
LANGUAGES = {"yes": 0.19, "no": 0.26}


def score(evaluator: str, system: str, gender: str, f1: float, change: float = 1.0) -> PanelScore:
    panel = PanelResponse(evaluator, f"{evaluator}-{system}", system, gender, (), (), (), (), ())
    return PanelScore(panel, f1, f1, change, 4, False)


def world(seed: int = 0) -> tuple[list[PanelScore], dict[str, dict[str, str]]]:
    """Return three panels of each of 72 evaluators; nine for each system, language and gender."""
    rng = np.random.default_rng(seed)
    scores, background = [], {}
    cells = [(s, n, g) for s in ("B1", "B2") for n in LANGUAGES for g in "fm" for _ in range(9)]
    for number, (system, native, gender) in enumerate(cells):
        name = f"e{number:03d}"
        background[name] = {"native": native, "remarks": f"free text {number}"}
        scores.append(score(name, "original", gender, 0.86))
        for _ in range(2):
            f1 = 0.86 - LANGUAGES[native] + rng.normal(0, 0.04)
            scores.append(score(name, system, gender, float(f1), float(rng.normal(1.0, 0.1))))
    return scores, background


@pytest.fixture(scope="module")
def effects() -> ClusterEffects:
    found = cluster_effects(*world())
    assert found is not None
    return found


def test_the_effect_of_the_language_is_found_and_no_other(effects: ClusterEffects) -> None:
    assert effects.factors == ("system", "gender", "native")  # free text is no factor
    rows = {effect.name: effect for effect in effects.effects["f1"]}
    assert list(rows) == [
        "system", "gender", "native", "system × gender", "system × native", "gender × native",
        "system × gender × native",
    ]  # fmt: skip
    assert {(effect.df, effect.df_error) for effect in rows.values()} == {(1, 64)}
    assert rows["native"].p < 1e-6
    assert rows["native"].eta_squared_partial > 0.4
    assert all(effect.p > 0.01 for name, effect in rows.items() if name != "native")


def test_group_means_are_those_of_evaluators(effects: ClusterEffects) -> None:
    scores, background = world()
    by_hand: dict[str, list[float]] = {"no": [], "yes": []}
    for name in background:
        control, *others = (s.f1 for s in scores if s.panel.evaluator == name)
        by_hand[background[name]["native"]].append(control - sum(others) / 2)
    for group in effects.groups["f1"]["native"]:
        values = np.array(by_hand[group.name])
        assert group.count == 36
        assert (group.mean, group.error) == pytest.approx((values.mean(), values.std(ddof=1) / 6))
        assert group.p == pytest.approx(ttest_ind(*by_hand.values(), equal_var=False).pvalue)
    assert len(effects.groups["change"]["system × gender × native"]) == 8


def test_without_control_panels_or_answers_there_is_less(effects: ClusterEffects) -> None:
    scores, _ = world()
    assert cluster_effects([s for s in scores if s.panel.system != "original"], {}) is None
    without = cluster_effects(scores, {})
    assert without is not None
    assert without.factors == ("system", "gender")
    one = cluster_effects([s for s in scores if s.panel.evaluator == "e000"], {})
    assert one is not None
    assert one.effects["f1"] == ()


def test_groups_whose_members_are_equal_have_no_p() -> None:
    """Equal up to rounding: a t-test of 0.1 + 0.2 against 0.3 would find a difference, and scipy would warn."""
    scores, background = [], {}
    for number, (gender, f1) in enumerate([("f", 0.1 + 0.2), ("f", 0.3), ("m", 0.3), ("m", 0.1 + 0.2)]):
        evaluator = f"e{number}"
        background[evaluator] = {"native": "yes"}
        scores += [score(evaluator, "original", gender, 0.9), score(evaluator, "B1", gender, f1)]
    effects = cluster_effects(scores, background)
    assert effects is not None
    assert {group.p for group in effects.groups["f1"]["gender"]} == {None}


def test_figure_18_marks_means_errors_and_significance(effects: ClusterEffects) -> None:
    drawing = means_svg(effects.groups["f1"]["native"], "t", "a")
    assert drawing.count('class="mark') == drawing.count('class="range') == 2
    assert ">**<" in drawing
    weak = [GroupMean("f", 0.1, 0.02, 9, 0.03), GroupMean("m", 0.05, 0.02, 9, 0.03)]
    assert ">*<" in means_svg(weak, "t", "a")
    equal = [GroupMean("f", -0.1, 0.02, 9, 0.5), GroupMean("m", 0.05, 0.0, 1, 0.5)]
    assert "*" not in means_svg(equal, "t", "a")
    assert means_svg(effects.groups["change"]["system × gender × native"], "t", "a").count('class="mark') == 8


def test_figures_of_equal_values_have_an_axis() -> None:
    flat = means_svg([GroupMean("f", 0.0, 0.0, 2), GroupMean("m", 0.0, 0.0, 2)], "title", "F1")
    constant = {"f": np.full(3, 0.5), "m": np.zeros(3), "one": np.ones(1)}
    for figure in (flat, densities_svg(constant, "title", "F1"), cumulative_svg(constant, "title", "F1")):
        assert "nan" not in figure


def test_figure_19_shows_densities_and_cumulative_shares() -> None:
    values = np.array([0.2, 0.4, 0.4, 1.0])
    drawing = densities_svg({"original": values, "<b>": values / 2}, "t", "purity")
    assert drawing.count('class="curve') == 2
    assert "&lt;b&gt;" in drawing
    path = re.search(r'class="curve s0" d="M([^"]+)"', cumulative_svg({"purity": values}, "t", "purity"))
    assert path is not None
    points = [tuple(map(float, point.split())) for point in path[1].split("L")]
    x, y = ([point[side] for point in points] for side in (0, 1))
    assert x == sorted(x)
    assert y == sorted(y, reverse=True)  # y is downward: the share never falls
    heights = sorted(set(y), reverse=True)
    shares = [round((heights[0] - height) / (heights[0] - heights[-1]), 2) for height in heights]
    assert shares == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_the_report_has_the_effects_and_both_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, background = world()
    people = tuple(Person(name, answers) for name, answers in background.items())
    study = Study("clusters", 0, ("B1", "B2"), (), {}, {}, {})
    analysis = Analysis(study, Responses(people, (), (), ()), people, (), np.zeros(0))
    clustering: Any = _clustering(scores)
    monkeypatch.setitem(analysis.__dict__, "clustering", clustering)
    page = render(analysis, [])
    assert "1, 64" in page
    assert "η²<sub>p</sub>" in page
    for name in (
        "Density of purity (Figure 19a)",
        "Purity and F1 of the control panels (Figure 19b)",
        "Difference of F1 by native (Figure 18)",
        "Difference of clustering change by system × gender × native (Figure 18)",
    ):
        assert name in page


def _clustering(scores: list[PanelScore]) -> Any:
    from voiceveil.apps.listen.clusters import Clustering, _system

    return Clustering(tuple(scores), {name: _system(scores, name) for name in ("original", "B1", "B2")})


def test_panels_of_the_server_have_effects_too() -> None:
    panels = [
        PanelResponse(
            f"e{number}", f"p{number}{system}", system, "f", ("u",) * 4, ("a", "a", "b", "c"), ("original",) * 4,
            ("1", "1", "2", "3" if system == "original" else "1"), (("0", "1"),) * 4,
        )
        for number in range(3)
        for system in ("original", "B1")
    ]  # fmt: skip
    found = cluster_effects(cluster_results(panels).scores, {})
    assert found is not None
    assert [difference.values["purity"] for difference in found.differences] == [pytest.approx(0.25)] * 3
