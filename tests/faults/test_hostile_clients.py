"""Clients that mean harm, over real sockets of 127.0.0.1 against servers that really run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.listen_client import Client
from tests.listen_world import make_study, served
from voiceveil.listen.app import invitation
from voiceveil.listen.design import Plan
from voiceveil.web.tokens import Seal, read_key

PLAN = Plan(evaluators=12, raters=12, items=4, attention=0, headphones=0)
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


def evaluator(folder: Path, address: str, name: str, device: str = "") -> Client:
    """Return the client of an evaluator who has consented and is at the first item."""
    client = Client(address)
    token = invitation(Seal(read_key(folder / "key")), name, time.time() + 600)
    assert client.get(f"/i/{token}")[0] == 303
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


def test_nothing_of_a_withdrawn_evaluator_is_left_in_the_files(folder: Path, listen: str) -> None:
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
