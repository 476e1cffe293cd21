"""The official tree of 2020 and 2022, written by an evaluation; and who may bear which name in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voiceveil as vv
from tests.support.evaluations import settings_for
from tests.support.small_challenge import ATTACKERS, make_challenge, make_set, spoken
from voiceveil import metrics
from voiceveil.core.errors import InputError
from voiceveil.evaluation.evaluate import evaluate, prepare
from voiceveil.evaluation.protocol import Official
from voiceveil.evaluation.results import Figure, Results
from voiceveil.metrics.wer import word_errors
from voiceveil.official import read_results
from voiceveil.official.labels import as_published, labels_of, note_text
from voiceveil.official.transcripts import parse_wer, text_of, wer_text
from voiceveil.official.tree import write_tree

OPTIONS: dict[str, Any] = {"recognizers": ["counter"], "seed": 1}

pytestmark = pytest.mark.slow  # for its fixtures


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Development sets, and speakers enough to train a PLDA on."""
    data = make_challenge(tmp_path_factory.mktemp("data"), only=("dev",), count=5)
    for name in ("train-clean-360", "train-clean-360-asv"):  # of 2024, and of 2020 and 2022
        make_set(data, name, spoken(data, "train-clean-360", list(range(100, 130)), 3, "f"))
    return data


@pytest.fixture(scope="module")
def of_2020(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    out = tmp_path_factory.mktemp("out")
    settings = settings_for(data, out, "vpc2020", attackers=["bumps", "free:duration"], **OPTIONS)
    return out, evaluate(prepare(settings, system=vv.system("b2-2020")), exports=(write_tree,))


def test_edition_2020_reports_all_its_metrics(of_2020: tuple[Path, Results]) -> None:
    """Those of trials with intervals; Cllr of PLDA scores only, and why there is none of others."""
    _, results = of_2020
    for metric in ("eer", "min_cllr", "d_sys", "zebra_population", "cllr"):
        found = [f for f in results.find(metric) if f.attacker.startswith("bumps")]
        assert {(f.gender, f.condition) for f in found} == {(g, c) for g in "fm" for c in ("oo", "oa", "aa")}, metric
        assert all(f.low is not None and f.high is not None for f in found), metric
    assert len(results.find("zebra_individual")) == 6 + 2
    assert {f.detail["tag"] for f in results.find("zebra_individual")} <= set("0ABCDEF")
    assert {f.gender for f in results.find("deid")} == {f.gender for f in results.find("gvd")} == {"f", "m"}
    for figure in results.find("deid"):
        assert {np.shape(matrix) for matrix in figure.detail["matrices"].values()} == {(4, 4)}
    assert not [f for f in results.find("cllr") if f.attacker.startswith("free")]
    assert (
        "no Cllr of free:duration: the scores are no log-likelihood ratios, as those of PLDA are; min Cllr needs none"
        in results.info["notes"]
    )


def test_edition_2020_writes_the_official_tree(of_2020: tuple[Path, Results], data: Path) -> None:
    out, results = of_2020
    (home,) = (out / "exp").iterdir()
    assert home.name.startswith("results-2")
    assert not home.name.endswith(".orig")
    published = read_results(home / "results.txt")
    assert len(published.find("eer")) == 6
    for figure in published.find("eer"):
        folder = home / (
            f"ASV-libri_dev_enrolls{'_anon' * (figure.condition[0] == 'a')}"
            f"-libri_dev_trials_{figure.gender}{'_anon' * (figure.condition[1] == 'a')}"
        )
        labels = [line.split()[2] for line in (data / f"libri_dev_trials_{figure.gender}/trials").open()]
        score = np.array([float(line.split()[2]) for line in (folder / "scores").open()])
        target = np.array(labels) == "target"
        classes = score[target], score[~target]
        assert figure.value == pytest.approx(metrics.eer(*classes, method="kaldi"), abs=6e-5)
        where = {"gender": figure.gender, "condition": figure.condition}
        assert published.one("eer_rocch", **where).value == pytest.approx(metrics.eer(*classes), abs=6e-6)
        assert published.one("min_cllr", **where).value == pytest.approx(metrics.min_cllr(*classes), abs=6e-4)
        assert published.one("cllr", **where).value == pytest.approx(metrics.cllr(*classes), abs=6e-4)
        assert (folder / "EER").read_text().startswith(f"EER: {100 * figure.value:.4g}%\nminDCF(p-target=0.01): ")
        assert (folder / "Cllr").read_text().splitlines()[1].startswith("ROCCH-EER: ")
        assert (folder / "linkability_log").read_text().startswith("linkability: 0.")
        assert [line.split()[0] for line in (folder / "zebra").open()] == ["Population:", "Individual:"]
    assert (home / "ASR-libri_dev_asr_anon").read_text().startswith("%WER ")
    note = (home / "NOTE.txt").read_text()
    assert "ASV_eval: bumps; in the challenge: an x-vector network with PLDA" in note
    assert results.info["official"]["names"]["ASV_eval"] == "bumps"


def test_edition_2020_files_omit_semi_informed_attackers(data: Path, tmp_path: Path) -> None:
    settings = settings_for(data, tmp_path, "vpc2020", attackers=ATTACKERS, **OPTIONS)
    results = evaluate(prepare(settings, system=vv.system("b2-2020")), exports=(write_tree,))
    assert any(f.attacker.startswith("bumps-anon") for f in results.find("eer"))
    (home,) = (tmp_path / "exp").iterdir()
    official = read_results(home / "results.txt")
    unlearned = [f for f in results.find("eer", condition="aa") if f.evaluator == "bumps (lazy-informed)"]
    assert {f.gender for f in unlearned} == {"f", "m"}
    for figure in unlearned:
        (written,) = official.find("eer", condition="aa", gender=figure.gender)
        assert written.value == pytest.approx(figure.detail["official"]["eer"], abs=5e-6)


def test_edition_2022_writes_two_folders_and_the_summary(data: Path, tmp_path: Path) -> None:
    """Without training speech scores are cosines: no Cllr, and the files say so."""
    for name in ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m"):
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / name).symlink_to(data / name)
    settings = settings_for(tmp_path / "data", tmp_path / "out", "vpc2022", attackers=ATTACKERS, **OPTIONS)
    results = evaluate(prepare(settings, system=vv.system("b2-2022")), exports=(write_tree,))
    anonymized, original = sorted((tmp_path / "out" / "exp").iterdir())
    assert original.name == f"{anonymized.name}.orig"
    of_original = read_results(original / "results.txt")
    assert {f.attacker for f in of_original.find("eer")} == {"ASV_eval"}
    assert {f.condition for f in of_original.find("eer")} == {"oo", "oa", "aa"}
    of_anonymized = read_results(anonymized / "results.txt")
    assert {(f.attacker, f.condition) for f in of_anonymized.find("eer")} == {("ASV_eval^anon", "aa")}
    assert len(of_anonymized.find("pitch_correlation")) == len(of_anonymized.find("gvd")) == 2
    summary = read_results(anonymized / "results_summary.txt")
    assert [(f.condition, f.attacker) for f in summary.find("eer")] == 2 * [("oo", "ASV_eval")] + 2 * [
        ("aa", "ASV_eval^anon")
    ]
    assert summary.find("eer")[2].value == pytest.approx(of_anonymized.find("eer")[0].value)
    assert len(summary.find("wer")) == 2
    note = (anonymized / "NOTE.txt").read_text()
    assert "Cllr: left out, since the scores are no log-likelihood ratios; min Cllr is in results.json." in note
    assert len(results.find("min_cllr")) == 8


def eer(evaluator: str, condition: str, value: float = 0.1, encoder: str = "") -> Figure:
    detail = {"official": {"method": "speechbrain", "eer": value + 0.001}}
    attacker, knowledge = evaluator.removesuffix(")").split(" (")
    place: dict[str, Any] = {"dataset": "libri_dev", "split": "dev", "gender": "f", "condition": condition}
    return Figure("eer", value, attacker=attacker, knowledge=knowledge, encoder=encoder, detail=detail, **place)


OFFICIAL = Official("vpc2024", family="ecapa")


def test_strongest_semi_informed_attacker_is_named_asv_eval_anon() -> None:
    figures = (
        eer("campplus (unprotected)", "oo", encoder="campplus"),
        eer("campplus (lazy-informed)", "aa", encoder="campplus"),
        eer("campplus-adapted (semi-informed)", "aa", 0.08, encoder="campplus"),
        eer("resnet34:x (semi-informed)", "aa", 0.05, encoder="resnet34"),
        eer("free:f0 (free)", "aa", 0.01),
    )
    labels = labels_of(Results("b2", "vpc2024", figures), OFFICIAL)
    assert (labels.original, labels.anonymized) == ("campplus", "resnet34:x")
    with_ecapa = (
        *figures,
        eer("ecapa:y (semi-informed)", "aa", 0.2, encoder="ecapa"),
        eer("ecapa:z (ignorant)", "oa", encoder="ecapa"),
    )
    labels = labels_of(Results("b2", "vpc2024", with_ecapa), OFFICIAL)
    assert (labels.original, labels.anonymized) == ("ecapa:z", "ecapa:y")


def test_untrained_attackers_are_never_named_asv_eval_anon() -> None:
    figures = (eer("campplus (lazy-informed)", "aa"), eer("mine (similar-system)", "aa"))
    results = Results("b2", "vpc2024", figures, {"notes": ["missing: x"]})
    labels = labels_of(results, OFFICIAL)
    assert labels.anonymized == ""
    assert [(f.attacker, f.metric) for f in as_published(results, labels).figures] == [
        ("ASV_eval", "eer_rocch"),
        ("ASV_eval", "eer"),
    ]
    assert as_published(results, labels).find("eer")[0].value == pytest.approx(0.101)
    note = note_text(results, labels, "VoicePrivacy 2024 Challenge", OFFICIAL)
    assert "ASV_eval^anon: nobody." in note
    assert note.endswith("Of the data:\n- missing: x\n")


def test_transcripts_are_written_as_by_the_scripts_of_2024(tmp_path: Path) -> None:
    errors = word_errors({"b": "THE CAT SAT", "a": "ON A MAT"}, {"b": "THE HAT SAT DOWN", "a": ""})
    assert text_of(errors) == "a\nb THE HAT SAT DOWN\n"
    assert wer_text(errors).splitlines() == [
        "%WER 83.33 [ 5 / 6, 1 ins, 3 del, 1 sub ]",
        "%SER 100.00 [ 2 / 2 ]",
        "Scored 2 sentences, 0 not present in hyp.",
        "=" * 80,
        "ALIGNMENTS",
        "=" * 80,
        "b, %WER 66.67 [ 2 / 3, 1 ins, 0 del, 1 sub ]",
        "THE ; CAT ; SAT ; <eps>",
        " =  ;  S  ;  =  ;   I  ",
        "THE ; HAT ; SAT ;  DOWN",
        "=" * 80,
        "a, %WER 100.00 [ 3 / 3, 0 ins, 3 del, 0 sub ]",
        "  ON  ;   A   ;  MAT ",
        "  D   ;   D   ;   D  ",
        "<eps> ; <eps> ; <eps>",
    ]
    path = tmp_path / "wer"
    path.write_text(wer_text(errors))
    assert parse_wer(path)[1:] == (5, 6)
    path.write_text("%WER 10.00 [ 5 / 6, 1 ins, 3 del, 1 sub ]\n")
    with pytest.raises(InputError, match=r"wer:1: 5 errors in 6 words is not a WER of 10\.00%"):
        parse_wer(path)
    path.write_text("WER 10\n")
    with pytest.raises(InputError, match="not a WER"):
        parse_wer(path)
