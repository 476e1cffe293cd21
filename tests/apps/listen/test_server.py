"""The server of listening tests over plain HTTP: saving, resuming, and everything that must be refused."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.listen_client import Client, search
from tests.support.listen_world import make_study, served
from voiceveil.apps.listen.app import invitation, open_app
from voiceveil.apps.listen.design import StudyPlan
from voiceveil.apps.listen.study import RATINGS, Study
from voiceveil.apps.listen.texts import load_texts
from voiceveil.apps.web.tokens import Seal, read_key
from voiceveil.core.errors import InputError

EVIL = """'); DROP TABLE answers; -- <script>alert(1)</script> "{{7*7}}" \x00\u202e"""
ASK = """
[study]
title = "Title <b>&"

[[ask]]
name = "native"
label = "Native <i>language</i>?"
options = ["yes", "no"]
required = true

[[ask]]
name = "device"
label = "Your headphones"
"""


class Place:
    """A study that is served."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        self.study = Study.load(folder)
        self.seal = Seal(read_key(folder / "key"))
        self._free = iter(self.study.evaluators)

    def token(self, name: str, seconds: float = 600.0) -> str:
        return invitation(self.seal, name, time.time() + seconds)

    def client(self) -> tuple[Client, str]:
        """A new evaluator at the consent page."""
        name = next(self._free)
        client = Client(self.address)
        assert client.get(f"/i/{self.token(name)}")[0] == 303
        return client, name

    def begun(self) -> tuple[Client, str]:
        """A new evaluator at the first item."""
        client, name = self.client()
        assert client.form("/consent", mark=client.mark(), agree="yes", **{"ask-native": "no"})[0] == 303
        assert client.form("/next", mark=client.mark(), item=client.item())[0] == 303
        return client, name

    def rows(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        with sqlite3.connect(self.folder / "answers.sqlite") as connection:
            return connection.execute(sql, values).fetchall()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("server")
    plan = StudyPlan(evaluators=40, raters=40, items=4, attention=0, headphones=0, panels=1,
                tasks=("naturalness", "similarity", "intelligibility", "clustering"))  # fmt: skip
    make_study(folder, plan, speakers=12, utterances=8, seconds=3.1)
    (folder / "study" / "texts.toml").write_text(ASK, encoding="utf-8")
    with served(folder / "study") as address:
        yield Place(folder / "study", address)


def all_answers(value: str = "5") -> dict[str, str]:
    return {"naturalness": value, "similarity": value, "intelligibility": value}


def test_session_leads_from_the_link_to_the_code(place: Place) -> None:
    client, name = place.begun()
    for number in range(4):
        item = client.item()
        assert client.json("/next", {"mark": client.mark(), "item": item, **all_answers(str(number + 1))})[0] == 200
    page = client.page()
    code = search(r'class="code">([A-Z2-7]{4}-[A-Z2-7]{4})<', page)
    rows = place.rows("SELECT value FROM answers WHERE evaluator = ? ORDER BY given", name)
    assert [row[0] for row in rows] == [str(n + 1) for n in range(4) for _ in range(3)]
    other = Client(place.address)
    other.get(f"/i/{place.token(name)}")  # the same person on another device
    assert code in other.page()


def test_answers_are_saved_at_once_and_shown_again(place: Place) -> None:
    client, name = place.begun()
    item, mark = client.item(), client.mark()
    assert client.json("/answer", {"mark": mark, "item": item, "naturalness": "7"}) == (200, {"saved": True})
    assert place.rows("SELECT value FROM answers WHERE evaluator = ?", name) == [("7",)]
    again = Client(place.address)
    again.get(f"/i/{place.token(name)}")
    assert again.item() == item
    assert 'name="naturalness" value="7" checked' in again.page()
    assert client.json("/answer", {"mark": mark, "item": item, "naturalness": "3"})[0] == 200
    assert place.rows("SELECT value, changes FROM answers WHERE evaluator = ?", name) == [("3", 1)]


def test_unfinished_items_cannot_be_skipped(place: Place) -> None:
    client, _ = place.begun()
    item, mark = client.item(), client.mark()
    assert client.json("/next", {"mark": mark, "item": item, "naturalness": "7"})[0] == 422
    assert client.item() == item
    for wrong in ("0", "11", "7.5", "", "A", 7, None, [1], {"a": 1}, EVIL, "9" * 5000):
        status, _ = client.json("/answer", {"mark": mark, "item": item, "naturalness": wrong})
        assert status == 422, wrong


def _changed(token: str) -> str:
    """With another letter inside the signature: the last one of base64 may hold bits that nobody reads."""
    return f"{token[:-8]}{'A' if token[-8] != 'A' else 'B'}{token[-7:]}"


def test_wrong_expired_and_foreign_tokens_are_rejected(place: Place) -> None:
    good = place.token("e001")
    foreign = Seal(b"x" * 32).token("invitation", {"evaluator": "e001"}, until=time.time() + 99)
    cookie = place.seal.token("cookie", {"evaluator": "e001", "session": "s"}, until=time.time() + 99)
    unknown = invitation(place.seal, "e999", time.time() + 99)
    for token in (
        good[:-1],
        _changed(good),
        foreign,
        cookie,
        unknown,
        "x",
        "%00",
    ):
        status, headers, data = Client(place.address).get(f"/i/{token}")
        assert status in (403, 404), token
        assert "set-cookie" not in headers
    status, headers, data = Client(place.address).get(f"/i/{place.token('e001', -1.0)}")
    assert (status, "set-cookie" in headers) == (403, False)
    assert b"This invitation has expired" in data
    client = Client(place.address)
    client.cookie = f"listen={place.seal.token('cookie', {'evaluator': 'e001', 'session': 's'}, until=time.time() - 1)}"
    assert client.get("/")[0] == 403
    client.cookie = f"listen={good}"  # an invitation is no cookie
    assert client.get("/")[0] == 403


def test_replayed_forms_are_rejected(place: Place) -> None:
    client, name = place.begun()
    sent = {"mark": client.mark(), "item": client.item(), **all_answers("4")}
    assert client.json("/next", sent)[0] == 200
    for path in ("/next", "/answer"):
        assert client.json(path, {**sent, "naturalness": "9"})[0] == 409
        assert client.json(path, sent)[0] == 409
    assert place.rows("SELECT count(*), max(value) FROM answers WHERE evaluator = ?", name) == [(3, "4")]
    assert place.rows("SELECT count(*) FROM finished WHERE evaluator = ?", name) == [(2,)]  # the introduction, the item
    status, _, page = client.form("/next", **{key: str(value) for key, value in sent.items()})
    assert status == 409
    assert b"continued in another window" in page


def test_forms_of_other_sites_are_rejected(place: Place) -> None:
    client, name = place.begun()
    item, mark = client.item(), client.mark()
    stranger, _ = place.begun()
    for bad in ("", "x" * 32, stranger.mark(), None, 5, ["a"]):
        assert client.json("/answer", {"mark": bad, "item": item, "naturalness": "5"})[0] == 403
    good = {"mark": mark, "item": item, "naturalness": "5"}
    assert client.json("/answer", good, sec_fetch_site="cross-site")[0] == 403
    assert place.rows("SELECT count(*) FROM answers WHERE evaluator = ?", name) == [(0,)]
    assert client.json("/answer", good, sec_fetch_site="same-origin")[0] == 200
    assert client.form("/withdraw", mark="no")[0] == 403


@pytest.mark.parametrize(
    "name",
    ["../design.json", "..%2f..%2fdesign.json", "%2e%2e%2fkey", "..%5ckey", "/etc/passwd", "%2fetc%2fpasswd",
     "x%00.wav", "....//key", "key", "design.json", "'; DROP TABLE answers; --", "a" * 5000],
)  # fmt: skip
def test_paths_outside_the_recordings_are_rejected(place: Place, name: str) -> None:
    client = Client(place.address)
    client.get(f"/i/{place.token('e001')}")
    from urllib.parse import quote

    for folder in ("audio", "static"):
        status, _, data = client.get(f"/{folder}/{quote(name, safe='%/.')}")
        assert status in (400, 404)
        assert place.seal.name("x").encode() not in data
        assert b"recordings" not in data


def test_recordings_are_served_only_to_their_evaluator(place: Place) -> None:
    client, _ = place.begun()
    audio = search(r'src="(/audio/\w+)"', client.page())
    status, headers, data = client.get(audio)
    assert (status, headers["content-type"], headers["accept-ranges"]) == (200, "audio/wav", "bytes")
    assert data[:4] == b"RIFF"
    status, headers, part = client.get(audio, range="bytes=100-199")
    assert (status, headers["content-range"]) == (206, f"bytes 100-199/{len(data)}")
    assert part == data[100:200]
    assert client.get(audio, range=f"bytes={len(data) + 5}-")[0] == 416
    assert Client(place.address).get(audio)[0] == 404


def test_pages_do_not_reveal_the_system(place: Place) -> None:
    client, name = place.begun()
    page = client.page()
    for secret in (
        "original",
        "good",
        "poor",
        name,
        *(r.speaker for r in place.study.recordings.values() if r.speaker),
    ):
        assert secret not in page, secret


def test_oversized_and_unreadable_bodies_are_rejected(place: Place) -> None:
    client, _ = place.begun()
    kind = {"content-type": "application/json"}
    assert client.request("POST", "/answer", b" " * 20_000, kind)[0] == 413
    chunked = {**kind, "transfer-encoding": "chunked"}
    body = b"4000\r\n" + b" " * 0x4000 + b"\r\n4000\r\n" + b" " * 0x4000 + b"\r\n0\r\n\r\n"
    assert client.request("POST", "/answer", body, chunked)[0] == 411
    for bad in (b"", b"{", b"[1]", b'"x"', b"\xff\xfe", b"[" * 10_000):
        assert client.request("POST", "/answer", bad, kind)[0] in (400, 403)
    assert client.get("/answer")[0] == 405
    assert client.page()  # it goes on


def test_free_text_fields_are_escaped(place: Place) -> None:
    client, name = place.client()
    page = client.page()
    assert "Title &lt;b&gt;&amp;" in page
    assert "Native &lt;i&gt;language&lt;/i&gt;?" in page
    mark = client.mark()
    for native in (EVIL, "maybe", ""):
        fields = {"ask-native": native, "ask-device": "x"}
        assert client.form("/consent", mark=mark, agree="yes", **fields)[0] == 422
    assert client.form("/consent", mark=mark, agree="yes", **{"ask-native": "yes", "ask-device": "x" * 201})[0] == 422
    assert client.form("/consent", mark=mark, **{"ask-native": "yes"})[0] == 422
    assert place.rows("SELECT count(*) FROM consents WHERE evaluator = ?", name) == [(0,)]
    fields = {"ask-native": "yes", "ask-device": EVIL, "ask-other": "not asked", "email": "not asked"}
    assert client.form("/consent", mark=mark, agree="yes", **fields)[0] == 303
    stored = json.loads(str(place.rows("SELECT background FROM consents WHERE evaluator = ?", name)[0][0]))
    assert stored == {"native": "yes", "device": EVIL.strip()}  # as text, and nothing that was not asked
    assert place.rows("SELECT count(*) FROM answers") != []  # the table is still there
    assert client.form("/next", mark=mark, item=EVIL)[0] == 409
    status, _, data = client.get("/%3Cscript%3Ealert(1)%3C/script%3E")
    assert (status, b"<script>alert" in data) == (404, False)


def test_every_response_has_security_headers(place: Place) -> None:
    client, _ = place.begun()
    for path in ("/", "/static/listen.js", "/nowhere", "/health", search(r'src="(/audio/\w+)"', client.page())):
        headers = client.get(path)[1]
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert client.get("/")[1]["cache-control"] == "no-store"
    cookie = Client(place.address).get(f"/i/{place.token('e001')}")[1]["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie


def test_pages_have_no_external_addresses_and_nothing_inline(place: Place) -> None:
    client, _ = place.begun()
    import re

    for page in (client.page(), client.page("/withdraw"), Client(place.address).page()):
        assert not re.search(r"https?://|//cdn| on\w+=|<style|style=|<script>|javascript:", page)


def test_requests_are_rate_limited(place: Place) -> None:
    client, _ = place.begun()
    item, mark = client.item(), client.mark()
    sent = {"mark": mark, "item": item, "naturalness": "5"}
    assert [client.json("/answer", sent)[0] for _ in range(60)] == [200] * 60  # nobody is so fast
    post = ("POST", "/answer", b"{}", {"content-type": "application/json"})
    refused = [headers for status, headers, _ in (client.request(*post) for _ in range(200)) if status == 429]
    assert refused
    assert all(int(headers["retry-after"]) >= 1 for headers in refused)


def test_withdrawing_deletes_everything(place: Place) -> None:
    client, name = place.begun()
    mark = client.mark()
    client.json("/next", {"mark": mark, "item": client.item(), **all_answers()})
    assert client.form("/withdraw", mark=mark)[0] == 200
    for table in ("consents", "answers", "moves", "finished"):
        assert place.rows(f"SELECT count(*) FROM {table} WHERE evaluator = ?", name) == [(0,)]
    assert client.json("/answer", {"mark": mark, "item": "intro-1", "naturalness": "5"})[0] in (409, 422)


def test_panel_moves_are_counted_once(place: Place) -> None:
    client, name = place.begun()
    mark = client.mark()
    for _ in range(4):
        client.json("/next", {"mark": mark, "item": client.item(), **all_answers()})
    for _ in range(2):  # the end of the session, the introduction of the next
        assert client.form("/next", mark=mark, item=client.item())[0] == 303
    panel = client.item()
    assert panel.startswith("panel")

    def move(number: object, excerpt: object, cluster: object) -> int:
        sent = {"mark": mark, "item": panel, "number": number, "excerpt": excerpt, "cluster": cluster}
        return client.json("/move", sent)[0]

    for number in range(16):
        assert move(number, number, 1 + number % 4) == 200
        if number < 15:
            assert move(number, number, 1 + number % 4) == 200  # the acknowledgement was lost: sent again
    assert move(3, 3, 1) == 409  # another window
    assert move(17, 0, 1) == 409
    for bad in (
        (16, 16, 1),
        (16, -1, 1),
        (16, 0, 0),
        (16, 0, 5),
        (True, 0, 1),
        ("16", 0, 1),
        (16, 0.5, 1),
        (16, None, 1),
    ):
        assert move(*bad) == 422
    assert move(16, 0, 2) == 200
    rows = place.rows("SELECT number, excerpt, cluster FROM moves WHERE evaluator = ? ORDER BY number", name)
    assert rows == [*((n, n, 1 + n % 4) for n in range(16)), (16, 0, 2)]
    assert client.json("/next", {"mark": mark, "item": panel})[0] == 200
    assert move(17, 0, 1) == 409  # closed


def test_database_belongs_to_one_design(place: Place, tmp_path: Path) -> None:
    other = make_study(tmp_path, StudyPlan(evaluators=1, raters=1, items=2), speakers=6, utterances=4)
    assert other.evaluators
    with pytest.raises(InputError, match="the database holds the answers of another design"):
        open_app(tmp_path / "study", str(place.folder / "answers.sqlite"))
    (tmp_path / "broken.sqlite").write_bytes(b"not a database, by any means" * 100)
    with pytest.raises(InputError, match="not usable as a database"):
        open_app(tmp_path / "study", str(tmp_path / "broken.sqlite"))
    with pytest.raises(InputError, match="unknown kind of database 'mysql'"):
        open_app(tmp_path / "study", "mysql://x")
    next(iter((tmp_path / "study" / "audio").iterdir())).unlink()
    with pytest.raises(InputError, match="1 recordings are missing"):
        open_app(tmp_path / "study")


def test_texts_of_2022_have_the_questions_and_scales_of_the_plan(tmp_path: Path) -> None:
    make_study(tmp_path, StudyPlan(evaluators=2, raters=2, items=8, texts="2022"))
    texts = load_texts(tmp_path / "study")
    scales = {question: (texts[question]["low"], texts[question]["high"]) for question in RATINGS}
    assert scales == {
        "naturalness": (
            "1: audio A exhibits severe audio degradation",
            "10: audio A does not exhibit any degradation",
        ),
        "similarity": (
            "1: audio A and B were uttered by different speakers for sure",
            "10: audio A and B were uttered by the same speaker for sure",
        ),
        "intelligibility": ("1: audio A is NOT understandable at all", "10: audio A is perfectly understandable"),
    }
    assert texts["naturalness"]["question"].endswith("answer how much you can hear the audio degradation.")
    assert texts["page"]["recording_a"] == "Audio A"
    assert texts["page"]["next"] == "Next"  # what the plan does not say is as in the default texts
    assert "original audio includes background noise" in " ".join(texts["naturalness"]["help"].split())
    with pytest.raises(InputError, match="unknown texts '2020'"):
        StudyPlan(texts="2020")


def test_texts_of_a_study_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "texts.toml"
    file.write_text('[page]\nnext = "Weiter"\n', encoding="utf-8")
    texts = load_texts(tmp_path)
    assert texts["page"]["next"] == "Weiter"
    assert texts["page"]["begin"] == "Begin"
    for text, message in (
        ("[page]\nnxt = 'x'\n", r"unknown key 'nxt' \(did you mean next"),
        ("[page]\nnext = 3\n", "'next' is not of the right kind"),
        ("[headphones]\noptions = ['a']\n", "'options' has 1 entries"),
        ("[[ask]]\nlabel = 'x'\n", r"\[\[ask\]\]: .*name"),
        ("direction = 'up'\n", "direction 'up'"),
        ("[page", "not TOML"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            load_texts(tmp_path)
