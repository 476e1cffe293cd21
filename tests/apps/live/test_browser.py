"""The page of ``voiceveil live --serve`` in a real browser, whose microphone is a file."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.apps.live.test_live import offline, server  # noqa: F401 -- a fixture
from tests.support.browser import Browser, browse, chromium
from voiceveil.audio import save
from voiceveil.testing import synthetic_voice

pytestmark = pytest.mark.skipif(chromium() is None, reason="no chromium (Debian: apt-get install chromium)")

#: Keeps all that goes through the websocket, beside the page's own work.
SPY = """
window.sent = []; window.came = [];
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (data) {
  if (!this.spied) {
    this.spied = true;
    this.addEventListener("message", ({ data: answer }) => {
      if (typeof answer !== "string") came.push(new Uint8Array(answer.slice(0)));
    });
  }
  if (typeof data !== "string") sent.push(new Uint8Array(data.buffer.slice(0)));
  return send.call(this, data);
};
"""
GATHER = """
((name) => {
  const all = window[name], bytes = new Uint8Array(all.reduce((n, x) => n + x.length, 0));
  let at = 0, text = "";
  for (const one of all) { bytes.set(one, at); at += one.length; }
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
})
"""


@pytest.fixture(scope="module")
def page(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:  # noqa: F811
    folder = tmp_path_factory.mktemp("microphone")
    save(folder / "voice.wav", synthetic_voice(3, seconds=2.0, rate=48000))
    flags = [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={folder / 'voice.wav'}",
        "--autoplay-policy=no-user-gesture-required",
    ]
    with browse(folder / "profile", *flags) as browser:
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=SPY)
        browser.open(f"http://{server}/")
        yield browser


def wait(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def gathered(browser: Browser, name: str) -> NDArray[np.float32]:
    return np.frombuffer(base64.b64decode(browser.evaluate(f"{GATHER}('{name}')")), "<f4")


def text(browser: Browser, name: str) -> str:
    return str(browser.evaluate(f"document.getElementById('{name}').textContent"))


def test_microphone_audio_is_converted_and_played(page: Browser) -> None:
    """What the microphone gave went out, and what came back is its offline conversion."""
    page.evaluate("document.getElementById('start').click()")
    wait(lambda: "another voice" in text(page, "state"))
    wait(lambda: page.evaluate("came.reduce((n, x) => n + x.length, 0)") > 4 * 16000)  # a second
    wait(lambda: text(page, "late") != "–")
    assert text(page, "times").endswith(" ms")
    assert text(page, "delay").startswith("about ")
    for meter in ("in", "out"):
        wait(lambda meter=meter: page.evaluate(f"document.getElementById('{meter}').value") > 0.2)  # type: ignore[misc]
    came = gathered(page, "came")
    sent = gathered(page, "sent")
    assert np.abs(sent).max() > 0.05, "the microphone was heard"
    assert len(came) <= len(sent)
    wanted = offline(sent[: len(came) + 320])[: len(came)]
    known = len(came) - 320
    assert np.abs(came[:known] - wanted[:known]).max() <= 1e-5
    assert not page.complaints()


def test_voice_can_be_changed_and_stopped(page: Browser) -> None:
    before = page.evaluate("came.length")
    page.evaluate("document.getElementById('again').click()")
    wait(lambda: page.evaluate("came.length") > before + 20)
    page.evaluate("document.getElementById('start').click()")
    assert text(page, "state") == "Stopped."
    assert page.evaluate("document.getElementById('again').disabled")
    assert all(f"//{page.evaluate('location.host')}/" in url for url in page.requests())


def test_denied_microphone_is_explained(page: Browser) -> None:
    page.evaluate(
        "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('no', 'NotAllowedError'))"
    )
    page.evaluate("document.getElementById('start').click()")
    wait(lambda: "allow the microphone" in text(page, "state"))
    assert page.evaluate("document.getElementById('start').textContent") == "Start"


@pytest.mark.parametrize("width", [390, 820, 1440])
def test_page_fits_every_width(page: Browser, server: str, width: int) -> None:  # noqa: F811
    page.open(f"http://{server}/", width=width, dark=width == 820)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
