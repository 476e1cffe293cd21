"""Safe ids: ids that can stand in a Kaldi file, whatever the names of the recordings.

An id with blanks or control characters, as names of files and folders have, is replaced by a safe one: the same letters
as far as they can stay, and eight digits of a hash of the original. It depends on nothing but the original, so that it
is the same in every set, and different ids stay different. Ids that Kaldi can hold stay as they are, also those with
letters of any language and those with ``/``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from voiceveil.core.errors import InputError
from voiceveil.corpus.lines import is_id
from voiceveil.corpus.model import Corpus, Trials, Utterance

__all__ = ["id_lines", "id_map", "is_file_name", "safe_id", "with_safe_ids"]

_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f\\\ud800-\udfff]")
_LONGEST_PART = 250  # bytes: a file name has at most 255, with its suffix
_LONGEST = 1000  # bytes


def safe_id(text: str) -> str:
    """Return the id itself if it is safe, or else a safe one that is made of it.

    >>> safe_id("1272-128104-0000"), safe_id("Anna Schmidt/my recording 1")
    ('1272-128104-0000', 'Anna_Schmidt/my_recording_1-9dc911c9')
    """
    if is_id(text):
        return text
    parts = [_UNSAFE.sub("_", part).lstrip(".") for part in text.split("/")]
    name = "/".join(part if _size(part) <= _LONGEST_PART else part[:40] for part in parts if part)
    name = name if _size(name) < _LONGEST - 9 else name.replace("/", "_")[:40]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name or 'id'}-{digest[:8]}"


def is_file_name(text: str) -> bool:
    """Return whether a file below a folder can be called by the id, as ``voiceveil anonymize`` does."""
    if "\\" in text or "\0" in text or _size(text) > _LONGEST:
        return False
    return all(part not in ("", ".", "..") and _size(part) <= _LONGEST_PART for part in text.split("/"))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def with_safe_ids(corpus: Corpus) -> Corpus:
    """Return the corpus with safe ids of utterances and speakers; itself if they are safe already."""
    if not id_map(corpus):
        return corpus
    utterances = tuple(
        replace(u, id=safe_id(u.id), speaker=None if u.speaker is None else safe_id(u.speaker)) for u in corpus
    )
    trials = corpus.trials
    if trials is not None:
        trials = Trials(_renamed(trials.enroll.tolist()), _renamed(trials.utterance.tolist()), trials.target)
    return replace(corpus, utterances=utterances, trials=trials)


def _renamed(ids: Iterable[str]) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    return np.array([safe_id(text) for text in ids], dtype=np.str_)


def id_map(utterances: Iterable[Utterance]) -> dict[tuple[str, str], str]:
    """Return ("utterance" or "speaker", safe id) -> original id, of those ids that are not safe."""
    originals: dict[tuple[str, str], str] = {}
    for utterance in utterances:
        for kind, text in (("utterance", utterance.id), ("speaker", utterance.speaker)):
            if text is not None and not is_id(text) and originals.setdefault((kind, safe_id(text)), text) != text:
                problem = f"the {kind}s {originals[kind, safe_id(text)]!r} and {text!r} would get the same id"
                raise InputError(problem, where=utterance.path, fix="rename one of them")
    return originals


def id_lines(ids: dict[tuple[str, str], str]) -> list[str]:
    """Return the lines of ``ids.tsv``: kind, safe id, and the original id as JSON text, with tabs between."""
    return [f"{kind}\t{safe}\t{json.dumps(original)}" for (kind, safe), original in sorted(ids.items())]
