"""Trials of several utterances: how utterances of one person are put together.

An attacker may know that several recordings are of one person: posts of one account, calls from one number. The
utterances of each speaker, in an order that depends on a seed and the speaker's id alone, are cut into groups of equal
size that share no utterance; those left over are not used. A speaker with fewer utterances has no such trial.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

__all__ = ["disjoint_groups"]


def disjoint_groups(utterances: Sequence[str], size: int, *, speaker: str, seed: int = 0) -> list[tuple[str, ...]]:
    """Return groups of ``size`` utterances of one speaker, without any utterance in common.

    Parameters
    ----------
    utterances
        Ids of the speaker's utterances; their order does not matter.
    size
        Utterances of a group; 1 keeps every utterance on its own.
    speaker
        Id of the speaker.
    seed
        Another seed gives other groups.
    """
    ordered = sorted(utterances)
    if size == 1:
        return [(key,) for key in ordered]
    rng = np.random.default_rng([seed, zlib.crc32(speaker.encode())])
    shuffled = [ordered[i] for i in rng.permutation(len(ordered))]
    return [tuple(sorted(shuffled[i : i + size])) for i in range(0, len(shuffled) - size + 1, size)]
