"""Dynamic time warping between two recordings: how far apart is what is said, whatever the pace?

Conventions: frames have shape (n, k), float32, of length 1; the distance of two frames is 1 minus their cosine, from
0 to 2. Paths step (1, 0), (0, 1) or (1, 1), a diagonal step counting twice, so that every path has the weight n + m by
which the sum is divided (Sakoe and Chiba 1978, symmetric form without slope constraint).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.compiled import njit

__all__ = ["distance", "mean_distance"]

Frames = NDArray[np.float32]


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def distance(first: Frames, second: Frames) -> float:
    """The mean distance along the best path, from 0 (the same) to 2."""
    n, m, k = first.shape[0], second.shape[0], first.shape[1]
    above = np.full(m + 1, np.inf)
    here = np.full(m + 1, np.inf)
    above[0] = 0.0
    for i in range(n):
        here[0] = np.inf
        for j in range(m):
            dot = np.float32(0.0)
            for d in range(k):
                dot += first[i, d] * second[j, d]
            cost = 1.0 - dot
            best = above[j] + 2.0 * cost
            best = min(best, above[j + 1] + cost)
            best = min(best, here[j] + cost)
            here[j + 1] = best
        above, here = here, above
    return float(above[m] / (n + m))


@njit(cache=True)
def mean_distance(templates: Frames, ends: NDArray[np.int64], test: Frames) -> float:
    """The mean over several recordings, which stand one after the other in ``templates`` and end at ``ends``."""
    total = 0.0
    start = 0
    for end in ends:
        total += distance(templates[start:end], test)
        start = end
    return total / len(ends)
