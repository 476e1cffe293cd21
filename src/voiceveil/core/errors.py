"""The one exception that tells a user what is wrong with their input."""

from __future__ import annotations

from os import PathLike

from voiceveil.core.terminal import escaped

__all__ = ["InputError", "OutputError", "is_memory_error", "memory_error"]


class InputError(ValueError):
    """Something the user gave cannot be used: *what* it is, *where* it stands, how to *fix* it.

    >>> raise InputError("no speaker", where="data/utt2spk", line=3, fix="write `<utterance> <speaker>`")
    Traceback (most recent call last):
    ...
    voiceveil.core.errors.InputError: data/utt2spk:3: no speaker (write `<utterance> <speaker>`)
    """

    def __init__(
        self, what: str, *, where: str | PathLike[str] | None = None, line: int | None = None, fix: str = ""
    ) -> None:
        self.what = what
        self.where = None if where is None else str(where)
        self.line = line
        self.fix = fix
        place = "" if self.where is None else f"{self.where}:{line}: " if line else f"{self.where}: "
        # Names in it come from data: a message is one line that a terminal can be sent.
        super().__init__(escaped(f"{place}{what} ({fix})" if fix else f"{place}{what}"))

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the keyword arguments when the error crosses a process boundary."""
        return (_rebuild, (type(self), self.what, self.where, self.line, self.fix))


class OutputError(InputError):
    """An output cannot be written (no space, no permission): a batch stops at the first such error."""


def is_memory_error(error: Exception) -> bool:
    """Return whether an exception means that the memory was exhausted, also one of torch or ONNX Runtime."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("allocate memory" in text or "out of memory" in text)
    )


def memory_error(where: str | PathLike[str]) -> InputError:
    """Return the error of a recording that the memory does not suffice for."""
    return InputError("not enough memory for this recording", where=where, fix="use fewer --jobs, or cut it into parts")


def _rebuild(cls: type[InputError], what: str, where: str | None, line: int | None, fix: str) -> InputError:
    return cls(what, where=where, line=line, fix=fix)
