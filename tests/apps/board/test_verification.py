"""The leaderboard attacks and transcribes submitted audio again."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import resample

from tests.apps.board.test_board import Place, figures
from tests.support.board_world import submission, tar, wav_bytes
from tests.support.listen_client import Client
from tests.support.listen_world import running
from tests.support.small_challenge import Bumps, Counter, make_challenge, make_set, spoken
from voiceveil.apps.board.app import open_board
from voiceveil.apps.board.contest import Contest, create_contest
from voiceveil.apps.board.leaderboard import Line, latest, tables
from voiceveil.apps.board.lists import check_data, open_set
from voiceveil.apps.board.scoring import judge
from voiceveil.apps.board.store import Store
from voiceveil.apps.board.verification import draw_sample
from voiceveil.apps.board.worker import Worker, run_worker
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.apps.web.database import open_database
from voiceveil.apps.web.tokens import Seal, read_key
from voiceveil.audio import Waveform, load
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Trials, Utterance, open_corpus, write_kaldi

pytestmark = pytest.mark.slow  # for its fixtures

SETS = ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m")
RULES = {"verify": "all", "attackers": ("bumps",), "recognizer": "counter", "rank": "verified-only", "tolerance": 0.02}
Audio = dict[str, bytes]


def anonymized(utterance: Utterance) -> Waveform:
    """A poor anonymization: everybody speaks 10% faster and higher, so that voices stay apart."""
    wave = load(utterance.path)
    faster = Waveform(resample(wave.samples, round(len(wave.samples) / 1.1)).astype(np.float32), wave.rate)
    return Waveform((faster.int16() / 32768).astype(np.float32), wave.rate)  # as in a file


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Development sets with audio, whose texts are the words that the recognizer hears in anonymized speech."""
    folder = make_challenge(tmp_path_factory.mktemp("data"), only=("dev",))
    for name in SETS:
        corpus = open_corpus(folder / name)
        spoken = tuple(replace(u, text=Counter()(anonymized(u))) for u in corpus)
        write_kaldi(replace(corpus, utterances=spoken), folder / name)
    return folder


@pytest.fixture(scope="module")
def audio(data: Path) -> Audio:
    """The members of an archive with all anonymized audio."""
    return {f"data/{name}_x/wav/{u.id}.wav": wav_bytes(anonymized(u)) for name in SETS for u in open_set(data / name)}


def samples_of(content: bytes) -> NDArray[np.float32]:
    """The samples of a wav file that `wav_bytes` has made."""
    return np.asarray(np.frombuffer(content[44:], np.int16) / np.float32(32768), dtype=np.float32)


def honest(data: Path) -> dict[str, bytes]:
    """Scores of the attacker "bumps" and transcripts of the recognizer "counter", on the anonymized audio."""
    encode = Bumps("bumps")
    members = submission(data, split="dev", errors=0.0)
    enrolled: dict[str, list[np.ndarray]] = {}
    for u in open_set(data / "libri_dev_enrolls"):
        enrolled.setdefault(str(u.speaker), []).append(encode(anonymized(u)))
    means = {speaker: np.mean(vectors, axis=0) for speaker, vectors in enrolled.items()}
    for gender in "fm":
        name = f"libri_dev_trials_{gender}"
        heard = {u.id: encode(anonymized(u)) for u in open_set(data / name)}
        rows = []
        for line in (data / name / "trials").read_text().splitlines():
            speaker, key, _ = line.split()
            a, b = means[speaker], heard[key]
            rows.append(f"{speaker} {key} {a @ b / np.linalg.norm(a) / np.linalg.norm(b):.6f}\n")
        members[f"exp/asv_anon_x/libri_dev_enrolls_x-{name}_x/scores"] = "".join(rows).encode()
    return members


def invented(data: Path) -> dict[str, bytes]:
    """An EER of about 50% and a WER of 0."""
    return submission(data, split="dev", separation=0.0, errors=0.0, seed=3)


class Board:
    """A contest that verifies, without a server."""

    def __init__(self, folder: Path, data: Path, **rules: object) -> None:
        create_contest(folder, Contest("vpc2024", data, "dev", "t", **{**RULES, **rules}))  # type: ignore[arg-type]
        self.folder = folder
        self.contest = Contest.load(folder)
        self.store = Store(open_database(folder / "board.sqlite"))
        self.worker = Worker(folder, self.contest, self.store, Seal(read_key(folder / "key")))

    def upload(self, members: dict[str, bytes], team: str = "A") -> str:
        """What the server does with an upload."""
        from voiceveil.apps.board.worker import put_in_queue

        name = self.store.begin(self.contest, team, "s")
        archive = self.folder / "upload"
        archive.write_bytes(tar(members))
        try:
            judged = judge(self.contest, archive)
        except InputError as error:
            self.store.refuse(name, error.what)
            raise
        if judged.has_audio:
            put_in_queue(self.folder, name, archive)
        self.store.score(name, "", judged.figures, verify=judged.has_audio)
        return name

    def status(self, team: str = "A") -> str:
        return self.line(team).status

    def line(self, team: str = "A") -> Line:
        entries = latest(self.contest, self.store.scored(), self.store.verifications(), time.time())
        shown = [line for table in tables(self.contest, entries) for line in table.lines]
        (found,) = [line for line in shown if line.name == f"{team}/s"]
        return found


@pytest.fixture
def board(data: Path, tmp_path: Path) -> Board:
    return Board(tmp_path / "contest", data)


def left_over(folder: Path) -> list[str]:
    return [p.name for place in ("waiting", "verifying") for p in (folder / place).glob("*") if p.name != ".lock"]


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
        judge(strict, archive)


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


def test_unverified_systems_are_ranked_by_the_rule(data: Path, tmp_path: Path) -> None:
    first = Contest("vpc2024", data, "dev", "t", **{**RULES, "rank": "verified-first"})  # type: ignore[arg-type]
    store = Store(open_database(tmp_path / "b.sqlite"))

    def dev(eer: float, wer: float) -> tuple[object, ...]:
        return tuple(replace(f, dataset="libri_dev", split="dev") for f in figures(eer, wer))

    teams = {"true": ("verified", 0.45, 0.30), "boast": ("differs", 0.45, 0.20), "liar": ("", 0.45, 0.0)}
    for team, (state, eer, wer) in teams.items():
        name = store.begin(first, team, "s")
        store.score(name, "", dev(0.5, 0.0), verify=bool(state))  # type: ignore[arg-type]
        if state:
            store.end_verification(name, state, "submitted WER 0.0%, recomputed 20.0%", dev(eer, wer))  # type: ignore[arg-type]
    bad = store.begin(first, "bad", "s")
    store.score(bad, "", dev(0.5, 0.0), verify=True)  # type: ignore[arg-type]
    store.end_verification(bad, "rejected", "the audio is noise")
    entries = latest(first, store.scored(), store.verifications(), time.time())

    def shown(contest: Contest) -> dict[str, list[tuple[int | None, str]]]:
        return {t.title: [(line.place, line.name) for line in t.lines] for t in tables(contest, entries) if t.lines}

    both = [(1, "boast/s"), (2, "true/s")]
    assert shown(first) == {
        "EER from 40 to 100%": [*both, (3, "liar/s")],
        "Not ranked: not verified": [(None, "bad/s")],
    }
    only = replace(first, rank="verified-only")
    assert shown(only) == {
        "EER from 40 to 100%": both,
        "Not ranked: not verified": [(None, "liar/s"), (None, "bad/s")],
    }


def test_rules_of_verification_are_checked(data: Path, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"verify": "some"}, "verify is 'some'"),
        ({"verify": 0}, "verify is 0"),
        ({"verify": True}, "verify is True"),
        ({"verify": "none"}, "rank is verified-only, but verify is none"),
        ({"rank": "verified"}, "unknown rank 'verified'"),
        ({"attackers": ()}, "no attackers"),
        ({"tolerance": 2.0}, "a tolerance of 2"),
        ({"protocol": "tdsv2024", "split": "eval"}, "tdsv2024 cannot be verified"),
    ]
    good = Contest("vpc2024", data, "dev", "t", **RULES)  # type: ignore[arg-type]
    for change, reason in cases:
        with pytest.raises(InputError, match=reason):
            replace(good, **change)  # type: ignore[arg-type]
    check_data(good)
    for name in ("free:f0", "mcadams-inversion:bumps"):
        with pytest.raises(InputError, match=f"{name} is no attacker to verify with"):
            check_data(replace(good, attackers=(name,)))
    with pytest.raises(InputError, match="bumps-adapted needs training speech"):
        check_data(replace(good, attackers=("bumps-adapted",)))


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


def test_contest_without_verification_is_labeled(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "contest"
    create_contest(folder, Contest("vpc2024", data, "dev", "t"))
    with running(open_board(folder)) as address:
        place = Place(folder, address)
        assert place.send(place.token("A"), tar(invented(data)))[0] == 200
        page = Client(address).page()
    assert "Scores as submitted, not verified: nobody has attacked" in page
    assert '<td class="long">scores as submitted, not verified</td>' in page
    with pytest.raises(InputError, match="this contest verifies nothing"):
        run_worker(folder)


def test_organizer_removes_a_submission(
    place: Place, data: Path, audio: Audio, capsys: pytest.CaptureFixture[str]
) -> None:
    token = place.token("A")
    name = str(place.send(token, tar({**honest(data), **audio}))[1]["id"])
    folder = str(place.folder)
    assert main(["board", "verify", folder]) == 0
    assert "1 submission(s) verified" in capsys.readouterr().out
    assert main(["board", "submissions", folder]) == 0
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
    assert "1 more today, 9 in all" in page  # it still counts


def test_removed_submission_is_not_verified(place: Place, data: Path, audio: Audio) -> None:
    name = str(place.send(place.token("A"), tar({**honest(data), **audio}))[1]["id"])
    assert main(["board", "remove", str(place.folder), name, "--reason", "withdrawn"]) == 0
    assert left_over(place.folder) == []
    assert run_worker(place.folder) == 0


def test_trained_attacker_needs_the_training_audio(data: Path, tmp_path: Path, audio: Audio) -> None:
    folder = tmp_path / "data"
    shutil.copytree(data, folder)
    name = "train-clean-360"
    make_set(folder, name, spoken(folder, name, list(range(60, 70)), 4, "f"))
    board = Board(tmp_path / "contest", folder, attackers=("bumps", "bumps-adapted"))
    with pytest.raises(InputError, match="the audio of 40 of 80 utterances is missing"):
        board.upload({**honest(folder), **audio})
    training = {f"data/{name}_x/wav/{u.id}.wav": wav_bytes(anonymized(u)) for u in open_set(folder / name)}
    submitted = board.upload({**honest(folder), **audio, **training})
    board.worker.step()
    assert board.status() == "verified"
    found = board.store.verifications()[submitted].figures
    assert {f.evaluator for f in found if f.metric == "eer"} <= {
        "bumps (lazy-informed)",
        "bumps-adapted (semi-informed)",
    }


def test_server_verifies_real_speech_in_its_own_process(tmp_path: Path) -> None:
    """CAM++ and Moonshine, a worker that is killed in the middle, and Ctrl-C at the end."""
    chosen = {}
    for gender in "fm":
        corpus = replace(open_corpus(SPEECH / f"demo_trials_{gender}"), name=f"libri_dev_trials_{gender}")
        trials = corpus.trials
        assert trials is not None
        speakers = sorted(set(trials.enroll.tolist()))[:3]
        heard = tuple(u for who in speakers for u in corpus.by_speaker[who][:2])
        keep = np.isin(trials.enroll, speakers) & np.isin(trials.utterance, [u.id for u in heard])
        listed = Trials(trials.enroll[keep], trials.utterance[keep], trials.target[keep])
        chosen[corpus.name] = replace(corpus, utterances=heard, trials=listed)
    corpus = replace(open_corpus(SPEECH / "demo_enrolls"), name="libri_dev_enrolls")
    speakers = [who for one in chosen.values() for who in dict.fromkeys(u.speaker for u in one)]
    enrolled = tuple(u for who in speakers for u in corpus.by_speaker[str(who)][:1])
    chosen[corpus.name] = replace(corpus, utterances=enrolled)
    members: Audio = {}
    for name, one in chosen.items():
        write_kaldi(one, tmp_path / "data" / name)
        members |= {f"data/{name}_x/wav/{u.id}.wav": wav_bytes(anonymized(u)) for u in one}
    folder = str(tmp_path / "contest")
    command = ["board", "create", folder, "--protocol", "vpc2024", "--data", str(tmp_path / "data"), "--require-audio"]
    assert main(command) == 0
    archive = tar({**invented(tmp_path / "data"), **members})
    serve = [sys.executable, "-m", "voiceveil.cli.main", "board", "serve", folder, "--port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+:\d+", server.stdout.readline())
        assert found is not None
        place = Place(Path(folder), found[0])
        name = str(place.send(place.token("A"), archive)[1]["id"])
        killed = 0
        for _ in range(2400):
            shown = place.store.verifications()[name]
            if shown.progress > 0.2 and not killed:
                tasks = Path(f"/proc/{server.pid}/task").glob("*/children")
                children = [pid for task in tasks for pid in task.read_text().split()]
                (killed,) = [int(p) for p in children if "spawn_main" in Path(f"/proc/{p}/cmdline").read_text()]
                os.kill(killed, signal.SIGKILL)
            if shown.state not in ("waiting", "verifying"):
                break
            time.sleep(0.1)
        server.send_signal(signal.SIGINT)
        assert server.wait(60) in (0, 130)
    assert killed
    assert shown.state == "differs"
    assert "submitted EER" in shown.reason
    assert left_over(Path(folder)) == []


def test_create_accepts_verification_rules(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def create(name: str, *options: str) -> int:
        return main(["board", "create", str(tmp_path / name), "--protocol", "vpc2024", "--data", str(data), *options])

    models = ("--attackers", "bumps", "--recognizer", "counter")
    assert create("a", "--require-audio", *models) == 0
    made = Contest.load(tmp_path / "a")
    assert (made.require_audio, made.verify, made.rank) == (True, "all", "verified-only")
    assert (made.attackers, made.recognizer, made.split) == (("bumps",), "counter", "dev")
    assert create("b", "--verify", "200", "--rank", "verified-first", *models) == 0
    made = Contest.load(tmp_path / "b")
    assert (made.require_audio, made.verify, made.rank) == (False, 200, "verified-first")
    assert create("c") == 0
    assert (Contest.load(tmp_path / "c").verify, Contest.load(tmp_path / "c").rank) == ("none", "verified-first")
    capsys.readouterr()
    assert create("d", "--verify", "al", *models) == 1
    assert "verify is 'al'" in capsys.readouterr().err
    assert create("d", "--require-audio", "--attackers", "bumpz") == 1
    assert "did you mean bumps" in capsys.readouterr().err
    assert create("d", "--require-audio", "--recognizer", "countr", "--attackers", "bumps") == 1
    assert "did you mean counter" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()
