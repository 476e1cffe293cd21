"""Cache of features of recordings that several systems share: content, F0 and embeddings.

Resynthesis spends most of its time on these features. ``anonymize(..., feature_cache=FILE)`` keeps them in a file for
other systems; the output is the same, byte for byte. The file holds embeddings of the speakers: biometric data.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

from voiceveil.audio import Waveform
from voiceveil.run.cache import Cache
from voiceveil.run.extract import Evaluator

__all__ = ["extract_cached", "feature_cache"]

_file: ContextVar[Path | None] = ContextVar("feature_cache", default=None)


@contextmanager
def feature_cache(file: Path | None) -> Iterator[None]:
    """Cache the features that are extracted in this block in ``file``; None: no cache."""
    token = _file.set(file)
    try:
        yield
    finally:
        _file.reset(token)


def extract_cached(evaluator: Evaluator[Any], wave: Waveform) -> Any:
    """Return the features of a recording, from the cache of the current block if it has them."""
    file = _file.get()
    if file is None:
        return evaluator(wave)
    return _opened(file, os.getpid()).remember(evaluator.fingerprint(), [wave.samples], lambda: evaluator(wave))


@lru_cache(maxsize=1)
def _opened(file: Path, process: int) -> Cache:
    """Return the cache, opened once by each process that uses it."""
    return Cache(file)
