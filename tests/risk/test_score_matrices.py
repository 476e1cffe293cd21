"""Risk from matrices of scores: the same figures as from embeddings, both file forms, and wrong files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.risk.test_assessment import attack
from voiceveil import InputError, metrics
from voiceveil.cli.main import main
from voiceveil.metrics import all_pairs, legal
from voiceveil.risk.curves import RiskPlan, measure_linking
from voiceveil.risk.score_matrices import ScoreMatrix, measure_scores, read_scores

PLAN = RiskPlan(lengths=(1,), draws=1)


def matrix_of(strength: float) -> ScoreMatrix:
    """The cosines that measure_linking computes in its only draw."""
    part = attack("informed", strength).parts[0]
    tests = legal.draw_conversations(part.b, 1, most=1, rng=np.random.default_rng([PLAN.seed, 2]))
    enrolled = legal.speaker_means(part.a)
    scores = tests.vectors.astype(np.float64) @ enrolled.vectors.T.astype(np.float64)
    return ScoreMatrix(scores, tests.speakers, enrolled.speakers)


def test_curves_equal_those_of_the_embeddings() -> None:
    linked, verified = measure_linking(attack("informed", 0.6), PLAN, 1)
    scored, by_scores = measure_scores("informed", matrix_of(0.6), PLAN)
    np.testing.assert_allclose(scored.value, linked.value, atol=1e-12)
    np.testing.assert_allclose(scored.low, linked.low, atol=1e-12)
    assert scored.disclosure == linked.disclosure
    np.testing.assert_allclose(by_scores.value, verified.value, atol=0.005)  # other cells of the histogram


def test_figures_do_not_depend_on_the_scale_of_the_scores() -> None:
    """Log-likelihood ratios serve as well as cosines: only their order counts."""
    cosines = matrix_of(0.6)
    ratios = replace(cosines, scores=200 * cosines.scores - 35)
    for mine, other in zip(
        measure_scores("informed", cosines, PLAN), measure_scores("informed", ratios, PLAN), strict=True
    ):
        np.testing.assert_allclose(mine.value, other.value, atol=1e-4)


def test_eer_equals_that_of_all_trials() -> None:
    matrix = matrix_of(0.5)
    same = np.array(matrix.test_speakers)[:, None] == np.array(matrix.enroll_speakers)
    _, verified = measure_scores("informed", matrix, PLAN)
    exact = metrics.eer(matrix.scores[same], matrix.scores[~same])
    assert verified.value[-1] == pytest.approx(1 - exact, abs=0.002)


def test_rivals_and_control_equal_plain_counting() -> None:
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 6, (30, 8)) / 5  # many ties
    own, claimed = rng.integers(0, 8, 30), np.empty(30, dtype=np.int64)
    claimed = (own + rng.integers(1, 8, 30)) % 8
    pairs = all_pairs.score_all_pairs(all_pairs.LinkScores(scores, own, claimed), [8], np.random.default_rng(0))
    for row in range(30):
        others = [scores[row, j] for j in range(8) if j != own[row]]
        assert pairs.rivals[row] == sum(score >= scores[row, own[row]] for score in others)
        assert pairs.ties[row] == sum(score == scores[row, own[row]] for score in others)
        strangers = [scores[row, j] for j in range(8) if j not in (own[row], claimed[row])]
        assert pairs.control[row] == sum(score >= scores[row, claimed[row]] for score in strangers)


def test_several_tests_of_a_speaker_give_singling_out_and_count_once() -> None:
    rng = np.random.default_rng(1)
    speakers = [f"s{number:02d}" for number in range(25)]
    tests = [name for name in speakers[:20] for _ in range(6)]
    same = np.array(tests)[:, None] == np.array(speakers)
    matrix = ScoreMatrix(rng.normal(size=same.shape) + 2 * same, tuple(tests), tuple(speakers), 3)
    single, linked, _ = measure_scores("informed", matrix, PLAN)
    protocol = metrics.SinglingOutProtocol(3, draws=1)
    whole = metrics.singling_out_from_scores(matrix.scores.T, speakers, tests, protocol, sizes=[20])
    assert (single.metric, single.length, single.sizes) == ("singling_out", 3, (20,))
    np.testing.assert_array_equal(single.value, whole.value)
    assert linked.speakers == tuple(speakers[:20])
    exact = metrics.linkability_from_scores(matrix.scores, tests, speakers, sizes=linked.sizes)
    np.testing.assert_allclose(linked.value, exact.value, atol=1e-12)  # as many tests of each
    np.testing.assert_allclose([linked.low, linked.high], exact.interval.T, atol=1e-9)


def save_npz(path: Path, matrix: ScoreMatrix, length: int = 1) -> Path:
    tests, enrolled = np.array(matrix.test_speakers), np.array(matrix.enroll_speakers)
    np.savez(path, scores=matrix.scores, length=length, test_speakers=tests, enroll_speakers=enrolled)
    return path


def save_npy(path: Path, matrix: ScoreMatrix, length: int = 1) -> Path:
    """As the authors' package writes it: enrolled speakers in rows."""
    np.save(path, matrix.scores.T)
    names = {"enroll_speakers": matrix.enroll_speakers, "test_speakers": matrix.test_speakers}
    path.with_name(f"{path.name}.json").write_text(json.dumps({**names, "metadata": {"conversation_length": length}}))
    return path


def test_both_forms_of_files_hold_the_same(tmp_path: Path) -> None:
    matrix = matrix_of(0.6)
    for file in (save_npz(tmp_path / "a.npz", matrix, 3), save_npy(tmp_path / "a.npy", matrix, 3)):
        again = read_scores(file)
        np.testing.assert_array_equal(again.scores, matrix.scores)
        assert (again.test_speakers, again.enroll_speakers) == (matrix.test_speakers, matrix.enroll_speakers)
        assert again.length == 3


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    matrix = ScoreMatrix(np.arange(6.0).reshape(2, 3), ("a", "b"), ("a", "b", "c"))
    with pytest.raises(InputError, match="no such file"):
        read_scores(tmp_path / "none.npz")
    np.savez(tmp_path / "a.npz", scores=matrix.scores)
    with pytest.raises(InputError, match="no array 'test_speakers'"):
        read_scores(tmp_path / "a.npz")
    save_npz(tmp_path / "a.npz", replace(matrix, scores=np.eye(2, 3))).write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"not readable as \.npz|archive"):
        read_scores(tmp_path / "a.npz")
    np.save(tmp_path / "a.npy", matrix.scores.T)
    with pytest.raises(InputError, match=r"a\.npy"):
        read_scores(tmp_path / "a.npy")
    np.save(tmp_path / "o.npy", np.array([object()]), allow_pickle=True)
    (tmp_path / "o.npy.json").write_text('{"test_speakers": ["a"], "enroll_speakers": ["a"]}')
    with pytest.raises(InputError, match="not readable as scores"):
        read_scores(tmp_path / "o.npy")
    with pytest.raises(InputError, match="a score is not finite"):
        replace(matrix, scores=np.full((2, 3), np.nan))
    with pytest.raises(InputError, match=r"scores of shape \(3, 2\) for 2 tests and 3 enrolled"):
        replace(matrix, scores=matrix.scores.T)
    with pytest.raises(InputError, match="'b' is not enrolled"):
        measure_scores("informed", ScoreMatrix(np.eye(2), ("a", "b"), ("a", "c")), PLAN)


def test_command_assesses_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [save_npz(tmp_path / f"L{length}.npz", matrix_of(0.4 + 0.1 * length), length) for length in (1, 3)]
    page = tmp_path / "risk.html"
    command = ["risk", "--scores", f"informed={files[0]},{files[1]}", "--report", str(page), "--quiet"]
    assert main([*command, "--json", "--max-linkability", "1"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["criteria"]["singling_out"] == "not measured"
    assert result["criteria"]["linkability"] == "measured"
    assert result["plan"]["lengths"] == [1, 3]
    assert result["sets"]["A"] == {"speakers": 80, "utterances": None}
    assert "scores that were given" in page.read_text(encoding="utf-8")
    assert main(["risk", "--scores", f"informed={files[0]},{files[0]}"]) == 1
    assert "two matrices of L = 1" in capsys.readouterr().err
    assert main(["risk", "--scores", f"informed={files[0]}", "--embeddings", f"informed={files[0]}"]) == 1
    assert "give embeddings, or corpora of audio, or scores" in capsys.readouterr().err
