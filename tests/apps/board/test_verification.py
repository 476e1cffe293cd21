"""The leaderboard attacks and transcribes submitted audio again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.apps.board.test_board import Place
from tests.support.board_verification import RULES, SETS, Audio, Board, honest, invented, left_over
from tests.support.board_world import tar, wav_bytes
from tests.support.listen_client import Client
from tests.support.listen_world import running
from voiceveil.apps.board.app import open_board
from voiceveil.apps.board.contest import Contest, create_contest
from voiceveil.apps.board.lists import open_set
from voiceveil.apps.board.scoring import score_submission
from voiceveil.apps.board.verification import draw_sample
from voiceveil.apps.board.worker import run_worker
from voiceveil.apps.web.tokens import Seal
from voiceveil.audio import Waveform, load
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError

pytestmark = pytest.mark.slow  # for its fixtures


def samples_of(content: bytes) -> NDArray[np.float32]:
    """The samples of a wav file that `wav_bytes` has made."""
    return np.asarray(np.frombuffer(content[44:], np.int16) / np.float32(32768), dtype=np.float32)


def test_correct_submission_is_verified_and_ranked_by_recomputed_figures(
    board: Board, data: Path, audio: Audio
) -> None:
    name = board.upload({**honest(data), **audio})
    assert board.status() == "waiting for verification"
    assert board.line().place is None
    assert board.worker.step()
    assert board.status() == "verified"
    recomputed = {(f.metric, f.gender): f for f in board.store.verifications()[name].figures}
    submitted = {(f.metric, f.gender): f for f in board.store.scored()[0].figures}
    assert {key: f.value for key, f in recomputed.items()} == {key: f.value for key, f in submitted.items()}
    assert recomputed["eer", "f"].evaluator == "bumps (lazy-informed)"
    assert recomputed["wer", ""].model == "counter"
    assert left_over(board.folder) == []
    assert not board.worker.step()


def test_invented_scores_are_detected(board: Board, data: Path, audio: Audio) -> None:
    board.upload({**invented(data), **audio})
    board.worker.step()
    assert board.status().startswith("differs: submitted EER ")
    claimed, found = (float(number) for number in re.findall(r"([\d.]+)%", board.status()))
    assert claimed > 35
    assert found < 20
    assert board.line().figures[1].startswith(f"{int(found)}.")  # it counts with the recomputed figures


def test_invented_transcripts_are_detected(board: Board, data: Path, audio: Audio) -> None:
    rng = np.random.default_rng(0)
    noisy = dict(audio)
    for name, content in audio.items():
        samples = samples_of(content)
        noise = (0.05 * rng.standard_normal(len(samples))).astype(np.float32)
        noisy[name] = wav_bytes(Waveform(samples + noise, 16000))
    board.upload({**honest(data), **noisy})
    board.worker.step()
    assert "submitted WER 0.0%, recomputed " in board.status()


def test_swapped_enrollment_audio_is_rejected(board: Board, data: Path, audio: Audio) -> None:
    """Who enrolls other speakers than the lists say has an EER of 50% and keeps the words of the trials."""
    names = [name for name in audio if "enrolls" in name]
    partner = {i: i + 7 if i < 7 else i - 7 for i in range(14)}  # of the same length, which is checked as well
    swapped = {names[i]: audio[names[j]] for i, j in partner.items()}
    board.upload({**invented(data), **audio, **swapped})
    board.worker.step()
    assert board.status().startswith("audio rejected: the enrollment audio does not hold the words of its utterances")
    assert board.line().place is None
    assert left_over(board.folder) == []


@pytest.mark.parametrize(("kind", "reason"), [("original", "equal the original"), ("noise", "are noise")])
def test_audio_that_is_not_anonymized_is_rejected(
    board: Board, data: Path, audio: Audio, kind: str, reason: str
) -> None:
    """Enrollment that is noise has an EER of 50%, and original trials a WER of 0."""
    rng = np.random.default_rng(0)
    members = dict(audio)
    for u in open_set(data / "libri_dev_enrolls"):
        wave = load(u.path)
        noise = (0.1 * rng.standard_normal(len(wave.samples))).astype(np.float32)
        samples = 0.9 * wave.samples if kind == "original" else noise
        members[f"data/libri_dev_enrolls_x/wav/{u.id}.wav"] = wav_bytes(Waveform(samples, wave.rate))
    board.upload({**invented(data), **members})
    board.worker.step()
    assert board.status().startswith("audio rejected: Anonymized speech is ")
    assert reason in board.status()
    assert board.line().place is None


def test_without_audio_scores_are_as_submitted(board: Board, data: Path, tmp_path: Path) -> None:
    board.upload(invented(data))
    assert board.status() == "scores as submitted, not verified"
    assert board.line().place is None  # verified-only
    assert not board.worker.step()
    strict = replace(board.contest, require_audio=True)
    archive = tmp_path / "archive"
    archive.write_bytes(tar(invented(data)))
    with pytest.raises(InputError, match="no anonymized audio, which this contest requires"):
        score_submission(strict, archive)


def test_incomplete_or_invalid_audio_is_rejected_at_upload(board: Board, data: Path, audio: Audio) -> None:
    first, second = list(audio)[:2]
    slow = wav_bytes(Waveform(samples_of(audio[first]), 8000))
    renamed = {name.replace("_trials_m_x", "_trials_m_y"): content for name, content in audio.items()}
    cases: list[tuple[Audio, str]] = [
        (
            {name: content for name, content in audio.items() if name != first},
            "the audio of 1 of 40 utterances is missing",
        ),
        ({**audio, first: slow}, "8000 Hz instead of 16000 Hz"),
        ({**audio, first: audio[first][:44] + bytes(len(audio[first]) - 44)}, "silent"),
        ({**audio, first: b"rubbish"}, "not a wav file"),
        ({**audio, first: audio[first][:2000]}, "truncated"),
        ({**audio, first: audio[second]}, "the same audio as|s long, the original has"),
        ({**audio, first.replace("/wav/", "/wav/no"): audio[first]}, "is no utterance of libri_dev_enrolls"),
        (renamed, "the suffix '_y', but others have '_x'"),
    ]
    for members, reason in cases:
        with pytest.raises(InputError, match=reason):
            board.upload({**honest(data), **members})
        assert left_over(board.folder) == []


def test_sample_depends_on_key_and_submission(data: Path) -> None:
    contest = Contest("vpc2024", data, "dev", "t", **{**RULES, "verify": 4})  # type: ignore[arg-type]
    digest = Seal(b"k" * 32).digest
    drawn = draw_sample(contest, digest, "one")
    assert drawn == draw_sample(contest, digest, "one")
    assert drawn != draw_sample(contest, digest, "two")
    assert drawn != draw_sample(contest, Seal(b"l" * 32).digest, "one")
    assert {name: len(keys) for name, keys in drawn.items()} == dict.fromkeys(SETS, 4)
    for name in range(20):  # however small, it can be scored
        few = draw_sample(replace(contest, verify=1), digest, str(name))
        trials = open_set(data / "libri_dev_trials_f").trials
        assert trials is not None
        chosen = np.isin(trials.utterance, list(few["libri_dev_trials_f"]))
        assert set(trials.target[chosen]) == {True, False}


def test_sample_compares_figures_of_the_same_utterances(data: Path, tmp_path: Path, audio: Audio) -> None:
    board = Board(tmp_path / "contest", data, verify=4)
    name = board.upload({**honest(data), **audio})
    board.upload({**invented(data), **audio}, "B")
    assert board.worker.step()
    assert board.worker.step()
    found = board.store.verifications()[name]
    assert found.state == "verified"
    assert {f.detail["trials"] for f in found.figures if f.metric == "eer"} == {16}  # 4 utterances, 4 speakers


@pytest.fixture
def place(data: Path, tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "contest"
    create_contest(folder, Contest("vpc2024", data, "dev", "t", require_audio=True, **RULES))  # type: ignore[arg-type]
    with running(open_board(folder)) as address:
        yield Place(folder, address)


def test_pages_show_the_verification(place: Place, data: Path, audio: Audio) -> None:
    token = place.token("A")
    status, answer = place.send(token, tar(invented(data)))
    assert (status, str(answer["reason"]).partition(" (")[0]) == (
        422,
        "no anonymized audio, which this contest requires",
    )
    status, answer = place.send(token, tar({**honest(data), **audio}))
    assert (status, answer["verification"]) == (200, "waiting")
    assert list((place.folder / "incoming").iterdir()) == []
    team = Client(place.address)
    team.get(f"/team/{token}")
    pages: list[Callable[[], str]] = [Client(place.address).page, lambda: team.page("/team")]
    assert all("waiting for verification" in page() for page in pages)
    place.store.next_verification()
    place.store.note_progress(str(answer["id"]), 0.4)
    assert all("verifying, 40%" in page() for page in pages)
    assert "attacked by bumps and transcribed by counter" in pages[0]()
    assert run_worker(place.folder) == 1
    assert all('<td class="long">verified</td>' in page() for page in pages)
    assert '<td class="n">–</td>' in pages[0]() or '<td class="n">1</td>' in pages[0]()


def test_organizer_removes_a_submission(
    place: Place, data: Path, audio: Audio, capsys: pytest.CaptureFixture[str]
) -> None:
    token = place.token("A")
    name = str(place.send(token, tar({**honest(data), **audio}))[1]["id"])
    folder = str(place.folder)
    assert main(["board", "verify", folder]) == 0
    assert "1 submission(s) verified" in capsys.readouterr().out
    assert main(["board", "list", folder]) == 0
    listed = capsys.readouterr().out
    assert listed.startswith(name)
    assert listed.endswith("A/b2  verified\n")
    assert main(["board", "remove", folder, "nobody", "--reason", "x"]) == 1
    assert "no scored submission 'nobody'" in capsys.readouterr().err
    assert main(["board", "remove", folder, name, "--reason", "copied <audio>"]) == 0
    assert "A/b2" not in Client(place.address).page()
    team = Client(place.address)
    team.get(f"/team/{token}")
    page = team.page("/team")
    assert "<td>removed</td>" in page
    assert "copied &lt;audio&gt;" in page
    assert "Submissions left: 1 today, 9 in all" in page  # it still counts


def test_removed_submission_is_not_verified(place: Place, data: Path, audio: Audio) -> None:
    name = str(place.send(place.token("A"), tar({**honest(data), **audio}))[1]["id"])
    assert main(["board", "remove", str(place.folder), name, "--reason", "withdrawn"]) == 0
    assert left_over(place.folder) == []
    assert run_worker(place.folder) == 0
