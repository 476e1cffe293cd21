"""Batches: utterances that a network processes together, bounded by their total length with padding.

The memory of a network grows with rows times the longest row. The bound holds for every batch of several utterances,
whatever the lengths in a corpus are; an utterance that is longer than the bound is a batch of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

__all__ = ["MAX_BATCH_SECONDS", "group_by_length", "group_equal"]

#: Seconds of audio in a batch, padding included: about 4 GB for the largest wav2vec 2.0 in single precision.
MAX_BATCH_SECONDS = 120.0


def group_by_length(durations: Mapping[str, float], max_seconds: float) -> Iterator[list[str]]:
    """Yield groups of utterance ids of similar duration, the longest first.

    A group of several utterances, padded to its longest, has at most ``max_seconds`` of audio.

    >>> list(group_by_length({"a": 1.0, "b": 4.0, "c": 3.0, "d": 9.0}, 8.0))
    [['d'], ['b', 'c'], ['a']]
    """
    group: list[str] = []
    for name in sorted(durations, key=lambda name: (-durations[name], name)):
        if group and durations[group[0]] * (len(group) + 1) > max_seconds:
            yield group
            group = []
        group.append(name)
    if group:
        yield group


def group_equal(lengths: Iterable[int], max_total: float) -> Iterator[list[int]]:
    """Yield groups of positions of equal lengths: rows that need no padding to be processed together.

    A group of several rows has at most ``max_total`` in all, in the unit of the lengths.

    >>> list(group_equal([3, 5, 3, 3], 6))
    [[0, 2], [3], [1]]
    """
    positions: dict[int, list[int]] = {}
    for position, length in enumerate(lengths):
        positions.setdefault(length, []).append(position)
    for length, equal in positions.items():
        rows = max(1, int(max_total // max(length, 1)))
        yield from (equal[first : first + rows] for first in range(0, len(equal), rows))
