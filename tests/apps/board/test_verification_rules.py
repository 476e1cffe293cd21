"""Rules of a contest with verification: how they are chosen, checked and shown."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.apps.board.test_board import Place, figures
from tests.support.board_verification import RULES, Audio, Board, anonymized, honest, invented, left_over
from tests.support.board_world import tar, wav_bytes
from tests.support.listen_client import Client
from tests.support.listen_world import running
from tests.support.small_challenge import make_set, spoken
from voiceveil.apps.board.app import open_board
from voiceveil.apps.board.contest import Contest, create_contest
from voiceveil.apps.board.entries import board_entries
from voiceveil.apps.board.leaderboard import tables
from voiceveil.apps.board.lists import check_data, open_set
from voiceveil.apps.board.store import Store
from voiceveil.apps.board.worker import run_worker
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.apps.web.database import open_database
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Trials, open_corpus, write_kaldi

pytestmark = pytest.mark.slow  # for its fixtures


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
    entries = board_entries(first, store, time.time())

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
        ({"tolerance": 2.0}, "the tolerance 2 is out of range"),
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


def test_contest_without_verification_is_labeled(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "contest"
    create_contest(folder, Contest("vpc2024", data, "dev", "t"))
    with running(open_board(folder)) as address:
        place = Place(folder, address)
        assert place.send(place.token("A"), tar(invented(data)))[0] == 200
        page = Client(address).page()
    assert "Figures as submitted, not verified: the audio" in page
    assert '<td class="long">scores as submitted, not verified</td>' in page
    with pytest.raises(InputError, match="this contest does not verify submissions"):
        run_worker(folder)


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
