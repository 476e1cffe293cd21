"""SIGKILL at random moments: whatever is left is whole, the same command goes on, and all ends as if undisturbed."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import many
from tests.faults.runs import anonymizing, begun, evaluating, tree
from tests.faults.victims import KILLED, Victims

KILLS = many(20, 200)  # of each


def check_whole(out: Path, whole: dict[str, bytes]) -> None:
    """After a kill: what has its final name is what an undisturbed run writes, and a ledger lists it."""
    recorded = {}
    for ledger in out.rglob("ledger.jsonl"):
        for row in rows(ledger):
            recorded[(ledger.parent / row["file"]).resolve()] = row["sha256"]
    for name, content in tree(out).items():
        if name.endswith(".wav") and not Path(name).name.startswith(".voiceveil-part-"):
            assert recorded[(out / name).resolve()] == hashlib.sha256(content).hexdigest(), f"{name} is not recorded"
        if name.endswith("ledger.jsonl"):
            continue
        if not Path(name).name.startswith(".voiceveil-part-"):
            assert content == whole[name], f"{name} is not whole"


def booked(out: Path) -> dict[Path, tuple[int, int]]:
    """The items that ledgers list as finished, and by what we see that they were not written again."""
    files = {}
    for ledger in out.rglob("ledger.jsonl"):
        for row in rows(ledger):
            file = (ledger.parent / row["file"]).resolve()
            if "id" in row and file.exists():  # else it was killed after the line and before the name
                files[file] = (file.stat().st_ino, file.stat().st_mtime_ns)
    return files


def rows(ledger: Path) -> list[dict[str, str]]:
    """The whole lines of a ledger, but for the settings."""
    return [json.loads(line) for line in ledger.read_bytes().split(b"\n")[1:-1]]


def killed_again_and_again(
    victim: Victims, command: Callable[[Path], list[str]], prepare: Callable[[Path], None], home: Path
) -> Iterator[tuple[Path, Path]]:
    """Kill until there were enough; gives (undisturbed, disturbed) outputs each time that a run came to its end."""
    undisturbed = home / "undisturbed"
    durations = []
    for _ in range(2):  # the second is warm
        shutil.rmtree(undisturbed, ignore_errors=True)
        prepare(undisturbed)
        start = time.monotonic()
        assert victim.run(command(undisturbed)) == 0, victim.said
        durations.append(time.monotonic() - start)
    whole = tree(undisturbed)
    moments, kills, finished = random.Random(1), 0, 0
    held: dict[Path, tuple[int, int]] = {}
    out = home / "out0"
    prepare(out)
    while kills < KILLS or finished == 0:
        after = moments.uniform(0.0, durations[1]) if kills < KILLS else None
        code = victim.run(command(out), after=after)
        assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in held} == held, "an item was done twice"
        if code == KILLED:
            kills += 1
            check_whole(out, whole)
            held = booked(out)
            continue
        assert code == 0, victim.said
        assert tree(out) == whole
        yield undisturbed, out
        finished, held = finished + 1, {}
        out = home / f"out{finished}"
        prepare(out)


@pytest.mark.timeout(1800)
def test_killed_anonymization_resumes_to_the_same_output(victim: Victims, data: Path, tmp_path: Path) -> None:
    ends = killed_again_and_again(victim, lambda out: anonymizing(data, out), lambda out: None, tmp_path)
    assert all(len(list(out.glob("*.wav"))) == 15 for _, out in ends)


def _cached(out: Path) -> dict[bytes, bytes]:
    with sqlite3.connect(out / "cache.sqlite") as database:
        return dict(database.execute("SELECT key, value FROM results"))


@pytest.mark.timeout(3600)
def test_killed_evaluation_resumes_to_the_same_results(victim: Victims, data: Path, tmp_path: Path) -> None:
    for undisturbed, out in killed_again_and_again(victim, lambda out: evaluating(data, out), begun, tmp_path):
        assert (out / "results.json").exists()
        assert (out / "report.html").exists()
        assert list(out.glob("exp/results-2024-05-01-12-00-00/*"))
        assert _cached(out) == _cached(undisturbed) != {}
        written = (out / "cache.sqlite.written").read_text().split()
        assert len(written) == len(set(written)) > 0, "a result was computed twice"
