"""What kind of file it is, and that no file, however broken, raises anything but an ``InputError``."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.official_samples import SAMPLES
from voiceveil.core.errors import InputError
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official import exp2024, read_results, results2022, summary2022, summary2024, system_name


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("official")


@pytest.mark.parametrize(
    ("path", "system"),
    [
        ("result_for_rank_asrbn_hifigan", "asrbn_hifigan"),
        ("RESULTS_summary_tts_old_c", "tts_old_c"),
        ("results.orig_mcadams", "mcadams"),
        ("RESULTS_baseline", "baseline"),
        ("exp/results_summary/eval_anon_mcadams/results_anon.txt", "mcadams"),
        ("exp/asv_anon_mcadams/results_mcadams.csv", "mcadams"),
        ("mine/results_summary.txt", "results_summary"),
    ],
)
def test_system_is_named_after_the_file(path: str, system: str) -> None:
    assert system_name(Path(path)) == system


@pytest.mark.parametrize("name", SAMPLES)
def test_kind_of_file_is_known_by_its_first_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a file"
    path.write_text(SAMPLES[name])
    results = read_results(path, system="mine")
    assert results.system == "mine"
    assert results.figures
    assert all(math.isfinite(figure.value) for figure in results.figures)
    path.write_text("\n\n" + SAMPLES[name].replace("\n", "\r\n"))  # blank lines before, and ends of another system
    assert read_results(path).figures == results.figures


def test_own_results_are_read(tmp_path: Path) -> None:
    ours = Results("mine", "vpc2024", (Figure("eer", 0.25, "libri_dev", condition="aa"),))
    ours.save(tmp_path / "results.json")
    assert read_results(tmp_path / "results.json") == ours
    assert read_results(tmp_path).system == "mine"  # the folder of an evaluation
    assert read_results(tmp_path / "results.json", system="other").system == "other"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "an empty file"),
        (b"\n \n", "an empty file"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"hello\n", "not a file of results"),
        (b"s1 u1 0.5\ns1 u2 0.1\n", "a file of scores"),
        (b"{}", "not the results of an evaluation"),
        (b"{", "not JSON"),
        (b",dataset,split,", "the columns are"),
        (b"ASV-libri_dev_enrolls-libri_dev_trials_f\n", "no results below the names"),
    ],
)
def test_other_files_are_rejected(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match=what):
        read_results(tmp_path / "x")
    with pytest.raises(InputError, match="no such file"):
        read_results(tmp_path / "nowhere")


@st.composite
def broken_files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A published file with some bytes changed, and some lines lost, doubled or moved."""
    name = draw(st.sampled_from(sorted(SAMPLES)))
    lines = SAMPLES[name].encode().split(b"\n")
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        change = draw(st.sampled_from(["drop", "double", "move", "cut", "number", "bytes"]))
        line = lines.pop(at)
        if change == "double":
            lines[at:at] = [line, line]
        elif change == "move":
            lines.insert(draw(st.integers(0, len(lines))), line)
        elif change != "drop":
            place = draw(st.integers(0, len(line)))
            texts = st.sampled_from(
                [b"1e999", b"-1", b"nan", b"inf", b"0", b"9" * 400, b"1_0", b"\xd9\xa1", b" ", b",", b'"']
            )
            new = b"" if change == "cut" else draw(texts if change == "number" else st.binary(max_size=6))
            lines.insert(at, line[:place] + new + line[place + draw(st.integers(0, 8)) :])
        if not lines:
            lines = [b""]
    return name, b"\n".join(lines)


def written(name: str, results: Results) -> str:
    if name.endswith(".csv"):
        return exp2024.csv_text(results, name.removesuffix(".csv"))  # type: ignore[arg-type]
    if name.startswith("result_for"):
        return summary2024.summary_text(results)
    return summary2022.summary_text(results) if "summary" in name else results2022.results_text(results)


def _kinds(results: Results) -> set[tuple[str, ...]]:
    """What the figures are of; averages are left out, which are computed anew and only if all their parts are there."""
    measured = [f for f in results.figures if not f.metric.startswith("average")]
    return {(f.metric, f.dataset, f.gender, f.subset, f.condition, f.evaluator) for f in measured}


@pytest.mark.slow
@settings(max_examples=600)
@given(broken_files())
def test_broken_files_raise_only_input_error(scratch: Path, broken: tuple[str, bytes]) -> None:
    """A file is read or refused; what was read can be written, and what was written reads the same again."""
    name, data = broken
    (scratch / name).write_bytes(data)
    try:
        results = read_results(scratch / name)
    except InputError as error:
        assert error.where == str(scratch / name)  # noqa: PT017 -- only some of the files are refused
        return
    try:
        text = written(name, results)
    except InputError:  # e.g. a recall that one row has and another has not
        return
    (scratch / name).write_text(text)
    again = read_results(scratch / name)
    assert _kinds(again) == _kinds(results)
    assert written(name, again) == text


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_input_error(scratch: Path, data: bytes) -> None:
    (scratch / "x").write_bytes(data)
    with pytest.raises(InputError):
        read_results(scratch / "x")


@settings(max_examples=100)
@given(
    st.recursive(
        st.none() | st.text(max_size=4) | st.integers(-2, 20),
        lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["table", "index", "keys", "emotions", "trailing"]), x),
        max_leaves=12,
    )
)
def test_arbitrary_layout_raises_only_input_error(scratch: Path, layout: object) -> None:
    """The layout comes from a JSON file that anybody may have written."""
    (scratch / "result_for_rank_x").write_text(SAMPLES["result_for_rank_mcadams"])
    results = read_results(scratch / "result_for_rank_x")
    results = Results(results.system, results.protocol, results.figures, {"layout": json.loads(json.dumps(layout))})
    with contextlib.suppress(InputError):
        assert isinstance(summary2024.summary_text(results), str)
