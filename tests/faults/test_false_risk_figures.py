"""Risk assessments whose embeddings are wrong: warnings, and no verdict or grade."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from voiceveil.cli.main import main
from voiceveil.core.checks import failed
from voiceveil.evaluation.results import Results


def table(path: Path, vectors: NDArray[np.float64]) -> Path:
    """Write embeddings of ten speakers, four utterances each in A and in B."""
    numbers = [divmod(number, 8) for number in range(len(vectors))]
    np.savez(
        path,
        utterance=np.array([f"{speaker}-{utterance}" for speaker, utterance in numbers]),
        speaker=np.array([f"s{speaker}" for speaker, _ in numbers]),
        set=np.array(["AB"[utterance % 2] for _, utterance in numbers]),
        vector=vectors.astype(np.float32),
    )
    return path


def embeddings(spread: float = 0.5) -> NDArray[np.float64]:
    rng = np.random.default_rng(9)
    vectors = np.repeat(rng.standard_normal((10, 16)), 8, axis=0) + spread * rng.standard_normal((80, 16))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def risk(tmp_path: Path, capsys: pytest.CaptureFixture[str], **given: NDArray[np.float64]) -> tuple[set[str], str]:
    """Return the names of failed checks, and the page."""
    files = [f"--embeddings={name}={table(tmp_path / f'{name}.npz', vectors)}" for name, vectors in given.items()]
    report = tmp_path / "risk.html"
    options = ["--lengths=1", "--draws=1", f"--report={report}", "--json", "--norm=raw"]
    assert main(["risk", *files, *options]) == 0
    printed = capsys.readouterr()
    checks = json.loads(printed.out)["checks"]
    assert all(f"WARNING {check['name']}" in printed.err for check in checks)
    return {check["name"] for check in checks}, report.read_text()


def test_correct_embeddings_give_no_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, page = risk(tmp_path, capsys, original=embeddings(), ignorant=embeddings(1.5))
    assert found == set()
    assert "WARNING" not in page


def test_embeddings_of_unchanged_speech_give_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, page = risk(tmp_path, capsys, original=embeddings(), ignorant=embeddings())
    assert found == {"identical-audio"}
    assert page.index("Read this first") < page.index("WARNING identical-audio") < page.index("Summary: the three")


def test_identical_embeddings_give_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = np.repeat(embeddings()[:1], 80, axis=0)
    assert risk(tmp_path, capsys, informed=same)[0] == {"shared-utterances", "repeated-audio", "constant-scores"}


def test_limit_fails_when_a_check_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((80, 16))  # nobody can be linked
    options = ["--lengths=1", "--draws=1", "--max-linkability=1", f"--report={tmp_path / 'risk.html'}", "--norm=raw"]
    options.append("--overwrite")
    file = table(tmp_path / "informed.npz", vectors)
    assert main(["risk", f"--embeddings=informed={file}", *options]) == 0
    assert "limit kept" in capsys.readouterr().out
    vectors[1] = vectors[0]
    file = table(tmp_path / "informed.npz", vectors)
    assert main(["risk", f"--embeddings=informed={file}", *options]) == 1
    assert "limit NOT JUDGED" in capsys.readouterr().out
    page = (tmp_path / "risk.html").read_text()
    assert "not judged" in page
    assert "✔ kept" not in page
    assert page.count("Not known: read the warnings first") == 2


def test_report_gives_no_grade_when_a_check_fails(tmp_path: Path) -> None:
    from dataclasses import replace

    from tests.support.report_world import make_results
    from voiceveil.report.page import write_report

    folder = make_results(tmp_path / "results")
    assert "Not known: read the warnings first" not in write_report(folder).read_text()
    results = Results.load(folder / "results.json")
    replace(results, checks=(failed("silent-audio", "All are."),)).save(folder / "results.json", overwrite=True)
    page = write_report(folder, tmp_path / "again.html").read_text()
    assert page.count("Not known: read the warnings first") == 1


def test_embedding_in_both_sets_gives_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors = embeddings()
    vectors[1] = vectors[0]
    assert risk(tmp_path, capsys, informed=vectors)[0] == {"shared-utterances"}


def test_embeddings_with_swapped_speakers_give_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors = embeddings()
    vectors[1::2] *= -1.0  # B points away from A
    assert risk(tmp_path, capsys, informed=vectors)[0] == {"eer-above-half"}
