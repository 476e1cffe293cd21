"""The ledger: what survives a kill, what does not count as done, and who may write."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil.core.errors import InputError, OutputError
from voiceveil.run.ledger import Ledger, LedgerEntry, open_ledger, sha256_file

SETTINGS = {"system": "b2", "parameters": {"alpha": (0.5, 0.9)}, "rate": 16000, "key": "fresh"}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def add(ledger: Ledger, id: str, data: bytes = b"sound") -> None:
    """Do an item's work: write its file, then book it."""
    file = ledger.path.parent / f"{hashlib.sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.wav"
    file.write_bytes(data)
    ledger.add(id, f"source of {id}".encode("ascii", "replace").decode(), file, sha256(data), 1.5)


@contextmanager
def opened(folder: Path, overwrite: bool = False) -> Iterator[Ledger]:
    with open_ledger(folder / "ledger.jsonl", SETTINGS, overwrite=overwrite) as ledger:
        yield ledger


def test_finished_items_are_known_to_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ledger.jsonl"
    audio = tmp_path / "audio" / "a.wav"
    audio.parent.mkdir()
    audio.write_bytes(b"sound")
    with open_ledger(path, SETTINGS) as ledger:
        assert ledger.entries == {}
        ledger.add("a", "digest", audio, sha256(b"sound"), 2)
        assert ledger.has("a", "digest", audio)
    with open_ledger(path, SETTINGS) as ledger:
        assert ledger.entries == {"a": LedgerEntry("a", "digest", "../audio/a.wav", sha256(b"sound"), 2.0)}
        assert ledger.has("a", "digest", audio)
        assert not ledger.has("b", "digest", audio), "an unknown item"
        assert not ledger.has("a", "other", audio), "another input"
        assert not ledger.has("a", "digest", tmp_path / "elsewhere.wav"), "another output"


def test_output_folder_can_be_moved(tmp_path: Path) -> None:
    with opened(tmp_path / "old") as ledger:
        add(ledger, "a")
    (tmp_path / "old").rename(tmp_path / "new")
    with opened(tmp_path / "new") as ledger:
        assert ledger.has("a", "source of a", tmp_path / "new" / ledger.entries["a"].file)


def test_changed_or_missing_file_is_not_done(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        add(ledger, "a")
        file = tmp_path / ledger.entries["a"].file
        assert ledger.has("a", "source of a", file)
        file.write_bytes(b"sounD")
        assert not ledger.has("a", "source of a", file)
        file.unlink()
        assert not ledger.has("a", "source of a", file)
        file.mkdir()
        assert not ledger.has("a", "source of a", file)


@pytest.mark.parametrize("size", [0, 1, 100_000, 3_000_000])
def test_sha256_of_a_file(tmp_path: Path, size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    (tmp_path / "a").write_bytes(data)
    assert sha256_file(tmp_path / "a") == sha256(data)


# --- A kill -------------------------------------------------------------------------------------------------------

ids = st.lists(st.text(st.characters(), min_size=1, max_size=6), unique=True, max_size=5)


@pytest.mark.slow
@given(ids, st.data())
@settings(max_examples=150, deadline=None)
def test_every_truncation_can_be_resumed(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], data: st.DataObject
) -> None:
    """Cut at any byte: the items of whole lines survive, nothing else does, and the run ends as if uninterrupted."""
    folder = tmp_path_factory.mktemp("ledger")
    with opened(folder) as ledger:
        for name in names:
            add(ledger, name)
        path = ledger.path
    whole = path.read_bytes()
    with opened(folder) as ledger:
        ledger.finish(set(names).__contains__)
    uninterrupted = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    survivors = names[: max(whole[:cut].count(b"\n") - 1, 0)]
    with opened(folder) as ledger:
        assert list(ledger.entries) == survivors
        for name in names:
            if name not in survivors:
                add(ledger, name)
    assert path.read_bytes() == whole, "appended where the piece was cut off"
    with opened(folder) as ledger:
        assert list(ledger.entries) == names
        ledger.finish(set(names).__contains__)
    assert path.read_bytes() == uninterrupted


def test_killed_process_can_be_resumed(tmp_path: Path) -> None:
    """Really killed, right after an item was booked: nothing is held back in a buffer."""
    code = """
import os, signal, sys
from pathlib import Path
from voiceveil.run.ledger import open_ledger
with open_ledger(Path(sys.argv[1]), {"a": 1}) as ledger:
    for i in range(100):
        ledger.add(f"u{i}", "", Path(sys.argv[1]).parent / "x.wav", "", 0.0)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code, tmp_path / "ledger.jsonl"], capture_output=True, timeout=60)
    assert killed.returncode == -9
    with open_ledger(tmp_path / "ledger.jsonl", {"a": 1}) as ledger:
        assert list(ledger.entries) == [f"u{i}" for i in range(100)]


def test_full_disk_is_an_output_error(tmp_path: Path) -> None:
    """A line of which a part fitted is an error at once, and is gone in the next run."""
    code = """
import resource, sys
from pathlib import Path
from voiceveil.run.ledger import open_ledger
path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with open_ledger(path, {"a": 1}) as ledger:
    try:
        for i in range(100):
            ledger.add(f"u{i}", "", path.parent / "x.wav", "", 0.0)
    except ValueError as error:
        print(type(error).__name__, len(ledger.entries), error)
"""
    path = tmp_path / "ledger.jsonl"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60)
    kind, count, what = done.stdout.split(maxsplit=2)
    assert kind == "OutputError"
    assert what.startswith(f"{path}: cannot write: ")
    assert path.stat().st_size == 1000
    with open_ledger(path, {"a": 1}) as ledger:
        assert len(ledger.entries) == int(count) == path.read_bytes().count(b"\n") - 1
        ledger.add("after", "", tmp_path / "x.wav", "", 0.0)
    with open_ledger(path, {"a": 1}) as ledger:
        assert len(ledger.entries) == int(count) + 1


# --- The end ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.permutations(["b", "a", "ä", "\udcff", "A", "a b", "10", "9"]))
@settings(max_examples=40, deadline=None)
def test_finished_ledgers_are_equal_whatever_the_order(
    tmp_path_factory: pytest.TempPathFactory, order: list[str]
) -> None:
    ledgers = []
    for names in (order, sorted(order)):
        folder = tmp_path_factory.mktemp("ledger")
        with opened(folder) as ledger:
            for name in names:
                add(ledger, name)
            ledger.finish(set(names).__contains__)
        ledgers.append((folder / "ledger.jsonl").read_bytes())
    assert ledgers[0] == ledgers[1]
    rows = [json.loads(line) for line in ledgers[0].splitlines()]
    assert [row["id"] for row in rows[1:]] == sorted(order)


def test_unwanted_items_are_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        for name in "abc":
            add(ledger, name)
        ledger.finish({"c", "a", "never seen"}.__contains__)
    with opened(tmp_path) as ledger:
        assert list(ledger.entries) == ["a", "c"]
    assert not list(tmp_path.glob(".voiceveil-part-*"))


def test_last_entry_of_an_item_counts(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        add(ledger, "a", b"first")
        add(ledger, "a", b"second")
    with opened(tmp_path) as ledger:
        assert ledger.entries["a"].sha256 == sha256(b"second")
        assert ledger.has("a", "source of a", tmp_path / ledger.entries["a"].file)


# --- What is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"system": "d1"}, "system was b2, now d1"),
        ({"parameters": {"alpha": (0.5, 0.8)}}, r"alpha was 0\.5,0\.9, now 0\.5,0\.8"),
        ({"rate": 8000, "key": "x"}, "key was fresh, now x; rate was 16000, now 8000"),
        ({"new": 1}, "new was not set, now 1"),
    ],
)
def test_other_settings_are_rejected_by_name(tmp_path: Path, change: dict[str, object], what: str) -> None:
    with opened(tmp_path) as ledger:
        add(ledger, "a")
        path = ledger.path
    with path.open("ab") as file:
        file.write(b'{"torn')
    before = path.read_bytes()
    with (
        pytest.raises(InputError, match=f"holds the results of another run: {what}") as caught,
        open_ledger(path, {**SETTINGS, **change}),
    ):
        pass
    assert caught.value.where == str(tmp_path)
    assert "--overwrite" in caught.value.fix
    assert path.read_bytes() == before, "what is refused is left alone"
    with open_ledger(path, {**SETTINGS, **change}, overwrite=True) as ledger:
        assert ledger.entries == {}
    with pytest.raises(InputError, match="another run"), opened(tmp_path):
        pass


GOOD = {"id": "a", "source": "s", "file": "f", "sha256": "h", "seconds": 1.0}


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"",
        b"[1, 2]",
        b"null",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"{}",
        json.dumps({**GOOD, "more": 1}).encode(),
        json.dumps({**GOOD, "id": 5}).encode(),
        json.dumps({**GOOD, "seconds": None}).encode(),
        json.dumps({key: GOOD[key] for key in list(GOOD)[:-1]}).encode(),
    ],
)
def test_garbage_is_rejected_with_its_line(tmp_path: Path, line: bytes) -> None:
    with opened(tmp_path) as ledger:
        add(ledger, "a")
        path = ledger.path
    with path.open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(InputError) as caught, opened(tmp_path):
        pass
    assert str(caught.value).startswith(f"{path}:3: not a line of a ledger (")
    with opened(tmp_path, overwrite=True) as ledger:
        assert ledger.entries == {}


def test_garbage_in_the_first_line_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_text("hello\n")
    with pytest.raises(InputError, match=r"ledger.jsonl:1: not a line of a ledger"), opened(tmp_path):
        pass


HOLD = """
import sys
from pathlib import Path
from voiceveil.run.ledger import open_ledger
try:
    with open_ledger(Path(sys.argv[1]), {}) as ledger:
        print("open", flush=True)
        sys.stdin.read()
        ledger.finish(lambda id: False)
except ValueError as error:
    print(error)
"""


def test_second_process_is_locked_out(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "open\n"
        for overwrite in (False, True):
            with (
                pytest.raises(InputError, match=r"another run is writing here \(wait for it to end") as caught,
                open_ledger(path, {}, overwrite=overwrite),
            ):
                pass
            assert caught.value.where == str(tmp_path)
        assert path.read_bytes() == b"{}\n", "a refused overwrite takes nothing away"
    finally:
        holder.communicate(timeout=30)
    with open_ledger(path, {}) as ledger:
        assert ledger.entries == {}
        with pytest.raises(InputError, match="another run is writing here"), open_ledger(path, {}):
            pass


def test_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        holder.kill()
    with open_ledger(path, {}) as ledger:
        assert ledger.entries == {}


def test_unwritable_place_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "ledger.jsonl", tmp_path / "folder"):
        with pytest.raises(OutputError, match="cannot write") as caught, open_ledger(path, {}):
            pass
        assert caught.value.where == str(path)


def test_exception_in_the_with_block_is_not_changed(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot write: No such file") as caught, opened(tmp_path):
        (tmp_path / "gone").unlink()
    assert caught.value.where == str(tmp_path / "gone")
