"""Signed tokens that expire, and digests that only the holder of the key can make.

Conventions: a key is at least 32 random bytes, in a file that only its owner can read. A token is text that can stand
in an address; anybody can read what it says, nobody can change it. Times are seconds since 1970. A token for one
purpose is refused for another. Each token has an ``id`` and the time when it was ``made``, by which it can be revoked;
a cookie that is made from a token takes over both, and is revoked with it.
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

from voiceveil.apps.web.database import Database, Transaction
from voiceveil.core.errors import InputError
from voiceveil.core.files import read_text

__all__ = [
    "BadToken", "ExpiredToken", "Revocations", "Seal", "check_link", "new_key", "open_own_token", "read_key",
    "write_key",
]  # fmt: skip

_KEY_BYTES = 32
_MAX_DAYS = 36500  # that a link is valid
_RESTORE = "restore it: links and codes depend on it"


class BadToken(Exception):
    """The token was not signed with this key and purpose."""


class ExpiredToken(BadToken):
    """The token has expired or was revoked."""


class Seal:
    """Signs and checks with one key."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _KEY_BYTES:
            raise InputError(f"a key of {len(key)} bytes", fix=f"use {_KEY_BYTES} random bytes")
        self._key = key

    def token(self, purpose: str, payload: dict[str, Any], *, until: float) -> str:
        """Return a signed token.

        Parameters
        ----------
        purpose
            Only :meth:`open` with the same purpose accepts the token.
        payload
            Its content; a random ``id`` and the time ``made`` are added unless it has them.
        until
            When it expires, in seconds since 1970.
        """
        content = {"id": secrets.token_hex(8), "made": time.time(), **payload, "until": int(until)}
        return str(self._serializer(purpose).dumps(content))

    def open(self, purpose: str, token: str, *, now: float | None = None) -> dict[str, Any]:
        """Return the content of a token; ``BadToken`` if its signature is wrong, ``ExpiredToken`` if it has expired."""
        from itsdangerous import BadData

        try:
            payload = self._serializer(purpose).loads(token)
            until = float(payload["until"])
        except (BadData, KeyError, TypeError, ValueError) as error:
            raise BadToken("not a token of this server") from error
        if (time.time() if now is None else now) >= until:
            raise ExpiredToken("the token has expired")
        return dict(payload)

    def digest(self, purpose: str, *parts: str) -> bytes:
        """Return 32 bytes that depend on the key, the purpose and each of the parts."""
        content = "\0".join(f"{len(part)}:{part}" for part in (purpose, *parts))
        return hmac.new(self._key, content.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()

    def name(self, purpose: str, *parts: str, letters: int = 20) -> str:
        """Return a digest as lowercase letters and digits, for names that reveal nothing."""
        return base64.b32encode(self.digest(purpose, *parts)).decode().lower()[:letters]

    def _serializer(self, purpose: str) -> Any:
        from itsdangerous import URLSafeSerializer

        return URLSafeSerializer(self._key, salt=purpose, signer_kwargs={"digest_method": hashlib.sha256})


class Revocations:
    """Tokens that are no longer valid although they have not expired, in the database of an application.

    A holder is a team or an evaluator; ``content`` is that of a token (:meth:`Seal.open`).
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        table = "revocations (name TEXT PRIMARY KEY, at DOUBLE PRECISION NOT NULL)"
        database.create([f"CREATE TABLE IF NOT EXISTS {table}"])

    def revoke_token(self, content: dict[str, Any]) -> None:
        """Revoke one token, and the cookies that were made from it."""
        if "id" not in content:
            raise InputError("this token has no id: an earlier version made it", fix="revoke all tokens of its holder")
        self._add(f"token {content['id']}")

    def revoke_holder(self, holder: str) -> None:
        """Revoke every token that was made for a holder until now; later ones are valid."""
        self._add(f"holder {holder}")

    def has(self, holder: str, content: dict[str, Any]) -> bool:
        """Return whether a token of this holder is revoked."""
        names = (f"holder {holder}", f"token {content.get('id')}")
        rows = self._database.read("SELECT name, at FROM revocations WHERE name IN (?, ?)", *names)
        return any(name == names[1] or content.get("made", 0.0) <= at for name, at in rows)

    def _add(self, name: str) -> None:
        def work(transaction: Transaction) -> None:
            sql = "INSERT INTO revocations VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET at = excluded.at"
            transaction.run(sql, name, time.time())

        self._database.write(work)


def open_own_token(seal: Seal, purpose: str, link: str) -> dict[str, Any]:
    """Return the content of a token or link that an operator gives; ``InputError`` if it is not of this server."""
    try:
        return seal.open(purpose, link.strip().rstrip("/").rpartition("/")[2])
    except ExpiredToken as error:
        raise InputError("this token has expired already", fix="there is nothing to revoke") from error
    except BadToken as error:
        raise InputError("this is not a token of this server", fix="copy the whole token or link") from error


def check_link(url: str, days: float) -> None:
    """Raise ``InputError`` unless ``url`` is an address and ``days`` a time that a link can be valid."""
    if not url.startswith(("http://", "https://")):
        fix = "begin with https://, or on your own computer with http://"
        raise InputError(f"--url {url!r} is not the address of a server", fix=fix)
    if not 0 < days <= _MAX_DAYS:
        raise InputError(f"--days {days:g} is out of range", fix=f"give a positive number, at most {_MAX_DAYS}")


def new_key() -> bytes:
    """Return a new random key."""
    return secrets.token_bytes(_KEY_BYTES)


def write_key(path: Path, key: bytes) -> None:
    """Write a key into a new file that only its owner can read; an existing file is an error."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(key.hex() + "\n")


def read_key(path: Path) -> bytes:
    """Return the key in a file that :func:`write_key` wrote; anything else is an ``InputError``."""
    try:
        key = bytes.fromhex(read_text(path, at_most=1024).strip())
    except InputError as error:
        raise InputError(f"cannot read the key: {error.what}", where=path, fix=_RESTORE) from error
    except ValueError as error:
        raise InputError("not a key", where=path, fix=_RESTORE) from error
    if len(key) < _KEY_BYTES or len(set(key)) < 6:  # 32 random bytes have more different ones
        raise InputError("not a key", where=path, fix=_RESTORE)
    return key
