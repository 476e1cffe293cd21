"""Rankings: the published averages and places, ties, whose EERs count, the command and its figure."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.official_samples import RANK_2024
from tests.support.paths import GOLDEN
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.evaluation.averages import Average
from voiceveil.evaluation.protocol import RankingRules, load_protocol, protocol_document
from voiceveil.evaluation.ranking import Ranking, rank_systems
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official import read_results
from voiceveil.report.figures import is_baseline, privacy_utility_svg

#: 2024, test set: average EER, WER and UAR in percent, as the organizers' table prints them.
PUBLISHED_2024 = {
    "b1b": (6.07, 2.91, 42.78),
    "mcadams": (4.52, 9.95, 53.49),
    "sttts": (27.32, 4.35, 37.57),
    "nac": (30.27, 5.90, 42.78),
    "asrbn_hifigan_bn_tdnnf_wav2vec2_vq_48_v1": (34.34, 4.37, 38.17),
    "asrbn_hifigan_bn_tdnnf_600h_vq_48_v1": (21.14, 9.09, 36.13),
}
#: 2024, dev set: average EER.
PUBLISHED_2024_DEV = {"b1b": 9.20, "mcadams": 7.48, "sttts": 25.24, "nac": 32.72}


def system(
    name: str,
    eers: Sequence[float],
    wer: float | None,
    uar: float | None = 0.4,
    reach: float | None = None,
    attacker: str = "ASV_eval^anon",
    knowledge: str = "semi-informed",
) -> Results:
    """Results of 2024 on the test set; ``reach`` is half the width of the intervals."""

    def figure(metric: str, value: float, dataset: str, **more: Any) -> Figure:
        limits: dict[str, Any] = {} if reach is None else {"low": value - reach, "high": value + reach}
        return Figure(metric, value, dataset, split="test", **limits, **more)

    figures = [
        figure("eer", eer, "libri_test", gender=gender, condition="aa", attacker=attacker, knowledge=knowledge)
        for eer, gender in zip(eers, "fm", strict=True)
    ]
    if wer is not None:
        figures.append(figure("wer", wer, "libri_test", condition="a"))
    if uar is not None:
        figures.append(figure("uar", uar, "IEMOCAP_test", condition="a"))
    return Results(name, "vpc2024", tuple(figures))


def half_up(percent: float) -> float:
    """Two decimals as the organizers' table rounds them: the mean of 28.426 and 22.044 is 25.24."""
    return float(Decimal(f"{percent:.9f}").quantize(Decimal("0.01"), ROUND_HALF_UP))


def places(ranking: Ranking, by: str, minimum: float) -> list[tuple[int, str, tuple[str, ...]]]:
    return [(p.place, p.system, p.tied_with) for p in ranking.places[by][minimum]]


def test_systems_are_ranked_within_their_conditions() -> None:
    ranking = rank_systems(
        [
            system("low", (0.05, 0.1), 0.01),
            system("edge", (0.1, 0.1), 0.09, 0.5),
            system("fast", (0.19, 0.2), 0.02, 0.3),
            system("twin", (0.15, 0.16), 0.02, 0.6),
            system("far", (0.9, 0.6), 0.5),
        ]
    )
    assert places(ranking, "wer", 0.1) == [(1, "fast", ("twin",)), (1, "twin", ("fast",)), (3, "edge", ())]
    assert [name for _, name, _ in places(ranking, "uar", 0.1)] == ["twin", "edge", "fast"]
    assert places(ranking, "wer", 0.4) == [(1, "far", ())]
    assert places(ranking, "wer", 0.2) == places(ranking, "wer", 0.3) == []
    assert ranking.standing("low").condition is None
    minimum = rank_systems([system("far", (0.9, 0.6), 0.5), system("near", (0.15, 0.15), 0.1)], membership="minimum")
    assert [name for _, name, _ in places(minimum, "wer", 0.1)] == ["near", "far"]
    assert [name for _, name, _ in places(minimum, "wer", 0.3)] == ["far"]


def test_overlapping_intervals_are_ties() -> None:
    one, two, three = (
        system("one", (0.3, 0.3), 0.050, reach=0.004),
        system("two", (0.3, 0.3), 0.057, reach=0.004),
        system("three", (0.3, 0.3), 0.064, reach=0.004),
    )
    ranking = rank_systems([three, two, one])
    assert places(ranking, "wer", 0.3) == [(1, "one", ("two",)), (2, "two", ("one", "three")), (3, "three", ("two",))]
    assert ranking.standing("one").borderline  # 30% give or take
    assert not rank_systems([system("x", (0.35, 0.35), 0.05, reach=0.01)]).standing("x").borderline


def test_intervals_of_averages() -> None:
    """Women and men are other people: distances add in squares. VCTK's common sentences are said by the same people."""
    eer = rank_systems([system("x", (0.1, 0.3), 0.05, reach=0.02)]).standing("x").eer
    assert eer.value == pytest.approx(0.2)
    assert eer.low == pytest.approx(0.2 - 0.02 / 2**0.5)
    assert eer.high == pytest.approx(0.2 + 0.02 / 2**0.5)
    figures = [
        Figure(
            "eer",
            0.2,
            f"{corpus}_test",
            0.19,
            0.23,
            split="test",
            gender=g,
            subset=subset,
            condition="aa",
            attacker="a",
        )
        for corpus, subset in (("libri", ""), ("vctk", ""), ("vctk", "common"))
        for g in "fm"
    ]
    eer = rank_systems([Results("x", "vpc2022", tuple(figures))]).standing("x").eer
    # four groups of speakers, a quarter of the weight each: sqrt(4 * (0.25 * 0.01)^2)
    assert eer.low == pytest.approx(0.195)
    assert eer.high == pytest.approx(0.215)
    without = [replace(f, low=None, high=None) if f.subset else f for f in figures]
    assert rank_systems([Results("x", "vpc2022", tuple(without))]).standing("x").eer == Average(pytest.approx(0.2))  # type: ignore[arg-type]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0, 0.6), st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.2)), min_size=1, max_size=8)
)
def test_ranks_equal_a_slow_twin(rows: list[tuple[float, float, float, float]]) -> None:
    systems = [system(f"s{i}", (e, e), w, u, reach=r) for i, (e, w, u, r) in enumerate(rows)]
    ranking = rank_systems(systems)
    for low, high in ((0.1, 0.2), (0.2, 0.3), (0.3, 0.4), (0.4, 2.0)):
        inside = [i for i, (e, _, _, _) in enumerate(rows) if low <= 0.5 * e + 0.5 * e < high]
        for by, column, sign in (("wer", 1, 1), ("uar", 2, -1)):
            found = {p.system: p for p in ranking.places[by][low]}
            assert set(found) == {f"s{i}" for i in inside}
            for i in inside:
                mine = rows[i]
                assert found[f"s{i}"].place == 1 + sum(sign * rows[j][column] < sign * mine[column] for j in inside)
                tied = {
                    f"s{j}"
                    for j in inside
                    if j != i and abs(rows[j][column] - mine[column]) < rows[j][3] + mine[3] - 1e-12
                }
                apart = {f"s{j}" for j in inside if abs(rows[j][column] - mine[column]) > rows[j][3] + mine[3] + 1e-12}
                assert tied <= set(found[f"s{i}"].tied_with)
                assert not apart & set(found[f"s{i}"].tied_with)


def test_eers_of_the_strongest_attacker_count() -> None:
    weak = system("x", (0.4, 0.4), 0.05, attacker="net", knowledge="lazy-informed")
    strong = system("x", (0.1, 0.1), None, None, attacker="net-adapted", knowledge="semi-informed")
    both = replace(weak, figures=weak.figures + strong.figures)
    assert rank_systems([both]).standing("x").evaluator == "net-adapted (semi-informed)"
    assert rank_systems([both], attacker="net").standing("x").eer.value == pytest.approx(0.4)
    assert rank_systems([weak]).standing("x").evaluator == "net (lazy-informed)"
    two = replace(
        both,
        figures=both.figures + system("x", (0.2, 0.2), None, None, attacker="b", knowledge="semi-informed").figures,
    )
    with pytest.raises(InputError, match="several attackers"):
        rank_systems([two])
    with pytest.raises(InputError, match="no EER by 'nobody'"):
        rank_systems([both], attacker="nobody")


def summary_2022(path: Path, eer: float = 22) -> str:
    """Write the published summary of B2 of 2022 with an EER that is ranked; return its text."""
    text = (GOLDEN / "vpc2022" / "RESULTS_summary_mcadams").read_text()
    text = re.sub(r"(_anon  EER: )[\d.]+%", rf"\g<1>{eer}%", text)
    path.write_text(text)
    return text


def test_pitch_correlation_must_be_above_the_minimum_in_2022(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS_summary_x"
    text = summary_2022(path)
    ranking = rank_systems([read_results(path)])
    assert places(ranking, "wer", 0.20) == [(1, "x", ())]
    line = re.search(r"^vctk_dev_trials_f_common\S*  Pitch_correlation: mean=(\S+) .*\n", text, re.MULTILINE)
    assert line is not None
    path.write_text(text.replace(line[0], line[0].replace(line[1], "0.3000")))
    ranking = rank_systems([read_results(path)])
    assert places(ranking, "wer", 0.20) == []
    assert ranking.standing("x").fault == "pitch correlation 0.300 on vctk_dev common f, not above 0.3"


def test_systems_without_pitch_figures_are_not_ranked_in_2022(tmp_path: Path) -> None:
    """Of any development or test set."""
    path = tmp_path / "RESULTS_summary_x"
    text = summary_2022(path)
    path.write_text(re.sub(r"^libri_dev_trials_m\S*  Pitch_correlation.*\n", "", text, flags=re.MULTILINE))
    ranking = rank_systems([read_results(path)])
    assert places(ranking, "wer", 0.20) == []
    assert ranking.standing("x").fault == "no pitch correlation on libri_dev m, which must be above 0.3"
    path.write_text(re.sub(r"^.*(Pitch_correlation|pitch correlation).*\n", "", text, flags=re.MULTILINE))
    assert rank_systems([read_results(path)]).standing("x").fault.startswith("no pitch correlation on libri_dev f")


def test_one_system_of_a_team_is_ranked_in_each_condition_in_2022(tmp_path: Path) -> None:
    """The one with the lowest WER (section 9.3); a team may have one in each condition."""
    path = tmp_path / "RESULTS_summary_x"
    systems = []
    for name, eer, wer in (("a/first", 22, 0.10), ("a/second", 22, 0.08), ("a/third", 31, 0.20), ("b/first", 22, 0.09)):
        summary_2022(path, eer)
        read = read_results(path, system=name)
        systems.append(
            replace(read, figures=tuple(replace(f, value=wer) if f.metric == "wer" else f for f in read.figures))
        )
    ranking = rank_systems(systems)
    assert [name for _, name, _ in places(ranking, "wer", 0.20)] == ["a/second", "b/first"]
    assert [name for _, name, _ in places(ranking, "wer", 0.30)] == ["a/third"]
    assert ranking.team_limit == {0.20: ("a/first",)}


def test_the_first_recognizer_counts() -> None:
    first = system("x", (0.2, 0.2), 0.05)
    both = replace(first, figures=(*first.figures, replace(first.figures[2], model="second", value=0.5)))
    assert rank_systems([both]).standing("x").utility["wer"].value == pytest.approx(0.05)


def test_the_protocol_names_the_language_model_whose_word_errors_count() -> None:
    """Result files of 2022 have WERs with a small and a large language model."""
    protocol = load_protocol("vpc2022")
    figures = [
        Figure("wer", wer, dataset, split="test", condition="a", detail={"language_model": name})
        for dataset in ("libri_test", "vctk_test")
        for name, wer in (("tgsmall", 0.2), ("tglarge", 0.1))
    ]
    figures += [
        Figure("eer", 0.2, part.dataset, split="test", gender=trials.gender, subset=part.subset, condition="aa",
               attacker="ASV_eval^anon", knowledge="semi-informed")
        for part in protocol.verification if part.split == "test" for trials in part.trials
    ]  # fmt: skip
    results = Results("x", "vpc2022", tuple(figures))
    assert rank_systems([results]).standing("x").utility["wer"].value == pytest.approx(0.1)
    assert protocol.official is not None
    other = replace(protocol, official=replace(protocol.official, language_model="tgsmall"))
    assert rank_systems([results], other).standing("x").utility["wer"].value == pytest.approx(0.2)


def test_invalid_results_are_rejected() -> None:
    good = system("x", (0.2, 0.2), 0.05)
    for results, what in (
        ([good, good], "two results of 'x'"),
        ([], "no results"),
        ([replace(good, protocol="mine")], "--protocol FILE.toml"),
        ([replace(good, protocol="vpc2020")], "vpc2020 does not rank systems"),
        ([good, replace(good, system="y", protocol="vpc2022")], "results of different protocols: vpc2022, vpc2024"),
        ([replace(good, figures=good.figures[2:])], "no EER of anonymized"),
        ([system("x", (22.0, 24.0), 0.05)], "rates are fractions"),
        ([system("x", (0.2, 0.2), float("inf"))], "rates are fractions"),
        ([replace(good, figures=good.figures[1:])], "no eer for libri_test f"),
        ([replace(good, figures=(*good.figures, replace(good.figures[2], value=0.1)))], "two figures for wer"),
    ):
        with pytest.raises(InputError, match=what):
            rank_systems(results)
    with pytest.raises(InputError, match="results of mine, not of vpc2024"):
        rank_systems([replace(good, protocol="mine")], load_protocol("vpc2024"))
    with pytest.raises(InputError, match=r"no split 'tset' \(did you mean test"):
        rank_systems([good], split="tset")
    odd = replace(good, figures=tuple(replace(f, low=float("-inf"), high="x") for f in good.figures))  # type: ignore[arg-type]
    assert rank_systems([odd]).standing("x").eer == Average(0.2)  # limits from a file that anybody may have written
    partial = rank_systems([system("x", (0.2, 0.2), 0.05, None)])
    assert (len(partial.places["wer"][0.2]), len(partial.places["uar"][0.2])) == (1, 0)


def test_averages_equal_those_published_in_2024() -> None:
    files = sorted((GOLDEN / "vpc2024").iterdir())
    for split, wanted in (("test", PUBLISHED_2024), ("dev", PUBLISHED_2024_DEV)):
        ranking = rank_systems([read_results(path) for path in files], split=split)
        for name, published in wanted.items():
            standing = ranking.standing(name)
            figures = (standing.eer, *(standing.utility[by] for by in ("wer", "uar")))
            values = tuple(half_up(100 * average.value) for average in figures)
            assert (values if split == "test" else values[0]) == published
    ranking = rank_systems([read_results(path) for path in files])
    assert [p.system for p in ranking.places["wer"][0.3]] == ["asrbn_hifigan_bn_tdnnf_wav2vec2_vq_48_v1", "nac"]
    assert [p.system for p in ranking.places["uar"][0.3]] == ["nac", "asrbn_hifigan_bn_tdnnf_wav2vec2_vq_48_v1"]
    assert ranking.original is not None
    assert round(100 * ranking.original.eer.value, 4) == 4.5895


def test_averages_equal_those_published_in_2022() -> None:
    """To their three decimals: from the summaries, and from the full results."""
    for path in sorted((GOLDEN / "vpc2022").glob("RESULTS_summary_*")):
        summary = read_results(path)
        full = read_results(path.with_name(path.name.replace("RESULTS_summary", "results.anon")))
        for split in ("dev", "test"):
            for results in (summary, full):
                standing = rank_systems([results], split=split).standing(summary.system)
                for metric, average in (("eer", standing.eer), ("wer", standing.utility["wer"])):
                    conditions = {"eer": "aa", "wer": "a"}[metric]
                    published = summary.one(f"average_{metric}", split=split, condition=conditions).value
                    assert 100 * average.value == pytest.approx(100 * published, abs=0.0005 + 1e-9)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "result_for_rank_mcadams").write_text(RANK_2024)
    system("mine", (0.22, 0.24), 0.05, reach=0.03).save(tmp_path / "results.json")
    private = re.sub(r"(anon  anon  ) ?[\d.]+", r"\g<1>25.000", RANK_2024)
    (tmp_path / "result_for_rank_b").write_text(private)
    names = ("result_for_rank_mcadams", "results.json", "result_for_rank_b")
    return [str(tmp_path / name) for name in names]


def test_rank_command_prints_and_writes_the_ranking(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files[0] = f"B2={files[0]}"
    assert main(["rank", *files, "--svg", str(tmp_path / "plane.svg")]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^B2 +4\.52 +9\.95 +53\.49 +ASV_eval\^anon \(semi-informed\)$", out, re.MULTILINE)
    assert re.search(r"^mine +23\.00 \[20\.88, 25\.12\] +5\.00 \[2\.00, 8\.00\]", out, re.MULTILINE)
    assert re.search(r"by WER: +1  mine .*\n  by WER: +2  b +9\.95", out)
    assert re.search(r"by UAR: +1  b .*\n  by UAR: +2  mine", out)
    assert "note: B2 is not ranked: its EER is below 10%" in out
    assert (tmp_path / "plane.svg").read_text().startswith("<svg")
    assert main(["rank", *files, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ranking"]["wer"][1]["places"][0]["system"] == "mine"
    assert data["systems"][0]["eer"]["value"] == pytest.approx(0.0452)
    assert data["original"]["utility"]["uar"]["value"] == pytest.approx(0.710618)


def test_rank_command_explains_errors(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rank", files[0], files[0]]) == 1
    assert "NAME=PATH" in capsys.readouterr().err
    assert main(["rank", "nowhere"]) == 1
    assert main(["rank", files[1], "--split", "dev"]) == 1
    assert "no EER of anonymized enrollments and trials on the dev data" in capsys.readouterr().err
    capsys.readouterr()
    assert main(["rank", *files, "--protocol", "vpc2042"]) == 1
    assert "unknown protocol 'vpc2042' (did you mean vpc20" in capsys.readouterr().err
    assert main(["rank", *files, "--protocol", "vpc2022"]) == 1
    assert "results of vpc2024, not of vpc2022" in capsys.readouterr().err


def test_team_limit_keeps_the_best_by_each_metric() -> None:
    """2024, section 8.2: of three systems of a team in one condition, the best by WER and the best by UAR."""
    four = [
        system("a/words", (0.2, 0.2), 0.02, 0.3),
        system("a/emotions", (0.2, 0.2), 0.08, 0.7),
        system("a/neither", (0.2, 0.2), 0.04, 0.4),
        system("b/one", (0.2, 0.2), 0.03, 0.5),
    ]
    ranking = rank_systems(four)
    assert ranking.team_limit == {0.2: ("a/neither",)}
    assert places(ranking, "wer", 0.2) == [(1, "a/words", ()), (2, "b/one", ()), (3, "a/emotions", ())]
    assert [name for _, name, _ in places(ranking, "uar", 0.2)] == ["a/emotions", "b/one", "a/words"]
    assert rank_systems([*four[:2], four[3]]).team_limit == {}  # two systems are within the limit
    elsewhere = system("a/neither", (0.3, 0.3), 0.04, 0.4)
    assert rank_systems([*four[:2], elsewhere]).team_limit == {}  # the limit counts within one condition
    same = [replace(one, system=one.system.replace("/", "-")) for one in four]
    assert rank_systems(same).team_limit == {}  # names without a team


def test_the_rules_are_those_of_the_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights, conditions and limits come from the protocol in the results, whatever it is called."""
    vpc2024 = load_protocol("vpc2024")
    (libri_dev, libri_test) = vpc2024.verification
    women, men = libri_test.trials
    mine = replace(
        vpc2024,
        name="mine",
        title="My protocol",
        verification=(libri_dev, replace(libri_test, trials=(replace(women, weight=3.0), men))),
        ranking=RankingRules(minimum_eer=(0.05, 0.12), by=("uar",), systems_per_team=1),
    )
    results = replace(system("t/x", (0.1, 0.2), 0.05), protocol="mine", info={"protocol": protocol_document(mine)})
    other = replace(results, system="t/y")
    ranking = rank_systems([results, other])
    assert ranking.standing("t/x").eer.value == pytest.approx(0.125)
    assert ranking.minimum_eer == (0.05, 0.12)
    assert list(ranking.places) == ["uar"]
    assert ranking.team_limit == {0.12: ("t/y",)}
    changed = replace(other, info={"protocol": protocol_document(replace(mine, title="Another title"))})
    with pytest.raises(InputError, match="different versions of mine"):
        rank_systems([results, changed])
    results.save(tmp_path / "results.json")
    assert main(["rank", str(tmp_path / "results.json")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("My protocol, test data")
    assert "EER 5 to 12%: none" in out


def test_notes_name_differing_attackers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system("a", (0.2, 0.2), 0.05, attacker="net", knowledge="lazy-informed").save(tmp_path / "a.json")
    system("b", (0.2, 0.2), 0.05, None).save(tmp_path / "b.json")
    assert main(["rank", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    out = capsys.readouterr().out
    assert "note: a: the EER is by net (lazy-informed), not by the semi-informed attacker" in out
    assert "attacked by different attackers" in out
    assert "b is not ranked by UAR: no such figure" in out


def circles(svg: str) -> list[tuple[float, float]]:
    root = ET.fromstring(svg)
    found = root.iter("{http://www.w3.org/2000/svg}circle")
    return [(float(c.get("cx", "nan")), float(c.get("cy", "nan"))) for c in found]


def test_figure_is_drawn_to_scale() -> None:
    ranking = rank_systems(
        [
            system("B1", (0.1, 0.1), 0.02, 0.5),
            system("t/one", (0.3, 0.3), 0.06, 0.3),
            system("t/two", (0.2, 0.2), 0.04, 0.4),
        ]
    )
    svg = privacy_utility_svg(ranking)
    wer, uar = circles(svg)[:3], circles(svg)[3:]
    assert len(uar) == 3
    # EER 10, 30, 20: evenly spaced to the right; WER 2, 6, 4 upward, UAR 50, 30, 40 downward.
    assert wer[2][0] - wer[0][0] == pytest.approx(wer[1][0] - wer[2][0], abs=0.2)
    assert wer[2][1] - wer[0][1] == pytest.approx(wer[1][1] - wer[2][1], abs=0.2)
    assert wer[1][1] < wer[2][1] < wer[0][1]
    assert uar[0][1] < uar[2][1] < uar[1][1]
    assert [x for x, _ in wer] == [x for x, _ in uar]
    places = re.findall(r'class="place"[^>]*>([^<]*)<', svg)
    assert places == ["1"] * 6
    assert svg.count('class="base"') == 2  # B1 in both panels
    assert privacy_utility_svg(ranking, baselines=["t/one", "t/two"]).count('class="base"') == 4


def test_figure_accepts_any_systems() -> None:
    """Names with markup, intervals beyond the axes, ties, systems at one point, one system, none of the metric."""
    names = ["<b>&\"'", "x" * 80, "a/b", "a/c", "ü\x00\udce4"]
    crowd = [system(name, (0.45, 0.47), 0.05, 0.4, reach=0.3) for name in names]
    svg = privacy_utility_svg(rank_systems(crowd))
    ET.fromstring(svg)
    assert "<b>" not in svg
    assert "&lt;b&gt;&amp;" in svg
    assert len(circles(svg)) == 10
    assert "=" in "".join(re.findall(r'class="place"[^>]*>([^<]*)<', svg))
    assert all(0 <= x <= 760 and 0 <= y <= 800 for x, y in circles(svg))
    only = privacy_utility_svg(rank_systems([system("x", (0.05, 0.05), None, None)]))
    assert circles(only) == []
    assert ">–<" in privacy_utility_svg(rank_systems([system("x", (0.05, 0.05), 1.5)]))


def test_figure_is_self_contained() -> None:
    svg = privacy_utility_svg(rank_systems([system("x", (0.2, 0.2), 0.05)]))
    assert "prefers-color-scheme:dark" in svg
    for word in ("<script", "href", "url(", "@import"):
        assert word not in svg


def test_baselines_are_recognized_by_name() -> None:
    assert all(map(is_baseline, ("B1", "b2", "B1.a", "B1b", "B6")))
    assert not any(map(is_baseline, ("B7", "baseline", "mcadams", "B1.a/x")))
