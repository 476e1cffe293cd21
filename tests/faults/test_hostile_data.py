"""Every reader of files, on files that were tampered with: an answer or an ``InputError``, in bounded time and memory.

Each reader gets a good file, into which hypothesis writes what breaks readers: cuts, repetitions, bytes of other
formats, numbers that are too large, brackets without end. Nothing but an ``InputError`` may come out; more than three
seconds of the processor for one small file is a hang, and one gigabyte of address space beyond what the process has is
all it gets.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import resource
import signal
import sqlite3
import tarfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults import many
from tests.faults.runs import PROTOCOL
from tests.support.official_samples import SAMPLES
from voiceveil.apps.board.contest import Contest
from voiceveil.apps.listen.study import Study
from voiceveil.apps.web.tokens import read_key as read_secret
from voiceveil.audio import MixedDownWarning, Waveform, info, load
from voiceveil.core.errors import InputError
from voiceveil.core.safe_archive import read_members
from voiceveil.corpus import open_corpus
from voiceveil.corpus.kaldi import read_kaldi
from voiceveil.corpus.score_files import read_key, read_labeled, read_scores
from voiceveil.evaluation.details import Details, read_details
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.results import Figure, Results
from voiceveil.official.reading import read_results
from voiceveil.risk.embeddings import read_table
from voiceveil.run.cache import Cache
from voiceveil.run.ledger import open_ledger
from voiceveil.systems.keys import Key as SecretKey
from voiceveil.tdsv import lists
from voiceveil.tdsv.answers import check_submission, read_answer
from voiceveil.tdsv.serialization import load_system

TRIALS = "s1 u1 target\ns1 u2 nontarget\ns2 u1 nontarget\ns2 u2 target\n"
KALDI = {
    "wav.scp": "s1-a audio/a.wav\ns2-b audio/b.wav\n",
    "segments": "s1-a1 s1-a 0.0 0.2\ns2-b1 s2-b 0.1 0.3\n",
    "utt2spk": "s1-a1 s1\ns2-b1 s2\n",
    "spk2utt": "s1 s1-a1\ns2 s2-b1\n",
    "spk2gender": "s1 f\ns2 m\n",
    "text": "s1-a1 ONE TWO\ns2-b1 THREE\n",
    "utt2dur": "s1-a1 0.2\ns2-b1 0.2\n",
    "trials": "s1 s1-a1 target\ns1 s2-b1 nontarget\n",
    "enrolls": "s1-a1\n",
}
TDSV = {
    "models": "model-id phrase-id gender enroll-file-id1 enroll-file-id2 enroll-file-id3\nm1 01 F e1 e2 e3\n",
    "trials": "model-id evaluation-file-id\nm1 t1\nm1 t2\n",
    "labels": "train-file-id speaker-id phrase-id\nf1 s1 01\nf2 s1 FT\n",
    "keys": "model-id evaluation-file-id trial-type speaker-id gender\nm1 t1 TC s1 F\nm1 t2 IW s2 M\n",
}
CONTEST = 'protocol = "vpc2024"\ndata = "data"\nsplit = "test"\ntitle = "x"\ndaily = 2\ntotal = 10\n'
STUDY = {
    "format": "voiceveil listening study 1",
    "name": "x",
    "seed": 1,
    "systems": ["b2"],
    "ratings": ["naturalness"],
    "recordings": {"r": {"source": "b2", "speaker": "s", "seconds": 1.5}},
    "items": {"i": {"id": "i", "kind": "rating", "audio": ["r", "r"]}},
    "evaluators": {"e": [{"task": "rating", "items": ["i"]}]},
}
EXAMPLES = many(15, 4000)


@dataclass(frozen=True)
class Reader:
    """A reader: the file that is tampered with, the files around it, and the call."""

    file: str
    sample: bytes
    read: Callable[[Path], object]
    around: tuple[tuple[str, bytes], ...] = ()


def _sound(format: str, subtype: str | None = None) -> bytes:
    buffer = io.BytesIO()
    samples = np.sin(np.arange(3000) / 9)
    soundfile.write(buffer, samples, 16000, format=format, subtype=subtype)
    return buffer.getvalue()


def _decoded(path: Path) -> Waveform | None:
    """Return the audio, or None if the header promises more than a test can take."""
    if info(path).frames >= 10_000_000:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixedDownWarning)
        return load(path)


def _tar(mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in (("data/a.wav", _sound("WAV")), ("exp/scores", TRIALS.encode())):
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    return buffer.getvalue()


def _zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _results() -> bytes:
    figures = [{"metric": "cllr", "value": 0.1, "dataset": "libri_dev", "low": 0.0, "high": "inf", "detail": {"a": 1}}]
    whole = {"format": "voiceveil results 1", "system": "b2", "protocol": "vpc2024", "figures": figures, "info": {}}
    return json.dumps(whole).encode()


def _sqlite() -> bytes:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE results (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
        database.execute("INSERT INTO results VALUES (x'00', ?)", (b'J{"a": [1, 2]}',))
        return database.serialize()


def _use_cache(path: Path) -> object:
    cache = Cache(path)
    try:
        value = cache.get(b"\0")
        cache.pace("x")
        cache.digest(path.with_name("a.wav"))
        cache.put(b"\1", [1.0])
        cache.empty()
    finally:
        cache.close()
    return value


def _use_ledger(path: Path) -> bool:
    with open_ledger(path, {"system": "b2"}) as ledger:
        return ledger.has("a", "s", path.with_name("a.wav"))


def _safetensors(path: Path) -> object:
    from voiceveil.models.checkpoint import load_tensors

    return load_tensors(path, "test")


def _weights() -> bytes:
    tensor = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    head = json.dumps({"__metadata__": {"voiceveil": '{"kind": "test"}'}, "a": tensor})
    return len(head).to_bytes(8, "little") + head.encode() + bytes(16)


def _details(path: Path) -> Details:
    return read_details(path.parents[1])


SQUARE = [[1.0, 0.0], [0.0, 1.0]]
MATRICES = json.dumps({"speakers": ["a", "b"], "oo": SQUARE, "oa": SQUARE, "aa": SQUARE}).encode()
TABLE = b"utterance\tspeaker\tduration\tf0_original\nu1\ts1\t1.5\t120.0\nu2\ts2\t\t\n"
RECORD = {
    "kind": "voiceveil tdsv system 1", "task": 1, "encoder": "campplus", "fingerprint": "f", "content": "c",
    "wording": "match", "labels": [], "top": 2, "record": {},
}  # fmt: skip
SYSTEM = _npz(
    json=np.frombuffer(json.dumps(RECORD).encode(), np.uint8),
    fusion=np.ones((2, 3)),
    cohort=np.eye(2),
    voice_mean=np.ones(2),
    content_mean=np.ones(2),
    content_matrix=np.eye(2),
)
SOUND = ("a.wav", _sound("WAV"))
VECTORS = _npz(utterance=np.array(["a", "b"]), speaker=np.array(["s", "t"]), vector=np.eye(2))

READERS = {
    **{f"kaldi {name}": Reader(f"d/{name}", text.encode(), lambda path: read_kaldi(path.parent),
        tuple((f"d/{n}", t.encode()) for n, t in KALDI.items() if n != name)) for name, text in KALDI.items()},
    "csv": Reader("a.csv", b"id,path,speaker,start,duration\nu1,a.wav,s1,0.0,0.1\nu2,a.wav,s2,,\n", open_corpus,
        (SOUND,)),
    "jsonl": Reader("a.jsonl", b'{"id": "u1", "path": "a.wav", "start": 0.1}\n{"id": "u2", "path": "a.wav"}\n',
        open_corpus, (SOUND,)),
    "trials": Reader("trials", TRIALS.encode(), read_key),
    "scores": Reader("scores", b"s1 u1 0.5\ns1 u2 -1e3\ns2 u1 .1\ns2 u2 2\n",
        lambda path: read_scores(path, read_key(path.with_name("trials"))), (("trials", TRIALS.encode()),)),
    "labeled scores": Reader("scores", b"0.5 target\n-1 nontarget\n0.1 1\n", read_labeled),
    "tdsv models": Reader("models.txt", TDSV["models"].encode(), lists.read_models),
    "tdsv trials": Reader("trials.txt", TDSV["trials"].encode(), lists.read_trials),
    "tdsv labels": Reader("labels.txt", TDSV["labels"].encode(), lists.read_labels),
    "tdsv keys": Reader("keys.txt", TDSV["keys"].encode(), lists.read_keys),
    "tdsv answer": Reader("answer.txt", b"0.5\n-1.25\n3e2\n", read_answer),
    "tdsv submission": Reader("a.zip", _zip({"answer.txt": b"0.5\n-1.25\n"}), lambda path: check_submission(path, 2)),
    "tdsv system": Reader("a.npz", SYSTEM, load_system),
    **{f"results {name}": Reader(name, text.encode(), read_results) for name, text in SAMPLES.items()},
    "results.json": Reader("results.json", _results(), Results.load),
    "details": Reader("details/a.tsv", TABLE, _details),
    "similarity": Reader("details/a.similarity.json", MATRICES, _details),
    "protocol": Reader("a.toml", PROTOCOL.encode(), load_protocol),
    "contest": Reader("contest.toml", CONTEST.encode(), lambda path: Contest.load(path.parent)),
    "study": Reader("design.json", json.dumps(STUDY).encode(), lambda path: Study.load(path.parent)),
    "key": Reader("key", hashlib.sha512(b"key").digest(), SecretKey.from_file),
    "secret": Reader("key", hashlib.sha256(b"secret").hexdigest().encode(), read_secret),
    "ledger": Reader("ledger.jsonl", b'{"system": "b2"}\n{"file": "a.wav", "id": "a", "seconds": 1.0, "sha256": "0", '
        b'"source": "s"}\n', _use_ledger, (SOUND,)),
    "cache": Reader("cache.sqlite", _sqlite(), _use_cache, (SOUND,)),
    **{f"sound {format}": Reader(f"a.{format.lower()}", _sound(format, subtype), _decoded)
        for format, subtype in (("WAV", "PCM_16"), ("WAVEX", "FLOAT"), ("RF64", None), ("W64", None), ("FLAC", None),
                                ("OGG", None), ("AIFF", None), ("CAF", None), ("AU", None), ("MP3", None))},
    "tar": Reader("a.tar", _tar("w"), lambda path: [list(member.blocks()) for member in read_members(path)]),
    "tar.gz": Reader("a.tar.gz", _tar("w:gz"), lambda path: [list(member.blocks()) for member in read_members(path)]),
    "zip": Reader("a.zip", _zip({"data/a.wav": SOUND[1], "exp/scores": TRIALS.encode()}),
        lambda path: [list(member.blocks()) for member in read_members(path)]),
    "embeddings": Reader("a.npz", VECTORS, read_table),
    "weights": Reader("a.safetensors", _weights(), _safetensors),
}  # fmt: skip

#: Readers of files that the program itself writes to: a cut line is mended, a result is added.
WRITTEN = {"ledger", "cache"}

#: What breaks readers.
TOKENS = [
    b"", b"\n", b"\r", b"\0", b" ", b"\t", b"|", b'"', b"'", b",", b"{", b"}", b"[" * 20_000, b'{"a":' * 5_000, b"../x",
    b"nan", b"inf", b"-1", b"1e999", b"9" * 30, b"9" * 5000, b"0x10", b"1_0", b"\xd9\xa1", b"\xff" * 4, b"\xff" * 8,
    b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\xff" * 7 + b"\x7f", b"\x00\x00\x00\x80", b"\xef\xbb\xbf",
    b"\xed\xa0\x80", "\u2028".encode(), "\u202e".encode(), b"\x1b[2J", b"null", b"true", b"PK\x03\x04",
    b"PK\x01\x02", b"PK\x05\x06",
    b"\x1f\x8b\x08", b"RIFF", b"OggS", b"fLaC", b"data", b"A" * 100_000,
]  # fmt: skip
edits = st.lists(
    st.tuples(
        st.sampled_from(["replace", "insert", "cut", "repeat", "drop", "number"]),
        st.integers(0, 10_000),
        st.sampled_from(TOKENS) | st.binary(max_size=12),
        st.integers(0, 40),
    ),
    min_size=1,
    max_size=4,
)


def tampered(sample: bytes, changes: list[tuple[str, int, bytes, int]]) -> bytes:
    data = sample
    for kind, place, token, length in changes:
        at = place % (len(data) + 1)
        if kind == "replace":
            data = data[:at] + token + data[at + len(token) :]
        elif kind == "insert":
            data = data[:at] + token + data[at:]
        elif kind == "cut":
            data = data[:at]
        elif kind == "repeat":
            data = data[:at] + data[max(at - length, 0) : at] * 50 + data[at:]
        elif kind == "drop":
            data = data[:at] + data[at + length :]
        else:  # in place of the next digits
            digits = next((i for i in range(at, len(data)) if data[i : i + 1].isdigit()), at)
            data = data[:digits] + token + data[digits:].lstrip(b"0123456789.")
    return data


class Hang(BaseException):
    """More time than a small file can need."""


def _hangs(*_: object) -> None:
    raise Hang


@contextmanager
def bounded() -> Iterator[None]:
    """Three seconds of the processor, half a minute by the clock, one gigabyte more of address space; what goes beyond
    is an exception."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = signal.signal(signal.SIGVTALRM, _hangs)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGESIZE") + (1 << 30), hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, 3.0)
    start = time.monotonic()
    try:
        yield
        if time.monotonic() - start > 30:
            raise Hang
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def written(folder: Path, reader: Reader, data: bytes) -> Path:
    for name, content in (*reader.around, (reader.file, data)):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)  # a key that others can read is refused
    return folder / reader.file


@pytest.mark.parametrize("name", READERS)
def test_valid_sample_is_read(name: str, tmp_path: Path) -> None:
    """Else what is tampered with would be refused for another reason."""
    assert READERS[name].read(written(tmp_path, READERS[name], READERS[name].sample)) is not None


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_raise_only_input_error(
    name: str, loaded: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    reader, folder = READERS[name], tmp_path_factory.mktemp("hostile")

    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    @given(edits)
    def attack(changes: list[tuple[str, int, bytes, int]]) -> None:
        data = tampered(reader.sample, changes)
        path = written(folder, reader, data)
        with bounded(), suppress(InputError):
            reader.read(path)
        assert path.read_bytes() == data or name in WRITTEN, "reading changed the file"

    attack()


def test_sample_results_have_their_figures(tmp_path: Path) -> None:
    """The samples are no empty shells."""
    (tmp_path / "results.json").write_bytes(_results())
    assert Results.load(tmp_path / "results.json").figures == (
        Figure("cllr", 0.1, "libri_dev", low=0.0, high=float("inf"), detail={"a": 1}),
    )
