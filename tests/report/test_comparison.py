"""The comparison of systems: attackers and recognizers of all kinds, women and men, LibriSpeech and VCTK apart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from voiceveil.evaluation.results import Figure, Results
from voiceveil.report.comparison import Comparison, compare
from voiceveil.report.comparison_page import write_comparison

EERS = {  # (corpus, gender) -> EER of original speech
    ("libri", "f"): 0.08,
    ("libri", "m"): 0.02,
    ("vctk", "f"): 0.05,
    ("vctk", "m"): 0.01,
}
ATTACKS = (  # condition, attacker, knowledge, what is added to the EER of original speech
    ("oo", "xvector", "unprotected", 0.0),
    ("oa", "xvector", "ignorant", 0.4),
    ("aa", "xvector", "lazy-informed", 0.2),
    ("aa", "xvector:anon", "semi-informed", 0.1),
)


def results(system: str, shift: float, *, semi: bool = True, retrained: bool = True) -> Results:
    """Return figures of both corpora and both splits; every EER of the development data is 1% higher."""
    figures: list[Figure] = []
    for split in ("dev", "test"):
        later = 0.01 if split == "dev" else 0.0
        for (corpus, gender), original in EERS.items():
            spot: dict[str, Any] = {"dataset": f"{corpus}_{split}", "split": split, "gender": gender}
            for condition, attacker, knowledge, added in ATTACKS:
                if knowledge == "semi-informed" and not semi:
                    continue
                by: dict[str, Any] = {"condition": condition, "attacker": attacker, "knowledge": knowledge, **spot}
                eer = original + later + (added + shift if added else 0.0)
                figures.append(Figure("eer", eer, low=eer - 0.01, high=eer + 0.01, **by))
                figures.append(Figure("min_cllr", min(1.0, 2 * eer), **by))
            figures.append(Figure("deid", 0.9 if corpus == "libri" else 0.7, **spot))
            figures.append(Figure("gvd", -9.0 if corpus == "libri" else -5.0, **spot))
        for corpus, wer in (("libri", 0.04), ("vctk", 0.12)):
            spot = {"dataset": f"{corpus}_{split}", "split": split}
            figures.append(Figure("wer", wer, condition="o", model="base", **spot))
            if retrained:
                figures.append(Figure("wer", wer + 0.01, condition="a", model="retrained", **spot))
            figures.append(Figure("wer", wer + 0.05, condition="a", model="base", **spot))
    return Results(system, "vpc2020", tuple(figures))


@pytest.fixture
def comparison() -> Comparison:
    systems = [results("b1", 0.0), results("b2", -0.05), results("k2", 0.05, semi=False, retrained=False)]
    return compare("vpc2020", systems, {}, ["b1", "b2", "k2"])


def test_rows_have_all_attackers_and_both_recognizers(comparison: Comparison) -> None:
    original, b1, _, k2 = comparison.rows
    assert b1.values["eer_oa"].value == pytest.approx(0.44)
    assert b1.values["eer_aa"].value == pytest.approx(0.24)
    assert b1.values["eer_semi"].value == pytest.approx(0.14)
    assert b1.values["wer"].value == pytest.approx(0.13)  # by the recognizer of original speech
    assert b1.values["wer_anon"].value == pytest.approx(0.09)
    assert original.values["eer_semi"].value == pytest.approx(0.04)
    assert original.values["wer"].value == pytest.approx(0.08)
    assert "eer_semi" not in k2.values
    assert "wer_anon" not in k2.values


def test_corpora_and_genders_are_apart(comparison: Comparison) -> None:
    assert list(comparison.corpora) == ["LibriSpeech", "VCTK"]
    libri, vctk = ({row.system: row.values for row in rows} for rows in comparison.corpora.values())
    assert (libri["b1"]["wer"].value, vctk["b1"]["wer"].value) == pytest.approx((0.09, 0.17))
    assert (libri["b1"]["eer_aa"].value, vctk["b1"]["eer_aa"].value) == pytest.approx((0.25, 0.23))
    assert (libri["b1"]["gvd"].value, vctk["b1"]["gvd"].value) == (-9.0, -5.0)
    genders = comparison.rows[1].genders
    assert (genders["f"]["eer_semi"].value, genders["m"]["eer_semi"].value) == pytest.approx((0.165, 0.115))


def test_every_attack_on_every_set_is_a_point(comparison: Comparison) -> None:
    count = len(EERS) * 2  # splits
    assert len(comparison.points) == 2 * 3 * count + 2 * count  # k2 has no semi-informed attacker
    point = next(p for p in comparison.points if p.system == "b2" and p.column == "eer_semi")
    assert point.data == "libri_dev f"
    assert (point.eer, point.min_cllr) == pytest.approx((0.14, 0.28))


def test_the_page_has_the_figures_of_the_overview(comparison: Comparison, tmp_path: Path) -> None:
    page = write_comparison(comparison, tmp_path / "comparison.html").read_text()
    captions = re.findall(r"<figcaption>As Figure (\d+)([^<]*)</figcaption>", page)
    numbers = [int(number) for number, _ in captions]
    assert numbers == [7, 7, 8, 9, 9, 9, 10, 10, 11, 12, 12, 14, 14, 15, 15]
    for number in (10, 12, 14, 15):
        libri, vctk = (text for figure, text in captions if int(figure) == number)
        assert "LibriSpeech" in libri
        assert "VCTK" in vctk
    figures = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
    cllr, attackers, words = figures[2], figures[8], figures[9]
    assert len(re.findall("<circle", cllr)) == len(comparison.points) + 3  # and the legend
    for name in ("ignorant", "lazy-informed", "semi-informed"):
        assert name in attackers
    assert "k2" not in attackers  # a subset of the systems, as in the overview
    assert ">k2<" not in words
    assert "<script" not in page


def test_columns_that_nobody_has_are_left_out(tmp_path: Path) -> None:
    plain = compare("vpc2020", [results("k2", 0.0, semi=False, retrained=False)], {}, ["k2"])
    assert plain.table()[0] == ("system", "EER oa", "EER aa", "WER", "DeID", "G_VD (dB)")
    page = write_comparison(plain, tmp_path / "comparison.html").read_text()
    assert "As Figure 11" not in page
    assert "As Figure 12" not in page
    assert "semi-informed attacker (%)" not in page


def test_one_corpus_is_not_told_apart(tmp_path: Path) -> None:
    whole = results("b1", 0.0)
    libri = Results("b1", "vpc2020", tuple(f for f in whole.figures if f.dataset.startswith("libri")))
    comparison = compare("vpc2020", [libri], {}, ["b1"])
    assert comparison.corpora == {}
    page = write_comparison(comparison, tmp_path / "comparison.html").read_text()
    assert page.count("As Figure 10") == 1
