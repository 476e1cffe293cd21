"""Clients that mean harm, over real sockets of 127.0.0.1 against servers that really run."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.board_world import make_lists, submission, tar
from tests.support.listen_client import Client, search
from tests.support.listen_world import make_study, running, served
from voiceveil.apps.board.app import open_board, team_token
from voiceveil.apps.board.contest import Contest, create_contest
from voiceveil.apps.board.store import Store
from voiceveil.apps.listen.app import invitation, open_app
from voiceveil.apps.listen.design import StudyPlan
from voiceveil.apps.web.database import open_database
from voiceveil.apps.web.limits import RateLimit
from voiceveil.apps.web.tokens import Revocations, Seal, read_key
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.core.locking import exclusive_lock

PLAN = StudyPlan(evaluators=12, raters=12, items=4, attention=0, headphones=0)
ASK = '[[ask]]\nname = "device"\nlabel = "Your headphones"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A listening study."""
    folder = tmp_path_factory.mktemp("hostile")
    make_study(folder, PLAN, speakers=12, utterances=4, seconds=1.0)
    (folder / "study" / "texts.toml").write_text(ASK, encoding="utf-8")
    return folder / "study"


@pytest.fixture(scope="module")
def listen(folder: Path) -> Iterator[str]:
    """The address of a server of the study."""
    with served(folder) as address:
        yield address


@pytest.fixture
def contest(tmp_path: Path) -> Path:
    """A contest with the team A."""
    data = make_lists(tmp_path / "lists")
    folder = tmp_path / "contest"
    create_contest(folder, Contest("vpc2024", data, "test", "t", daily=5, largest=1 << 20))
    Store(open_database(folder / "board.sqlite")).add_team("A")
    return folder


def bearer(folder: Path, team: str = "A") -> dict[str, str]:
    """Return the header by which a team uploads."""
    return {"authorization": f"Bearer {team_token(Seal(read_key(folder / 'key')), team, time.time() + 600)}"}


def connect(address: str) -> socket.socket:
    """Return a connection to a server."""
    place = urlsplit(address)
    return socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=20)


def link_token(folder: Path, name: str) -> str:
    """Return the token of an invitation."""
    return invitation(Seal(read_key(folder / "key")), name, time.time() + 600)


def evaluator(folder: Path, address: str, name: str, device: str = "") -> Client:
    """Return the client of an evaluator who has consented and is at the first item."""
    client = Client(address)
    assert client.get(f"/i/{link_token(folder, name)}")[0] == 303
    assert client.form("/consent", mark=client.mark(), agree="yes", **{"ask-device": device})[0] == 303
    assert client.form("/next", mark=client.mark(), item=client.item())[0] == 303
    return client


# --- What is sent -------------------------------------------------------------------------------------------------


def test_surrogates_in_json_are_a_bad_request(folder: Path, listen: str) -> None:
    """JSON can spell half of a UTF-16 pair, which no text file, database or digest can hold."""
    client = evaluator(folder, listen, "e001")
    sent = {"mark": client.mark(), "item": client.item(), "naturalness": "5"}
    wrong = [{**sent, place: "\udfff"} for place in sent]
    for spoiled in [*wrong, {**sent, "\ud800": "x"}, {**sent, "deep": [{"x": ["\udc00"]}]}]:
        assert client.json("/answer", spoiled) == (400, {"saved": False, "error": "not readable"})
    assert client.json("/answer", sent) == (200, {"saved": True})


# --- What is deleted ----------------------------------------------------------------------------------------------


def test_withdrawn_evaluator_leaves_no_bytes_in_the_files(folder: Path, listen: str) -> None:
    """Neither in the database, nor in its write-ahead log; also while others read and write."""
    said = "Sennheiser of my late aunt"
    leaver, other = evaluator(folder, listen, "e002", said), evaluator(folder, listen, "e003")

    def files() -> bytes:
        return b"".join(path.read_bytes() for path in sorted(folder.glob("answers.sqlite*")))

    for value in "123456789":  # every change leaves a copy of the page in the log
        for client in (leaver, other):
            sent = {"mark": client.mark(), "item": client.item(), "naturalness": value}
            assert client.json("/answer", sent)[0] == 200
    assert said.encode() in files()
    assert b"e002" in files()
    assert leaver.form("/withdraw", mark=leaver.mark())[0] == 200
    assert said.encode() not in files()
    assert b"e002" not in files()
    assert b"e003" in files()
    assert "checked" in other.page()


def test_uploads_stay_in_the_folder_of_the_contest(contest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what is unpacked, which the system's folder of temporary files would keep after a kill."""
    monkeypatch.setattr(tempfile, "tempdir", str(contest / "nowhere"))
    left = contest / "incoming" / "unpacked-by-a-killed-server"
    left.mkdir(parents=True)
    (left / "scores").write_bytes(b"of another team")
    with running(open_board(contest)) as address:
        assert list((contest / "incoming").iterdir()) == []
        sent = tar(submission(Contest.load(contest).data))
        assert Client(address).request("POST", "/submit?system=x", sent, bearer(contest))[0] == 200
    assert list((contest / "incoming").iterdir()) == []


def test_linked_upload_folder_is_not_emptied(contest: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    (contest / "incoming").symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match="not a folder"):
        open_board(contest)
    assert (tmp_path / "mine" / "file").read_text() == "precious"


def test_second_server_keeps_the_uploads_of_the_first(contest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with exclusive_lock(contest, "the first server"):
        (contest / "incoming").mkdir()
        (contest / "incoming" / "upload").write_bytes(b"half")
        assert main(["board", "serve", str(contest), "--port", "0"]) == 1
    assert "another server is running here" in capsys.readouterr().err
    assert (contest / "incoming" / "upload").exists()


def test_full_disk_rejects_an_upload_without_counting_it(contest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("voiceveil.apps.board.app._append", full)
    with running(open_board(contest)) as address:
        status, headers, _ = Client(address).request("POST", "/submit?system=x", b"x" * 99, bearer(contest))
    assert (status, headers["retry-after"]) == (503, "600")
    (row,) = Store(open_database(contest / "board.sqlite")).of_team("A")
    assert (row.state, row.reason[:27]) == ("refused", "the server could not store ")


# --- Tokens that are taken back -----------------------------------------------------------------------------------


def test_teams_and_single_tokens_are_revoked(contest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def token() -> str:
        assert main(["board", "team", str(contest), "A"]) == 0
        return search(r"token: (\S+)", capsys.readouterr().out)

    def sends(token: str) -> int:
        head = {"authorization": f"Bearer {token}"}
        return Client(address).request("POST", "/submit?system=x", b"rubbish", head)[0]

    first, second = token(), token()
    with running(open_board(contest)) as address:
        browser = Client(address)
        assert browser.get(f"/team/{first}")[0] == 303
        assert (browser.get("/team")[0], sends(first), sends(second)) == (200, 422, 422)
        assert main(["board", "revoke", str(contest), "--token", f"https://x.org/team/{first}"]) == 0
        assert (browser.get("/team")[0], sends(first), sends(second)) == (403, 403, 422)
        assert browser.get(f"/team/{first}")[0] == 403
        forged = first[:-1] + ("A" if first[-1] != "A" else "B")  # base64 may have spare bits at its end
        assert sends(forged) == 403
        assert main(["board", "revoke", str(contest), "--team", "A"]) == 0
        assert sends(second) == 403
        assert sends(token()) == 422
    for wrong in (["--team", "B"], ["--token", "x"], ["--token", first[:-9]]):
        assert main(["board", "revoke", str(contest), *wrong]) == 1
    said = capsys.readouterr().err
    assert "unknown team 'B'" in said
    assert "this is not a token of this server" in said


def test_evaluators_and_single_links_are_revoked(folder: Path, listen: str, capsys: pytest.CaptureFixture[str]) -> None:
    def link() -> str:
        assert main(["listen", "invite", str(folder), "--url", listen, "--evaluators", "e004"]) == 0
        return search(r"e004,(\S+?),", capsys.readouterr().out).removeprefix(listen)

    first, second = link(), link()
    browser, other = Client(listen), Client(listen)
    assert browser.get(first)[0] == other.get(second)[0] == 303
    assert browser.get("/")[0] == other.get("/")[0] == 200
    sound = search(r'src="(/audio/\w+)"', evaluator(folder, listen, "e005").page())
    assert main(["listen", "revoke", str(folder), "--links", listen + first]) == 0
    assert (browser.get("/")[0], browser.get(sound)[0], other.get("/")[0]) == (403, 404, 200)
    status, _, page = Client(listen).get(first)
    assert (status, b"has expired" in page) == (403, True)
    assert main(["listen", "revoke", str(folder), "--evaluators", "e004"]) == 0
    assert other.get("/")[0] == 403
    assert Client(listen).get(link())[0] == 303
    assert main(["listen", "revoke", str(folder), "--evaluators", "e04"]) == 1
    assert "unknown evaluator 'e04'" in capsys.readouterr().err


# --- A database that is slow ---------------------------------------------------------------------------------------


def test_slow_database_does_not_block_other_requests(
    contest: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every query of the servers runs in a thread: the event loop answers others meanwhile."""
    slow = threading.Event()

    def has(self: Revocations, holder: str, said: dict[str, object]) -> bool:
        slow.wait(10)
        return False

    monkeypatch.setattr(Revocations, "has", has)
    token = bearer(contest)["authorization"].partition(" ")[2]
    for app, path in ((open_board(contest), f"/team/{token}"), (open_app(folder), f"/i/{link_token(folder, 'e006')}")):
        slow.clear()
        with running(app) as address, connect(address) as waiting:
            waiting.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
            time.sleep(0.05)
            began = time.monotonic()
            assert Client(address).get("/static/report.css")[0] == 200
            assert time.monotonic() - began < 5.0
            slow.set()
            assert waiting.recv(20).startswith(b"HTTP/1.1 303")


def test_rebuilding_the_board_is_rate_limited(contest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred requests at once pass; the limiter's clock stands still, so that a slow machine sees no refill."""
    wait = RateLimit.wait
    monkeypatch.setattr(RateLimit, "wait", lambda self, key: wait(self, key, now=0.0))
    with running(open_board(contest)) as address:
        statuses = [Client(address).get(path)[0] for path in 55 * ["/", "/figure.svg"]]
        assert statuses == 50 * [200, 404] + 10 * [429]  # 404: there is no figure yet
        assert Client(address).get("/static/report.css")[0] == 200
