"""Progress: a bar on a terminal, sentences in a log, JSON lines on request, notes even when quiet."""

from __future__ import annotations

import contextlib
import io
import json
import time
from typing import Any

import pytest

from voiceveil.core.activity import report_fraction, report_status
from voiceveil.core.terminal import clock
from voiceveil.run.progress import Progress, progress_style


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        """Return the visible lines: a carriage return goes back to the start of the line and overwrites."""
        lines = []
        for line in self.getvalue().split("\n"):
            shown = ""
            for text in line.split("\r"):
                shown = text + shown[len(text) :]
            lines.append(shown.rstrip())
        return lines


def progress_on(stream: io.StringIO, *args: Any, **options: Any) -> Progress:
    """Return a progress that writes to ``stream``."""
    with contextlib.redirect_stderr(stream):
        return Progress(*args, **options)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, to be set by the test; the terminal is wide."""
    monkeypatch.setenv("COLUMNS", "150")
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_shows_a_bar(now: list[float]) -> None:
    stream = Terminal()
    with progress_on(stream, "anonymizing", 4, work=1000) as progress:
        assert stream.screen() == ["anonymizing:   0%|                    | 0/4 files"]
        now[0] += 60
        progress.advance(250, audio=7200.0)
        # A quarter of the work took a minute: three more are left; two hours in a minute are 120 times real time.
        text = "anonymizing:  25%|#####               | 1/4 files, 2:00:00 of audio, 120x real time, 0:03:00 left"
        assert stream.screen() == [text]
        now[0] += 60
        progress.advance(250, failed=True)
        assert stream.screen()[0].endswith("| 2/4 files, 1 failed, 2:00:00 of audio, 60x real time, 0:02:00 left")
        progress.advance(250, audio=3600)
        progress.advance(250, audio=3600)
        assert "2/4 files" in stream.screen()[0], "not shown more often than five times a second"
    last, end = stream.screen()
    assert last.endswith(
        "100%|####################| 4/4 files, 1 failed, 4:00:00 of audio, 120x real time, took 0:02:00"
    )
    assert end == ""


def test_a_bar_moves_within_an_item(now: list[float]) -> None:
    stream = Terminal()
    with progress_on(stream, "anonymizing", 2) as progress:
        report_status("loading models")
        assert stream.screen() == ["anonymizing:   0%|                    | loading models"]
        now[0] += 10
        report_fraction(0.5)
        assert stream.screen() == ["anonymizing:  25%|#####               | 0/2 files, 0:00:30 left"]
        now[0] += 10
        progress.advance()
        assert stream.screen() == ["anonymizing:  50%|##########          | 1/2 files, 0:00:20 left"]
    report_status("nobody watches")
    report_fraction(0.5)


def test_the_innermost_progress_is_told(now: list[float]) -> None:
    outer, inner = io.StringIO(), io.StringIO()
    with progress_on(outer, "evaluating", 2):
        with progress_on(inner, "attacking", 2):
            report_status("loading models")
        report_status("learning")
    assert (outer.getvalue(), inner.getvalue()) == ("evaluating: learning\n", "attacking: loading models\n")


def test_a_note_does_not_break_the_bar(now: list[float]) -> None:
    stream = Terminal()
    with progress_on(stream, "anonymizing", 2) as progress:
        now[0] += 1
        progress.advance()
        progress.note("failed: a.wav")
        now[0] += 1
        progress.advance()
    assert stream.screen() == ["failed: a.wav", "anonymizing: 100%|####################| 2/2 files, took 0:00:02", ""]


def test_a_log_gets_sentences(now: list[float]) -> None:
    stream = io.StringIO()
    with progress_on(stream, "anonymizing", 3, work=300) as progress:
        now[0] += 9
        progress.advance(100, audio=900)
        assert stream.getvalue() == "", "a log is not filled: a line every ten seconds"
        now[0] += 3
        progress.advance(100, audio=300.0)
        progress.note("failed: a\nb")
        now[0] += 3
        progress.advance(100, failed=True)
    assert stream.getvalue().splitlines() == [
        "anonymizing: 2 of 3 files, 0:20:00 of audio, 100x real time, 0:00:06 left",
        "failed: a\\nb",
        "anonymizing: 3 of 3 files, 1 failed, 0:20:00 of audio, 80x real time, took 0:00:15",
    ]


def test_short_work_is_not_worth_a_line_in_a_log(now: list[float]) -> None:
    stream = io.StringIO()
    with progress_on(stream, "anonymizing", 1) as progress:
        now[0] += 5
        progress.advance()
    assert stream.getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_json_lines_on_request(now: list[float], stream: io.StringIO) -> None:
    with progress_style("json"), progress_on(stream, "training", 10, unit="steps", start=8) as progress:
        report_status("loading models")
        now[0] += 12
        progress.advance(audio=24.0, loss=0.123456)
        progress.note('failed: "a".wav\nü')
        progress.advance(loss=0.1)
    common = {"progress": "training", "items": 10, "unit": "steps", "failed": 0, "audio_seconds": 24.0}
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [
        {"progress": "training", "status": "loading models"},
        {**common, "done": 9, "times_real_time": 2.0, "seconds_left": 12.0, "loss": 0.1235},
        {"progress": "training", "note": 'failed: "a".wav\nü'},
        {**common, "done": 10, "times_real_time": 2.0, "seconds_left": 0.0, "loss": 0.1},
    ]


def test_training_shows_its_figures(now: list[float]) -> None:
    stream = io.StringIO()
    with progress_on(stream, "training", 100, unit="steps", start=50) as progress:
        now[0] += 10
        progress.advance(epoch=3, loss=1.25, accuracy=0.5, rate=0.001)
    sentence = "training: 51 of 100 steps, epoch 3, loss 1.250, accuracy 50.0%, learning rate 0.001, 0:08:10 left"
    assert stream.getvalue().splitlines()[0] == sentence


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
@pytest.mark.parametrize("style", ["auto", "json"])
def test_quiet_shows_only_what_must_not_be_missed(now: list[float], stream: io.StringIO, style: str) -> None:
    before = stream.getvalue()
    with progress_style(style), progress_on(stream, "anonymizing", 2, quiet=True) as progress:  # type: ignore[arg-type]
        report_status("loading models")
        for _ in range(2):
            now[0] += 100
            progress.advance(audio=3600)
        progress.note("resuming")
        progress.note("failed: a.wav", always=True)
    assert stream.getvalue() == before + "failed: a.wav\n"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_without_items_nothing_is_shown(stream: io.StringIO) -> None:
    with progress_on(stream, "anonymizing", 0):
        pass
    assert stream.getvalue() == ""


def test_no_time_and_no_work_are_no_division_by_zero(now: list[float]) -> None:
    log, terminal = io.StringIO(), Terminal()
    for stream in (log, terminal):
        with progress_on(stream, "anonymizing", 1, work=0) as progress:
            now[0] += 10
            progress.advance(0)
    assert log.getvalue().splitlines()[-1] == "anonymizing: 1 of 1 files, took 0:00:10"
    assert terminal.screen()[0].endswith("| 1/1 files, took 0:00:10")


def test_an_error_leaves_the_bar_where_it_was(now: list[float]) -> None:
    stream = Terminal()
    with pytest.raises(ValueError, match="broken"), progress_on(stream, "anonymizing", 2):
        raise ValueError("broken")
    assert stream.screen() == ["anonymizing:   0%|                    | 0/2 files", ""]


def test_standard_error_by_default(capsys: pytest.CaptureFixture[str], now: list[float]) -> None:
    with Progress("anonymizing", 1) as progress:
        now[0] += 20
        progress.advance(audio=1.0)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("anonymizing: 1 of 1 files, 0:00:01 of audio")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00:00"), (0.4, "0:00:00"), (59.4, "0:00:59"), (59.7, "0:01:00"), (3599.9, "1:00:00"), (36_061, "10:01:01")],
)
def test_lengths_of_time(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_bar_fits_the_terminal(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    with progress_on(stream, "anonymizing", 2) as progress:
        now[0] += 60
        progress.advance(audio=3600)
    assert max(len(line) for line in stream.getvalue().replace("\n", "\r").split("\r")) <= 60
