"""Files that change while they are worked on, and clocks that jump: no result is booked for other content."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from tests.faults.runs import evaluating, tree
from voiceveil.audio import Samples, Waveform, load, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.evaluation import provenance
from voiceveil.run.cache import Cache
from voiceveil.run.extract import extract
from voiceveil.systems import anonymize
from voiceveil.systems.signal.b2 import B2
from voiceveil.testing import synthetic_voice


def disturb(path: Path) -> None:
    """Other content of the same length."""
    save(path, synthetic_voice(9, seconds=0.5))


def swap(path: Path) -> None:
    """Another file takes its place."""
    save(path.with_name("new.flac"), synthetic_voice(9, seconds=0.5))
    path.with_name("new.flac").replace(path)


def grow(path: Path) -> None:
    """Somebody is still writing to it."""
    with path.open("ab") as file:
        file.write(bytes(100))


CHANGES: dict[str, Callable[[Path], object]] = {
    "other content": disturb,
    "another file": swap,
    "growing": grow,
    "gone": Path.unlink,
}


TODO: list[Callable[[], object]] = []


@dataclass(frozen=True)
class Meddled(B2):
    """B2, while somebody else is at the files: what is to do is done as the first is converted."""

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        while TODO:
            TODO.pop()()
        return super().transform(samples, rng)


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> Path:
    """Three recordings that may be spoiled."""
    for name in ("1-0", "1-1", "1-2"):
        (tmp_path / "in").mkdir(exist_ok=True)
        shutil.copyfile(data / "audio" / f"{name}.wav", tmp_path / "in" / f"{name}.wav")
    return tmp_path / "in"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["1-0", "1-2"])  # the one at work, and one that is to come
def test_recording_changed_during_the_run_is_not_recorded(folder: Path, tmp_path: Path, change: str, name: str) -> None:
    path, out = folder / f"{name}.wav", tmp_path / "out"
    original = path.read_bytes()
    TODO.append(lambda: CHANGES[change](path))
    meddled = Meddled()
    object.__setattr__(meddled, "name", "b2")
    summary = anonymize(folder, out, system=meddled, seed=1)
    assert TODO == []
    assert [failure.id for failure in summary.failures] == [name]
    fix = "run the same command again when nobody writes to it"
    assert summary.failures[0].error == f"{path}: changed during the run ({fix})"
    assert summary.done == 2
    assert not (out / f"{name}.wav").exists()
    path.write_bytes(original)
    again = anonymize(folder, out, system=meddled, seed=1)
    assert (again.done, again.already_done, again.failures) == (1, 2, ())
    anonymize(folder, tmp_path / "undisturbed", system=meddled, seed=1)
    assert tree(out) == tree(tmp_path / "undisturbed")


@dataclass(frozen=True)
class Loudness:
    """An evaluator; ``meddle`` is what happens meanwhile."""

    meddle: Callable[[], object]
    rate, minimum = 16000, 0.1

    def fingerprint(self) -> str:
        return "loudness 1"

    def __call__(self, wave: Waveform) -> float:
        self.meddle()
        return float(np.abs(wave.samples).sum())


def test_result_of_changed_content_is_not_cached(folder: Path, tmp_path: Path) -> None:
    """Else the cache would give it out for ever, to whoever has that content."""
    corpus = open_corpus(folder)
    path = folder / "1-2.wav"
    original = path.read_bytes()
    cache = Cache(tmp_path / "cache.sqlite")
    with pytest.raises(InputError, match=r"1-2\.wav: changed during the run"):
        extract(corpus, Loudness(lambda: disturb(path)), cache=cache)
    disturbed = extract(corpus, Loudness(lambda: None), cache=cache)
    assert disturbed["1-2"] == pytest.approx(float(np.abs(load(path).samples).sum()))
    path.write_bytes(original)
    found = extract(corpus, Loudness(lambda: None), cache=cache)
    assert found["1-2"] == pytest.approx(float(np.abs(load(path).samples).sum()))
    assert found["1-2"] != disturbed["1-2"]
    cache.close()


# --- Clocks -------------------------------------------------------------------------------------------------------

DAY = 86_400
#: Times of files, in seconds since 1970: before that, at it, and when there are more nanoseconds than 63 bits hold.
TIMES = [-DAY, 0, 4_000_000_000, 13_000_000_000]


class Jumping:
    """A clock that somebody sets, again and again: forward by years, and back."""

    def __init__(self) -> None:
        self.calls = 0

    def time(self) -> float:
        self.calls += 1
        return 1.7e9 + (self.calls if self.calls % 2 else -self.calls) * 400.0 * DAY

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time())


def test_results_do_not_depend_on_the_clock(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with times of all ages, a clock set at every look: the figures, the files and the resuming are the same."""
    assert main(evaluating(data, tmp_path / "undisturbed")) == 0
    clock = Jumping()
    monkeypatch.setattr(time, "time", clock.time)
    monkeypatch.setattr(time, "time_ns", lambda: int(clock.time() * 1e9))

    class Dates(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return clock.now()

    monkeypatch.setattr(provenance, "datetime", Dates)
    copied, out = tmp_path / "data", tmp_path / "out"
    shutil.copytree(data, copied)
    for table in copied.rglob("wav.scp"):
        table.write_text(table.read_text().replace(str(data), str(copied)))
    for index, path in enumerate(sorted(copied.rglob("*.wav"))):
        os.utime(path, (TIMES[index % 4], TIMES[index % 4]))
    assert main(evaluating(copied, out)) == 0
    begun = (out / ".started").read_text()
    for index, path in enumerate(sorted(out.rglob("*.wav"))):
        os.utime(path, (TIMES[index % 4], TIMES[index % 4]))
    (out / "results.json").unlink()
    lost = next(out.rglob("2-1.wav"))
    lost.unlink()  # as if killed: it goes on, though by the clock it is another age
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("*.wav")}
    assert main(evaluating(copied, out)) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "nothing is done again for the sake of its time"
    assert (out / ".started").read_text() == begun
    assert clock.calls > 0
    wavs = {name: content for name, content in tree(out).items() if name.endswith((".wav", ".scores"))}
    assert wavs == {name: c for name, c in tree(tmp_path / "undisturbed").items() if name.endswith((".wav", ".scores"))}
    assert len(wavs) > 15
