"""SIGKILL at random moments: whatever is left is whole, the same command goes on, and all ends as if undisturbed."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.faults import many
from tests.faults.victims import KILLED, Victims, victims
from voiceveil.audio import save
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.testing import synthetic_voice

KILLS = many(20, 200)
PROTOCOL = """\
name = "vpc2022"
title = "A small protocol, with result files of the official kind"
metrics = ["eer", "pitch_correlation"]
levels = { enroll = "utterance", trial = "utterance", train = "utterance" }
conditions = ["oo", "aa"]
scoring = "cosine"

[[verification]]
dataset = "libri_dev"
split = "dev"
enroll = "libri_dev_enrolls"
trials = [{ set = "libri_dev_trials_f", gender = "f" }]
"""
#: Counts how often each result of a model is written.
COUNTING = """
CREATE TABLE results (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE written (key BLOB);
CREATE TRIGGER counting AFTER INSERT ON results BEGIN INSERT INTO written VALUES (NEW.key); END;
"""


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victims]:
    with victims(tmp_path_factory.mktemp("log") / "log.txt") as made:
        yield made


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set to enroll and one of trials, 15 utterances."""
    data = tmp_path_factory.mktemp("data")
    spoken = {}
    for role, numbers in (("enroll", range(1)), ("trial", range(1, 5))):
        spoken[role] = tuple(
            Utterance(f"{s}-{i}", data / "audio" / f"{s}-{i}.wav", speaker=str(s), gender="f", role=role)
            for s in (1, 2, 3)
            for i in numbers
        )
        for u in spoken[role]:
            save(u.path, synthetic_voice(int(u.speaker or 0), int(u.id[-1]), seconds=0.5))
    pairs = [(str(s), u.id, str(s) == u.speaker) for s in (1, 2, 3) for u in spoken["trial"]]
    trials = Trials(*(np.array(column) for column in zip(*pairs, strict=True)))
    write_kaldi(Corpus("libri_dev_enrolls", spoken["enroll"]), data / "libri_dev_enrolls")
    write_kaldi(Corpus("libri_dev_trials_f", spoken["trial"], trials), data / "libri_dev_trials_f")
    (data / "small.toml").write_text(PROTOCOL)
    return data


def tree(folder: Path) -> dict[str, bytes]:
    """All files and their bytes; of the cache see below."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("cache.sqlite"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def check_whole(out: Path, whole: dict[str, bytes]) -> None:
    """After a kill: what has its final name is what an undisturbed run writes; ledgers list an item once."""
    for name, content in tree(out).items():
        if name.endswith("ledger.jsonl"):
            ids = [json.loads(line)["id"] for line in content.split(b"\n")[1:-1]]
            assert len(ids) == len(set(ids)), name
        elif not Path(name).name.startswith(".part-"):
            assert content == whole[name], f"{name} is not whole"


def booked(out: Path) -> dict[Path, tuple[int, int]]:
    """The files that ledgers list as finished, and by what we see that they were not written again."""
    files = {}
    for ledger in out.rglob("ledger.jsonl"):
        for line in ledger.read_bytes().split(b"\n")[1:-1]:
            file = (ledger.parent / json.loads(line)["file"]).resolve()
            files[file] = (file.stat().st_ino, file.stat().st_mtime_ns)
    return files


def cached(out: Path) -> dict[bytes, bytes]:
    with sqlite3.connect(out / "cache.sqlite") as database:
        return dict(database.execute("SELECT key, value FROM results"))


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
        assert victim.run(command(undisturbed)) == 0, victim.log.read_text()
        durations.append(time.monotonic() - start)
    whole = tree(undisturbed)
    moments, kills, finished, held = random.Random(1), 0, 0, {}
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
        assert code == 0, victim.log.read_text()
        assert tree(out) == whole
        yield undisturbed, out
        finished, held = finished + 1, {}
        out = home / f"out{finished}"
        prepare(out)
    assert kills >= KILLS


@pytest.mark.timeout(1800)
def test_a_killed_anonymization_ends_as_if_undisturbed(victim: Victims, data: Path, tmp_path: Path) -> None:
    def command(out: Path) -> list[str]:
        return ["anonymize", str(data / "audio"), str(out), "--seed", "1", "--quiet"]

    ends = list(killed_again_and_again(victim, command, lambda out: None, tmp_path))
    assert ends


@pytest.mark.timeout(3600)
def test_a_killed_evaluation_ends_as_if_undisturbed(victim: Victims, data: Path, tmp_path: Path) -> None:
    def command(out: Path) -> list[str]:
        where = ["--data", str(data), "--out", str(out), "--protocol", str(data / "small.toml")]
        how = ["--system", "b2", "--seed", "1", "--jobs", "1", "--quiet", "--attackers", "free:f0"]
        return ["evaluate", *where, *how]

    def prepare(out: Path) -> None:
        out.mkdir()
        (out / ".started").write_text("2024-05-01T12:00:00\n")  # the results say when they were begun
        with sqlite3.connect(out / "cache.sqlite") as database:
            database.executescript(COUNTING)

    for undisturbed, out in killed_again_and_again(victim, command, prepare, tmp_path):
        assert (out / "results.json").exists()
        assert (out / "report.html").exists()
        assert list(out.glob("exp/results-2024-05-01-12-00-00/*"))
        assert cached(out) == cached(undisturbed) != {}
        with sqlite3.connect(out / "cache.sqlite") as database:
            times = database.execute("SELECT count(*) FROM written GROUP BY key").fetchall()
        assert {count for (count,) in times} == {1}, "a result was computed twice"
