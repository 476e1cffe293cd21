"""A submission from end to end: evaluate, pack, check; then whatever is tampered with is found and named."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voiceveil as vv
from tests.support.evaluations import settings_for
from tests.support.small_challenge import ATTACKERS, SETS, make_challenge
from voiceveil import metrics
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.evaluation.evaluate import evaluate, prepare
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.protocol_writer import protocol_text
from voiceveil.evaluation.results import Results
from voiceveil.official import read_results
from voiceveil.official.submission.checking import SubmissionReport, check
from voiceveil.official.submission.packing import pack
from voiceveil.official.tree import write_tree

pytestmark = pytest.mark.slow  # for its fixtures

Members = dict[str, bytes]
INNER = "exp/results_summary/result_for_submission_b2.zip"
RANK = "exp/results_summary/result_for_rank_b2"
SUMS = "exp/results_summary/SHA256SUMS_b2"
ATTACK = "exp/asv_anon_b2/libri_dev_enrolls_b2-libri_dev_trials_f_b2"
WAV = "data/libri_dev_trials_f_b2/wav"


OPTIONS: dict[str, Any] = {"recognizers": ["counter"], "seed": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_challenge(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def out(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    settings = settings_for(data, out, attackers=ATTACKERS, **OPTIONS)
    evaluate(prepare(settings, system=vv.system("b2")), exports=(write_tree,))
    return out


@pytest.fixture(scope="module")
def members(out: Path) -> Members:
    """The archive taken apart: the zip file inside is among the names, below exp/ like the rest."""
    found: Members = {}
    with tarfile.open(pack(out, unofficial=True).archive) as tar:
        for header in tar.getmembers():
            content = tar.extractfile(header)
            assert content is not None
            found[header.name.removeprefix("unofficial/")] = content.read()
    with zipfile.ZipFile(io.BytesIO(found[INNER])) as archive:
        found |= {info.filename.removeprefix("unofficial/"): archive.read(info) for info in archive.infolist()}
    return found


def build(path: Path, members: Members, order: Callable[[list[str]], list[str]] = sorted) -> Path:
    """An archive of these members; the zip file inside is made anew from the results."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            if name.startswith("exp/") and name not in (INNER, SUMS):
                archive.writestr(name, content)
    outer = {n: c for n, c in members.items() if n.startswith("data/") or n in (RANK, SUMS) or "/" not in n}
    if any(name.startswith("exp/") for name in members):
        outer[INNER] = inner.getvalue()
    with gzip.open(path, "wb") as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for name in order(list(outer)):
            header = tarfile.TarInfo(name)
            header.size = len(outer[name])
            tar.addfile(header, io.BytesIO(outer[name]))
    return path


def test_evaluate_pack_and_check_by_the_command_line(
    data: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "mine.tar.gz"
    assert main(["submit", str(out), "--out", str(archive), "--unofficial", "--quiet"]) == 0
    assert "train-clean-360: 4 utterances" in capsys.readouterr().out
    assert main(["submit", "--check", str(archive), "--data", str(data), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "libri_dev_trials_f: 12 of 12 utterances" in said
    assert "80 stated numbers compared" in said
    assert said.endswith("mine.tar.gz: good\n")
    assert main(["submit", "--check", str(archive), "--data", str(data), "--quiet", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["good"] is True
    assert verdict["suffix"] == "_b2"
    assert verdict["notes"] == [
        "the names of the members say that the evaluators are not the challenge's own: unofficial"
    ]


def test_archives_are_reproducible_and_name_no_user(out: Path, tmp_path: Path) -> None:
    first, second = (pack(out, tmp_path / name, unofficial=True) for name in ("a.tar.gz", "b.tar.gz"))
    assert first.sha256 == second.sha256
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        headers = tar.getmembers()
    assert {(h.uname, h.gname, h.uid, h.mode, h.mtime) for h in headers} == {("", "", 0, 0o644, 315532800)}
    assert all(h.name.startswith("unofficial/") for h in headers)
    names = [h.name.removeprefix("unofficial/") for h in headers]
    assert names[:2] == [RANK, INNER]
    assert names[2:-1] == sorted(names[2:-1])
    assert {name.split("/")[1].removesuffix("_b2") for name in names if name.startswith("data/")} == set(SETS)


def test_sets_of_a_protocol_of_ones_own_are_checked(
    data: Path, members: Members, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A protocol without emotions does not miss them in an archive."""
    vpc2024 = load_protocol("vpc2024")
    own = replace(vpc2024, metrics=("eer", "wer"), emotion=(), ranking=None)
    (tmp_path / "own.toml").write_text(protocol_text(own))
    archive = build(tmp_path / "x.tar.gz", {name: text for name, text in members.items() if "IEMOCAP" not in name})
    command = ["submit", "--check", str(archive), "--data", str(data), "--quiet"]
    assert main(command) == 1
    assert "data/IEMOCAP_dev_b2: the whole set is missing" in capsys.readouterr().out
    main([*command, "--protocol", str(tmp_path / "own.toml")])
    assert "IEMOCAP_dev_b2: the whole set is missing" not in capsys.readouterr().out


def test_order_of_members_is_free(data: Path, members: Members, tmp_path: Path) -> None:
    path = build(tmp_path / "a.tar.gz", members, order=lambda names: sorted(names, reverse=True))
    assert check(path, data).faults == ()


def faults(path: Path, data: Path, **options: bool) -> list[str]:
    return [str(fault) for fault in check(path, data, **options).faults]  # type: ignore[arg-type]


def changed(members: Members, **contents: bytes) -> Members:
    return {**members, **contents}


def resampled(content: bytes) -> bytes:
    """The same samples under the name of another rate."""
    return content[:24] + (8000).to_bytes(4, "little") + content[28:]


def edited(members: Members, name: str, old: str, new: str) -> Members:
    text = members[name].decode()
    assert text.count(old) >= 1, (name, old)
    return {**members, name: text.replace(old, new, 1).encode()}


def shift_first_score(members: Members) -> Members:
    """Give the first target trial the lowest score of all."""
    lines = members[f"{ATTACK}/scores"].decode().splitlines()
    speaker, utterance, _ = lines[0].split()
    return {**members, f"{ATTACK}/scores": "\n".join([f"{speaker} {utterance} -1.0", *lines[1:]]).encode() + b"\n"}


def constant_scores(members: Members) -> Members:
    """Invent one score for all trials."""
    lines = [" ".join([*line.split()[:2], "0.5"]) for line in members[f"{ATTACK}/scores"].decode().splitlines()]
    return {**members, f"{ATTACK}/scores": "\n".join(lines).encode() + b"\n"}


def rescored(members: Members, change: Callable[[int, float], object]) -> Members:
    """Change each score of the attack, by its number and value."""
    rows = [line.split() for line in members[f"{ATTACK}/scores"].decode().splitlines()]
    lines = [f"{speaker} {name} {change(i, float(score))}" for i, (speaker, name, score) in enumerate(rows)]
    return {**members, f"{ATTACK}/scores": "\n".join(lines).encode() + b"\n"}


def without(members: Members, *names: str) -> Members:
    return {name: content for name, content in members.items() if name not in names}


def swapped(members: Members, one: str, other: str) -> Members:
    return {**members, one: members[other], other: members[one]}


A, B = f"{WAV}/10-103-0000.wav", f"{WAV}/10-103-0001.wav"


@pytest.mark.parametrize(
    ("tamper", "expected"),
    [
        (lambda m: without(m, A), [f"{A}: is missing"]),
        (lambda m: {**m, A: resampled(m[A])}, [f"{A}: 8000 Hz instead of 16000 Hz"]),
        (lambda m: {**m, A: m[A][:-20]}, [f"{A}: truncated: 20 of 16000 bytes are missing"]),
        (lambda m: {**m, A: m[A][:44] + bytes(len(m[A]) - 44)}, [f"{A}: silent"]),
        (lambda m: {**m, A: b"not audio"}, [f"{A}: not a wav file"]),
        (lambda m: swapped(m, A, B), [f"{A}: holds the audio of {B}", f"{B}: holds the audio of {A}"]),
        (lambda m: {**m, A: m[B]}, [f"{A}: holds the audio of {B}", f"{B}: the same audio as {A}"]),
        (lambda m: {**m, f"{WAV}/x.wav": m[A]}, [f"{WAV}/x.wav: x is no utterance of libri_dev_trials_f"]),
        (lambda m: {**m, f"{WAV}/sub/10-103-0000.wav": m[B]}, ["10-103-0000 is there twice, also as"]),
        (constant_scores, [f"{ATTACK}/scores: All scores are equal. All 48 scores are 0.5."]),
        (
            lambda m: rescored(m, lambda i, score: score if i % 3 == 0 else 0.5),
            [f"{ATTACK}/scores: ", "of 48 scores (67%) are 0.5"],
        ),
        (lambda m: rescored(m, lambda i, score: -score), [f"{ATTACK}/scores: ", "The EER is 76"]),
        (lambda m: rescored(m, lambda i, score: "nan"), [f"{ATTACK}/scores: line 1: not a score: 'nan'"]),
        (shift_first_score, [f"{ATTACK}/EER: says", "results_b2.csv: says EER", f"{RANK}: says EER"]),
        (
            lambda m: {**m, f"{ATTACK}/EER": b"0.45"},
            [f"{ATTACK}/EER: says 0.450000, the scores give 0.236111"],
        ),
        (
            lambda m: edited(m, RANK, "23.611", "33.611"),
            [f"{RANK}: says EER 33.611% for libri_dev f aa, the scores give 23.611%"],
        ),
        (
            lambda m: edited(m, RANK, "84.167", "14.167"),
            [f"{RANK}: says WER 14.167% for libri_dev a, the transcripts give 84.167%"],
        ),
        (
            lambda m: edited(m, RANK, "58.3333", "68.3333"),
            [f"{RANK}: says UAR 68.333% for IEMOCAP_dev a, the folds give 58.333%"],
        ),
        (
            lambda m: edited(m, "exp/asr/libri_dev_asr_b2/wer", "84.17 [ 101 /", "0.83 [ 1 /"),
            ["exp/asr/libri_dev_asr_b2/wer: says 1 errors in 120 words, the transcripts give 101 in 120"],
        ),
        (
            lambda m: edited(m, "exp/asr/libri_dev_asr_b2/text", "10-103-0001 ", "10-103-9999 "),
            ["exp/asr/libri_dev_asr_b2/text: utterance '10-103-0001' has no hypothesis"],
        ),
        (
            lambda m: {**m, f"{ATTACK}/scores": b"\n".join(m[f"{ATTACK}/scores"].splitlines()[1:])},
            [f"{ATTACK}/scores: 1 trial(s) have no score, the first is '10 10-103-0000'"],
        ),
        (lambda m: without(m, f"{ATTACK}/scores", f"{ATTACK}/EER"), ["exp/asv_anon_b2: no scores for EER libri_dev f"]),
        (lambda m: without(m, RANK), [f"{RANK}: is missing"]),
        (lambda m: {**m, "virus.exe": b"MZ"}, ["virus.exe: no part of a submission"]),
        (lambda m: {**m, "more.zip": b"PK"}, ["more.zip: an archive in the archive, which is not opened"]),
        (lambda m: {**m, "data/mine_b2/wav/a.wav": b""}, ["data/mine_b2/wav/a.wav: no set of the challenge"]),
        (
            lambda m: {**m, "data/libri_dev_enrolls_b3/wav/a.wav": b""},
            ["data/libri_dev_enrolls_b3/wav/a.wav: has the suffix '_b3', others have '_b2'"],
        ),
    ],
)
def test_tampering_is_reported(
    data: Path, members: Members, tmp_path: Path, tamper: Callable[[Members], Members], expected: list[str]
) -> None:
    found = faults(build(tmp_path / "a.tar.gz", tamper(members)), data)
    for line in expected:
        assert any(line in fault for fault in found), found


def test_messages_have_no_control_characters(data: Path, members: Members, tmp_path: Path) -> None:
    spoiled = edited(members, RANK, "libri   dev      f   original", "l\x1b[2Ji  dev      f   original")
    verdict = check(build(tmp_path / "a.tar.gz", spoiled), data)
    said = [*map(str, verdict.faults), *verdict.notes]
    assert any("l\\x1b[2Ji_dev" in line for line in said)
    assert all(line.isprintable() for line in said)


def test_oversized_result_files_are_rejected(
    data: Path, members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build(tmp_path / "a.tar.gz", members)
    monkeypatch.setattr("voiceveil.official.submission.contents._ALL_RESULTS", 10_000)
    with pytest.raises(InputError, match=r"exp/\S+: with it there are more than 10000 bytes of results"):
        check(path, data)


def test_swapped_files_of_different_lengths_are_found_without_checksums(
    data: Path, members: Members, tmp_path: Path
) -> None:
    longer = f"{WAV}/11-103-0002.wav"
    theirs = without(swapped(members, A, longer), SUMS)
    verdict = check(build(tmp_path / "a.tar.gz", theirs), data)
    assert [str(fault) for fault in verdict.faults] == [
        f"{A}: 0.75 s long, the original has 0.50 s",
        f"{longer}: 0.50 s long, the original has 0.75 s",
    ]
    assert any("no SHA256SUMS" in note for note in verdict.notes)


def test_differing_outer_summary_is_a_fault(data: Path, members: Members, tmp_path: Path) -> None:
    path = build(tmp_path / "a.tar.gz", members)
    with tarfile.open(path) as tar:
        kept = {h.name: tar.extractfile(h).read() for h in tar.getmembers()}  # type: ignore[union-attr]
    kept[RANK] = kept[RANK].replace(b"23.611", b"43.611")
    with tarfile.open(path, "w:gz") as tar:
        for name, content in kept.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    assert f"{RANK}: is there twice, outside and inside the zip file, and differs" in faults(path, data)


def test_the_official_archive_has_no_scores_of_original_speech(data: Path, members: Members, tmp_path: Path) -> None:
    """The challenge's own script packs only what ends in the suffix; what cannot be recomputed is said."""
    names = [n for n in members if n.startswith("exp/asv_orig/") and not n.split("/")[2].endswith(("_b2", ".csv"))]
    assert len(names) == 8
    verdict = check(build(tmp_path / "a.tar.gz", without(members, *names)), data)
    assert verdict.is_good
    assert any("could not be recomputed, e.g. eer" in note for note in verdict.notes)


def test_partial_submission_needs_the_option(data: Path, members: Members, tmp_path: Path) -> None:
    part = {n: c for n, c in members.items() if "train-clean-360" not in n and "libri_test" not in n.split("/")[1]}
    path = build(tmp_path / "a.tar.gz", part)
    found = faults(path, data)
    assert any(f.startswith("data/train-clean-360_b2: the whole set is missing") for f in found)
    assert any("data/libri_test_trials_f_b2: the whole set is missing" in f for f in found)
    verdict = check(path, data, partial=True)
    assert verdict.is_good
    assert "data/train-clean-360_b2: the whole set is missing" in verdict.notes


def test_sets_without_originals_are_skipped_in_partial_checks(data: Path, members: Members, tmp_path: Path) -> None:
    dev = tmp_path / "data"
    for name in ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m"):
        shutil.copytree(data / name, dev / name)
    path = build(tmp_path / "a.tar.gz", members)
    verdict = check(path, dev, partial=True)
    assert verdict.is_good
    assert "data/IEMOCAP_dev_b2: in the archive, but not checked: the original set is not at hand" in verdict.notes
    assert not check(path, dev).is_good


def test_zip_file_with_results_only_is_checked(data: Path, members: Members, tmp_path: Path) -> None:
    path = tmp_path / "results.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            if name.startswith("exp/") and name not in (INNER, SUMS):
                archive.writestr(name, content)
    verdict = check(path, data, partial=True)
    assert verdict.is_good
    assert verdict.recomputed == 80


def test_command_rejects_hostile_archives(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evil.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        header = tarfile.TarInfo("data/../../../etc/passwd")
        header.size = 1
        tar.addfile(header, io.BytesIO(b"x"))
    assert main(["submit", "--check", str(path), "--data", str(data)]) == 1
    said = capsys.readouterr().err
    assert said == (
        f"voiceveil submit: {path}: 'data/../../../etc/passwd': a path that leads out of the archive "
        "(pack paths without `..`)\n"
    )


def packing_fault(out: Path, tmp_path: Path, spoil: Callable[[Path], None]) -> str:
    copy = tmp_path / "out"
    shutil.copytree(out, copy)
    spoil(copy)
    with pytest.raises(InputError) as error:
        pack(copy, tmp_path / "a.tar.gz", unofficial=True)
    assert not (tmp_path / "a.tar.gz").exists()
    return str(error.value)


def _other_protocol(copy: Path) -> None:
    results = Results.load(copy / "results.json")
    info = {key: value for key, value in results.info.items() if key != "protocol"}
    Results(results.system, "vpc2020", results.figures, info).save(copy / "results.json", overwrite=True)


def _other_rate(copy: Path) -> None:
    path = copy / "data/libri_dev_trials_f_b2/wav/10-103-0000.wav"
    path.write_bytes(resampled(path.read_bytes()))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: (c / "results.json").unlink(), "a half-finished evaluation: no results.json yet"),
        (lambda c: shutil.rmtree(c / "data/train-clean-360_b2"), "not a whole submission: there is no train-clean-360"),
        (
            _other_protocol,
            "results of vpc2020; archives have the layout of the 2022, 2024 or 2026 challenge (evaluate with",
        ),
        (_other_rate, "data/libri_dev_trials_f_b2/wav/10-103-0000.wav: 8000 Hz instead of 16000 Hz"),
        (lambda c: (c / f"{ATTACK}/scores").unlink(), "a file of the results is missing"),
        (lambda c: (c / "data/IEMOCAP_dev_b2/wav/70-ang.wav").unlink(), "no such audio file"),
    ],
)
def test_unpackable_folders_are_rejected(
    out: Path, tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    assert message in packing_fault(out, tmp_path, spoil)


def test_invalid_usage_is_explained(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit"]) == 1
    assert "give either a folder of results or --check ARCHIVE" in capsys.readouterr().err
    assert main(["submit", "--check", "x.tar.gz"]) == 1
    assert "give their folder: --data DATA" in capsys.readouterr().err
    assert main(["submit", "--check", str(tmp_path / "none.tar.gz"), "--data", str(data)]) == 1
    assert "none.tar.gz: no such file" in capsys.readouterr().err


def test_archive_does_not_replace_a_file(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.tar.gz"
    mine.write_text("mine")
    command = ["submit", str(out), "--partial", "--unofficial", "--quiet", "--out"]
    assert main([*command, str(mine)]) == 1
    assert f"{mine}: this file exists (give another output, or --overwrite" in capsys.readouterr().err
    assert mine.read_text() == "mine"
    assert main([*command, str(mine), "--overwrite"]) == 0
    for name in ("results.json", "data/libri_dev_trials_f_b2/wav.scp"):
        before = (out / name).read_bytes()
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").hardlink_to(out / name)
        for target in (out / name, tmp_path / "link"):
            assert main([*command, str(target), "--overwrite"]) == 1
            assert "would replace the input" in capsys.readouterr().err
        assert (out / name).read_bytes() == before


def test_official_files_equal_results_json(out: Path) -> None:
    """Each figure of the summary is one of results.json, under the name that the note explains."""
    results = Results.load(out / "results.json")
    names = results.info["official"]["names"]
    summary = read_results(out / RANK)
    assert len(summary.figures) == 4 + 4 + 4 + 4
    for figure in summary.find("eer"):
        (ours,) = [
            f
            for f in results.find("eer", dataset=figure.dataset, gender=figure.gender, condition=figure.condition)
            if f.attacker == names[figure.attacker]
        ]
        assert figure.value == pytest.approx(ours.detail["official"]["eer"], abs=5.1e-6)
    for metric in ("wer", "uar"):
        for figure in summary.find(metric):
            ours = results.one(metric, dataset=figure.dataset, condition=figure.condition)
            assert figure.value == pytest.approx(ours.value, abs=5.1e-6)
    note = (out / "exp/results_summary/NOTE_b2.txt").read_text()
    assert "ASV_eval^anon: bumps-anon; in the challenge: an ECAPA-TDNN" in note
    assert sorted(map(str, results.info["official"]["files"])) == sorted(
        path.relative_to(out).as_posix() for path in (out / "exp").rglob("*") if path.is_file()
    )


def test_official_scores_give_the_official_eer(out: Path, data: Path) -> None:
    """By the obvious definition: the threshold at which misses and false alarms are closest."""
    folder = out / "exp/asv_orig/libri_dev_enrolls-libri_dev_trials_f"
    labels = [line.split()[2] for line in (data / "libri_dev_trials_f/trials").read_text().splitlines()]
    lines = [line.split() for line in (folder / "scores").read_text().splitlines()]
    score = np.array([float(line[2]) for line in lines])
    target = np.array(labels) == "target"
    assert float((folder / "EER").read_text()) == metrics.eer(score[target], score[~target], method="speechbrain")
    unique = np.unique(score)
    thresholds = np.sort(np.concatenate([unique, (unique[1:] + unique[:-1]) / 2]))
    rates = [((score[~target] > t).mean(), (score[target] <= t).mean()) for t in thresholds]
    alarm, miss = min(rates, key=lambda pair: abs(pair[0] - pair[1]))
    assert float((folder / "EER").read_text()) == pytest.approx((alarm + miss) / 2, abs=1e-7)  # float32, as theirs


def test_verdict_can_be_written_as_json() -> None:
    verdict = SubmissionReport("a", "_b2", {"x": (1, 2)}, 0.5, 3, (), ())
    assert json.loads(json.dumps(verdict.as_dict()))["sets"] == {"x": [1, 2]}
