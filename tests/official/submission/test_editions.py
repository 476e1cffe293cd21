"""Submissions of 2022 and 2026 from end to end, and the rule that stand-ins are not packed as official evaluators."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import voiceveil as vv
from tests.support.evaluations import settings_for
from tests.support.small_challenge import ATTACKERS, make_challenge, make_mixed
from voiceveil.apps.board.contest import Contest
from voiceveil.apps.board.entries import board_entries
from voiceveil.apps.board.scoring import score_submission
from voiceveil.apps.board.store import Store
from voiceveil.apps.web.database import open_database
from voiceveil.cli.main import main
from voiceveil.evaluation.evaluate import evaluate, prepare
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.protocol_writer import protocol_text
from voiceveil.official import read_results
from voiceveil.official.submission.checking import check
from voiceveil.official.submission.packing import pack
from voiceveil.official.tree import write_tree

pytestmark = pytest.mark.slow  # for its fixtures

OPTIONS: dict[str, Any] = {"recognizers": ["counter"], "seed": 1}
Members = dict[str, bytes]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Development sets of 2022 (without VCTK) and of 2026."""
    data = make_challenge(tmp_path_factory.mktemp("data"), only=("dev", "emotion"))
    make_mixed(data, "dev")
    return data


def evaluated(data: Path, out: Path, protocol: str, system: str) -> Path:
    settings = settings_for(data, out, protocol, attackers=ATTACKERS, **OPTIONS)
    evaluate(prepare(settings, system=vv.system(system)), exports=(write_tree,))
    return out


@pytest.fixture(scope="module")
def of_2026(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluated(data, tmp_path_factory.mktemp("out"), "vpc2026", "b2")


@pytest.fixture(scope="module")
def of_2022(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluated(data, tmp_path_factory.mktemp("out"), "vpc2022", "b2-2022")


def unpacked(archive: str) -> Members:
    with tarfile.open(archive) as tar:
        return {header.name: tar.extractfile(header).read() for header in tar.getmembers()}  # type: ignore[union-attr]


def repacked(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    return path


def test_edition_2026_writes_its_own_files(of_2026: Path) -> None:
    """Mixed genders; the block ASV_eval holds the lazy-informed attacker, not original speech."""
    folder = of_2026 / "exp" / "results_summary" / "track1"
    text = (folder / "result_for_rank_b2").read_text()
    rows = [line.split() for line in text.splitlines() if " mixed " in line]
    assert [row[1:6] for row in rows] == 2 * [["libri", "dev", "mixed", "anon", "anon"]]
    summary = read_results(folder / "result_for_rank_b2")
    assert summary.protocol == "vpc2026"
    assert {(f.attacker, f.knowledge, f.condition) for f in summary.find("eer")} == {
        ("ASV_eval", "lazy-informed", "aa"),
        ("ASV_eval^anon", "semi-informed", "aa"),
    }
    assert {f.gender for f in summary.find("eer")} == {""}
    assert len(summary.find("wer")) == len(summary.find("uar")) / 2 == 2
    assert (of_2026 / "exp/asv_ssl/libri_dev_enrolls_b2-libri_dev_trials_mixed_b2/scores").exists()
    assert (of_2026 / "exp/asv_anon_b2/results_b2.csv").exists()
    assert (folder / "NOTE_b2.txt").exists()


def test_edition_2026_is_packed_and_checked(data: Path, of_2026: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", str(of_2026), "--partial", "--unofficial", "--quiet"]) == 0
    archive = of_2026 / "unofficial_submission_track1_b2.tar.gz"
    members = unpacked(str(archive))
    home = "unofficial/exp/results_summary/track1"
    assert f"{home}/result_for_rank_b2" in members
    assert any(name.startswith("unofficial/data/libri_dev_trials_mixed_b2/wav/") for name in members)
    with zipfile.ZipFile(io.BytesIO(members[f"{home}/result_for_submission_b2.zip"])) as inner:
        assert all(name.startswith("unofficial/exp/") for name in inner.namelist())
    capsys.readouterr()
    command = ["submit", "--check", str(archive), "--data", str(data), "--protocol", "vpc2026", "--partial", "--quiet"]
    assert main(command) == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    assert "libri_dev_trials_mixed: 24 of 24 utterances" in said
    assert "unofficial" in said


def test_edition_2026_check_finds_false_figures(data: Path, of_2026: Path, tmp_path: Path) -> None:
    members = unpacked(pack(of_2026, tmp_path / "a.tar.gz", partial=True, unofficial=True).archive)
    name = "unofficial/exp/results_summary/track1/result_for_rank_b2"
    members[name] = re.sub(rb"(mixed +anon +anon +)[0-9.]+", rb"\g<1>49.999", members[name])
    report = check(repacked(tmp_path / "b.tar.gz", members), data, protocol="vpc2026", partial=True)
    assert any("says EER 49.999% for libri_dev aa, the scores give" in str(fault) for fault in report.faults)


def test_edition_2022_is_packed_and_checked(data: Path, of_2022: Path, tmp_path: Path) -> None:
    """Both folders of results, and the audio of development and test sets without the training set."""
    packed = pack(of_2022, tmp_path / "a.tar.gz", partial=True, unofficial=True)
    assert "train-clean-360-asv" not in packed.missing
    members = unpacked(packed.archive)
    tops = {"/".join(name.split("/")[1:3]) for name in members if name.startswith("unofficial/exp/")}
    assert len(tops) == 2
    assert {top + ".orig" for top in tops} & tops
    assert {name.split("/")[2] for name in members if "/data/" in name} == {
        "libri_dev_enrolls_anon", "libri_dev_trials_f_anon", "libri_dev_trials_m_anon",
    }  # fmt: skip
    report = check(packed.archive, data, protocol="vpc2022", partial=True)
    assert report.faults == ()
    assert report.recomputed >= 4
    assert not any("no SHA256SUMS" in note for note in report.notes)
    assert report.sets["libri_dev_trials_f"] == (12, 12)


def test_edition_2022_is_taken_by_a_board(data: Path, of_2022: Path, tmp_path: Path) -> None:
    """Scores of the semi-informed attacker; WER and pitch as results_summary.txt states them; marked as unofficial."""
    vpc2022 = load_protocol("vpc2022")
    own = replace(
        vpc2022,
        verification=tuple(part for part in vpc2022.verification if part.dataset == "libri_dev"),
        recognition=tuple(part for part in vpc2022.recognition if part.dataset == "libri_dev"),
    )
    (tmp_path / "own.toml").write_text(protocol_text(own))
    contest = Contest(str(tmp_path / "own.toml"), data, "dev", "t")
    archive = Path(pack(of_2022, tmp_path / "a.tar.gz", partial=True, unofficial=True).archive)
    scored = {(f.metric, f.gender): f for f in score_submission(contest, archive).figures}
    (summary,) = [path for path in of_2022.rglob("results_summary.txt") if ".orig" not in str(path)]
    stated = {(f.metric, f.gender): f.value for f in read_results(summary).figures if f.condition in ("aa", "a", "")}
    assert set(scored) == {
        ("eer", "f"),
        ("eer", "m"),
        ("wer", ""),
        ("pitch_correlation", "f"),
        ("pitch_correlation", "m"),
    }
    for key, figure in scored.items():
        assert figure.value == pytest.approx(stated[key], abs=6e-5)
        assert figure.detail["unofficial"]
    store = Store(open_database(tmp_path / "b.sqlite"))
    store.score(store.begin(contest, "A", "s"), "", list(scored.values()))
    (entry,) = board_entries(contest, store, 2e9).values()
    assert entry.status().startswith("evaluators other than the challenge's own")


def test_edition_2022_check_recomputes_eers_as_kaldi(data: Path, of_2022: Path, tmp_path: Path) -> None:
    members = unpacked(pack(of_2022, tmp_path / "a.tar.gz", partial=True, unofficial=True).archive)
    (name,) = [n for n in members if n.endswith("libri_dev_trials_f_anon/scores") and ".orig/" not in n]
    lines = members[name].decode().splitlines()
    members[name] = "\n".join(f"{' '.join(line.split()[:2])} {-float(line.split()[2])}" for line in lines).encode()
    report = check(repacked(tmp_path / "b.tar.gz", members), data, protocol="vpc2022", partial=True)
    assert any("results.txt: says EER" in str(fault) and "the scores give" in str(fault) for fault in report.faults)


def test_stand_ins_are_packed_only_as_unofficial(
    of_2026: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["submit", str(of_2026), "--out", str(tmp_path / "a.tar.gz"), "--partial", "--quiet"]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "figures that are not by the challenge's own evaluators: ASV_eval: bumps, ASV_eval^anon: bumps-anon" in said
    assert "ASR_eval: counter, SER_eval: functionals" in said
    assert "--unofficial" in said
    assert not (tmp_path / "a.tar.gz").exists()


def test_official_evaluators_are_packed_under_official_names(data: Path, tmp_path: Path) -> None:
    """A protocol says which models are the challenge's own."""
    vpc2024 = load_protocol("vpc2024")
    assert vpc2024.official is not None
    models = {"asv": ("bumps", "bumps-anon"), "asr": ("counter",), "ser": ("functionals",)}
    own = replace(vpc2024, official=replace(vpc2024.official, evaluators=models))
    (tmp_path / "own.toml").write_text(protocol_text(own))
    out = evaluated(data, tmp_path / "out", str(tmp_path / "own.toml"), "b2")
    packed = pack(out, partial=True)
    assert packed.archive == str(out / "submission_b2.tar.gz")
    assert not any(name.startswith("unofficial") for name in unpacked(packed.archive))
