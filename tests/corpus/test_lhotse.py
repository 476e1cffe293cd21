"""Lhotse manifests: what we write Lhotse reads, what Lhotse writes we read, commands are refused."""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, open_corpus
from voiceveil.corpus.lhotse import read_lhotse, write_lhotse

lhotse = pytest.importorskip("lhotse")


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    for name in ("a.wav", "long.wav"):
        soundfile.write(tmp_path / name, np.zeros(32000), 16000)
    return Corpus(
        "recordings",
        (
            Utterance("a", tmp_path / "a.wav", "s", "f", "Hallo", emotion="sad", role="trial", seconds=2.0),
            Utterance("b", tmp_path / "long.wav", "s", "f", start=0.25, duration=0.5, phrase="05", fold="2"),
            Utterance("c", tmp_path / "long.wav", "t", "m", start=1.0, duration=1.0, subset="common"),
        ),
        Trials(np.array(["s", "t"]), np.array(["a", "a"]), np.array([True, False])),
        "lhotse",
        tmp_path,
    )


def test_write_then_read_is_identity(corpus: Corpus, tmp_path: Path) -> None:
    write_lhotse(corpus, tmp_path)
    assert open_corpus(tmp_path / "recordings.jsonl.gz") == corpus
    bytes_before = [(tmp_path / f"{name}.jsonl.gz").read_bytes() for name in ("recordings", "supervisions")]
    write_lhotse(corpus, tmp_path)
    assert bytes_before == [(tmp_path / f"{name}.jsonl.gz").read_bytes() for name in ("recordings", "supervisions")]


def test_lhotse_reads_what_we_write(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_lhotse(corpus, tmp_path)
    recordings = lhotse.RecordingSet.from_file(tmp_path / "recordings.jsonl.gz")
    supervisions = lhotse.SupervisionSet.from_file(tmp_path / "supervisions.jsonl.gz")
    lhotse.validate_recordings_and_supervisions(recordings, supervisions)
    assert {(s.id, s.start, s.duration, s.speaker) for s in supervisions} == {
        ("a", 0.0, 2.0, "s"), ("b", 0.25, 0.5, "s"), ("c", 1.0, 1.0, "t"),
    }  # fmt: skip


def test_ambiguous_source_is_rejected(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lhotse(corpus, tmp_path)
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(tmp_path / "long.wav", tmp_path / "elsewhere" / "a.wav")
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"jsonl\.gz:\d+: a\.wav is two different files"):
        open_corpus(tmp_path / "recordings.jsonl.gz")


def test_we_read_what_lhotse_writes(corpus: Corpus, tmp_path: Path) -> None:
    recording = lhotse.Recording.from_file(tmp_path / "long.wav")
    other = lhotse.Recording.from_file(tmp_path / "a.wav")
    cut = recording.to_cut().truncate(offset=0.5, duration=1.0)
    cut.id = "cut"
    cut.supervisions = [lhotse.SupervisionSegment("s1", "long", 0.0, 1.0, text="Hallo", speaker="x", gender="female")]
    two = other.to_cut()
    two.supervisions = [
        lhotse.SupervisionSegment("s2", "a", 0.0, 1.0, speaker="y"),
        lhotse.SupervisionSegment("s3", "a", 1.0, 1.0, speaker="z"),
    ]
    lhotse.CutSet.from_cuts([cut, two]).to_file(tmp_path / "cuts.jsonl.gz")
    assert open_corpus(tmp_path / "cuts.jsonl.gz").utterances == (
        Utterance("cut", tmp_path / "long.wav", "x", "f", "Hallo", start=0.5, duration=1.0),
        Utterance("s2", tmp_path / "a.wav", "y", start=0.0, duration=1.0),
        Utterance("s3", tmp_path / "a.wav", "z", start=1.0, duration=1.0),
    )
    lhotse.RecordingSet.from_recordings([recording]).to_file(tmp_path / "only_recordings.jsonl.gz")
    assert open_corpus(tmp_path / "only_recordings.jsonl.gz").utterances == (
        Utterance("long", tmp_path / "long.wav", seconds=2.0),
    )


def manifest(path: Path, *rows: object) -> Path:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path


def recording(kind: str, source: str) -> dict[str, object]:
    sources = [{"type": kind, "channels": [0], "source": source}]
    return {"id": "r", "sources": sources, "sampling_rate": 16000, "num_samples": 16000, "duration": 1.0}


def test_command_source_is_rejected_and_not_run(tmp_path: Path) -> None:
    path = manifest(tmp_path / "recordings.jsonl.gz", recording("command", f"touch {tmp_path}/executed"))
    with pytest.raises(InputError, match=r"recordings\.jsonl\.gz:1: .*never run.*data is never code"):
        open_corpus(path)
    assert not (tmp_path / "executed").exists()


def test_unknown_and_repeated_recordings_are_rejected(tmp_path: Path) -> None:
    rows = [
        {"id": "u", "recording_id": "r", "start": 0, "duration": 1, "channel": 0},
        {"id": "u", "recording_id": "r", "start": 0, "duration": 1, "channel": 0},
        {"id": "v", "recording_id": "q", "start": 0, "duration": 1, "channel": 0},
    ]
    manifest(tmp_path / "recordings.jsonl.gz", recording("file", "r.wav"))
    path = manifest(tmp_path / "supervisions.jsonl.gz", *rows)
    faults: list[tuple[int | None, str]] = []
    found = read_lhotse(path, lambda fault: faults.append((fault.line, fault.what)))
    assert [u.id for u in found] == ["u"]
    assert faults == [(2, "u occurs twice"), (3, "v names no known recording")]


def test_missing_lhotse_names_the_package_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lhotse", None)
    with pytest.raises(InputError, match=r"pip install 'voiceveil\[lhotse\]'"):
        open_corpus(manifest(tmp_path / "cuts.jsonl.gz"))


scalar: st.SearchStrategy[object] = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(), st.text(max_size=3), st.just([]), st.just({})
)
item = st.fixed_dictionaries(
    {},
    optional={
        "id": scalar,
        "recording_id": scalar,
        "start": scalar,
        "duration": scalar,
        "channel": scalar,
        "sampling_rate": scalar,
        "num_samples": scalar,
        "type": scalar | st.just("MonoCut"),
        "sources": scalar | st.lists(st.just({"type": "file", "channels": [0], "source": "a.wav"}) | scalar),
        "supervisions": scalar | st.just([]),
        "custom": scalar,
    },
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(item, max_size=3).map(lambda rows: "\n".join(map(json.dumps, rows)).encode()) | st.binary(), st.booleans()
)
def test_arbitrary_bytes_raise_nothing_but_input_error(content: bytes, compressed: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cuts.jsonl.gz"
        path.write_bytes(gzip.compress(content) if compressed else content)
        with contextlib.suppress(InputError):
            open_corpus(path)
        assert len(read_lhotse(path, lambda fault: None)) >= 0
