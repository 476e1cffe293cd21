"""Digests by which a run recognizes its inputs again, made with a secret so that nobody else can.

A plain hash of a recording in the ledger would let anybody who has a candidate recording confirm that it is among the
originals. The digests are therefore HMACs. With a key file or a seed the secret is derived from that key and stored
nowhere. Other runs (a fresh key, official draws) keep a random salt in ``.voiceveil/salt``, readable by its owner
only: without it an interrupted run could not tell which inputs have changed.
"""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.errors import InputError
from voiceveil.core.files import read_bytes
from voiceveil.corpus import Utterance
from voiceveil.systems.settings import Settings
from voiceveil.systems.worker import Job

__all__ = ["digest_secret", "source_digest"]

_SALT_SIZE = 32  # bytes


def digest_secret(settings: Settings, ledger: Path, *, make: bool = True) -> bytes:
    """Return the secret of the digests in the ledger at path ``ledger``, whose folder must exist.

    Where a salt is needed and none is stored, one is made; with ``make=False`` nothing is written and the result is
    empty, with which no digest of the ledger is met.
    """
    if settings.draws == "keyed" and settings.key.repeatable:
        return settings.key.derived("source digest")
    path = ledger.with_name("salt")
    return _stored_salt(path) or (_new_salt(path) if make else b"")


def source_digest(secret: bytes, content: str, item: Utterance | Job) -> str:
    """Return the digest of an input: 16 hexadecimal digits; ``content`` is the sha256 of its file.

    It changes with the content, the id, the part of the file that is used, and the stated gender. It does not change
    with the path or the time of the file: a copy of a corpus is not anonymized again.
    """
    text = f"{content} {item.start} {item.duration} {item.id} {item.gender}"
    return hmac.digest(secret, os.fsencode(text), "sha256").hex()[:16]


def _stored_salt(path: Path) -> bytes | None:
    """Return the salt in the file, or None if there is no such file."""
    if not os.path.lexists(path):
        return None
    salt = read_bytes(path, at_most=1 << 16)
    if len(salt) != _SALT_SIZE:
        fix = "remove it: every recording is then anonymized again"
        raise InputError(f"not a salt, which has {_SALT_SIZE} bytes", where=path, fix=fix)
    return salt


def _new_salt(path: Path) -> bytes:
    salt = secrets.token_bytes(_SALT_SIZE)
    with atomic_path(path) as part:
        part.chmod(0o600)
        part.write_bytes(salt)
    return salt
