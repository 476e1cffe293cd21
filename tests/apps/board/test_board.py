"""The leaderboard: scoring, limits, hidden period, ranking; and archives and requests that must be refused."""

from __future__ import annotations

import contextlib
import json
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from tests.support.board_world import link, make_lists, submission, tar, zipped
from tests.support.listen_client import Client, search
from tests.support.listen_world import running
from voiceveil import metrics
from voiceveil.apps.board.app import open_board, team_token
from voiceveil.apps.board.contest import Contest, create_contest
from voiceveil.apps.board.entries import board_entries
from voiceveil.apps.board.leaderboard import tables
from voiceveil.apps.board.scoring import ATTACKER, score_submission
from voiceveil.apps.board.store import LimitReached, Store
from voiceveil.apps.web.database import open_database
from voiceveil.apps.web.tokens import Seal, read_key
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.core.safe_archive import Limits
from voiceveil.evaluation.protocol import RankingRules, load_protocol
from voiceveil.evaluation.protocol_writer import protocol_text
from voiceveil.evaluation.results import Figure

ATTACK = "exp/asv_anon_x/libri_test_enrolls_x-libri_test_trials_f_x"
TEXT = "exp/asr/libri_test_asr_x/text"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lists(tmp_path_factory.mktemp("lists"))


def contest_of(data: Path, **rules: object) -> Contest:
    return Contest("vpc2024", data, "test", "A contest", **rules)  # type: ignore[arg-type]


def judged(contest: Contest, content: bytes, folder: Path, limits: Limits | None = None) -> tuple[Figure, ...]:
    path = folder / "upload"
    path.write_bytes(content)
    return score_submission(contest, path, **({} if limits is None else {"limits": limits})).figures


def test_figures_come_from_scores_and_transcripts_only(data: Path, tmp_path: Path) -> None:
    members = submission(data)
    found = {(f.metric, f.gender): f for f in judged(contest_of(data), tar(members), tmp_path)}
    assert set(found) == {("eer", "f"), ("eer", "m"), ("wer", "")}
    for gender in "fm":
        name = ATTACK.replace("trials_f", f"trials_{gender}")
        scores = {tuple(r.split()[:2]): float(r.split()[2]) for r in members[f"{name}/scores"].decode().splitlines()}
        rows = [r.split() for r in (data / f"libri_test_trials_{gender}" / "trials").read_text().splitlines()]
        target = [scores[s, u] for s, u, label in rows if label == "target"]
        nontarget = [scores[s, u] for s, u, label in rows if label == "nontarget"]
        figure = found["eer", gender]
        assert figure.value == metrics.eer(target, nontarget, method="speechbrain")
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low <= figure.value <= figure.high
    heard = dict(line.split(" ", 1) for line in members[TEXT].decode().splitlines())
    wrong = sum(" ".join(heard.values()).split().count("WRONG") for _ in [0])
    assert found["wer", ""].value == wrong / (72 * 6)


def test_the_official_zip_inside_is_read_once(data: Path, tmp_path: Path) -> None:
    members = submission(data)
    contest = contest_of(data)
    nested = {"exp/results_summary/result_for_submission_x.zip": zipped(members)}
    assert judged(contest, tar(nested), tmp_path) == judged(contest, zipped(members), tmp_path)
    with pytest.raises(InputError, match="is in the archive twice"):
        judged(contest, tar({**members, **nested}), tmp_path)
    deeper = {"exp/results_summary/result_for_submission_x.zip": zipped(nested)}
    with pytest.raises(InputError, match="no scores of libri_test_enrolls and libri_test_trials_f"):
        judged(contest, tar(deeper), tmp_path)


def bomb() -> dict[str, bytes]:
    return {"exp/zeros": b"\0" * (80 << 20)}


def broken_members(data: Path) -> list[tuple[str, bytes, str]]:
    """(what, archive, reason)"""
    good = submission(data)
    scores = good[f"{ATTACK}/scores"]
    lines = scores.split(b"\n")

    def without(name: str) -> dict[str, bytes]:
        return {key: value for key, value in good.items() if key != name}

    def scored(content: bytes) -> bytes:
        return tar({**good, f"{ATTACK}/scores": content})

    climbing = tarfile.TarInfo("../../escape/scores")
    absolute = tarfile.TarInfo("/tmp/escape/scores")
    return [
        ("traversal", tar(good, climbing), r"\.\./\.\./escape"),
        ("absolute", tar(good, absolute), "/tmp/escape"),
        ("symbolic link", tar(good, link(f"{ATTACK}/x", "/etc/passwd")), "a symbolic link"),
        ("hard link", tar(good, link(f"{ATTACK}/x", "key", tarfile.LNKTYPE)), "a hard link"),
        ("device", tar(good, link("x", "", tarfile.CHRTYPE)), "a device"),
        ("cut off", tar(good)[:-200], "damaged|ends in the middle|is it complete"),
        ("no archive", b"hello " * 500, "a header without a number"),
        ("no scores", tar(without(f"{ATTACK}/scores")), "no scores of libri_test_enrolls and libri_test_trials_f"),
        ("no transcripts", tar(without(TEXT)), "no transcripts of libri_test"),
        ("trial missing", scored(b"\n".join(lines[1:])), "missing|no score"),
        ("trial twice", scored(scores + lines[0] + b"\n"), "the same as line 1"),
        ("foreign trial", scored(scores + b"f0 nobody 1.0\n"), "a score without a trial"),
        ("not a number", scored(scores.replace(lines[0].split()[2], b"nan", 1)), "nan"),
        ("not text", scored(b"\xff\xfe\x00" * 100), "line 1|1:"),
        ("utterance missing", tar({**good, TEXT: b"\n".join(good[TEXT].split(b"\n")[1:])}), "hypothes|no |missing"),
    ]


def test_broken_archives_are_rejected_with_the_reason(data: Path, tmp_path: Path) -> None:
    contest = contest_of(data)
    before = set(Path(tempfile.gettempdir()).glob("voiceveil-board-*"))
    for what, content, reason in broken_members(data):
        with pytest.raises(InputError, match=reason):
            judged(contest, content, tmp_path)
        assert what
    assert set(Path(tempfile.gettempdir()).glob("voiceveil-board-*")) <= before
    assert [path.name for path in tmp_path.iterdir()] == ["upload"]


def test_archive_bombs_are_rejected_by_bytes_members_and_ratio(data: Path, tmp_path: Path) -> None:
    contest = contest_of(data)
    good = submission(data)
    with pytest.raises(InputError, match=r"ratio|compress|times"):
        judged(contest, tar({**bomb(), **good}), tmp_path)
    with pytest.raises(InputError, match=r"bytes|more than"):
        judged(contest, tar(good), tmp_path, Limits(total=1000))
    with pytest.raises(InputError, match=r"member|files|more than"):
        judged(contest, tar(good), tmp_path, Limits(members=2))


def figures(eer: float, wer: float, width: float = 0.01) -> tuple[Figure, ...]:
    place = {"split": "test", "low": eer - width, "high": eer + width, "condition": "aa", **ATTACKER}
    return (
        Figure("eer", eer, "libri_test", gender="f", **place),  # type: ignore[arg-type]
        Figure("eer", eer, "libri_test", gender="m", **place),  # type: ignore[arg-type]
        Figure("wer", wer, "libri_test", wer - width, wer + width, "test", condition="a", model="ASR_eval"),
    )


def test_ranks_within_conditions_with_ties_by_interval(data: Path, tmp_path: Path) -> None:
    contest, store = contest_of(data), Store(open_database(tmp_path / "b.sqlite"))
    rates = {"A": (0.25, 0.10), "B": (0.26, 0.11), "C": (0.25, 0.30), "D": (0.45, 0.5), "E": (0.05, 0.01)}
    for team, (eer, wer) in rates.items():
        store.score(store.begin(contest, team, "s"), "", figures(eer, wer))
    shown = tables(contest, board_entries(contest, store, time.time()))
    by_title = {table.title: [(line.place, line.name, line.tied_with) for line in table.lines] for table in shown}
    assert by_title["EER from 20 to 30%"] == [(1, "A/s", ("B/s",)), (2, "B/s", ("A/s",)), (3, "C/s", ())]
    assert by_title["EER from 40 to 100%"] == [(1, "D/s", ())]
    assert by_title["Not ranked: EER below 10%"] == [(None, "E/s", ())]
    store.score(store.begin(contest, "C", "s"), "", figures(0.25, 0.05))  # the last one of a system counts
    shown = tables(contest, board_entries(contest, store, time.time()))
    assert shown[1].lines[0].name == "C/s"


def test_submissions_are_limited_per_day_and_in_total(data: Path, tmp_path: Path) -> None:
    contest, store = contest_of(data), Store(open_database(tmp_path / "b.sqlite"))
    day = 86400.0 * 20000
    for number in range(10):
        moment = day + 86400.0 * (number // 2) + 3600.0 * (number % 2)
        store.score(store.begin(contest, "A", "s", now=moment), "", figures(0.3, 0.1))
        if number % 2:
            with pytest.raises(LimitReached) as full:
                store.begin(contest, "A", "s", now=moment + 7200)
            assert full.value.daily == (number < 9)
    with pytest.raises(LimitReached) as full:
        store.begin(contest, "A", "s", now=day + 86400 * 99)
    assert not full.value.daily
    assert store.left(contest, "A", now=day + 86400 * 99) == (0, 0)
    refused = store.begin(contest, "B", "s", now=day)
    assert store.left(contest, "B", now=day) == (1, 9)
    store.refuse(refused, "no")
    assert store.left(contest, "B", now=day) == (2, 10)  # what is refused does not count
    store.begin(contest, "B", "s", now=day)
    store.recover()  # the server died
    assert store.left(contest, "B", now=day) == (2, 10)


def test_simultaneous_uploads_do_not_exceed_the_limit(data: Path, tmp_path: Path) -> None:
    contest, store = contest_of(data), Store(open_database(tmp_path / "b.sqlite"))
    taken = []

    def work() -> None:
        with contextlib.suppress(LimitReached):
            taken.append(store.begin(contest, "A", "s"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 2


def test_board_is_frozen_in_the_hidden_period(data: Path, tmp_path: Path) -> None:
    begin, end = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 8, tzinfo=UTC)
    contest = contest_of(data, hidden_from=begin, hidden_until=end)
    store = Store(open_database(tmp_path / "b.sqlite"))
    before, inside, after = begin.timestamp() - 9, begin.timestamp() + 9, end.timestamp()
    store.score(store.begin(contest, "A", "s", now=before), "", figures(0.25, 0.20))
    store.score(store.begin(contest, "A", "s", now=inside), "", figures(0.25, 0.10))
    assert board_entries(contest, store, inside + 1)["A/s"].figures[2].value == 0.20
    assert board_entries(contest, store, after)["A/s"].figures[2].value == 0.10
    with pytest.raises(InputError, match="only one of hidden_from and hidden_until"):
        contest_of(data, hidden_from=begin)


class Place:
    """A board that is served."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        self.seal = Seal(read_key(folder / "key"))
        self.store = Store(open_database(folder / "board.sqlite"))

    def token(self, team: str, seconds: float = 600.0) -> str:
        self.store.add_team(team)
        return team_token(self.seal, team, time.time() + seconds)

    def send(self, token: str, content: bytes, system: str = "b2", **headers: str) -> tuple[int, dict[str, object]]:
        from urllib.parse import quote

        sent = {"authorization": f"Bearer {token}", **headers}
        status, _, data = Client(self.address).request("POST", f"/submit?system={quote(system)}", content, sent)
        return status, json.loads(data)


@pytest.fixture(scope="module")
def place(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("board") / "contest"
    create_contest(folder, contest_of(data, largest=1 << 20))
    with running(open_board(folder)) as address:
        yield Place(folder, address)


def test_team_submits_over_http(place: Place, data: Path) -> None:
    token = place.token("Team A")
    status, answer = place.send(token, tar(submission(data, separation=1.2)))
    assert (status, answer["accepted"]) == (200, True)
    board = Client(place.address).page()
    assert "Team A/b2" in board
    assert "EER from 20 to 30%" in board
    status, headers, figure = Client(place.address).get("/figure.svg")
    assert (status, headers["content-type"]) == (200, "image/svg+xml")
    assert b"<script" not in figure
    status, answer = place.send(token, b"rubbish" * 100)
    assert (status, answer["accepted"]) == (422, False)
    assert "/" not in str(answer["reason"]).partition("(")[0]  # no path of this machine
    assert place.send(token, tar(submission(data, separation=1.3, seed=2)), "second")[0] == 200
    status, answer = place.send(token, tar(submission(data)))
    assert (status, answer["reason"]) == (409, "no more than 2 a day")
    assert list((place.folder / "incoming").iterdir()) == []
    client = Client(place.address)
    assert client.get(f"/team/{token}")[0] == 303
    page = client.page("/team")
    assert page.count("<td>scored</td>") == 2
    assert page.count("<td>refused</td>") == 1
    assert "Submissions left: 0 today, 8 in all" in page


def test_hostile_requests_are_rejected(place: Place, data: Path) -> None:
    token = place.token("Team B")
    good = tar(submission(data))
    expired = team_token(place.seal, "Team B", time.time() - 1)
    stranger = team_token(place.seal, "Nobody", time.time() + 99)
    for bad in ("", "x", token[:-2], expired, stranger, Seal(b"y" * 32).token("team", {"team": "Team B"}, until=9e9)):
        assert place.send(bad, good)[0] == 403
    for name in ("", "x" * 41, "<b>", "a/b", "'; DROP TABLE teams; --", "..", "a\nb", "ü"):
        assert place.send(token, good, name)[0] == 422, name
    assert place.send(token, b"\0" * ((1 << 20) + 1))[0] == 413
    assert place.send(token, b"")[0] == 422
    client = Client(place.address)
    client.get(f"/team/{token}")
    assert client.request("POST", "/submit?system=x", good)[0] == 403  # a cookie alone is not enough
    mark = search(r'data-mark="(\w+)"', client.page("/team"))
    cross = {"x-mark": mark, "sec-fetch-site": "cross-site"}
    assert client.request("POST", "/submit?system=x", good, cross)[0] == 403
    assert [one.state for one in place.store.of_team("Team B")] == ["refused", "refused"]
    assert list((place.folder / "incoming").iterdir()) == []
    headers = client.get("/")[1]
    assert "unsafe" not in headers["content-security-policy"]


def test_hostile_archives_over_http_leave_no_files(place: Place, data: Path) -> None:
    for number, (what, content, _) in enumerate(broken_members(data)):
        status, answer = place.send(place.token(f"H{number}"), content)
        assert (status, answer["accepted"]) == (422, False), what
        assert answer["reason"], what
        assert str(data) not in str(answer["reason"]), what
    assert list((place.folder / "incoming").iterdir()) == []


def test_aborted_upload_frees_its_slot(place: Place) -> None:
    import socket
    from urllib.parse import urlsplit

    token = place.token("Team C")
    host = urlsplit(place.address)
    with socket.create_connection((str(host.hostname), int(host.port or 0))) as connection:
        headers = f"host: localhost\r\nauthorization: Bearer {token}\r\ncontent-length: 999999\r\n\r\n"
        head = f"POST /submit?system=x HTTP/1.1\r\n{headers}"
        connection.sendall(head.encode() + b"half")
    for _ in range(200):
        states = [one.state for one in place.store.of_team("Team C")]
        if states == ["refused"]:
            break
        time.sleep(0.05)
    assert states == ["refused"]
    assert list((place.folder / "incoming").iterdir()) == []


def test_edition_2022_is_scored(tmp_path: Path) -> None:
    data = make_lists(tmp_path / "lists", "vpc2022")
    contest = Contest("vpc2022", data, "test", "t")
    found = judged(contest, tar(submission(data, "vpc2022", suffix="_anon")), tmp_path)
    assert sorted({(f.metric, f.dataset, f.subset) for f in found}) == [
        ("eer", "libri_test", ""), ("eer", "vctk_test", ""), ("eer", "vctk_test", "common"),
        ("wer", "libri_test", ""), ("wer", "vctk_test", ""),
    ]  # fmt: skip
    store = Store(open_database(tmp_path / "b.sqlite"))
    store.score(store.begin(contest, "A", "s"), "", found)
    (line,) = [line for table in tables(contest, board_entries(contest, store, time.time())) for line in table.lines]
    assert line.name == "A/s"


def test_contest_with_a_protocol_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sets, EER conditions and the limit of a team's systems are those of the TOML file, which the contest keeps."""
    vpc2024 = load_protocol("vpc2024")
    own = replace(
        vpc2024,
        name="mine",
        metrics=("eer", "wer"),
        emotion=(),
        verification=vpc2024.verification[:1],
        recognition=vpc2024.recognition[:1],
        ranking=RankingRules(minimum_eer=(0.0, 0.05), by=("wer",), systems_per_team=1),
        official=None,
    )
    path = tmp_path / "mine.toml"
    path.write_text(protocol_text(own))
    data = make_lists(tmp_path / "lists", str(path), "dev")
    command = ["board", "create", str(tmp_path / "contest"), "--data", str(data), "--protocol"]
    assert main([*command, str(path)]) == 0, capsys.readouterr().err
    path.unlink()
    contest = Contest.load(tmp_path / "contest")
    assert (contest.split, contest.rules) == ("dev", own)
    store = Store(open_database(tmp_path / "b.sqlite"))
    for system, errors in (("good", 0.1), ("bad", 0.5)):
        archive = tar(submission(data, str(contest.protocol), "dev", errors=errors))
        store.score(store.begin(contest, "A", system), "", judged(contest, archive, tmp_path))
    shown = {
        table.title: [line.name for line in table.lines]
        for table in tables(contest, board_entries(contest, store, time.time()))
    }
    assert list(shown) == ["EER from 0 to 5%", "EER from 5 to 100%", "Not ranked: the team has better systems"]
    assert shown["EER from 0 to 5%"] + shown["EER from 5 to 100%"] == ["A/good"]
    assert shown["Not ranked: the team has better systems"] == ["A/bad"]
    path.write_text(protocol_text(replace(own, ranking=None)))
    assert main([*command[:2], str(tmp_path / "second"), *command[3:], str(path)]) == 1
    assert "mine does not rank systems" in capsys.readouterr().err


def test_tdsv_challenge_is_scored(tmp_path: Path) -> None:
    from voiceveil.tdsv.evaluation import evaluate
    from voiceveil.tdsv.lists import TdsvKey, read_keys, write_keys

    kinds = ["TC", "TW", "IC", "IW"] * 30
    keys = [TdsvKey(f"m{n % 6}", f"t{n}", kind) for n, kind in enumerate(kinds)]
    (tmp_path / "docs").mkdir()
    write_keys(tmp_path / "docs" / "eval_keys.txt", keys)
    contest = Contest("tdsv2024", tmp_path, "eval", "t")
    rng = np.random.default_rng(0)
    store = Store(open_database(tmp_path / "b.sqlite"))
    costs = {}
    for team, gap in (("A", 1.0), ("B", 4.0)):
        scores = [rng.normal() + gap * (kind == "TC") for kind in kinds]
        found = judged(contest, zipped({"answer.txt": "".join(f"{s:.6f}\n" for s in scores).encode()}), tmp_path)
        again = evaluate([float(f"{s:.6f}") for s in scores], tuple(read_keys(tmp_path / "docs" / "eval_keys.txt")))
        assert found[0].value == pytest.approx(again.overall.min_dcf.value)
        costs[team] = found[0].value
        store.score(store.begin(contest, team, "s"), "", found)
    (table,) = tables(contest, board_entries(contest, store, time.time()))
    assert [line.name for line in table.lines] == ["B/s", "A/s"]
    assert costs["B"] < costs["A"]
    with pytest.raises(InputError, match="119 scores for 120 trials"):
        judged(contest, zipped({"answer.txt": b"1\n" * 119}), tmp_path)
    with pytest.raises(InputError, match="not a ZIP file"):
        judged(contest, tar({"answer.txt": b"1\n" * 120}), tmp_path)


def test_create_uses_the_split_of_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`board create` as documented, on data that hold development sets only."""
    data = make_lists(tmp_path / "lists", split="dev")
    command = ["board", "create", str(tmp_path / "contest"), "--protocol", "vpc2024", "--data", str(data)]
    assert main(command) == 0, capsys.readouterr().err
    assert Contest.load(tmp_path / "contest").split == "dev"
    assert "ranks on the dev data" in capsys.readouterr().out
    make_lists(data)  # with the test sets beside them, these are the ones to rank on
    assert main([*command[:2], str(tmp_path / "second"), *command[3:]]) == 0
    assert Contest.load(tmp_path / "second").split == "test"
    assert main([*command[:2], str(tmp_path / "third"), *command[3:], "--split", "dev"]) == 0
    assert Contest.load(tmp_path / "third").split == "dev"


def test_create_names_missing_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = make_lists(tmp_path / "lists", split="dev")
    (data / "libri_dev_trials_m" / "trials").unlink()
    command = ["board", "create", str(tmp_path / "contest"), "--protocol", "vpc2024", "--data", str(data)]
    assert main(command) == 1
    told = capsys.readouterr().err
    assert "test: libri_test_trials_f, libri_test_trials_m; dev: libri_dev_trials_m" in told
    assert main([*command, "--split", "dev"]) == 1
    assert (
        "the dev sets of vpc2024 are incomplete: no trials or no text in libri_dev_trials_m" in capsys.readouterr().err
    )
    assert main([*command[:4], "tdsv2024", *command[5:]]) == 1
    assert "docs/eval_keys.txt" in capsys.readouterr().err
    assert not (tmp_path / "contest").exists()


def test_board_commands_manage_a_contest(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "contest")
    command = ["board", "create", folder, "--protocol", "vpc2024", "--data", str(data), "--title", 'A "title"']
    assert main([*command[:4], "vpc2O24", *command[5:]]) == 1
    assert "unknown protocol 'vpc2O24' (did you mean vpc2024" in capsys.readouterr().err
    assert main([*command[:6], str(tmp_path), *command[7:]]) == 1
    capsys.readouterr()
    assert not Path(folder).exists()
    assert main(command) == 0
    contest = Contest.load(Path(folder))
    assert (contest.title, contest.daily, contest.total, contest.data) == ('A "title"', 0, 0, data.resolve())
    assert main(["board", "team", folder, "Team A", "--url", "https://x.org/"]) == 0
    out = capsys.readouterr().out
    token = search(r"token: (\S+)", out)
    assert f"link: https://x.org/team/{token}" in out
    assert Seal(read_key(Path(folder) / "key")).open("team", token)["team"] == "Team A"
    assert main(["board", "team", folder, "<b>"]) == 1
    rules = Path(folder) / "contest.toml"
    rules.write_text(rules.read_text() + "daly = 3\n")
    assert main(["board", "team", folder, "Team B"]) == 1
    assert "unknown key 'daly' (did you mean daily" in capsys.readouterr().err
