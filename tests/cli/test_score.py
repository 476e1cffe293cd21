"""``voiceveil score`` and the files it reads: results as computed in Python, and a clear word for every fault."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil import InputError, metrics
from voiceveil.cli.main import main
from voiceveil.corpus.score_files import read_key, read_labeled, read_scores, read_speakers
from voiceveil.metrics import ScoredTrials
from voiceveil.testing.scores import ScoreWorld


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with trials of 8 enrolled of 10 speakers, utt2spk, scores of two systems, and labeled scores."""
    rng = np.random.default_rng(1)
    trials = ScoreWorld(speakers=10, enrolled=8, utterances=4).draw(rng)
    utterance = [f"s{speaker}-{i % 40}" for i, speaker in enumerate(trials.speaker)]
    label = np.where(trials.target, "target", "nontarget")
    second = trials.score + rng.normal(0, 1, len(trials.score))
    lines: dict[str, list[str]] = {"trials": [], "a.scores": [], "b.scores": [], "labeled": []}
    for enroll, utt, x, y, kind in zip(trials.enroll, utterance, trials.score, second, label, strict=True):
        lines["trials"].append(f"s{enroll} {utt} {kind}")
        lines["a.scores"].append(f"s{enroll} {utt} {x!s}")
        lines["b.scores"].append(f"s{enroll} {utt} {y!s}")
        lines["labeled"].append(f"{x!s} {kind}")
    lines["b.scores"] = [lines["b.scores"][i] for i in rng.permutation(len(trials.score))]
    lines["utt2spk"] = [f"{utt} {utt.split('-')[0]}" for utt in dict.fromkeys(utterance)]
    for name, content in lines.items():
        (tmp_path / name).write_text("\n".join(content) + "\n")
    return tmp_path


def run(*arguments: object) -> int:
    return main(["score", *map(str, arguments)])


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, list[dict[str, object]]]:
    assert run(*arguments, "--json", "--resamples", 100) == 0
    result: dict[str, list[dict[str, object]]] = json.loads(capsys.readouterr().out)
    return result


def load(folder: Path, name: str = "a.scores") -> ScoredTrials:
    key = read_key(folder / "trials")
    speaker, unknown = read_speakers(key, folder / "utt2spk")
    assert unknown == 0
    return ScoredTrials(read_scores(folder / name, key), key.target, key.enroll, speaker)


def test_values_equal_the_metrics(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_json(capsys, folder / "a.scores", "--trials", folder / "trials", "--utt2spk", folder / "utt2spk")
    entries = result["files"][0]["metrics"]
    trials = load(folder)
    target, nontarget = trials.classes()
    expected = {
        "eer": metrics.eer(target, nontarget),
        "min_dcf": metrics.min_dcf(target, nontarget),
        "act_dcf": metrics.act_dcf(target, nontarget),
        "cllr": metrics.cllr(target, nontarget),
        "min_cllr": metrics.min_cllr(target, nontarget),
        "d_sys": metrics.d_sys(target, nontarget),
        "zebra_population": metrics.zebra(target, nontarget).population,
        "zebra_individual": metrics.zebra(target, nontarget).individual,
    }
    assert isinstance(entries, dict)
    assert {name: entry["result"]["value"] for name, entry in entries.items()} == pytest.approx(expected, abs=1e-12)
    assert entries["eer"]["result"] == metrics.estimate(trials, "eer", resamples=100).as_dict()
    assert result["files"][0]["notes"] == []
    assert result["files"][0]["units"] == {"count": 8, "of": "speakers"}


@pytest.mark.slow
def test_official_method_is_chosen_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_json(capsys, folder / "labeled", "--method", "official", "--metrics", "eer,d_sys")
    entries = result["files"][0]["metrics"]
    assert isinstance(entries, dict)
    target, nontarget = read_labeled(folder / "labeled")
    assert {name: entry["result"]["value"] for name, entry in entries.items()} == pytest.approx(
        {
            "eer_speechbrain": metrics.eer(target, nontarget, method="speechbrain"),
            "eer_kaldi": metrics.eer(target, nontarget, method="kaldi"),
            "eer_rocch": metrics.eer(target, nontarget, method="rocch-official"),
            "d_sys": metrics.d_sys(target, nontarget, method="official"),
        }
    )
    assert "2024" in entries["eer_speechbrain"]["method"]


def test_table_has_units_intervals_and_methods(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder / "a.scores", "--trials", folder / "trials", "--resamples", 100) == 0
    text = capsys.readouterr().out
    trials = load(folder)
    assert f"{trials.target.sum()} target, {(~trials.target).sum()} nontarget, 8 target speakers" in text
    for words in ("eer", "% [", " bit [", "convex hull", "95% intervals, 100 resamples of speakers", "costs 10, 1"):
        assert words in text
    assert "note: speakers of the trial utterances taken from the target trials" in text
    assert "8 of 40 utterances are nobody's target" in text


def test_labeled_files_warn_about_narrow_intervals(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder / "labeled", "--metrics", "eer", "--resamples", 100) == 0
    text = capsys.readouterr().out
    assert "too narrow" in text
    assert "resamples of trials" in text


def test_two_files_are_compared_on_the_same_trials(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--trials", folder / "trials", "--utt2spk", folder / "utt2spk", "--metrics", "eer,min_cllr")
    result = run_json(capsys, folder / "a.scores", folder / "b.scores", *options)
    difference = result["differences"][0]
    assert isinstance(difference["metrics"], dict)
    expected = metrics.compare(load(folder), load(folder, "b.scores"), "eer", resamples=100)
    assert difference["metrics"]["eer"]["result"] == expected.as_dict()
    assert expected.value > 0.02  # the second system has noise added
    assert run(folder / "a.scores", folder / "b.scores", *options, "--resamples", 100) == 0
    text = capsys.readouterr().out
    assert "b.scores minus" in text
    assert "p " in text
    assert "detectable with 80% power" in text


def test_metrics_that_scores_do_not_allow_are_omitted_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "few").write_text("1 target\n-inf nontarget\n2 1\n0.5 0\n")
    result = run_json(capsys, tmp_path / "few")
    assert "d_sys" not in result["files"][0]["metrics"]  # type: ignore[operator]
    assert "no cllr: it needs finite scores" in result["files"][0]["notes"]  # type: ignore[operator]


@pytest.mark.parametrize("method", ["exact", "official"])
def test_individual_zebra_has_no_interval(folder: Path, method: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--trials", folder / "trials", "--metrics", "zebra_individual", "--method", method)
    result = run_json(capsys, folder / "a.scores", folder / "b.scores", *options)
    expected = metrics.zebra(*load(folder).classes(), method=method)  # type: ignore[arg-type]
    figure = result["files"][0]["metrics"]["zebra_individual"]["result"]  # type: ignore[index]
    assert (figure["value"], figure["tag"]) == (pytest.approx(expected.individual), expected.tag)
    assert result["differences"] == []
    assert run(folder / "a.scores", *options) == 0
    text = capsys.readouterr().out
    assert f"zebra_individual  {expected.individual:.3f} ({expected.tag})" in text
    assert "interval" not in text


def test_result_may_have_no_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "few").write_text("1 target\n0 nontarget\n")
    result = run_json(capsys, tmp_path / "few", "--metrics", "d_sys")
    assert result["files"][0]["metrics"] == {}
    assert "no d_sys: it needs 20 target trials" in result["files"][0]["notes"]  # type: ignore[operator]


KEY = "a u1 target\na u2 nontarget\n\nb u1 nontarget\nb u2 target\n"
SCORES = "a u1 1.5\nb u2 2\na u2 -1e-1\nb u1 0\n"


def write(folder: Path, key: str = KEY, scores: str = SCORES) -> tuple[Path, Path]:
    (folder / "key").write_text(key)
    (folder / "scores").write_text(scores)
    return folder / "key", folder / "scores"


def test_scores_are_sorted_as_the_list(tmp_path: Path) -> None:
    key_file, score_file = write(tmp_path)
    key = read_key(key_file)
    assert read_scores(score_file, key).tolist() == [1.5, -0.1, 0.0, 2.0]
    assert (key.speakers, key.utterances) == (("a", "b"), ("u1", "u2"))
    assert key.target.tolist() == [True, False, False, True]


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    key_file, score_file = write(tmp_path, "\ufeff" + KEY, "\ufeff" + SCORES)
    (tmp_path / "utt2spk").write_text("\ufeffu1 a\nu2 b\n")
    (tmp_path / "labeled").write_text("\ufeff1.5 target\n0 nontarget\n")
    key = read_key(key_file)
    assert key.speakers == ("a", "b")
    assert read_scores(score_file, key).tolist() == [1.5, -0.1, 0.0, 2.0]
    assert read_speakers(key, tmp_path / "utt2spk")[1] == 0
    assert read_labeled(tmp_path / "labeled")[0].tolist() == [1.5]
    # A first line that holds nothing else is blank, and counts as a line; elsewhere the mark is text.
    score_file.write_text("\ufeff\n" + SCORES.replace("2\n", "two\n"))
    with pytest.raises(InputError, match="scores:3: not a score: 'two'"):
        read_scores(score_file, key)
    score_file.write_text(SCORES.replace("b u2", "\ufeffb u2"))
    with pytest.raises(InputError, match="scores:2: a score without a trial"):
        read_scores(score_file, key)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (SCORES.replace("b u1 0\n", ""), "scores: 1 trial(s) have no score, the first is 'b u1' (line 4 of "),
        (SCORES + "c u1 0\n", "scores:5: a score without a trial in "),
        (SCORES + "\n\na u3 0\n", "scores:7: a score without a trial in "),
        (SCORES + "a u1 1.5\n", "scores:5: the same as line 1"),
        (SCORES.replace("2\n", "nan\n"), "scores:2: not a score: 'nan'"),
        (SCORES.replace("2\n", "1e400\n"), "scores:2: not a score: '1e400'"),
        (SCORES.replace("2\n", "two\n"), "scores:2: not a score: 'two'"),
        (SCORES.replace("2\n", "1_0\n"), "scores:2: not a score: '1_0'"),
        (SCORES.replace("b u1 0", "b u1"), "scores:4: 2 field(s) instead of 3"),
        (SCORES.replace("b u2 2", "b u2 2 x"), "scores:2: 4 field(s) instead of 3"),
        ("", "scores: no lines"),
    ],
)
def test_faults_of_score_files_name_their_place(
    tmp_path: Path, scores: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key_file, score_file = write(tmp_path, scores=scores)
    assert run(score_file, "--trials", key_file) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (KEY.replace("b u2 target", "b u2 tgt"), "key:5: unknown label 'tgt' (write target or nontarget)"),
        (KEY + "a u2 nontarget\n", "key:6: the same as line 2"),
        (KEY.replace("b u2 target", "b u2"), "key:5: 2 field(s) instead of 3"),
        ("a u1 target\n", "key: no nontarget trials"),
        ("a u1 nontarget\n", "key: no target trials"),
        (KEY + "c u1 target\n", "has target trials of two speakers"),
    ],
)
def test_faults_of_trial_lists_name_their_place(
    tmp_path: Path, key: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key_file, score_file = write(tmp_path, key=key)
    assert run(score_file, "--trials", key_file) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("u1 a\n", "1 trial utterance(s) have no speaker, e.g. 'u2'"),
        ("u1 a\nu1 b\nu2 b\n", "utt2spk:2: the same as line 1"),
        ("u1 a\nu2 a\n", "has another speaker in"),
        ("u1\n", "utt2spk:1: 1 field(s) instead of 2"),
    ],
)
def test_faults_of_utt2spk_name_their_place(
    tmp_path: Path, content: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key_file, score_file = write(tmp_path)
    (tmp_path / "utt2spk").write_text(content)
    assert run(score_file, "--trials", key_file, "--utt2spk", tmp_path / "utt2spk") == 1
    assert message in capsys.readouterr().err


def test_other_faults_name_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key_file, score_file = write(tmp_path)
    cases: list[tuple[tuple[object, ...], str]] = [
        ((tmp_path / "nowhere",), "nowhere: no such file"),
        ((score_file,), "scores:1: 3 field(s) instead of 2"),
        ((score_file, "--trials", tmp_path), "a folder, not a file"),
        ((score_file, "--utt2spk", key_file), "--utt2spk without --trials"),
        ((score_file, "--trials", key_file, "--metrics", "eeer"), "did you mean eer"),
        ((score_file, "--trials", key_file, "--metrics", ","), "--metrics names no metric (known: eer, min_dcf, "),
        ((score_file, "--trials", key_file, "--metrics", ""), "--metrics names no metric"),
        ((score_file, "--trials", key_file, "--resamples", 99), "--resamples 99 (use 1000, at least 100)"),
        ((score_file, "--trials", key_file, "--resamples", 0), "--resamples 0"),
        ((score_file, "--trials", key_file, "--p-target", 2), "p_target is 2"),
    ]
    for arguments, message in cases:
        assert run(*arguments) == 1
        assert message in capsys.readouterr().err
    (tmp_path / "latin").write_bytes(KEY.replace("a u1", "\xe9 u1").encode("latin1"))
    with pytest.raises(InputError, match="UTF-8"):
        read_key(tmp_path / "latin")


@given(data=st.binary(max_size=80) | st.text("ab 01.\n\ttargenon", max_size=80).map(str.encode))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_raise_only_input_error(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(data)
    for read in (read_key, read_labeled):
        place = "any"
        try:
            read(file)
        except InputError as error:
            place = str(error)
        assert "any" in place


def test_result_does_not_depend_on_chunk_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load(folder, "b.scores").score
    monkeypatch.setattr("voiceveil.corpus.score_files._CHUNK", 57)
    assert np.array_equal(load(folder, "b.scores").score, whole)
    (folder / "b.scores").write_text((folder / "b.scores").read_text().replace("s3 s4-16 ", "s3 s4-16 x", 1))
    line = (
        (folder / "b.scores")
        .read_text()
        .split("\n")
        .index(next(text for text in (folder / "b.scores").read_text().split("\n") if text.startswith("s3 s4-16 x")))
    )
    with pytest.raises(InputError, match=rf"b.scores:{line + 1}: not a score"):
        load(folder, "b.scores")


@pytest.mark.slow
def test_large_files_take_seconds(tmp_path: Path) -> None:
    """200,000 lines in well under 3 s on a slow core, thus 3.5 million in tens of seconds at worst."""
    pairs = [(f"speaker{e:03d}", f"utt{u:04d}") for e in range(100) for u in range(2000)]
    (tmp_path / "key").write_text(
        "".join(f"{e} {u} {'target' if int(u[3:]) % 100 == int(e[7:]) else 'nontarget'}\n" for e, u in pairs)
    )
    (tmp_path / "scores").write_text("".join(f"{e} {u} {i / 7:.5f}\n" for i, (e, u) in enumerate(pairs)))
    start = time.process_time()
    key = read_key(tmp_path / "key")
    scores = read_scores(tmp_path / "scores", key)
    assert time.process_time() - start < 3.0
    assert len(scores) == 200_000


def test_help_ends_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run("--help")
    assert stop.value.code == 0
    assert capsys.readouterr().out.rstrip().split("\n")[-1].startswith("  voiceveil score ")
