"""Write files: under a temporary name beside the final one, renamed when they are complete.

A *guard* (see :func:`guarded`) stands before every rename and removal below a folder, so that whatever code writes
there, no file is replaced or removed that the guard does not know as the program's own.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

from voiceveil.core.errors import InputError, OutputError

__all__ = [
    "PART_PREFIX", "RECORDS", "Guard", "atomic_path", "clear_path", "guarded", "is_part", "is_recorded", "part_beside",
    "remove_if_recorded", "remove_parts", "scratch_path",
]  # fmt: skip

#: Temporary files start with this; a killed run may leave some behind.
PART_PREFIX = ".voiceveil-part-"
#: Folder in an output for the program's own records; what lies in it needs no guard.
RECORDS = ".voiceveil"


class Guard(Protocol):
    """Decides which files below a folder may be replaced or removed."""

    def before_replace(self, part: Path, path: Path) -> None:
        """Record the complete temporary file ``part`` as the next content of ``path``, or raise ``InputError``."""
        ...

    def owns(self, path: Path) -> bool:
        """Return whether the file at ``path`` is the program's own."""
        ...

    def may_replace(self, path: Path) -> bool:
        """Return whether the file at ``path`` is the program's own, or the user lets others' be replaced."""
        ...


_guards: ContextVar[tuple[tuple[str, Guard], ...]] = ContextVar("guards", default=())


@contextmanager
def guarded(folder: Path, guard: Guard) -> Iterator[None]:
    """Ask ``guard`` before a file below ``folder`` is replaced or removed; the innermost guard of a file decides."""
    token = _guards.set((*_guards.get(), (os.path.abspath(folder), guard)))  # noqa: PTH100 -- links stay as they are
    try:
        yield
    finally:
        _guards.reset(token)


def _guard_of(path: Path) -> Guard | None:
    if path.parent.name == RECORDS or is_part(path):
        return None
    place = Path(os.path.abspath(path))  # noqa: PTH100 -- links stay as they are
    return next((guard for folder, guard in reversed(_guards.get()) if place.is_relative_to(folder)), None)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; it replaces ``path`` if the block succeeds, and is removed otherwise."""
    with scratch_path(path) as part:
        yield part
        guard = _guard_of(Path(path))
        if guard is not None:
            guard.before_replace(part, Path(path))
        part.replace(path)


@contextmanager
def scratch_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file in the folder of ``path``, which is created if missing; it is removed at the end.

    Failure to write (no space, no permission) is an :class:`OutputError`.
    """
    path = Path(path)
    part: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=PART_PREFIX, suffix=path.suffix, dir=path.parent)
        part = Path(name)
        os.fchmod(handle, 0o666 & ~_umask())
        os.close(handle)
        yield part
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.EILSEQ):  # the item's fault, not the disk's
            raise InputError(f"cannot be the name of a file: {error.strerror}", where=path, fix="rename it") from error
        raise OutputError(f"cannot write: {error.strerror or error}", where=path) from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def part_beside(path: Path) -> Path:
    """Return the temporary name, the same each time, under which another process leaves the content of ``path``."""
    digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]
    return path.with_name(f"{PART_PREFIX}{digest}{path.suffix}")


def is_part(path: Path) -> bool:
    """Return whether the name is one of this program's temporary files."""
    return path.name.startswith(PART_PREFIX)


def remove_parts(folders: Iterable[Path], *, below: bool = False) -> None:
    """Remove the temporary files that a killed run left in the folders, and with ``below`` in all folders below."""
    for folder in folders:
        for part in (folder.rglob if below else folder.glob)(f"{PART_PREFIX}*"):
            if part.is_file() and not part.is_symlink():
                part.unlink(missing_ok=True)


def is_recorded(path: Path) -> bool:
    """Return whether the guard of the file's folder knows it as the program's own; False where there is no guard."""
    guard = _guard_of(path)
    return guard is not None and guard.owns(path)


def remove_if_recorded(path: Path) -> bool:
    """Remove a file that the guard of its folder knows as the program's own; return whether nothing is there now."""
    if not os.path.lexists(path):
        return True
    if not is_recorded(path):
        return False
    path.unlink()
    return True


def clear_path(path: Path) -> bool:
    """Remove a file that the guard of its folder lets be replaced; return whether nothing is there now."""
    guard = _guard_of(path)
    if guard is not None and os.path.lexists(path) and guard.may_replace(path):
        path.unlink()
    return not os.path.lexists(path)
