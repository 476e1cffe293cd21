"""Listening tests in a real browser: a session, a closed tab, a lost connection, panels by mouse and by keyboard."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support.browser import chromium
from tests.support.listen_world import answer_all, make_study, served
from tests.support.page_checks import CONTRAST, CROWDED, NAMELESS, SMALL
from voiceveil.apps.listen.answers import Answers
from voiceveil.apps.listen.app import invitation
from voiceveil.apps.listen.design import StudyPlan
from voiceveil.apps.listen.page import write_analysis
from voiceveil.apps.listen.study import Study
from voiceveil.apps.web.database import open_database
from voiceveil.apps.web.tokens import Seal, read_key

pytestmark = pytest.mark.skipif(chromium() is None, reason="no chromium (Debian: apt-get install chromium)")

WIDTHS = (390, 820, 1440)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--mute-audio",
    "--disable-dev-shm-usage",
]
PLAYED = "document.querySelectorAll('audio')[{}].ended"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield one
        one.close()


class Place:
    """A study that is served, and a fresh evaluator for each test."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        self.study = Study.load(folder)
        self._free = iter(self.study.evaluators)

    def link(self) -> tuple[str, str]:
        name = next(self._free)
        seal = Seal(read_key(self.folder / "key"))
        return name, f"{self.address}/i/{invitation(seal, name, time.time() + 600)}"

    def rows(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        with sqlite3.connect(self.folder / "answers.sqlite") as connection:
            return connection.execute(sql, values).fetchall()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Two rated items, one attention check, one preference, one panel."""
    folder = tmp_path_factory.mktemp("browser")
    plan = StudyPlan(evaluators=8, raters=8, items=2, attention=1, headphones=1, panels=1,
                tasks=("naturalness", "similarity", "intelligibility", "preference", "clustering"))  # fmt: skip
    make_study(folder, plan, speakers=8, utterances=12, seconds=3.05)
    shorten(folder / "study")
    with served(folder / "study") as address:
        yield Place(folder / "study", address)


def shorten(study: Path) -> None:
    """Recordings of half a second, so that nobody waits; their length is no matter of the page."""
    import soundfile

    for path in (study / "audio").iterdir():
        samples, rate = soundfile.read(path)
        soundfile.write(path, samples[: rate // 2], rate, subtype="PCM_16")


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    one = browser.new_context(viewport={"width": 820, "height": 1000})
    one.set_default_timeout(60_000)
    yield one
    one.close()


def opened(context: BrowserContext, address: str) -> tuple[Page, list[str]]:
    """A tab, and all that it complains about or loads from elsewhere."""
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith((address, "data:")) else complaints.append(r.url))
    return page, complaints


def until(page: Page, condition: str) -> None:
    """Wait for a condition. (Playwright's own way needs `eval`, which the policy of the pages forbids.)"""
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def listen(page: Page) -> None:
    """Play every recording to its end, by keyboard."""
    for number in range(page.locator("audio").count()):
        until(page, f"document.querySelectorAll('audio')[{number}].readyState >= 2")
        assert page.evaluate(f"(a => a.paused && a.currentTime === 0)(document.querySelectorAll('audio')[{number}])")
        page.locator("audio").nth(number).focus()
        page.keyboard.press("Space")
        until(page, PLAYED.format(number))


def go_on(page: Page) -> None:
    with page.expect_navigation():
        page.locator("button[type=submit]").click()


def kind(page: Page) -> str:
    return str(page.locator("input[name=item]").first.get_attribute("value")).partition("-")[0]


def answer(page: Page, value: str) -> dict[str, str]:
    """Listen, choose on every question, wait until each answer is saved."""
    listen(page)
    chosen = {}
    for fieldset in page.locator("fieldset").all():
        boxes = fieldset.locator("input")
        number = int(value) % boxes.count()
        boxes.nth(number).focus()
        page.keyboard.press("Space")
        fieldset.get_by_text("✓ Saved").wait_for()
        chosen[str(boxes.nth(number).get_attribute("name"))] = str(boxes.nth(number).get_attribute("value"))
    return chosen


def begin(page: Page, link: str) -> None:
    page.goto(link)
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Take part").click()
    page.get_by_role("heading", name="Imagine this").wait_for()
    go_on(page)


def test_session_survives_a_closed_tab_and_a_lost_connection(place: Place, context: BrowserContext) -> None:
    name, link = place.link()
    page, complaints = opened(context, place.address)
    begin(page, link)
    said: dict[tuple[str, str], str] = {}

    def note(item: str, answers: dict[str, str]) -> None:
        said.update({(item, question): value for question, value in answers.items()})

    def current() -> str:
        return str(page.locator("input[name=item]").get_attribute("value"))

    assert kind(page) == "headphones"
    note(current(), answer(page, "1"))
    go_on(page)

    # Nothing can be answered before it was heard, and nothing plays by itself.
    assert kind(page) == "rating"
    assert page.locator("fieldset:disabled").count() == 3
    page.locator("button[type=submit]").click()
    assert page.locator(".state.wrong").count() == 3
    item = current()
    listen(page)
    assert page.locator("fieldset:disabled").count() == 0
    page.locator("input[name=naturalness][value='7']").check(force=True)
    page.locator("fieldset").first.get_by_text("✓ Saved").wait_for()
    assert place.rows("SELECT question, value FROM answers WHERE evaluator = ? AND item = ?", name, item) == [
        ("naturalness", "7")
    ]

    # The tab is closed in the middle of an item: a new one shows this item and what was answered.
    page.close()
    page, complaints = opened(context, place.address)
    page.goto(place.address)
    assert current() == item
    assert page.locator("input[name=naturalness][value='7']").is_checked()
    assert page.locator("fieldset:disabled").count() == 2

    # The connection is lost: the answer is kept and sent when it is back.
    listen(page)
    context.set_offline(True)
    page.locator("input[name=similarity][value='3']").check(force=True)
    page.locator("#offline").wait_for()
    assert len(place.rows("SELECT 1 FROM answers WHERE evaluator = ? AND item = ?", name, item)) == 1
    context.set_offline(False)
    page.locator("fieldset").nth(1).get_by_text("✓ Saved").wait_for()
    assert not page.locator("#offline").is_visible()
    page.locator("input[name=intelligibility][value='9']").check(force=True)
    note(item, {"naturalness": "7", "similarity": "3", "intelligibility": "9"})
    go_on(page)
    complaints.clear()  # the browser's own note that it was offline

    for turn in ("4", "2"):
        note(current(), answer(page, turn))
        go_on(page)
    assert page.locator(".code").inner_text().count("-") == 1
    rows = place.rows("SELECT item, question, value FROM answers WHERE evaluator = ?", name)
    assert {(str(i), str(q)): v for i, q, v in rows} == said
    assert complaints == []


def test_recordings_play_completely_and_unclipped(place: Place, context: BrowserContext) -> None:
    _, link = place.link()
    page, _ = opened(context, place.address)
    begin(page, link)
    answer(page, "0")
    go_on(page)
    listen(page)
    whole = page.evaluate("[...document.querySelectorAll('audio')].map(a => [a.currentTime, a.duration, a.volume])")
    for reached, duration, volume in whole:
        assert reached == pytest.approx(duration, abs=0.01)
        assert volume == 1
    peaks = page.evaluate("""Promise.all([...document.querySelectorAll('audio')].map(async a => {
        const data = await (await fetch(a.src)).arrayBuffer();
        const sound = await new OfflineAudioContext(1, 1, 44100).decodeAudioData(data);
        return Math.max(...sound.getChannelData(0).map(Math.abs)); }))""")
    assert all(0.01 < peak < 0.9 for peak in peaks)


def to_panel(place: Place, context: BrowserContext) -> tuple[str, Page, list[str]]:
    """A new evaluator at the panel: everything before is answered without the browser."""
    from voiceveil.apps.listen.session_flow import SessionFlow

    name, link = place.link()
    import hashlib

    fingerprint = hashlib.sha256((place.folder / "design.json").read_bytes()).hexdigest()
    answers = Answers(open_database(place.folder / "answers.sqlite"), fingerprint)
    answers.consent(name, {})
    for step in SessionFlow(place.study, name).steps:
        if step.kind == "panel":
            break
        answers.finish(name, step.id, {})
    page, complaints = opened(context, place.address)
    page.goto(link)
    page.locator("#panel").wait_for()
    return name, page, complaints


def moved(place: Place, name: str, page: Page, count: int) -> list[tuple[object, ...]]:
    """The moves in the database, once there are so many."""
    for _ in range(300):
        rows = place.rows("SELECT excerpt, cluster FROM moves WHERE evaluator = ? ORDER BY number", name)
        if len(rows) >= count:
            return rows
        page.wait_for_timeout(100)
    raise AssertionError(rows)


def test_panel_works_by_mouse(place: Place, context: BrowserContext) -> None:
    name, page, complaints = to_panel(place, context)

    def drag(excerpt: int, cluster: int) -> None:
        chip = page.locator(f".chip[data-number='{excerpt}']")
        target = page.locator(f".place[data-cluster='{cluster}']")
        target.scroll_into_view_if_needed()
        start, end = chip.bounding_box(), target.bounding_box()
        assert start is not None
        assert end is not None
        page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
        page.mouse.down()
        page.mouse.move(start["x"] + 30, start["y"] + 30, steps=3)
        page.mouse.move(end["x"] + end["width"] / 2, end["y"] + 20, steps=3)
        page.mouse.up()

    wanted = [(n, 1 + n % 3) for n in range(16)]
    for excerpt, cluster in wanted:
        drag(excerpt, cluster)
    assert moved(place, name, page, 16) == wanted
    drag(0, 1)  # where it is already: nothing
    drag(5, 4)
    page.locator(".chip[data-number='6']").click()  # to hear it, and by the button of a group
    until(page, "document.getElementById('player').currentTime > 0")
    page.get_by_role("group", name="Put excerpt 7 into").get_by_role("button", name="Group 2").click()
    wanted += [(5, 4), (6, 2)]
    assert moved(place, name, page, 18) == wanted

    page.close()  # a closed tab: all is where it was
    page, complaints = opened(context, place.address)
    page.goto(place.address)
    final = dict(wanted)
    for excerpt, cluster in final.items():
        assert page.locator(f".place[data-cluster='{cluster}'] .chip[data-number='{excerpt}']").count() == 1
    page.get_by_role("button", name="Next").click()
    page.locator(".code").wait_for()
    assert moved(place, name, page, 18) == wanted
    assert complaints == []


def test_panel_works_by_keyboard(place: Place, context: BrowserContext) -> None:
    name, page, complaints = to_panel(place, context)
    assert page.get_by_role("button", name="Next").is_disabled()
    while page.evaluate("!document.activeElement.classList.contains('chip')"):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.number") == "0"
    page.keyboard.press("Enter")
    until(page, "document.getElementById('player').ended")
    page.keyboard.press("2")
    assert page.locator("#live").inner_text() == "Excerpt 1 is in group 2. 15 left."
    label = page.locator(".chip[data-number='0']").get_attribute("aria-label")
    assert label == "Excerpt 1, Group 2"
    page.keyboard.press("3")  # thought again
    wanted = [(0, 2), (0, 3)]
    page.locator(".chip[data-number='1']").focus()
    for number in range(1, 16):
        assert page.evaluate("document.activeElement.dataset.number") == str(number)
        page.keyboard.press("1")
        wanted.append((number, 1))
        if number < 15:
            page.locator(".tray .chip").first.focus()
    page.locator(".chip[data-number='15']").press("ArrowRight")
    assert page.evaluate("document.activeElement.classList.contains('chip')")
    assert moved(place, name, page, 17) == wanted
    while page.evaluate("document.activeElement.id") != "finish":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator(".code").wait_for()
    assert complaints == []


def test_ratings_work_without_scripts(place: Place, browser: Browser) -> None:
    name, link = place.link()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    begin(page, link)
    page.locator("input[name=headphones][value='2']").check(force=True)
    go_on(page)
    item = page.locator("input[name=item]").get_attribute("value")
    page.locator("input[name=naturalness][value='7']").check(force=True)
    page.locator("button[type=submit]").click()  # not all is answered
    page.goto(place.address)
    assert page.locator("input[name=item]").get_attribute("value") == item
    for question in ("naturalness", "similarity", "intelligibility"):
        page.locator(f"input[name={question}][value='6']").check(force=True)
    go_on(page)
    assert page.locator("input[name=item]").get_attribute("value") != item
    rows = place.rows("SELECT value FROM answers WHERE evaluator = ? AND item = ?", name, item)
    assert rows == [("6",)] * 3
    context.close()


def look(page: Page) -> None:
    """At all widths, light and dark: nothing sticks out, everything can be read, named and pressed."""
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found = page.evaluate(
                f"[document.documentElement.scrollWidth - innerWidth, getComputedStyle(document.body).backgroundColor, "
                f"{CONTRAST.strip()}, {NAMELESS.strip()}, {SMALL.strip()}]"
            )
            back = "rgb(13, 17, 23)" if scheme == "dark" else "rgb(255, 255, 255)"
            assert found == [0, back, [], [], []], (page.title(), width, scheme)


def test_every_page_fits_every_width(place: Place, context: BrowserContext) -> None:
    _, link = place.link()
    page, complaints = opened(context, place.address)
    page.goto(link)
    look(page)
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Take part").click()
    page.get_by_role("heading", name="Imagine this").wait_for()
    seen = set()
    while True:
        step = kind(page) if page.locator("input[name=item]").count() else "panel"
        if step not in seen:
            page.evaluate("document.querySelectorAll('fieldset').forEach(f => f.disabled = false)")
            look(page)
            seen.add(step)
        if step == "panel":
            break
        if step in ("intro", "end"):
            go_on(page)
            continue
        page.evaluate("document.querySelectorAll('fieldset').forEach(f => f.disabled = false)")
        for fieldset in page.locator("fieldset").all():
            fieldset.locator("input").first.check(force=True)
        go_on(page)
    assert seen == {"intro", "headphones", "rating", "attention", "preference", "end", "panel"}
    page.goto(f"{place.address}/withdraw")
    look(page)
    assert complaints == []
    context.clear_cookies()
    page.goto(place.address)
    look(page)


def test_report_is_readable_in_a_browser(context: BrowserContext, tmp_path: Path) -> None:
    plan = StudyPlan(evaluators=4, raters=2, items=8, attention=0, headphones=0, panels=1, name="A <b>study</b>",
                tasks=("naturalness", "similarity", "intelligibility", "preference", "clustering"))  # fmt: skip
    study = make_study(tmp_path, plan, speakers=8, utterances=14, seconds=3.05)
    import hashlib

    fingerprint = hashlib.sha256((tmp_path / "study" / "design.json").read_bytes()).hexdigest()
    answer_all(study, Answers(open_database(tmp_path / "study" / "answers.sqlite"), fingerprint))
    write_analysis(tmp_path / "study", None, tmp_path / "out")
    page, complaints = opened(context, "file:")
    page.goto((tmp_path / "out" / "report.html").as_uri())
    assert page.get_by_role("heading", level=1).inner_text() == "A <b>study</b>: what people heard"
    look(page)
    assert page.evaluate(CROWDED) == []
    assert complaints == []
