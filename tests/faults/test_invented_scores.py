"""A leaderboard that somebody wants to win with invented scores: refused at upload, whatever else is in the archive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.board_world import make_lists, submission, tar, zipped
from voiceveil.apps.board.contest import Contest
from voiceveil.apps.board.scoring import score_submission
from voiceveil.core.errors import InputError
from voiceveil.tdsv.lists import TdsvKey, write_keys

ATTACK = "exp/asv_anon_x/libri_test_enrolls_x-libri_test_trials_f_x/scores"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lists(tmp_path_factory.mktemp("lists"))


def refused(data: Path, folder: Path, scores: list[str], match: str) -> None:
    """Assert that a submission with these scores of one trial list, and honest ones of the other, is refused."""
    members = submission(data)
    pairs = [line.split()[:2] for line in members[ATTACK].decode().splitlines()]
    rows = [f"{speaker} {utterance} {score}\n" for (speaker, utterance), score in zip(pairs, scores, strict=True)]
    archive = folder / "upload"
    archive.write_bytes(tar({**members, ATTACK: "".join(rows).encode()}))
    with pytest.raises(InputError, match=match) as raised:
        score_submission(Contest("vpc2024", data, "test", "t"), archive)
    assert raised.value.where == ATTACK


def targets(data: Path) -> list[bool]:
    lines = (data / "libri_test_trials_f" / "trials").read_text().splitlines()
    return [line.endswith(" target") for line in lines]


def test_constant_scores_are_rejected(data: Path, tmp_path: Path) -> None:
    count = len(targets(data))
    refused(data, tmp_path, ["0.5"] * count, f"All {count} scores are 0.5")


def test_scores_with_one_dominant_value_are_rejected(data: Path, tmp_path: Path) -> None:
    count = len(targets(data))
    few = [str(n) if n % 3 == 0 else "0.0" for n in range(count)]
    refused(data, tmp_path, few, rf"\d+ of {count} scores \(67%\) are 0")


def test_eer_above_55_percent_is_rejected(data: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inverted = [f"{rng.normal() - 2.0 * target:.6f}" for target in targets(data)]
    refused(data, tmp_path, inverted, r"an EER of 8\d\.\d%, above 55%")


def test_eer_of_50_percent_from_varying_scores_is_accepted(data: Path, tmp_path: Path) -> None:
    """Nothing but the audio can tell it from a perfect system: it is shown as not verified."""
    archive = tmp_path / "upload"
    archive.write_bytes(tar(submission(data, separation=0.0)))
    figures = score_submission(Contest("vpc2024", data, "test", "t"), archive).figures
    assert all(0.4 <= f.value <= 0.55 for f in figures if f.metric == "eer")


def test_invented_tdsv_answers_are_rejected(tmp_path: Path) -> None:
    kinds = ["TC", "TW", "IC", "IW"] * 30
    (tmp_path / "docs").mkdir()
    write_keys(
        tmp_path / "docs" / "eval_keys.txt", [TdsvKey(f"m{n % 6}", f"t{n}", kind) for n, kind in enumerate(kinds)]
    )
    contest = Contest("tdsv2024", tmp_path, "eval", "t")
    archive = tmp_path / "upload"
    rng = np.random.default_rng(0)
    inverted = [rng.normal() - 5.0 * (kind == "TC") for kind in kinds]
    for scores, match in (([1.0] * 120, "All 120 scores are 1"), (inverted, "an EER of .*, above 55%")):
        archive.write_bytes(zipped({"answer.txt": "".join(f"{score:.6f}\n" for score in scores).encode()}))
        with pytest.raises(InputError, match=match):
            score_submission(contest, archive)
