"""Result files of 2024: figures as published, the files written again byte by byte, every fault with its line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from tests.support.official_samples import ASR_CSV_2024, ASV_CSV_2024, FOLDS_CSV_2024, RANK_2024, SER_CSV_2024
from tests.support.paths import GOLDEN
from voiceveil.core.errors import InputError
from voiceveil.corpus import Trials
from voiceveil.corpus.score_files import read_key, read_scores
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official import exp2024, read_results, summary2024
from voiceveil.official.frames import Frame, FrameColumn


@pytest.fixture
def rank_file(tmp_path: Path) -> Path:
    path = tmp_path / "result_for_rank_mcadams"
    path.write_text(RANK_2024)
    return path


def test_summary_has_the_published_figures(rank_file: Path) -> None:
    results = read_results(rank_file)
    assert (results.system, results.protocol, len(results.figures)) == ("mcadams", "vpc2024", 16)
    eer = results.one("eer", dataset="libri_test", gender="f", condition="aa")
    assert (eer.value, eer.split, eer.attacker) == (7.483 / 100, "test", "ASV_eval^anon")
    assert results.one("eer", dataset="libri_dev", gender="m", condition="oo").attacker == "ASV_eval"
    assert results.one("wer", split="dev", condition="a").value == pytest.approx(0.10442, abs=1e-12)
    uar = results.one("uar", dataset="IEMOCAP_dev", condition="a")
    assert uar.value == pytest.approx(0.556146, abs=1e-12)
    assert uar.detail["recalls"] == pytest.approx({"sad": 0.32958, "neu": 0.57972, "ang": 0.644438, "hap": 0.67086})
    assert all(figure.low is None and figure.high is None for figure in results.figures)


def test_summary_round_trips_byte_by_byte(rank_file: Path, tmp_path: Path) -> None:
    results = read_results(rank_file)
    summary2024.write_summary(results, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == rank_file.read_bytes()
    results.save(tmp_path / "results.json")
    assert summary2024.summary_text(read_results(tmp_path / "results.json")) == RANK_2024


def test_hand_edits_of_the_layout_are_kept(tmp_path: Path) -> None:
    """As in the published file of B4: no times, blanks after a heading, columns in another order."""
    text = re.sub(r"---- Time.*\n\n?", "", RANK_2024).replace("trial     EER\n2", "trial     EER  \n2")
    path = tmp_path / "result_for_rank_nac"
    path.write_text(text)
    assert "EER  \n2" in text
    assert summary2024.summary_text(read_results(path)) == text


def test_own_results_are_written_in_the_official_layout(rank_file: Path) -> None:
    """Figures in any order and without a layout: all but the time is as the challenge's scripts print it."""
    results = read_results(rank_file)
    bare = replace(results, figures=tuple(sorted(results.figures, key=str)), info={})
    text = summary2024.summary_text(bare, time=datetime(2024, 3, 29, 10, 45))
    assert text == RANK_2024.replace("28-03-24_21:23", "29-03-24_10:45")
    first, second = text.split("\n---- Time", 1)
    assert summary2024.summary_text(bare, part="orig", time=datetime(2024, 3, 29, 10, 45)) == first
    assert summary2024.summary_text(bare, part="anon", time=datetime(2024, 3, 29, 10, 45)) == f"---- Time{second}"


def test_written_numbers_come_from_the_figures(rank_file: Path) -> None:
    results = read_results(rank_file)
    changed = tuple(replace(f, value=f.value + 0.01) for f in results.figures)
    text = summary2024.summary_text(replace(results, figures=changed))
    for before, after in (("10.511", "11.511"), ("55.6146", "56.6146"), ("9.954", "10.954"), ("1.557", "2.557")):
        assert before in RANK_2024
        assert before not in text
        assert after in text


def test_semi_informed_attacker_is_written_as_asv_eval_anon(rank_file: Path) -> None:
    """The semi-informed attacker stands as ASV_eval^anon, unless another one is asked for."""
    results = read_results(rank_file)
    ours = [
        replace(f, attacker="net", knowledge="unprotected")
        if f.condition == "oo"
        else replace(f, attacker="net-adapted", knowledge="semi-informed")
        for f in results.figures
    ]
    weak = [replace(f, attacker="net", knowledge="lazy-informed", value=0.4) for f in ours if f.condition == "aa"]
    both = replace(results, figures=(*ours, *weak), info={})
    time = datetime(2024, 3, 29, 10, 45)
    assert "12.910" in summary2024.summary_text(both, time=time)
    assert "40.0" in summary2024.summary_text(both, time=time, attacker="net")
    strong = [replace(f, attacker="other", knowledge="semi-informed") for f in ours if f.condition == "aa"]
    with pytest.raises(InputError, match=r"several attackers.*net-adapted.*other"):
        summary2024.summary_text(replace(both, figures=(*both.figures, *strong)), time=time)
    with pytest.raises(InputError, match=r"no EER by 'nobody'"):
        summary2024.summary_text(both, time=time, attacker="nobody")


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("55.6146", "abc", 6, "UAR is 'abc', which is no number"),
        ("32.9580", "nan", 6, "ACC_sad is 'nan'"),
        ("10.511", "110.511", 13, "EER is 110.511"),
        ("0.931", "-0.931", 14, "EER is -0.931"),
        ("ACC_neu", "ACC_sad", 4, "the columns are"),
        ("gender enrollment     trial     EER", "sex enrollment trial EER", 12, "the columns are"),
        (
            "0   libri   dev      f   original  original",
            "0   libri   dev      x   original  original",
            13,
            "gender is 'x'",
        ),
        ("4   libri   dev      anon", "4   libri   dev      anom", 21, "asr is 'anom'"),
        ("1   libri  test  original   1.844", "1   libri  eval  original   1.844", 22, "the split is 'eval'"),
        ("3   libri   dev      m ", "3   libri   dev      f ", 14, "is there twice"),
        ("5   libri  test      anon   9.954", "5   libri  test      anon", 23, "4 cells instead of 5"),
        ("---- ASR results ----", "---- ASRX results ----", 18, "not a part of a summary"),
        ("                               mean ", "                               meen ", 5, "no second heading"),
        ("11   libri", "x11   libri", 32, "the number of the row is 'x11'"),
    ],
)
def test_faults_have_their_line(tmp_path: Path, old: str, new: str, line: int, what: str) -> None:
    assert RANK_2024.count(old) >= 1
    path = tmp_path / "result_for_rank_x"
    path.write_text(RANK_2024.replace(old, new, 1))
    with pytest.raises(InputError, match=re.escape(what)) as caught:
        read_results(path)
    assert (caught.value.where, caught.value.line) == (str(path), line)


def test_empty_tables_and_summaries_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "result_for_rank_x"
    for text in ("---- ASR results ----\n", "---- ASR results ----\n  dataset split asr WER\n", "---- Time: 1 ----\n"):
        path.write_text(text)
        with pytest.raises(InputError, match="without"):
            read_results(path)


def test_broken_layout_is_an_input_error(rank_file: Path) -> None:
    results = read_results(rank_file)
    for layout in ([{"table": "ASR"}], [5], [{"table": "XXX", "keys": [], "index": [], "emotions": []}]):
        with pytest.raises(InputError):
            summary2024.summary_text(replace(results, info={"layout": layout}))
    with pytest.raises(InputError, match="no figure that a summary"):
        summary2024.summary_text(Results("none", "vpc2024", ()))


def test_tables_equal_those_of_pandas() -> None:
    """The output of pandas 2.3 and 3.1 for these frames, written out."""
    one = Frame(
        [3, 10], [FrameColumn("split", ["dev", "test"]), FrameColumn("EER", [0.5, 12.25]), FrameColumn("x", [1.0, 2.0])]
    )
    assert one.to_string() == ["   split    EER    x", "3    dev   0.50  1.0", "10  test  12.25  2.0"]
    assert one.to_csv() == ",split,EER,x\n3,dev,0.5,1.0\n10,test,12.25,2.0\n"
    two = Frame([9, 2], [FrameColumn("gender", ["f", "m_common"]), FrameColumn("ACC_hap", [87.766, 67.93], "mean")])
    assert two.to_string() == [
        "     gender ACC_hap",
        "               mean",
        "9         f  87.766",
        "2  m_common  67.930",
    ]
    assert two.to_csv() == ",gender,ACC_hap\n,,mean\n9,f,87.766\n2,m_common,67.93\n"


@pytest.mark.parametrize(
    ("table", "text"),
    [("asv", ASV_CSV_2024), ("asr", ASR_CSV_2024), ("ser", SER_CSV_2024), ("ser_folds", FOLDS_CSV_2024)],
)
def test_tables_are_read_from_csv(tmp_path: Path, table: exp2024.Table, text: str) -> None:
    path = tmp_path / "exp" / "results_mcadams.csv"
    path.parent.mkdir()
    path.write_text(text)
    results = read_results(path, system="mcadams")
    shuffled = replace(results, figures=results.figures[::-1])
    exp2024.write_csv(shuffled, tmp_path / "again.csv", table)
    assert (tmp_path / "again.csv").read_text() == text


def test_folder_name_gives_the_attacker(tmp_path: Path) -> None:
    for folder, model in (("asv_orig", "ASV_eval"), ("asv_anon_mcadams", "ASV_eval^anon")):
        path = tmp_path / folder / "results_mcadams.csv"
        path.parent.mkdir()
        path.write_text(ASV_CSV_2024)
        results = read_results(path)
        assert {figure.attacker for figure in results.figures} == {model}
        assert results.one("eer", gender="m", split="test", condition="oa").value == 28.508 / 100


def test_folds_are_averaged(tmp_path: Path) -> None:
    path = tmp_path / "results_folds_x.csv"
    path.write_text(FOLDS_CSV_2024)
    uar = read_results(path).one("uar", condition="o")
    assert round(100 * uar.value, 4) == 69.0796  # the published mean
    assert uar.detail["recalls"]["sad"] == pytest.approx(np.mean([0.60, 0.505, 0.61, 0.705]))
    assert uar.detail["folds"]["2"] == {"uar": 74.868 / 100, "recalls": {"ang": 80.125 / 100}}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("33.21", "", 9),
        ("7,libri", '7,"libri', 9),
        ("26.988", "26.988,1", 13),
        ("1,libri,dev,f,original,anon", "1,libri,dev,f,original,original", 3),
    ],
)
def test_faulty_tables_are_rejected(tmp_path: Path, old: str, new: str, line: int) -> None:
    path = tmp_path / "results.csv"
    path.write_text(ASV_CSV_2024.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_results(path)
    assert caught.value.line == line


def test_unwritable_tables_are_rejected(rank_file: Path) -> None:
    results = read_results(rank_file)
    with pytest.raises(InputError, match="no UAR of single folds"):
        exp2024.csv_text(results, "ser_folds")
    with pytest.raises(InputError, match="unknown table"):
        exp2024.csv_text(results, "asvv")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no WER to write"):
        exp2024.csv_text(replace(results, figures=()), "asr")
    weak = Figure("eer", 0.1, "libri_dev", split="dev", gender="f", condition="oo", attacker="other")
    with pytest.raises(InputError, match="two figures for EER libri dev f original original"):
        exp2024.csv_text(replace(results, figures=(*results.figures, weak)), "asv")


def test_score_and_eer_files_round_trip(tmp_path: Path) -> None:
    trials = Trials(np.array(["s1", "s1"]), np.array(["u2", "u1"]), np.array([True, False]))
    exp2024.write_scores(tmp_path / "scores", trials, [0.1 + 0.2, -1e-9])
    assert (tmp_path / "scores").read_text() == "s1 u2 0.30000000000000004\ns1 u1 -1e-09\n"
    (tmp_path / "trials").write_text("s1 u1 nontarget\ns1 u2 target\n")
    assert read_scores(tmp_path / "scores", read_key(tmp_path / "trials")).tolist() == [-1e-9, 0.1 + 0.2]
    with pytest.raises(InputError, match="2 trials"):
        exp2024.write_scores(tmp_path / "scores", trials, [0.1])
    exp2024.write_eer(tmp_path / "EER", 0.04520000000000001)
    assert (tmp_path / "EER").read_text() == "0.04520000000000001"
    assert exp2024.read_eer(tmp_path / "EER") == 0.04520000000000001
    for bad in ("x", "1.5", "0.1\n0.2\n", ""):
        (tmp_path / "EER").write_text(bad)
        with pytest.raises(InputError):
            exp2024.read_eer(tmp_path / "EER")
    with pytest.raises(InputError, match="fraction"):
        exp2024.write_eer(tmp_path / "EER", 4.52)


def test_all_published_files_round_trip(tmp_path: Path) -> None:
    published = json.loads((GOLDEN / "published.json").read_text())["vpc2024"]
    files = sorted((GOLDEN / "vpc2024").iterdir())
    assert len(files) == len(published) == 7
    words = {"oo": "original-original", "aa": "anon-anon", "o": "original", "a": "anon"}
    groups = {"oo": "ASV_orig", "aa": "semi-informed"}
    for path in files:
        results = read_results(path)
        assert summary2024.summary_text(results) == path.read_text()
        found: dict[str, dict[str, float]] = {"EER": {}, "WER": {}, "UAR": {}}
        for f in results.figures:
            name = f"{f.dataset}_{words[f.condition]}"
            if f.metric == "eer":
                name = f"{groups[f.condition]}/{f.dataset}_{f.gender}:{words[f.condition]}"
            found[f.metric.upper()][name] = round(100 * f.value, 4)
        assert found == published[results.system]
