"""The two commands that are disturbed, and what their output is compared by."""

from __future__ import annotations

from pathlib import Path

from tests.support.protocols import SMALL_PROTOCOL

#: With result files of the official kind.
PROTOCOL = SMALL_PROTOCOL + '\n[official]\nlayout = "vpc2022"\nfamily = "xvector"\n'
STARTED = "2024-05-01T12:00:00"


def anonymizing(data: Path, out: Path) -> list[str]:
    """Arguments of an anonymization."""
    return ["anonymize", str(data / "audio"), str(out), "--system", "b2", "--seed", "1", "--quiet"]


def evaluating(data: Path, out: Path) -> list[str]:
    """Arguments of an evaluation."""
    where = ["--data", str(data), "--out", str(out), "--protocol", str(data / "small.toml")]
    return ["evaluate", *where, "--system", "b2", "--seed", "1", "--jobs", "1", "--quiet", "--attackers", "free:f0"]


def begun(out: Path) -> None:
    """Make the folder of an evaluation that was begun at a known time, which its results say."""
    out.mkdir(parents=True)
    (out / ".started").write_text(f"{STARTED}\n")


def tree(folder: Path) -> dict[str, bytes]:
    """All files and their bytes but for the cache, whose bytes are SQLite's business."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("cache.sqlite"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
