"""Text that is safe to show: a terminal obeys what it is sent, and names of files, speakers and systems are data.

:func:`escaped` makes one line of any text. :func:`print_lines` prints such lines. :func:`safe_streams` guards
everything that the command line prints, whoever prints it: it escapes control characters, but must let line breaks
pass, since it cannot know whose they are. :func:`clock` writes lengths of time in one way everywhere.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

__all__ = ["clock", "escaped", "print_lines", "print_styled", "safe_streams", "unguarded"]

# Control characters (ESC, BEL and the C1 set among them), halves of surrogate pairs, line and paragraph separators, and
# characters that reorder or hide others: U+202E makes "gnp.exe" of "exe.png".
_STYLES = {"bold": 1, "red": 31, "green": 32, "yellow": 33}
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


def print_styled(*parts: tuple[object, str], file: TextIO | None = None) -> None:
    """Print one line of parts, each (text, style): "bold", "red", "green", "yellow", or "" for plain.

    Texts are escaped. Styles are shown on terminals only, and not if the environment variable NO_COLOR is set or
    TERM is "dumb".
    """
    stream = sys.stdout if file is None else file
    if not _has_styles(stream):
        print_lines("".join(str(text) for text, _ in parts), file=stream)
        return
    texts = (f"\x1b[{_STYLES[style]}m{escaped(text)}\x1b[0m" if style else escaped(text) for text, style in parts)
    print("".join(texts), file=unguarded(stream), flush=True)


def _has_styles(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with colors that the user wants to see."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def unguarded(stream: TextIO) -> TextIO:
    """Return the stream behind that of :func:`safe_streams`, for a bar that returns to the start of its line.

    What is written to it must be escaped.
    """
    return stream.unguarded if isinstance(stream, _SafeStream) else stream


def clock(seconds: float) -> str:
    """Return a length of time as h:mm:ss.

    >>> clock(3725.4)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


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

    @property
    def unguarded(self) -> TextIO:
        return self._stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _escape(match: re.Match[str]) -> str:
    """Return the escape that Python has; beyond the first 32 characters it is also one that JSON understands."""
    letter = match[0]
    return f"\\u{ord(letter):04x}" if "\x7f" <= letter <= "\x9f" else letter.encode("unicode_escape").decode("ascii")
