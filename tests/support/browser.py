"""A real browser for tests of pages: headless Chromium, controlled through a pipe (DevTools protocol)."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import quick

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--mute-audio",
    "--remote-debugging-pipe",
]


def chromium() -> str | None:
    """Return the path of the browser; None when there is none or tests must be quick."""
    if quick.active():
        return None
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One tab; ``events`` are the DevTools events received so far."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, os.fdopen(back, "rb", buffering=0)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = self._back.read(1 << 16)
            assert piece, "the browser has gone"
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))

    def open(self, page: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a page at a width in a color scheme; ``events`` then holds those of this page."""
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **shape)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def screenshot(self, width: int, height: int, *, scale: float = 1.0) -> bytes:
        """Return a PNG of the top of the page."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        return base64.b64decode(self.call("Page.captureScreenshot", clip=clip)["data"])

    def complaints(self) -> list[str]:
        """Return console messages, errors and violations of the content policy."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in kinds]

    def requests(self) -> list[str]:
        """Return the requested addresses, without ``data:``, which the browser's audio player uses itself."""
        asked = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [url for params in asked if not (url := params["request"]["url"]).startswith("data:")]


@contextmanager
def browse(profile: Path, *flags: str) -> Iterator[Browser]:
    """Start a browser with an empty profile and the given flags."""
    program = chromium()
    assert program is not None
    to_read, to_write = os.pipe()
    back_read, back_write = os.pipe()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (to_read, back_write)]

    def wire() -> None:  # the browser reads commands from 3 and writes answers to 4
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    command = [program, *FLAGS, *flags, f"--user-data-dir={profile}"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, preexec_fn=wire, pass_fds=(3, 4), stdin=quiet, stdout=quiet, stderr=quiet)
    for fd in (to_read, back_write, *high):
        os.close(fd)
    try:
        browser = Browser(to_write, back_read)
        yield browser
        browser._session = None
        browser.call("Browser.close")
    finally:
        os.close(to_write)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
