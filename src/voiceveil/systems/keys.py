"""Secret keys, and the random generators that pseudo-speakers are drawn from.

The generator of an utterance is seeded with an HMAC of (namespace, level, role, id) under a secret key. It therefore
depends neither on the order of the files nor on the number of workers, and nobody can repeat a draw without the key.
At speaker level the id is the speaker's; enrollment and trial data have different roles, so that one person gets
different pseudo-speakers in the two, as the attack models of the challenges demand.

The namespace is the name of the corpus, unless another is given: the same ids in two corpora are different people, and
must not get the same pseudo-speakers because one key serves for both. Draws from a seed have none, unless it is given:
a seed protects nothing and is for repetition.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import shlex
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from voiceveil.core.errors import InputError
from voiceveil.core.files import open_file
from voiceveil.corpus import Utterance

__all__ = ["Key", "KeyFileWarning", "Level", "keyed_rng", "speaker_of"]

Level = Literal["utterance", "speaker"]
_SHORTEST_KEY = 16  # bytes
_LONGEST_KEY = 1 << 16
#: A key with fewer different bytes, or steps from byte to byte, was not drawn at random: 16 random hexadecimal digits
#: have fewer than 6 different ones once in 30,000 times, 16 random bytes never.
_FEWEST_VALUES = 6


class KeyFileWarning(UserWarning):
    """A key file that others can read."""


@dataclass(frozen=True, repr=False)
class Key:
    """A secret key that pseudo-speakers are drawn with.

    Parameters
    ----------
    secret
        The key.
    repeatable
        Whether a later run can use the same key.
    namespace
        Part of every draw, if not empty. None: the name of the corpus, see :meth:`in_corpus`.
    """

    secret: bytes
    repeatable: bool
    namespace: str | None = ""

    @classmethod
    def fresh(cls) -> Key:
        """Return a random key that is never stored: nobody can repeat the draws."""
        return cls(secrets.token_bytes(32), repeatable=False)

    @classmethod
    def from_seed(cls, seed: int, *, namespace: str = "") -> Key:
        """Return a key that anybody can guess: for repeatable experiments, not for protection."""
        return cls(hashlib.sha256(f"voiceveil seed {seed}".encode()).digest(), repeatable=True, namespace=namespace)

    @classmethod
    def from_file(cls, path: Path, *, namespace: str | None = None) -> Key:
        """Return the key in a file; only those who have the file can repeat the draws.

        Raises
        ------
        InputError
            If it is not a regular file, others can write to it, or its bytes are too few or not random.

        Warns
        -----
        KeyFileWarning
            If others can read it.
        """
        make = f"make one: (umask 077; head -c 32 /dev/urandom > {shlex.quote(str(path))})"
        try:
            with open_file(path) as file:
                mode = os.fstat(file.fileno()).st_mode
                content = file.read(_LONGEST_KEY + 1)
        except (InputError, OSError) as error:
            reason = error.what if isinstance(error, InputError) else error.strerror
            raise InputError(f"cannot read the key: {reason}", where=path, fix=make) from error
        if mode & 0o022:
            fix = f"make a new one that only you can write to, or chmod 600 {shlex.quote(str(path))} if you trust it"
            raise InputError("a key that others can write to: they may have replaced it", where=path, fix=fix)
        fault = _fault(content)
        if fault:
            raise InputError(fault, where=path, fix=make)
        if mode & 0o044:
            fix = f"chmod 600 {shlex.quote(str(path))}"
            problem = "others can read this key, and can repeat every draw"
            warnings.warn(f"{path}: {problem} ({fix})", KeyFileWarning, stacklevel=2)
        # Hashed, since HMAC pads short keys with zero bytes: otherwise a key with appended zeros would be the same key.
        return cls(hashlib.sha256(b"voiceveil key file " + content).digest(), repeatable=True, namespace=namespace)

    def in_corpus(self, name: str) -> Key:
        """Return the key for draws in a corpus: a key file without a namespace uses the name of the corpus."""
        return replace(self, namespace=name) if self.namespace is None else self

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the key without revealing it; "fresh" for a fresh key."""
        return self._digest("fingerprint").hex()[:16] if self.repeatable else "fresh"

    def namespace_fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the namespace without revealing it; "" if there is none."""
        return self._digest("namespace fingerprint", self.namespace).hex()[:16] if self.namespace else ""

    def derived(self, purpose: str) -> bytes:
        """Return a secret of 32 bytes for another purpose; it does not reveal the key or the draws."""
        return self._digest("derived", purpose)

    def rng(self, *context: str) -> np.random.Generator:
        """Return the generator for a context, for example ("speaker", "trial", "1272")."""
        within = ("namespace", self.namespace) if self.namespace else ()
        return np.random.default_rng(int.from_bytes(self._digest(*within, "draw", *context), "big"))

    def _digest(self, *context: str) -> bytes:
        # Lengths are included, so that different contexts are different bytes.
        # Ids from file names that are not UTF-8 have surrogates.
        parts = [part.encode("utf-8", "surrogatepass") for part in context]
        message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self.secret, message, "sha256")


def _fault(content: bytes) -> str:
    """Return the fault of the bytes of a key, or ""."""
    if len(content) < _SHORTEST_KEY:
        return f"a key of {len(content)} bytes is too short: at least {_SHORTEST_KEY} are needed"
    if len(content) > _LONGEST_KEY:
        return f"a key has at most {_LONGEST_KEY} bytes"
    steps = {(after - before) % 256 for before, after in pairwise(content)}
    repeats = any(
        content[period:] == content[:-period] for period in range(1, min(_SHORTEST_KEY, len(content) // 2 + 1))
    )
    if min(len(set(content)), len(steps)) < _FEWEST_VALUES or repeats:
        return "a key whose bytes were not drawn at random can be guessed"
    return ""


def keyed_rng(key: Key, level: Level, utterance: Utterance) -> np.random.Generator:
    """Return the generator of an utterance, or of its speaker in its role."""
    if level == "utterance":
        return key.rng("utterance", utterance.role, utterance.id)
    return key.rng("speaker", utterance.role, speaker_of(utterance))


def speaker_of(utterance: Utterance) -> str:
    """Return the speaker; an ``InputError`` if it is not stated."""
    if utterance.speaker is None:
        raise InputError(
            f"utterance {utterance.id} has no speaker",
            where=utterance.path,
            fix="use --level utterance, or give speakers (utt2spk, a speaker column, a sub-folder for each)",
        )
    return utterance.speaker
