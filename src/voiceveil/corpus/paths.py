"""Complete the relative paths of a list (``wav.scp``, manifest) when it is read, and shorten paths when it is written.

A list does not say which folder its relative paths start from. The folder of the list itself is tried first, then
those above it where the format has that custom, and the working directory last. If a path names two different files,
for example one of this project and one of another, it is an ``InputError``: no guess may decide whose audio is used.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from voiceveil.core.errors import InputError

__all__ = ["PathFinder", "decoded_path", "relative_below"]

_FIX = "move or rename one of them, write absolute paths, or run from another working directory"

# One word without characters that mean something to a shell, and not an option.
_WORD = r"(?P<path>[^\s\-|&;<>()$`\\\"'*?\[\]#~=%!{}][^\s|&;<>()$`\\\"'*?\[\]#~!{}]*)"
# Options of sox that keep the samples of 16 kHz mono speech: repeatable dither, bits, encoding, rate, channels.
_SOX_OPTIONS = r"(?: (?:-R|-b (?:16|24|32)|-e signed-integer|-r (?:16000|16k)|-c 1))*"
_DECODERS = (re.compile(rf"flac -c -d -s {_WORD} \|"), re.compile(rf"sox {_WORD} -t wav{_SOX_OPTIONS} - \|"))


def decoded_path(command: str) -> str | None:
    """Return the file that a command of a ``wav.scp`` decodes, or None for any command that may do more.

    >>> decoded_path("flac -c -d -s corpora/LibriSpeech/dev-clean/84/121123/84-121123-0000.flac |")
    'corpora/LibriSpeech/dev-clean/84/121123/84-121123-0000.flac'
    >>> decoded_path("sox wav/a.wav -t wav -R -b 16 - |")
    'wav/a.wav'
    >>> decoded_path("sox wav/a.wav -t wav - speed 1.1 |") is None
    True
    """
    match = next(filter(None, (decoder.fullmatch(command) for decoder in _DECODERS)), None)
    return None if match is None else match["path"]


class PathFinder:
    """Complete relative paths with one of ``bases``, folders in the order of preference.

    Each folder is looked up and listed once, since a list may name 100,000 files.
    """

    def __init__(self, bases: Sequence[Path]) -> None:
        self._bases = list(bases)
        # Folder as written -> where it is, and the names that it holds there.
        self._places: dict[str, dict[Path, frozenset[str] | None]] = {}
        self._used: dict[str, Path] = {}  # folder as written -> the place that its files are in

    def __call__(self, path: str) -> Path:
        """Return the complete path; below the first base if there is no such file, an absolute path as it is.

        A path that names different files below different bases is an ``InputError``, and so is one that is not in the
        place where the other files of its folder are.
        """
        if path.startswith("/"):
            return Path(path)
        name = path.rpartition("/")[2]
        folder = path[: len(path) - len(name)]
        places = self._places.get(folder)
        if places is None:
            folders_found = _distinct([base / folder for base in self._bases], folders=True) or [
                self._bases[0] / folder
            ]
            places = self._places[folder] = {
                place: _names(place) if len(folders_found) > 1 else frozenset() for place in folders_found
            }
        first = next(iter(places))
        if len(places) == 1:
            return first / name
        holders = [place for place, names in places.items() if names is None or name in names]
        matches = (
            _distinct([place / name for place in holders], folders=False) if holders != [first] else [first / name]
        )
        if len(matches) > 1:
            first_file, second_file = (file.absolute() for file in matches[:2])
            raise InputError(f"{path} is two different files: {first_file} and {second_file}", fix=_FIX)
        if not matches:
            return self._used.get(folder, first) / name
        used = self._used.setdefault(folder, matches[0].parent)
        if used != matches[0].parent:
            raise InputError(
                f"{path} is {matches[0].absolute()}, but other files of its folder are in {used.absolute()}", fix=_FIX
            )
        return matches[0]


def _names(folder: Path) -> frozenset[str] | None:
    """Return the names of what is in a folder, or None if it must not be listed."""
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 -- names are wanted, not paths
    except OSError:
        return None


def _distinct(paths: Sequence[Path], *, folders: bool) -> list[Path]:
    """Return the folders, or the files, among the paths; those that lead to the same one as another only once."""
    matches: dict[tuple[int, int], Path] = {}
    for path in paths:
        try:
            status = path.stat()
        except (OSError, ValueError):
            continue
        if stat.S_ISDIR(status.st_mode) is folders:
            matches.setdefault((status.st_dev, status.st_ino), path)
    return list(matches.values())


def relative_below(path: Path, folder: Path) -> str:
    """Return the path as a list in ``folder`` has it: relative if it is below the folder, or else absolute."""
    absolute, base = os.path.abspath(path), os.path.abspath(folder)  # noqa: PTH100
    return os.path.relpath(absolute, base) if absolute.startswith(base.rstrip(os.sep) + os.sep) else absolute
