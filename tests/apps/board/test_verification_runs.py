"""Verifications that are killed, stuck or without their server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.board_verification import Audio, Board, honest, left_over
from voiceveil.apps.board.worker import Worker, run_worker
from voiceveil.apps.web.tokens import Seal, read_key

pytestmark = pytest.mark.slow  # for its fixtures


def test_killed_verification_is_resumed(board: Board, data: Path, audio: Audio) -> None:
    name = board.upload({**honest(data), **audio})
    stranger = board.folder / "waiting" / "stranger"  # left by a server that was killed
    stranger.write_bytes(b"of nobody")
    os.utime(stranger, (0, 0))
    for attempt in (1, 2):
        assert board.store.next_verification() is not None  # and the process dies here
        (board.folder / "verifying" / name / "audio" / "half").mkdir(parents=True, exist_ok=True)
        board.worker.recover()
        assert board.status() == "waiting for verification", attempt
    assert left_over(board.folder) == [name, name]
    assert board.worker.step()
    assert board.status() == "verified"


def test_repeatedly_dying_verification_fails_and_can_be_retried(board: Board, data: Path, audio: Audio) -> None:
    board.upload({**honest(data), **audio})
    for _ in range(3):
        assert board.store.next_verification() is not None
        board.worker.recover()
    assert board.status() == "not verified: the verification was broken off 3 times"
    assert not board.worker.step()
    assert run_worker(board.folder) == 0
    assert run_worker(board.folder, retry=True) == 1
    assert board.status() == "verified"


def test_only_stuck_verifications_count_as_attempts(board: Board, data: Path, audio: Audio) -> None:
    """A long verification may see many restarts of the server."""
    name = board.upload({**honest(data), **audio})
    for progress in (0.1, 0.2, 0.3, 0.4):
        assert board.store.next_verification() is not None
        board.store.note_progress(name, progress)
        board.worker.recover()
        assert board.status() == "waiting for verification"
    for _ in range(3):  # it dies before it gets further
        assert board.store.next_verification() is not None
        board.store.note_progress(name, 0.4)
        board.worker.recover()
    assert board.status().startswith("not verified: ")


def test_worker_stops_without_its_server(board: Board, data: Path, audio: Audio) -> None:
    board.upload({**honest(data), **audio})
    lonely = Worker(board.folder, board.contest, board.store, Seal(read_key(board.folder / "key")), lambda: False)
    with pytest.raises(SystemExit):
        lonely.step()
    board.worker.recover()
    assert board.worker.step()
    assert board.status() == "verified"


def test_server_fault_is_not_blamed_on_the_team(
    board: Board, data: Path, audio: Audio, capsys: pytest.CaptureFixture[str]
) -> None:
    name = board.upload({**honest(data), **audio})
    archive = board.folder / "waiting" / name
    archive.rename(board.folder / "away")
    assert board.worker.step()
    assert board.status() == "not verified: its archive is gone (the organizer can try again)"
    assert name in capsys.readouterr().err
    (board.folder / "away").rename(archive)
    assert run_worker(board.folder, retry=True) == 1
    assert board.status() == "verified"
