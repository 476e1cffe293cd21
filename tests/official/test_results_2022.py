"""Result files of 2020 and 2022: figures as published, files written again byte by byte, faults with their lines."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.official_samples import RESULTS_2020, RESULTS_2022, SUMMARY_2022
from tests.support.paths import GOLDEN
from voiceveil.core.errors import InputError
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official import read_results, results2022, summary2022
from voiceveil.official.names import attack_fields, attack_name, speech_fields, trial_fields, trial_name


def read(tmp_path: Path, name: str, text: str) -> Results:
    (tmp_path / name).write_text(text)
    return read_results(tmp_path / name)


def test_summary_has_the_published_figures(tmp_path: Path) -> None:
    results = read(tmp_path, "RESULTS_summary_mcadams", SUMMARY_2022)
    assert (results.system, results.protocol, len(results.figures)) == ("mcadams", "vpc2022", 34)
    eer = results.one("eer", dataset="vctk_test", gender="m", subset="common", condition="aa")
    assert (eer.value, eer.attacker, eer.knowledge) == (4.802 / 100, "ASV_eval^anon", "semi-informed")
    assert results.one("eer", dataset="libri_test", gender="f", condition="oo").attacker == "ASV_eval"
    wer = results.one("wer", dataset="vctk_test", condition="a")
    assert (wer.value, wer.model) == (13.48 / 100, "ASR_eval^anon")
    assert {k: wer.detail[k] for k in ("errors", "words", "insertions", "deletions", "substitutions")} == {
        "errors": 11678,
        "words": 86642,
        "insertions": 1368,
        "deletions": 1486,
        "substitutions": 8824,
    }
    rho = results.one("pitch_correlation", dataset="libri_test", gender="m")
    assert (rho.value, rho.detail["std"]) == (0.5419, 0.1811)
    assert results.one("gvd", dataset="vctk_test", gender="f", subset="").value == -1.562397882310541
    assert results.one("average_eer", split="test", condition="aa").value == 7.769 / 100
    assert results.one("average_gvd").value == -1.633


def test_results_have_the_published_figures(tmp_path: Path) -> None:
    results = read(tmp_path, "results.anon_mcadams", RESULTS_2022)
    assert (results.system, results.protocol) == ("mcadams", "vpc2022")
    values = {f.metric: f.value for f in results.figures if f.condition == "oo"}
    assert values == {
        "eer": 14.91 / 100,
        "min_cllr": 0.466,
        "cllr": 12.52,
        "eer_rocch": 14.793 / 100,
        "d_sys": 0.661233,
        "zebra_population": 0.375,
        "zebra_individual": 3.452,
    }
    assert results.one("zebra_individual", condition="oa").detail["tag"] == "A"
    assert results.one("zebra_population", condition="oa").value == 0.0
    assert [f.detail["language_model"] for f in results.find("wer")] == ["tgsmall", "tglarge"]
    assert results.one("deid").value == 0.7805323634528221
    assert {f.attacker for f in results.find("eer")} == {"ASV_eval^anon"}
    assert {f.attacker for f in read(tmp_path, "results.orig_mcadams", RESULTS_2022).find("eer")} == {"ASV_eval"}
    baseline = read(tmp_path, "RESULTS_baseline", RESULTS_2020)
    assert (baseline.protocol, {f.attacker or f.model for f in baseline.figures}) == (
        "vpc2020",
        {"ASV_eval", "ASR_eval"},
    )


def test_files_round_trip_byte_by_byte(tmp_path: Path) -> None:
    """From the figures alone: their order does not matter."""
    results = read(tmp_path, "RESULTS_summary_mcadams", SUMMARY_2022)
    shuffled = replace(results, figures=tuple(sorted(results.figures, key=lambda f: f"{f.value}")), info={})
    summary2022.write_summary(shuffled, tmp_path / "again")
    assert (tmp_path / "again").read_text() == SUMMARY_2022
    for name, text in (("results.anon_mcadams", RESULTS_2022), ("RESULTS_baseline", RESULTS_2020)):
        results = read(tmp_path, name, text)
        shuffled = replace(results, figures=tuple(sorted(results.figures, key=lambda f: f"{f.value}")), info={})
        results2022.write_results(shuffled, tmp_path / "again")
        assert (tmp_path / "again").read_text() == text
        results.save(tmp_path / "results.json", overwrite=True)
        assert results2022.results_text(read_results(tmp_path / "results.json")) == text


def test_averages_are_those_of_the_printed_figures(tmp_path: Path) -> None:
    """The mean of 4.15 and 12.82 is the published 8.485; that of the exact error counts would be 8.481."""
    results = read(tmp_path, "RESULTS_summary_mcadams", SUMMARY_2022)
    exact = [
        replace(f, value=f.detail["errors"] / f.detail["words"]) if f.metric == "wer" else f
        for f in results.figures
        if not f.metric.startswith("average")
    ]
    text = summary2022.summary_text(replace(results, figures=tuple(exact)))
    assert text == SUMMARY_2022
    assert round(50 * (1453 / 35042 + 11104 / 86642), 3) == 8.481
    without = [f for f in exact if (f.metric, f.subset) != ("eer", "common")]
    text = summary2022.summary_text(replace(results, figures=tuple(without)))
    assert "average EER" not in text
    assert "Average WER test anon: 9.030" in text


def test_own_results_are_written_in_the_official_layout(tmp_path: Path) -> None:
    """An attacker of several, words without a decode folder, an infinite Cllr."""
    place: dict[str, Any] = {"dataset": "libri_dev", "split": "dev", "gender": "f", "condition": "aa"}
    figures = [
        Figure("eer", 0.123456, **place, attacker="net", knowledge="lazy-informed"),
        Figure("eer", 0.05, **place, attacker="net-adapted", knowledge="semi-informed"),
        Figure("min_cllr", 0.5, **place, attacker="net-adapted", knowledge="semi-informed"),
        Figure("cllr", math.inf, **place, attacker="net-adapted", knowledge="semi-informed"),
        Figure("zebra_individual", 2.5, **place, attacker="net-adapted", knowledge="semi-informed"),
        Figure(
            "wer",
            0.1,
            "libri_dev",
            split="dev",
            condition="a",
            model="moonshine",
            detail={"errors": 10, "words": 100, "insertions": 1, "deletions": 2, "substitutions": 7},
        ),
    ]
    results = Results("mine", "vpc2022", tuple(figures))
    text = results2022.results_text(results, attacker="net-adapted")
    assert text.splitlines() == [
        "ASV-libri_dev_enrolls_anon-libri_dev_trials_f_anon",
        "  EER: 5%",
        "  Cllr (min/act): 0.500/inf",
        "  Individual: 2.500 (C)",
        "ASR-libri_dev_asr_anon",
        "  %WER 10.00 [ 10 / 100, 1 ins, 2 del, 7 sub ] moonshine/wer",
    ]
    again = read(tmp_path, "results.anon_mine", text)
    assert again.one("cllr").value == math.inf
    assert summary2022.summary_text(results).startswith("ASV-libri_dev_enrolls_anon-libri_dev_trials_f_anon  EER: 5%\n")
    with pytest.raises(InputError, match="two attackers"):
        results2022.results_text(results)
    with pytest.raises(InputError, match="no count of errors"):
        results2022.results_text(Results("x", "vpc2022", (replace(figures[-1], detail={}),)))
    with pytest.raises(InputError, match="no figure that"):
        summary2022.summary_text(Results("x", "vpc2022", ()))


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("EER: 4.887%", "EER: 4.887", 3, "not a line of results"),
        ("EER: 4.887%", "EER: x%", 3, "eer is 'x'"),
        ("EER: 4.887%", "EER: 104.887%", 3, "eer is 104.887"),
        ("ASV-vctk_test_enrolls-vctk_test_trials_f  ", "ASV-vctk_test_enrolls-libri_test_trials_f  ", 3, "not a line"),
        ("trials_m  EER", "trials_x  EER", 2, "not a line of a summary"),
        ("trials_m  EER", "trials_f  EER", 2, "there twice"),
        ("174 ins", "175 ins", 13, "175 + 157 + 1122 is not 1453 errors"),
        ("%WER 4.15", "%WER 4.16", 13, "1453 errors in 35042 words is not a WER of 4.16%"),
        ("/ 35042", "/ 0", 13, "is not a WER"),
        ("mean=0.6089", "mean=1.6089", 17, "the pitch correlation is 1.6089"),
        ("std=0.1574", "sdt=0.1574", 17, "not a pitch correlation"),
        ("ness : -1.7054074286432193", "ness : x", 23, "is 'x', which is no number"),
        ("EER test orig", "EER test", 29, "not an average"),
        ("Average WER", "Avarage WER", 31, "not a line of a summary"),
    ],
)
def test_faulty_summaries_are_rejected(tmp_path: Path, old: str, new: str, line: int, what: str) -> None:
    assert old in SUMMARY_2022
    with pytest.raises(InputError, match=re.escape(what)) as caught:
        read(tmp_path, "RESULTS_summary_x", SUMMARY_2022.replace(old, new, 1))
    assert (caught.value.where, caught.value.line) == (str(tmp_path / "RESULTS_summary_x"), line)


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("  EER: 14.91%", "  EER: 14.91%\n  EER: 14.91%", 3, "there twice"),
        ("0.466/12.520", "0.466", 3, "not a line of results"),
        ("0.466/12.520", "inf/12.520", 3, "min_cllr is 'inf'"),
        ("Population: 0.375 bit", "Population: 0.375", 6, "not a line of results"),
        ("3.452 (C)", "3.452", 7, "not a line of results"),
        ("ASV-libri_dev_enrolls-libri_dev_trials_f\n", "ASV-nonsense\n", 1, "not the name of an evaluation"),
        ("ASR-libri_dev_asr\n", "ASR-libri_dev\n", 22, "not the name of an evaluation"),
        ("253 del", "253 dal", 23, "not a WER"),
        ("De-Identification : 0.7", "Identification : 0.7", 27, "not a line of results"),
    ],
)
def test_faulty_results_are_rejected(tmp_path: Path, old: str, new: str, line: int, what: str) -> None:
    assert old in RESULTS_2022
    with pytest.raises(InputError, match=re.escape(what)) as caught:
        read(tmp_path, "results.anon_x", RESULTS_2022.replace(old, new, 1))
    assert caught.value.line == line


def test_attack_names_round_trip() -> None:
    name = "vctk_test_enrolls_anon-vctk_test_trials_m_common_anon"
    fields = attack_fields(name)
    assert fields == {"dataset": "vctk_test", "split": "test", "gender": "m", "subset": "common", "condition": "aa"}
    figure = Figure("eer", 0.1, **fields)  # type: ignore[arg-type]
    assert (attack_name(figure), trial_name(figure)) == (name, "vctk_test_trials_m_common")
    assert attack_fields("libri_dev_enrolls-vctk_dev_trials_f") is None
    assert trial_fields("libri_eval_trials_f") is None
    assert speech_fields("libri_dev_asr_anon") == {"dataset": "libri_dev", "split": "dev", "condition": "a"}


def test_all_published_files_round_trip() -> None:
    published = json.loads((GOLDEN / "published.json").read_text())
    files = sorted((GOLDEN / "vpc2022").iterdir()) + sorted((GOLDEN / "vpc2020").iterdir())
    assert len(files) == 18
    for path in files:
        results = read_results(path)
        summary = path.name.startswith("RESULTS_summary")
        text = summary2022.summary_text(results) if summary else results2022.results_text(results)
        assert text == path.read_text(), path
    names = {"eer": "eer", "min_cllr": "cllr_min", "cllr": "cllr", "eer_rocch": "rocch", "d_sys": "linkability"}
    names |= {"zebra_population": "zebra_pop", "zebra_individual": "zebra_ind"}
    compared = 0
    for edition in ("vpc2020", "vpc2022_full"):
        for name, rows in published[edition].items():
            results = read_results(GOLDEN / edition[:7] / name)
            for figure in results.figures:
                if figure.metric in names:
                    row = rows[attack_name(figure)]
                    wanted = str(row.get(names[figure.metric], row.get(f"{names[figure.metric]}_act")))
                    scale = 100 if figure.metric in ("eer", "eer_rocch") else 1
                    assert scale * figure.value == pytest.approx(float(wanted.split()[0]), abs=1e-9)
                    assert figure.detail.get("tag", "") == wanted.partition("(")[2].rstrip(")")
                    compared += 1
    assert compared == 3 * 36 * 4 + 10 * 36 * 7
