"""Nothing of the user's is replaced or removed by `evaluate` and `report`: outputs in the data, edited files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.faults.runs import evaluating, tree
from voiceveil.cli.main import main
from voiceveil.corpus import open_corpus

IN_THE_WAY = "this file exists, and the run did not write it, or somebody has changed it since"


@pytest.fixture
def copied(data: Path, tmp_path: Path) -> Path:
    """The sets in a folder `data` that may be spoiled."""
    shutil.copytree(data, tmp_path / "data")
    for table in (tmp_path / "data").rglob("wav.scp"):
        table.write_text(table.read_text().replace(str(data), str(tmp_path / "data")))
    return tmp_path / "data"


def refused(place: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What is said; nothing below ``place`` has changed, and no file has come."""
    before, names = tree(place), sorted(place.rglob("*"))
    capsys.readouterr()
    assert main(command) == 1
    assert tree(place) == before
    assert sorted(place.rglob("*")) == names
    return capsys.readouterr().err


def with_anon(command: list[str], suffix: str) -> list[str]:
    """The evaluation of data that was anonymized already."""
    at = command.index("--system")
    return [*command[:at], "--anon", suffix, *command[at + 2 :]]


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_output_overlapping_the_data_is_rejected(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], overwrite: list[str]
) -> None:
    for name in ("libri_dev_enrolls", "libri_dev_trials_f"):  # the user's own, anonymized with b2
        assert main(["anonymize", str(copied / name), str(copied), "--system", "b2", "--seed", "5", "--quiet"]) == 0
    (copied / "libri_dev_trials_f_b2" / "utt2emo").write_text("1-1 ang\n")
    (tmp_path / "link").symlink_to(copied / "libri_dev_enrolls", target_is_directory=True)
    for out, what in {
        tmp_path: "the output folder holds the input",
        copied: "the output folder holds the input",
        copied / "libri_dev_enrolls": "the output is the input",
        copied / "libri_dev_enrolls" / "new": "lies inside the input",
        tmp_path / "link" / "new": "lies inside the input",
        copied / "audio": "holds the input",
    }.items():
        for command in (evaluating(copied, out), with_anon(evaluating(copied, out), "_b2")):
            assert what in refused(tmp_path, [*command, *overwrite], capsys)
    several = [*evaluating(copied, tmp_path), *overwrite]
    several[several.index("b2")] = "b2,d1"
    assert "holds the input" in refused(tmp_path, several, capsys)
    assert "lies inside" in refused(
        tmp_path, [*with_anon(evaluating(copied, copied / "libri_dev_trials_f_b2" / "x"), "_b2"), *overwrite], capsys
    )


@pytest.mark.parametrize(
    "name",
    [
        "results.json", "report.html", "details/libri_dev_trials_f.tsv", "scores/free-f0/libri_dev_trials_f.aa.scores",
        "data/libri_dev_trials_f_b2/wav/1-1.wav", "data/libri_dev_trials_f_b2/wav.scp",
        "data/libri_dev_enrolls_b2/text",
    ],
)  # fmt: skip
def test_foreign_file_stops_an_evaluation_before_it_begins(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    mine = tmp_path / "out" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    (tmp_path / "out" / "notes.txt").write_text("mine too")
    said = refused(tmp_path, evaluating(data, tmp_path / "out"), capsys)
    assert said.startswith(f"voiceveil evaluate: {mine}: ")
    assert IN_THE_WAY in said or name == "results.json"  # which is read before
    assert main([*evaluating(data, tmp_path / "out"), "--overwrite"]) == 0, capsys.readouterr().err
    assert not mine.exists() or mine.read_bytes() != b"mine"
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine too"


def test_second_evaluation_replaces_only_its_own_files(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(evaluating(data, out)) == 0
    before = tree(out)
    assert main(evaluating(data, out)) == 0
    assert main(["report", str(out)]) == 0
    assert tree(out) == before
    other_seed = evaluating(data, out)
    other_seed[other_seed.index("--seed") + 1] = "2"
    assert main(other_seed) == 0
    assert tree(out) != before
    for name in ("report.html", "results.json", next(iter(out.glob("exp/*/results.txt"))).relative_to(out).as_posix()):
        content = (out / name).read_bytes()
        (out / name).write_bytes(content + b"\n")
        assert "changed it since" in refused(tmp_path, evaluating(data, out), capsys)
        (out / name).write_bytes(content)
    (out / "report.html").write_text("mine")
    assert f"{out / 'report.html'}: {IN_THE_WAY}" in refused(tmp_path, ["report", str(out)], capsys)
    assert main(["report", str(out), "--overwrite"]) == 0
    assert main(["report", str(out)]) == 0, "it is recorded again"
    assert main([*evaluating(data, out), "--overwrite"]) == 0
    assert tree(out) == before


def test_externally_anonymized_data_is_unchanged(copied: Path, tmp_path: Path) -> None:
    for name in ("libri_dev_enrolls", "libri_dev_trials_f"):
        assert main(["anonymize", str(copied / name), str(copied), "--system", "b2", "--seed", "5", "--quiet"]) == 0
    (copied / "libri_dev_trials_f_b2" / "utt2emo").write_text(
        "".join(f"{u.id} ang\n" for u in open_corpus(copied / "libri_dev_trials_f_b2"))
    )
    before = tree(copied)
    command = with_anon(evaluating(copied, tmp_path / "out"), "_b2")
    del command[command.index("--seed") : command.index("--seed") + 2]
    for _ in range(2):
        assert main(command) == 0
        assert tree(copied) == before


def test_planted_list_of_written_files_deletes_nothing(data: Path, tmp_path: Path) -> None:
    """A later run removes what results.json lists, but only if it wrote it."""
    out = tmp_path / "out"
    assert main(evaluating(data, out)) == 0
    results = json.loads((out / "results.json").read_text())
    (out / "exp" / "mine.txt").write_text("mine")
    results["info"]["official"]["files"].append("exp/mine.txt")
    (out / "results.json").write_text(json.dumps(results))
    assert main([*evaluating(data, out), "--overwrite"]) == 0
    assert (out / "exp" / "mine.txt").read_text() == "mine"


def test_user_file_with_a_temporary_name_is_kept(data: Path, tmp_path: Path) -> None:
    for name in (".part-mine", "exp/.part-mine", "scores/.part-mine"):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("mine")
    assert main(evaluating(data, tmp_path / "out")) == 0
    assert len(list((tmp_path / "out").rglob(".part-mine"))) == 3


def test_report_does_not_replace_a_file(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(evaluating(data, out)) == 0
    (tmp_path / "page.html").write_text("mine")
    page = ["report", str(out), "--out", str(tmp_path / "page.html")]
    assert f"{tmp_path / 'page.html'}: this file exists (give another" in refused(tmp_path, page, capsys)
    assert main([*page, "--overwrite"]) == 0
    for spec in (["report", str(out)], ["report", str(out / "results.json")]):
        said = refused(tmp_path, [*spec, "--out", str(out / "results.json"), "--overwrite"], capsys)
        assert "would replace the input" in said
