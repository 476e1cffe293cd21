"""Progress: what a terminal shows, what a log file gets, and what quiet leaves."""

from __future__ import annotations

import io
import json
import re
import time

import pytest

from voiceveil.run.progress import Progress, _clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        """What is seen: a carriage return goes back to the start of the line and overwrites."""
        lines = []
        for line in self.getvalue().split("\n"):
            shown = ""
            for text in line.split("\r"):
                shown = text + shown[len(text) :]
            lines.append(shown.rstrip())
        return lines


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, to be set by the test."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_terminal_shows_one_line(clock: list[float]) -> None:
    stream = Terminal()
    progress = Progress(4, 1000, stream=stream)
    clock[0] += 60
    progress.add(work=250, audio=7200.0)
    # A quarter of the work took a minute: three more to go; two hours in a minute are 120 times real time.
    assert stream.screen() == ["1/4 files  2.00 h of audio  120x real time  ETA 3:00"]
    clock[0] += 60
    progress.add(work=250, failed=True)
    assert stream.screen() == ["2/4 files, 1 failed  2.00 h of audio  60x real time  ETA 2:00"]
    progress.add(work=250, audio=3600)
    progress.add(work=250, audio=3600)
    assert stream.screen()[0].startswith("2/4"), "not shown more often than five times a second"
    progress.close()
    assert stream.screen() == ["4/4 files, 1 failed  4.00 h of audio  120x real time  ETA 0:00", ""]


def test_note_keeps_the_progress_line(clock: list[float]) -> None:
    stream = Terminal()
    progress = Progress(2, 2, stream=stream)
    clock[0] += 1
    progress.add(work=1, audio=3600)
    progress.note("failed: a.wav")
    clock[0] += 1
    progress.add(work=1, audio=3600)
    progress.close()
    assert stream.screen() == ["failed: a.wav", "2/2 files  2.00 h of audio  3600x real time  ETA 0:00", ""]


def test_other_outputs_get_json_lines(clock: list[float]) -> None:
    stream = io.StringIO()
    progress = Progress(3, 300, stream=stream)
    clock[0] += 9
    progress.add(work=100, audio=900)
    assert stream.getvalue() == "", "a log is not filled: a line every ten seconds"
    clock[0] += 3
    progress.add(work=100, audio=300.0)
    progress.note('failed: "a".wav\nü')
    clock[0] += 3
    progress.add(work=100, failed=True)
    progress.close()
    rows = [json.loads(line) for line in stream.getvalue().splitlines()]
    first = {"done": 2, "items": 3, "failed": 0, "audio_hours": 0.3333, "times_real_time": 100.0, "eta_seconds": 6.0}
    last = {"done": 3, "items": 3, "failed": 1, "audio_hours": 0.3333, "times_real_time": 80.0, "eta_seconds": 0.0}
    assert rows == [first, {"note": 'failed: "a".wav\nü'}, last]


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_quiet_prints_notes_only(clock: list[float], stream: io.StringIO) -> None:
    progress = Progress(2, 2, style="quiet", stream=stream)
    for _ in range(2):
        clock[0] += 100
        progress.add(work=1, audio=3600)
    progress.note("failed: a.wav")
    progress.close()
    assert stream.getvalue() == "failed: a.wav\n"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_no_work_prints_nothing(stream: io.StringIO) -> None:
    Progress(0, 0, stream=stream).close()
    assert stream.getvalue() == ""


def test_zero_time_and_zero_work_are_handled(clock: list[float]) -> None:
    log, terminal = io.StringIO(), Terminal()
    for stream in (log, terminal):
        progress = Progress(1, 0, stream=stream)
        progress.add(work=0)
        progress.close()
    assert json.loads(log.getvalue())["eta_seconds"] is None
    assert terminal.screen() == ["1/1 files  0.00 h of audio  0x real time", ""]


def test_default_stream_is_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(1, 1)
    progress.add(work=1, audio=1.0)
    progress.close()
    said = capsys.readouterr()
    assert said.out == ""
    assert json.loads(said.err)["done"] == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (0.4, "0:00"), (59.4, "0:59"), (59.7, "1:00"), (3599.9, "1:00:00"), (36_061, "10:01:01")],
)
def test_clock_formats_durations(seconds: float, text: str) -> None:
    assert _clock(seconds) == text
    assert re.fullmatch(r"(\d+:)?\d+:\d\d", text)
