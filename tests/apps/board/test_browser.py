"""The leaderboard in a real browser: a team uploads good and bad archives and sees its rank."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.apps.listen.test_browser import FLAGS, look, opened
from tests.support.board_world import link, make_lists, submission, tar
from tests.support.browser import chromium
from tests.support.listen_world import running
from voiceveil.apps.board.app import open_board, team_token
from voiceveil.apps.board.contest import Contest, create_contest
from voiceveil.apps.board.store import Store
from voiceveil.apps.web.database import open_database
from voiceveil.apps.web.tokens import Seal, read_key

pytestmark = pytest.mark.skipif(chromium() is None, reason="no chromium (Debian: apt-get install chromium)")


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield one
        one.close()


def test_team_uploads_archives_and_sees_its_rank(browser: Browser, tmp_path: Path) -> None:
    data = make_lists(tmp_path / "lists")
    folder = tmp_path / "contest"
    create_contest(folder, Contest("vpc2024", data, "test", "A <b>contest</b>"))
    store = Store(open_database(folder / "board.sqlite"))
    for team in ("Us", "Others"):
        store.add_team(team)
    seal = Seal(read_key(folder / "key"))
    files = {"bad": tar(submission(data), link("exp/asr/x", "/etc/passwd")), "cut": tar(submission(data))[:-300]}
    files |= {
        "others": tar(submission(data, separation=1.2, errors=0.3)),
        "good": tar(submission(data, separation=1.2)),
    }
    for name, content in files.items():
        (tmp_path / f"{name}.tar.gz").write_bytes(content)
    with running(open_board(folder)) as address:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.set_default_timeout(60_000)
        page, complaints = opened(context, address)

        def upload(team: str, system: str, file: str) -> str:
            page.goto(f"{address}/team/{team_token(seal, team, time.time() + 600)}")
            page.get_by_label("Name of the system").fill(system)
            page.get_by_label("Archive").set_input_files(tmp_path / f"{file}.tar.gz")
            page.get_by_role("button", name="Upload").click()
            page.locator("#state.good, #state.poor").wait_for()
            return page.locator("#state").inner_text()

        page.goto(address)
        assert page.get_by_text("No submission yet.").is_visible()
        assert upload("Others", "theirs", "others").startswith("✓ Accepted")
        page.wait_for_load_state()
        complaints.clear()
        assert "a symbolic link" in upload("Us", "ours", "bad")
        assert "Refused" in upload("Us", "ours", "cut")
        complaints.clear()  # the browser notes that a request was answered with 422
        assert upload("Us", "ours", "good").startswith("✓ Accepted")
        page.get_by_role("cell", name="scored").wait_for()
        assert page.get_by_role("cell", name="refused").count() == 2
        assert page.get_by_text("Submissions left: 1 today, 9 in all").is_visible()
        look(page)
        page.goto(address)
        rows = page.locator("tbody tr").all_inner_texts()
        assert [row.split("\t")[:2] for row in rows] == [["1", "Us/ours"], ["2", "Others/theirs"]]
        assert page.get_by_role("heading", level=1).inner_text() == "Leaderboard"
        assert page.evaluate("document.querySelector('img.plane').naturalWidth") > 300
        look(page)
        page.goto(f"{address}/rules")
        assert page.get_by_text("at most 2 a day and 10 in all").is_visible()
        look(page)
        page.goto(f"{address}/team/{team_token(seal, 'Us', time.time() + 600)}")
        page.get_by_label("Name of the described system").fill("ours")
        page.get_by_label("Description", exact=True).fill("Our system.\nhttps://example.org/paper.pdf")
        page.get_by_role("button", name="Save the description").click()
        page.locator("details summary").wait_for()
        look(page)
        page.goto(address)
        page.get_by_role("link", name="Us/ours").click()
        assert page.get_by_role("link", name="https://example.org/paper.pdf").is_visible()
        look(page)
        page.goto(f"{address}/team/none")
        look(page)
        assert [line for line in complaints if "403" not in line] == []
        context.close()
    assert list((folder / "incoming").iterdir()) == []
