"""What is as long as a corpus is on disk: a dictionary, and a manifest that is read anew for every pass."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceveil.audio import save
from voiceveil.core.diskdict import DiskDict
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, read_manifest, stream_corpus, write_manifest
from voiceveil.testing import synthetic_voice

# Surrogates too: they stand in file names that are not UTF-8.
KEYS = st.text(max_size=4)
STEPS = st.lists(st.tuples(st.sampled_from(["set", "delete", "get"]), KEYS, st.text(max_size=3)), max_size=30)


@given(STEPS)
def test_behaves_like_a_dict(steps: list[tuple[str, str, str]]) -> None:
    plain: dict[str, str] = {}
    disk = DiskDict()
    for what, key, value in steps:
        if what == "set":
            plain[key] = disk[key] = value
        elif what == "get":
            assert plain.get(key) == disk.get(key)
        else:
            assert plain.pop(key, None) == disk.pop(key, None)
        assert (key in plain) == (key in disk)
    assert disk == plain
    assert list(disk) == list(plain), "in the order of insertion"
    assert list(disk.in_order()) == sorted(plain.items())
    assert len(disk) == len(plain)


def test_missing_keys_raise_key_error() -> None:
    disk = DiskDict()
    with pytest.raises(KeyError, match="a"):
        disk["a"]
    with pytest.raises(KeyError, match="a"):
        del disk["a"]
    assert 5 not in disk  # type: ignore[comparison-overlap]


def test_keys_are_sorted_by_code_point() -> None:
    keys = ["\U0001f600", "\ud800", "￿", "é", "z", "", "a\0b", "a"]
    disk = DiskDict()
    for key in keys:
        disk[key] = ""
    assert [key for key, _ in disk.in_order()] == sorted(keys)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_entries() -> None:
    """100,000 entries of 100 bytes, in a process of their own: as a dict they take over 20 MB."""
    code = (
        "from voiceveil.core.diskdict import DiskDict\nfrom voiceveil.testing.memory import peak_memory as peak\n"
        "disk = DiskDict()\n"
        "for n in range(20_000): disk[f'{n * 7919% 100_003:050d}'] = 50 * 'x'\n"
        "before = peak()\n"
        "for n in range(20_000, 100_000): disk[f'{n * 7919% 100_003:050d}'] = 50 * 'x'\n"
        "print(len(disk), peak() - before)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    count, grown = map(int, said.split())
    assert count == 100_000
    assert grown < 6


@pytest.mark.slow
def test_peak_memory_excludes_the_parent_process() -> None:
    """However large the one is that started it; else what is measured so could not fail in a large one."""
    code = (
        "import subprocess, sys\nfrom voiceveil.testing.memory import peak_memory\n"
        "held = bytes(range(256)) * (400 << 12)\n"
        "child = 'from voiceveil.testing.memory import peak_memory as peak; held = [0] * (50 << 17); print(peak())'\n"
        "said = subprocess.run([sys.executable, '-c', child], capture_output=True, text=True, check=True).stdout\n"
        "print(peak_memory(), said)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    parent, child = map(int, said.split())
    assert parent > 400
    assert 50 < child < 300


# --- Manifests ----------------------------------------------------------------------------------------------------


def manifest(folder: Path, suffix: str) -> Path:
    utterances = tuple(
        Utterance(f"u{n}", folder / f"{n}.wav", speaker=f"s{n % 2}", text='two\n"lines"', start=0.5 * n)
        for n in range(5)
    )
    trials = Trials(["s0", "s1", "s0"], ["u0", "u3", "u4"], [True, True, False])  # type: ignore[arg-type]
    path = folder / f"list.{suffix}"
    write_manifest(Corpus("list", utterances, trials, "manifest", folder), path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_streamed_manifest_equals_the_corpus(tmp_path: Path, suffix: str) -> None:
    path = manifest(tmp_path, suffix)
    stream, corpus = stream_corpus(path), read_manifest(path)
    assert not isinstance(stream, Corpus)
    for _ in range(2):
        assert tuple(stream) == corpus.utterances
    assert (stream.name, stream.kind, stream.root, len(stream)) == ("list", "manifest", tmp_path, 5)
    assert stream.trials == corpus.trials

    def even(utterance: Utterance) -> bool:
        return int(utterance.id[1:]) % 2 == 0

    some, expected = stream.filter(even), corpus.filter(even)
    assert tuple(some) == expected.utterances
    assert len(some) == len(expected) == 3
    assert some.trials == expected.trials
    write_manifest(some, tmp_path / f"some.{suffix}")
    assert read_manifest(tmp_path / f"some.{suffix}").utterances == expected.utterances


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_streaming_reports_faults_in_the_first_pass(tmp_path: Path, suffix: str) -> None:
    path = manifest(tmp_path, suffix)
    text = path.read_text()
    path.write_text(text + text.splitlines()[-1] + "\n" if suffix == "jsonl" else text + "u1,a.wav,s,t,0\n")
    with pytest.raises(InputError, match=r"occurs twice, first on line \d+ \(give each utterance its own id\)"):
        stream_corpus(path)
    path.write_bytes(text.encode() + b"\xff\n")
    with pytest.raises(InputError, match="UTF-8"):
        stream_corpus(path)


def test_manifest_changed_between_passes_is_rejected(tmp_path: Path) -> None:
    path = manifest(tmp_path, "jsonl")
    stream = stream_corpus(path)
    path.write_text(path.read_text() + json.dumps({"id": "new", "path": "new.wav"}) + "\n")
    with pytest.raises(InputError, match=r"list\.jsonl: changed during the run \(run the same command again\)"):
        list(stream)


def test_other_inputs_are_opened_as_a_corpus(tmp_path: Path) -> None:
    save(tmp_path / "in" / "a.wav", synthetic_voice(1, seconds=0.1))
    assert isinstance(stream_corpus(tmp_path / "in"), Corpus)
