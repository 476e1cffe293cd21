"""Signed tokens that expire, and digests that only the holder of the key can make.

Conventions: a key is at least 32 random bytes, in a file that only its owner can read. A token is text that can stand
in an address; anybody can read what it says, nobody can change it. ``until`` is a time in seconds since 1970. A token
for one purpose is refused for another.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import time
from pathlib import Path
from typing import Any

from voiceveil.errors import InputError

__all__ = ["BadToken", "ExpiredToken", "Seal", "new_key", "read_key", "write_key"]

_KEY_BYTES = 32


class BadToken(Exception):
    """Not a token of ours, or not for this."""


class ExpiredToken(BadToken):
    """A token of ours whose time is over."""


class Seal:
    """Signs and checks with one key."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _KEY_BYTES:
            raise InputError(f"a key of {len(key)} bytes", fix=f"use {_KEY_BYTES} random bytes")
        self._key = key

    def token(self, purpose: str, payload: dict[str, Any], *, until: float) -> str:
        """A token that says ``payload`` until then."""
        return str(self._serializer(purpose).dumps({**payload, "until": int(until)}))

    def open(self, purpose: str, token: str, *, now: float | None = None) -> dict[str, Any]:
        """What a token says; ``BadToken`` if it is not ours, ``ExpiredToken`` if its time is over."""
        from itsdangerous import BadData

        try:
            payload = self._serializer(purpose).loads(token)
            until = float(payload["until"])
        except (BadData, KeyError, TypeError, ValueError) as error:
            raise BadToken("not a token of this server") from error
        if (time.time() if now is None else now) >= until:
            raise ExpiredToken("its time is over")
        return dict(payload)

    def digest(self, purpose: str, *parts: str) -> bytes:
        """32 bytes that depend on the key, the purpose and each of the parts."""
        said = "\0".join(f"{len(part)}:{part}" for part in (purpose, *parts))
        return hmac.new(self._key, said.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()

    def name(self, purpose: str, *parts: str, letters: int = 20) -> str:
        """A digest as small letters and digits, for names that tell nothing."""
        return base64.b32encode(self.digest(purpose, *parts)).decode().lower()[:letters]

    def _serializer(self, purpose: str) -> Any:
        from itsdangerous import URLSafeSerializer

        return URLSafeSerializer(self._key, salt=purpose, signer_kwargs={"digest_method": hashlib.sha256})


def new_key() -> bytes:
    """A new random key."""
    return secrets.token_bytes(_KEY_BYTES)


def write_key(path: Path, key: bytes) -> None:
    """Write a key into a file that only its owner can read; one that is there is not overwritten."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(key.hex() + "\n")


def read_key(path: Path) -> bytes:
    """The key in a file."""
    try:
        return bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise InputError(f"cannot read the key: {error.strerror}", where=path) from error
    except ValueError as error:
        raise InputError("not a key", where=path, fix="restore it: links and codes depend on it") from error
