"""Results, details and scores that somebody has tampered with, given to every command that reads them.

Each command ends with exit code 0 or 1 and a message: no traceback, no file outside of the output, no HTML of the data.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults import TORTURE
from tests.faults.test_hostile_data import bounded
from tests.support.report_world import make_results
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.evaluation.results import Results
from voiceveil.report.comparison import compare
from voiceveil.report.comparison_page import write_comparison

HTML = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def nested(depth: int, inside: Any = 1) -> Any:
    """Return lists within each other."""
    for _ in range(depth):
        inside = [inside]
    return inside


#: What stands where something else should.
VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "a text": "x",
    "empty text": "",
    "html": HTML,
    "a path": "../../outside",
    "an absolute path": "/tmp/outside",
    "a control character": "a\x00\x1b[2Jb",
    "a surrogate": "\ud800",
    "a huge text": "A" * 3_000_000,
    "an empty list": [],
    "a list": [1, "x", None],
    "an empty object": {},
    "an object": {"a": {"b": 1}},
    "lists, 60 deep": nested(60),
    "zero": 0,
    "negative": -5,
    "huge": 1e300,
    "tiny": 5e-324,
    "a long number": 10**30,
}
#: Written as it stands, since no writer of JSON gives it.
RAW = {
    "NaN": "NaN",
    "infinite": "Infinity",
    "beyond all floats": "1e999",
    "5000 digits": "9" * 5000,
    "400 digits": "9" * 400,
    "lists, 10,000 deep": "[" * 10_000 + "]" * 10_000,
    "objects, 10,000 deep": '{"a":' * 10_000 + "1" + "}" * 10_000,
}
#: Places in results.json; each gets each of the values.
PLACES: list[tuple[str | int, ...]] = [
    ("system",),
    ("protocol",),
    ("figures",),
    ("figures", 0),
    ("figures", 0, "metric"),
    ("figures", 0, "value"),
    ("figures", 0, "low"),
    ("figures", 0, "high"),
    ("figures", 1, "dataset"),
    ("figures", 1, "model"),
    ("figures", 1, "attacker"),
    ("figures", 1, "knowledge"),
    ("figures", 1, "condition"),
    ("figures", 1, "gender"),
    ("figures", 1, "split"),
    ("figures", 1, "detail"),
    ("figures", 1, "detail", "set"),
    ("figures", 1, "detail", "scores"),
    ("figures", 7, "value"),
    ("figures", 7, "high"),
    ("figures", 7, "detail", "words"),
    ("figures", 8, "detail", "recalls"),
    ("figures", 8, "detail", "recalls", "ang"),
    ("info",),
    ("info", "notes"),
    ("info", "health"),
    ("info", "health", 0),
    ("info", "health", 0, "warnings"),
    ("info", "health", 0, "original_eer"),
    ("info", "parameters"),
    ("info", "training"),
    ("info", "attackers"),
    ("info", "seed"),
    ("info", "time"),
    ("info", "suffix"),
    ("info", "official"),
    ("info", "official", "names"),
    ("info", "official", "files"),
    ("info", "anonymized"),
    ("info", "anonymized", "libri_dev_enrolls"),
]
MARK = "@@raw@@"


def put(document: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """Return a copy of the document with the value at the place."""
    changed = copy.deepcopy(document)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def drop(document: Any, place: tuple[str | int, ...]) -> Any:
    """Return a copy of the document without what stands at the place."""
    changed = copy.deepcopy(document)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    del inner[place[-1]]
    return changed


def mutations(document: Any, place: tuple[str | int, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of files made from a good document."""
    for what, value in VALUES.items():
        yield what, json.dumps(put(document, place, value)).encode()
    for what, text in RAW.items():
        yield what, json.dumps(put(document, place, MARK)).replace(f'"{MARK}"', text).encode()
    yield "missing", json.dumps(drop(document, place)).encode()


def whole(document: Any) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of files that are wrong as a whole."""
    good = json.dumps(document).encode()
    yield "no content", b""
    yield "a list", b"[]"
    yield "not UTF-8", good.replace(b"libri", b"\xff\xfe").replace(b"speakers", b"\xff")
    yield "cut off", good[: len(good) // 2]
    yield "a key twice", good.replace(b'": ', b'": 1, "x": 2, "x": ', 1)
    yield "an unknown key", good.replace(b'"metric":', b'"color": 1, "metric":', 1)
    yield "40 MB", good + b" " * (40 << 20)


def some(cases: Iterator[tuple[str, bytes]], offset: int) -> list[tuple[str, bytes]]:
    """Return a quarter of the cases in the quick form, another for each offset; all in the long one."""
    return [case for number, case in enumerate(cases) if TORTURE or number % 4 == offset % 4]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results that every command takes."""
    folder = make_results(tmp_path_factory.mktemp("good") / "results", protocol="vpc2024")
    data = json.loads((folder / "results.json").read_text())
    summary = "exp/results_summary/result_for_rank_mine"
    (folder / summary).parent.mkdir(parents=True)
    (folder / summary).write_text("x\n")
    data["info"] |= {
        "suffix": "_mine",
        "official": {"names": {"ASV_eval^anon": "campplus-adapted"}, "files": [summary]},
        "anonymized": {"libri_dev_enrolls": {"utterances": 3}},
    }
    (folder / "results.json").write_text(json.dumps(data))
    return folder


def commands(folder: Path, good: Path, out: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield everything that reads results."""
    file, other = folder / "results.json", good / "results.json"
    yield "report", lambda: main(["report", str(folder), "--audio", "1", "--out", str(out / "report.html")])
    yield (
        "report --compare",
        lambda: main(["report", str(other), "--compare", str(file), "--out", str(out / "compared.html")]),
    )
    yield "rank", lambda: main(["rank", str(file), f"b={other}", "--split", "dev", "--svg", str(out / "plane.svg")])
    yield "rank --json", lambda: main(["rank", str(file), "--split", "dev", "--json"])
    yield (
        "submit",
        lambda: main(["submit", str(folder), "--out", str(out / "s.tar.gz"), "--partial", "--unofficial", "--quiet"]),
    )
    yield "comparison page", lambda: _compared(file, out / "comparison.html")


def _compared(file: Path, page: Path) -> int:
    try:
        found = Results.load(file)
        write_comparison(compare(found.protocol, [found], {}, [found.system]), page)
    except InputError:
        return 1
    return 0


def attack(folder: Path, good: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run all commands on a folder that was tampered with."""
    out = home / "out"
    out.mkdir(exist_ok=True)
    before = sorted(path for path in home.rglob("*") if out not in path.parents)
    for name, command in commands(folder, good, out):
        with bounded():
            assert command() in (0, 1), name
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err, name
        assert "\x1b" not in printed.out + printed.err, f"{name}: a terminal would obey"
    assert sorted(path for path in home.rglob("*") if out not in path.parents) == before
    for page in (*out.glob("*.html"), *out.glob("*.svg")):
        text = page.read_text(encoding="utf-8")
        assert "<script" not in text
        assert "<img" not in text
    shutil.rmtree(out)


def test_valid_results_are_accepted_by_every_command(results: Path, tmp_path: Path) -> None:
    for name, command in commands(results, results, tmp_path):
        assert command() == 0, name


def tamper(
    results: Path, file: str, cases: list[tuple[str, bytes]], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attack with each of the contents in place of a file of the results."""
    folder = home / "results"
    shutil.copytree(results, folder)
    for name, content in cases:
        (folder / file).write_bytes(content)
        try:
            attack(folder, results, home, capsys)
        except BaseException as error:
            error.add_note(f"{file}: {name}")
            raise


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_mutated_results_raise_only_input_error(
    place: tuple[str | int, ...], results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((results / "results.json").read_text())
    tamper(results, "results.json", some(mutations(document, place), PLACES.index(place)), tmp_path, capsys)


def test_absurd_results_raise_only_input_error(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((results / "results.json").read_text())
    many_figures = json.dumps({**document, "figures": document["figures"][:1] * 60_000}).encode()
    models = [{**document["figures"][1], "attacker": f"a{i}", "knowledge": "semi-informed"} for i in range(3000)]
    many_models = json.dumps({**document, "figures": models}).encode()
    cases = [*whole(document), ("60,000 figures", many_figures), ("3,000 attackers", many_models)]
    tamper(results, "results.json", cases, tmp_path, capsys)


SIMILARITY = "details/libri_dev_trials_f.similarity.json"


@pytest.mark.parametrize("place", [("speakers",), ("speakers", 0), ("oo",), ("oa", 1), ("aa", 1, 1)], ids=str)
def test_mutated_similarity_raises_only_input_error(
    place: tuple[str | int, ...], results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((results / SIMILARITY).read_text())
    tamper(results, SIMILARITY, some(mutations(document, place), len(place)), tmp_path, capsys)


def test_absurd_similarity_raises_only_input_error(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((results / SIMILARITY).read_text())
    nobody = json.dumps({"speakers": [], "oo": [], "oa": [], "aa": []}).encode()
    tamper(results, SIMILARITY, [*whole(document), ("nobody", nobody)], tmp_path, capsys)


HEADING = "utterance speaker gender original anonymized start duration reference heard_original heard_anonymized "
HEADING += "f0_original f0_anonymized pitch_correlation"
CELLS = [
    "",
    "x",
    HTML,
    "../../x",
    "\x00",
    "\x1b[2J",
    "A" * 200_000,
    "nan",
    "inf",
    "-1",
    "1e300",
    "1e-300",
    "9" * 400,
    '"',
]


@pytest.mark.parametrize("column", HEADING.split())
def test_mutated_details_raise_only_input_error(
    column: str, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = "details/libri_dev_trials_f.tsv"
    heading, *rows = (results / table).read_text().splitlines()
    at = heading.split("\t").index(column)
    cases = []
    for cell in CELLS:
        cells = rows[1].split("\t")
        cells[at] = cell
        text = "\n".join([heading, rows[0], "\t".join(cells), *rows[2:]])
        cases.append((f"{column} is {cell[:20]!r}", f"{text}\n".encode()))
    tamper(results, table, some(iter(cases), at), tmp_path, capsys)


@pytest.mark.parametrize(
    "line",
    [b"", b"\xff\xfe", b"11 11-0 nan", b"11 11-0 1e999", b"11 11-0", b"11 11-0 1 2", b"11 nobody 1", b"x 11-0 1",
     b"11 11-0 " + b"9" * 5000, b"11 11-0 0x1", b"\0 \0 1"],
)  # fmt: skip
def test_mutated_scores_raise_only_input_error(
    line: bytes, results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = "scores/campplus-adapted/libri_dev_trials_f.aa.scores"
    first, *rest = (results / file).read_bytes().splitlines()
    cases = [("a line", b"\n".join([first, line, *rest])), ("alone", line)]
    tamper(results, file, cases, tmp_path, capsys)


def test_folder_without_results_names_the_fix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["report", str(tmp_path)], ["rank", str(tmp_path / "results.json")]):
        assert main(command) == 1
        assert "no such file (give the folder of a `voiceveil evaluate`" in capsys.readouterr().err
