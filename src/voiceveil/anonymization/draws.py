"""Who becomes whom: the random generator that a pseudo-speaker is drawn from.

The generator of an utterance is seeded with an HMAC of (level, role, id) under a secret key. It therefore depends
neither on the order of the files nor on the number of workers, and who does not have the key cannot redo the draw.
At speaker level the id is the speaker's; enrollment and trial data have different roles, so that one person gets
different pseudo-speakers in the two, as the attack models of the challenges demand.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from voiceveil.corpus import Utterance
from voiceveil.errors import InputError

__all__ = ["Key", "Level", "keyed_rng", "speaker_of"]

Level = Literal["utterance", "speaker"]
_SHORTEST_KEY = 16  # bytes


@dataclass(frozen=True, repr=False)
class Key:
    """The secret, and whether a later run can have it again."""

    secret: bytes
    repeatable: bool

    @classmethod
    def fresh(cls) -> Key:
        """A random key that is never stored: nobody, we included, can redo the draws."""
        return cls(secrets.token_bytes(32), repeatable=False)

    @classmethod
    def from_seed(cls, seed: int) -> Key:
        """Repeatable, and guessable by anybody: for experiments, not for protection."""
        return cls(hashlib.sha256(f"voiceveil seed {seed}".encode()).digest(), repeatable=True)

    @classmethod
    def from_file(cls, path: Path) -> Key:
        """Repeatable by whoever has the file."""
        try:
            secret = path.read_bytes()
        except OSError as error:
            fix = f"make one: head -c 32 /dev/urandom > {path}"
            raise InputError(f"cannot read the key: {error.strerror}", where=path, fix=fix) from error
        if len(secret) < _SHORTEST_KEY:
            fix = f"make a new one: head -c 32 /dev/urandom > {path}"
            raise InputError(f"a key of {len(secret)} bytes is too short", where=path, fix=fix)
        return cls(secret, repeatable=True)

    def fingerprint(self) -> str:
        """Tells keys apart without telling the key."""
        return self._digest("fingerprint").hex()[:16] if self.repeatable else "fresh"

    def derived(self, purpose: str) -> bytes:
        """Return a secret of 32 bytes for another purpose; it tells nothing about the key or the draws."""
        return self._digest("derived", purpose)

    def rng(self, *context: str) -> np.random.Generator:
        """The generator for a context, for example ("speaker", "trial", "1272")."""
        return np.random.default_rng(int.from_bytes(self._digest("draw", *context), "big"))

    def _digest(self, *context: str) -> bytes:
        # Lengths go in as well, so that no two contexts are the same bytes.
        # Ids that come from file names which are not UTF-8 have surrogates.
        parts = [part.encode("utf-8", "surrogatepass") for part in context]
        message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return hmac.digest(self.secret, message, "sha256")


def keyed_rng(key: Key, level: Level, utterance: Utterance) -> np.random.Generator:
    """The generator of an utterance, or of its speaker in its role."""
    if level == "utterance":
        return key.rng("utterance", utterance.role, utterance.id)
    return key.rng("speaker", utterance.role, speaker_of(utterance))


def speaker_of(utterance: Utterance) -> str:
    """The speaker; an ``InputError`` if nobody knows."""
    if utterance.speaker is None:
        raise InputError(
            f"utterance {utterance.id} has no speaker",
            where=utterance.path,
            fix="use --level utterance, or give speakers (utt2spk, a speaker column, a sub-folder for each)",
        )
    return utterance.speaker
