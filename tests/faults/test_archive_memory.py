"""Small archives that would take much memory: an ``InputError``, and no more than some hundred megabytes.

Each runs in a process of its own, whose highest resident memory is measured; the address space is limited as well.
"""

from __future__ import annotations

import gzip
import json
import os
import struct
import subprocess
import sys
import textwrap
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from voiceveil.core.errors import InputError
from voiceveil.metrics.wer import word_errors

#: MB of resident memory beyond that of the imports, and of address space in all.
MOST, SPACE = 300, 4000

SCRIPT = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({space} << 20,) * 2)
from pathlib import Path
from voiceveil.core.errors import InputError
{imports}
def highest():  # of ru_maxrss a new process inherits that of its parent
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024

before = highest()
path = Path(sys.argv[1])
said = ""
try:
    {work}
except InputError as error:
    said = str(error)
print(json.dumps({{"said": said, "megabytes": highest() - before}}))
"""


def run(path: Path, imports: str, work: str) -> str:
    """Run some work on a file in a process of its own; return the message of its ``InputError``."""
    script = SCRIPT.format(space=SPACE, imports=imports, work=textwrap.indent(work, "    ").strip())
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, env=environment, timeout=100
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["megabytes"] < MOST
    return str(found["said"])


MEMBERS = "from voiceveil.core.safe_archive import read_members"
READ = "for member in read_members(path):\n    for block in member.blocks():\n        pass"


def _tar_header(name: bytes, kind: bytes = b"0", size: int = 0) -> bytes:
    """A header of GNU tar; names over 100 bytes need another before it."""
    header = bytearray(512)
    header[: len(name[:100])] = name[:100]
    header[100:108], header[124:136], header[156:157] = b"0000644\0", b"%011o\0" % size, kind
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def _named(name: bytes) -> bytes:
    padded = name + bytes(-len(name) % 512)
    return _tar_header(b"././@LongLink", b"L", len(name)) + padded + _tar_header(name)


def deep_folders() -> bytes:
    """Files in folders of their own, 140 levels deep."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(_named(b"%06d/" % i + b"a/" * 140 + b"f")) for i in range(20_000)]
    return b"".join([*parts, packer.compress(bytes(1024)), packer.flush()])


def many_folders() -> bytes:
    """Files in ten folders of their own each."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(_named(b"".join(b"%d%06d/" % (k, i) for k in range(9)) + b"f")) for i in range(20_000)]
    return b"".join([*parts, packer.compress(bytes(1024)), packer.flush()])


def pax_records() -> bytes:
    """Extended headers of thousands of short records."""
    record = b"6 a=b\n" * 10_000
    whole = (_tar_header(b"pax", b"x", len(record)) + record + bytes(-len(record) % 512)) * 300
    return gzip.compress(whole + _tar_header(b"f") + bytes(1024))


def _zip64(directory: bytes, claimed: bytes = b"") -> bytes:
    """A directory that only the 64-bit records tell of, before an end that tells of a short one."""
    start = len(claimed)
    end64 = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, len(directory), start)
    pointer = b"PK\x06\x07" + struct.pack("<IQI", 0, start + len(directory), 1)
    return claimed + directory + end64 + pointer + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, 50, 0, 0)


def _entries(count: int) -> bytes:
    head = b"PK\x01\x02" + struct.pack("<HHHHHHIIIHHHHHII", 20, 20, 0, 0, 0, 33, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0)
    return b"".join(head + b"%08d" % i for i in range(count))


def zip64_directory() -> bytes:
    """A million files behind a directory of one."""
    return _zip64(_entries(1_000_000), b"PK\x03\x04")


def long_directory() -> bytes:
    """More files than the count says."""
    directory = _entries(250_000)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 9, 9, len(directory), 4, 0)
    return b"PK\x03\x04" + directory + end


@pytest.mark.parametrize("make", [deep_folders, many_folders, pax_records, zip64_directory, long_directory])
def test_reading_members_is_bounded_in_memory(make: Callable[[], bytes], tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(make())
    assert run(path, MEMBERS, READ).startswith(str(path))


def test_deep_folder_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(_named(b"a/" * 60 + b"f") + bytes(1024))
    assert "61 levels deep" in run(path, MEMBERS, READ)


TRANSCRIPTS = {
    "one line of millions of words": b"u1 " + b"a " * 5_000_000 + b"\nu2 b\n",
    "one word of megabytes": b"u1 " + b"a" * 30_000_000 + b"\nu2 b\n",
    "millions of lines": b"u1 a\nu2 b\n" + b"".join(b"%d x\n" % i for i in range(3_000_000)),
    "millions of blank lines": b"\n" * 30_000_000,
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_hostile_transcripts_are_bounded_in_memory(name: str, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(TRANSCRIPTS[name])
    imports = "from voiceveil.official.submission.recomputing import read_transcripts"
    said = run(path, imports, 'read_transcripts(path, {"u1": "a b c", "u2": "b"})')
    assert said.startswith(str(path))


def test_valid_transcripts_are_read(tmp_path: Path) -> None:
    from voiceveil.official.submission.recomputing import read_transcripts

    path = tmp_path / "text"
    path.write_text("u1 a b\nu2\n")
    assert read_transcripts(path, {"u1": "a b", "u2": "c", "u3": "d"}) == {"u1": "a b", "u2": ""}


@pytest.mark.parametrize("content", [b"\n" * 30_000_000, b"a\n" * 15_000_000, b"a" * 30_000_000])
def test_hostile_result_files_are_bounded_in_memory(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.write_bytes(content)
    imports = "from voiceveil.official import read_results"
    assert run(path, imports, "read_results(path)").startswith(str(path))
    imports = "from voiceveil.official.transcripts import parse_wer"
    assert run(path, imports, "parse_wer(path)").startswith(str(path))


@pytest.mark.parametrize("content", [b"\n" * (200 << 20), b"0\n" * (100 << 20)])
def test_hostile_tdsv_answers_are_bounded_in_memory(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("answer.txt", content)
    stored = tmp_path / "answer.txt"
    stored.write_bytes(content)
    imports = "from voiceveil.tdsv.answers import check_submission, read_answer"
    assert run(path, imports, "check_submission(path, 1000)")
    assert run(stored, imports, "read_answer(path, 1000)").startswith(str(stored))


def test_words_of_one_utterance_are_bounded() -> None:
    with pytest.raises(InputError, match="too many words to align"):
        word_errors(["a " * 40_000], ["b " * 40_000])
