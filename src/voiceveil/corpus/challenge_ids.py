"""Ids of the utterances in the LibriSpeech sets of the VoicePrivacy Challenges, the same from 2020 to 2026.

``challenge_ids.txt`` holds ids alone, one chapter a line: ``<set> <speaker>-<chapter> <number or range> ...``. The
official trial lists are the products of the enrolled speakers and the trial utterances of one gender.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files

__all__ = ["libri_ids"]


@cache
def libri_ids() -> dict[str, tuple[str, ...]]:
    """Return set -> ids of its utterances, sorted.

    >>> ids = libri_ids()
    >>> list(ids)[:3], ids["libri_dev_enrolls"][:2], len(ids["libri_dev_enrolls"])
    (['libri_dev_enrolls', 'libri_dev_trials_f', 'libri_dev_trials_m'], ('1272-128104-0000', '1272-128104-0002'), 343)
    """
    ids: dict[str, list[str]] = {}
    text = (files("voiceveil.corpus") / "challenge_ids.txt").read_text(encoding="ascii")
    for line in text.splitlines():
        name, chapter, *numbers = line.split()
        ids.setdefault(name, []).extend(f"{chapter}-{number:04d}" for number in _expanded(numbers))
    return {name: tuple(sorted(values)) for name, values in ids.items()}


def _expanded(ranges: list[str]) -> Iterator[int]:
    """Yield the numbers of ranges such as ``3`` and ``5-7``."""
    for text in ranges:
        first, _, last = text.partition("-")
        yield from range(int(first), int(last or first) + 1)
