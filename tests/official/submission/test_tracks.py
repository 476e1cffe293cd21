"""Submissions to track 2 of 2026, whose languages are evaluated one by one, and to track 1 with the trials of June."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.official.submission.test_editions import evaluated, repacked, unpacked
from tests.support.small_challenge import make_challenge, make_mixed
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus, write_kaldi
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.official import read_results
from voiceveil.official.submission.checking import check
from voiceveil.official.submission.packing import pack

pytestmark = pytest.mark.slow  # it evaluates

HOME = "exp/results_summary/track2"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Development sets of two languages, the emotions of track 2, and the pooled trials of track 1."""
    small, data = (
        make_challenge(tmp_path_factory.mktemp("small"), only=("dev", "emotion")),
        tmp_path_factory.mktemp("d"),
    )
    make_mixed(small, "dev")
    for language in ("de", "es"):
        for part in ("enrolls", "trials_mixed"):
            corpus = open_corpus(small / f"libri_dev_{part}")
            write_kaldi(replace(corpus, name=f"{language}_dev_{part}"), data / f"{language}_dev_{part}")
    for split in ("dev", "test"):
        name = f"emodata_track2_{split}"
        write_kaldi(replace(open_corpus(small / f"IEMOCAP_{split}"), name=name), data / name)
    enroll, trials = (open_corpus(small / f"libri_dev_{part}") for part in ("enrolls", "trials_mixed"))
    gender = {str(u.speaker): u.gender for u in enroll}
    listed = trials.trials
    assert listed is not None
    same = np.array([gender[s] == trials[u].gender for s, u in zip(listed.enroll, listed.utterance, strict=True)])
    write_kaldi(enroll, data / "libri_dev_enrolls")
    pooled = "libri_dev_trials_pooled"
    write_kaldi(replace(trials, name=pooled, trials=listed[same]), data / pooled)
    return data


@pytest.fixture(scope="module")
def languages(data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [evaluated(data, tmp_path_factory.mktemp(name), f"vpc2026-{name}", "b2") for name in ("de", "es")]


@pytest.fixture(scope="module")
def pooled(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluated(data, tmp_path_factory.mktemp("pooled"), "vpc2026-pooled", "b2")


def test_protocol_of_all_languages_is_the_union_of_each() -> None:
    whole = load_protocol("vpc2026-track2")
    parts = [load_protocol(f"vpc2026-{code}") for code in ("en", "de", "es", "fr")]
    assert whole.verification == tuple(v for part in parts for v in part.verification)
    assert whole.recognition == tuple(r for part in parts for r in part.recognition)
    assert all(part.emotion == whole.emotion and part.official == whole.official for part in parts)
    assert whole.training is not None
    assert whole.training.sets == tuple(part.training.set for part in parts if part.training is not None)
    assert set(whole.roles()) == {name for part in parts for name in part.roles()}


def test_language_writes_the_files_of_track_2(languages: list[Path]) -> None:
    summary = read_results(languages[0] / HOME / "result_for_rank_b2")
    assert summary.protocol == "vpc2026-de"
    assert {(f.dataset, f.gender, f.attacker) for f in summary.find("eer")} == {
        ("de_dev", "", "ASV_eval"), ("de_dev", "", "ASV_eval^anon"),
    }  # fmt: skip
    assert {f.dataset for f in summary.find("uar")} == {"emodata_track2_dev", "emodata_track2_test"}
    text = (languages[0] / HOME / "result_for_rank_b2").read_text()
    assert re.search(r"^0 +de +dev +original", text, re.MULTILINE)  # rows of words are numbered from 0
    note = (languages[0] / HOME / "NOTE_b2.txt").read_text()
    assert "track 2, German" in note
    assert "in the challenge: Whisper large v3" in note


def test_languages_are_packed_and_checked_together(
    data: Path, languages: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = str(tmp_path / "a.tar.gz")
    command = ["submit", *map(str, languages), "--partial", "--unofficial", "--quiet", "--out", archive]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "es_dev_trials_mixed: 24 utterances" in said
    assert "train_french: MISSING" in said
    members = unpacked(archive)
    rank = members[f"unofficial/{HOME}/result_for_rank_b2"]
    (tmp_path / "result_for_rank_b2").write_bytes(rank)
    whole = read_results(tmp_path / "result_for_rank_b2")
    assert whole.protocol == "vpc2026-track2"
    assert {f.dataset for f in whole.find("wer")} == {"de_dev", "es_dev"}
    alone = [read_results(out / HOME / "result_for_rank_b2") for out in languages]
    for metric in ("eer", "wer"):
        assert sorted(map(str, whole.find(metric))) == sorted(str(f) for own in alone for f in own.find(metric))
    assert list(map(str, whole.find("uar"))) == list(map(str, alone[0].find("uar")))  # those of the first language
    with zipfile.ZipFile(io.BytesIO(members[f"unofficial/{HOME}/result_for_submission_b2.zip"])) as inner:
        names = inner.namelist()
        table = inner.read("unofficial/exp/asr/results_b2.csv").decode()
    assert {f"unofficial/{HOME}/results_b2_vpc2026-{code}.json" for code in ("de", "es")} <= set(names)
    assert {line.split(",")[1] for line in table.splitlines()[1:]} == {"de", "es"}
    check_it = [
        "submit",
        "--check",
        archive,
        "--data",
        str(data),
        "--protocol",
        "vpc2026-track2",
        "--partial",
        "--quiet",
    ]
    assert main(check_it) == 0, capsys.readouterr().out
    assert "emodata_track2_dev: " in capsys.readouterr().out
    members[f"unofficial/{HOME}/result_for_rank_b2"] = re.sub(
        rb"(es +dev +mixed +anon +anon +)[0-9.]+", rb"\g<1>49.999", rank
    )
    report = check(repacked(tmp_path / "b.tar.gz", members), data, protocol="vpc2026-track2", partial=True)
    assert any("differs" in str(fault) or "says EER 49.999% for es_dev aa" in str(fault) for fault in report.faults)


def test_one_language_is_not_a_whole_submission(languages: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a whole submission: there is no"):
        pack(languages[0], tmp_path / "a.tar.gz", unofficial=True)
    packed = pack(languages[0], partial=True, unofficial=True)
    assert Path(packed.archive).name == "unofficial_submission_track2_b2.tar.gz"


def test_evaluations_that_do_not_belong_together_are_refused(
    languages: list[Path], pooled: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="a second evaluation of vpc2026-de"):
        pack([languages[0], languages[0]], tmp_path / "a.tar.gz", partial=True, unofficial=True)
    for several in ([languages[0], pooled], [pooled, languages[0]]):
        with pytest.raises(InputError, match="several evaluations"):
            pack(several, tmp_path / "a.tar.gz", partial=True, unofficial=True)


def test_pooled_trials_are_packed_under_the_names_of_the_challenge(data: Path, pooled: Path, tmp_path: Path) -> None:
    """The organizers call the trials of June as those of September; the note tells which they are."""
    packed = pack(pooled, tmp_path / "a.tar.gz", partial=True, unofficial=True)
    members = unpacked(packed.archive)
    assert {name.split("/")[2] for name in members if "/data/" in name} >= {"libri_dev_trials_mixed_b2"}
    report = check(packed.archive, data, protocol="vpc2026-pooled", partial=True)
    assert report.faults == ()
    assert report.sets["libri_dev_trials_mixed"] == (24, 24)
    assert report.recomputed >= 4
    assert "pooled trials of June" in (pooled / "exp/results_summary/track1/NOTE_b2.txt").read_text()
