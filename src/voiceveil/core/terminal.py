"""Text that is safe to show: a terminal obeys what it is sent, and names of files, speakers and systems are data.

:func:`escaped` makes one line of any text. :func:`print_lines` prints such lines. :func:`safe_streams` guards
everything that the command line prints, whoever prints it: it escapes control characters, but must let line breaks
pass, since it cannot know whose they are. :func:`rewrite_line` is for progress, which returns to the start of a line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

__all__ = ["escaped", "print_lines", "rewrite_line", "safe_streams"]

# Control characters (ESC, BEL and the C1 set among them), halves of surrogate pairs, line and paragraph separators, and
# characters that reorder or hide others: U+202E makes "gnp.exe" of "exe.png".
_LINE_ENDS = "\n\t"
_UNSAFE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f"
)
_UNSAFE_IN_TEXT = re.compile(f"[{_UNSAFE}]")
_UNSAFE_IN_A_LINE = re.compile(f"[{_UNSAFE}{_LINE_ENDS}]")


def escaped(text: object) -> str:
    r"""Return ``str(text)`` as one printable line: ``\x1b`` for an escape character, ``\n`` for a line break.

    >>> escaped("a\x1b[2J\nb")
    'a\\x1b[2J\\nb'
    """
    return _UNSAFE_IN_A_LINE.sub(_escape, str(text))


def print_lines(*lines: object, file: TextIO | None = None) -> None:
    """Print each line escaped, and a line break after it; to stdout unless ``file`` is given."""
    print("\n".join(map(escaped, lines)), file=file, flush=True)


def rewrite_line(stream: TextIO, text: str) -> None:
    """Go back to the start of the terminal's line and write ``text``, escaped."""
    write = stream.write_unguarded if isinstance(stream, _SafeStream) else stream.write
    write(f"\r{escaped(text)}")
    stream.flush()


@contextmanager
def safe_streams() -> Iterator[None]:
    """Escape, while the block runs, whatever is printed to stdout and stderr, except for line breaks and tabs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _guarded(sys.stdout), _guarded(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _guarded(stream: TextIO) -> TextIO:
    return stream if isinstance(stream, _SafeStream) else cast(TextIO, _SafeStream(stream))


class _SafeStream:
    """A text stream that escapes what it is given; everything else is the wrapped stream's."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(_UNSAFE_IN_TEXT.sub(_escape, text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def write_unguarded(self, text: str) -> None:
        self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _escape(match: re.Match[str]) -> str:
    """Return the escape that Python has; beyond the first 32 characters it is also one that JSON understands."""
    letter = match[0]
    return f"\\u{ord(letter):04x}" if "\x7f" <= letter <= "\x9f" else letter.encode("unicode_escape").decode("ascii")
