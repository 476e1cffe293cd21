"""The report in a real browser: light and dark, on a desk and on a phone."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, browse, chromium
from tests.support.page_checks import CONTRAST, CROWDED
from tests.support.report_world import make_results
from voiceveil.report.page import Options, write_report

pytestmark = pytest.mark.skipif(chromium() is None, reason="no chromium (Debian: apt-get install chromium)")

VIEWS = [(1280, False), (1280, True), (390, False), (390, True)]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_results(tmp_path_factory.mktemp("results"), audio=True)
    return write_report(folder, options=Options(audio=1))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browse(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.mark.parametrize(("width", "dark"), VIEWS)
def test_page_is_readable_in_light_and_dark(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width=width, dark=dark)
    assert browser.complaints() == []
    assert browser.requests() == [page.resolve().as_uri()]
    inside, window = browser.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert inside <= window, "the page scrolls sideways"
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.evaluate("document.documentElement.scrollWidth") <= window
    assert browser.evaluate(CONTRAST) == []
    assert browser.evaluate(CROWDED) == []
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)"
    )
    shades = colors(browser.screenshot(width, 900, scale=0.2))
    assert len(shades) > 20
    background = (13, 17, 23) if dark else (255, 255, 255)
    assert max(shades, key=lambda color: shades[color]) == background


def test_figures_are_readable_on_a_phone(browser: Browser, page: Path) -> None:
    browser.open(page, width=390)
    sizes = browser.evaluate(
        "[...document.querySelectorAll('main svg text')].map(t => { const m = t.getScreenCTM();"
        "return parseFloat(getComputedStyle(t).fontSize) * Math.hypot(m.a, m.b); })"
    )
    assert len(sizes) > 100
    assert min(sizes) >= 10  # pixels


def test_recordings_play_from_the_page(browser: Browser, page: Path) -> None:
    browser.open(page)
    script = """new Promise(done => { const a = document.querySelector('audio'); a.onerror = () => done('error');
        a.onloadedmetadata = () => done(a.duration); a.preload = 'metadata'; a.load(); })"""
    result = browser.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
    assert result["result"]["value"] == pytest.approx(1.5, abs=0.01)
    assert browser.complaints() == []


def test_content_policy_blocks_scripts_and_requests(browser: Browser, page: Path, tmp_path: Path) -> None:
    """Were something to slip through the escaping, the policy would stop it."""
    html = page.read_text()
    script, image = (
        "<script>document.title='run'</script>",
        "<img src='https://example.org/x' onerror='document.title=1'>",
    )
    (tmp_path / "bad.html").write_text(html.replace("<main>", f"<main>{script}{image}"))
    browser.open(tmp_path / "bad.html")
    assert browser.evaluate("document.title") not in ("run", "1")
    assert any("Content Security Policy" in line for line in browser.complaints())
    answered = [e["params"]["response"]["url"] for e in browser.events if e.get("method") == "Network.responseReceived"]
    assert not any(url.startswith("http") for url in answered)


def colors(png: bytes) -> dict[tuple[int, ...], int]:
    """Color -> how many pixels of a PNG (8 bits, not interlaced) have it."""
    stream, width, channels, data = io.BytesIO(png[8:]), 0, 3, b""
    while head := stream.read(8):
        length, kind = struct.unpack(">I4s", head)
        chunk = stream.read(length + 4)[:-4]
        if kind == b"IHDR":
            width, channels = struct.unpack(">I", chunk[:4])[0], {2: 3, 6: 4}[chunk[9]]
        elif kind == b"IDAT":
            data += chunk
    found: dict[tuple[int, ...], int] = {}
    raw, stride = zlib.decompress(data), width * channels
    above = bytearray(stride)
    for start in range(0, len(raw), stride + 1):
        line = bytearray(raw[start + 1 : start + 1 + stride])
        unfilter(raw[start], line, above, channels)
        for i in range(0, stride, channels):
            color = tuple(line[i : i + 3])
            found[color] = found.get(color, 0) + 1
        above = line
    return found


def unfilter(kind: int, line: bytearray, above: bytearray, step: int) -> None:
    """Undo the filter of one line of a PNG, in place."""
    for i in range(len(line)):
        left = line[i - step] if i >= step else 0
        corner = above[i - step] if i >= step else 0
        guess = left + above[i] - corner
        paeth = min((left, above[i], corner), key=lambda value: abs(guess - value))
        line[i] = (line[i] + (0, left, above[i], (left + above[i]) // 2, paeth)[kind]) & 255
