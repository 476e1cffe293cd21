"""Training data of the duration predictor: the phones of recordings and how long they last.

Phones and times come from forced alignment with the transcripts (:class:`~voiceveil.training.phone_data.PhoneAligner`),
which a cache keeps. The pace of a recording is not predicted: log durations have mean 0 over its phones without pauses.

Conventions: phones are numbers of :data:`voiceveil.models.asr.alignment.PHONES`, 0 for silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.corpus import Utterance
from voiceveil.run.context import RunContext
from voiceveil.training.phone_data import AlignedRecordings

__all__ = ["DurationBatch", "DurationData", "relative_log_durations"]

#: Phones of a training example, and fewest phones of a recording that is used.
_PHONES, _FEWEST = 80, 12


class DurationBatch(NamedTuple):
    """Parts of recordings: phones (B, 80) int64, log durations (B, 80), weights (B, 80), 0 behind the end.

    ``samples`` is an empty array: there is no audio in the batch.
    """

    phones: NDArray[np.int64]
    log_durations: NDArray[np.float32]
    weights: NDArray[np.float32]
    samples: NDArray[np.float32]


def relative_log_durations(phones: NDArray[np.integer[Any]], durations: NDArray[Any]) -> NDArray[np.float32]:
    """Return log durations (N,) with mean 0 over the phones that are not silence; at least one must not be."""
    logs = np.log(np.maximum(durations, 1))
    return np.asarray(logs - logs[phones > 0].mean(), dtype=np.float32)


class DurationData(AlignedRecordings):
    """Parts of recordings with transcripts; see :class:`~voiceveil.training.phone_data.AlignedRecordings`."""

    def __init__(self, utterances: Iterable[Utterance], context: RunContext, *, seed: int) -> None:
        super().__init__(utterances, context, seed=seed, fewest=_FEWEST)
        lengths = np.array([len(self._phones[u.id]) for u in self.training], dtype=np.float64)
        self._shares = lengths / lengths.sum()

    def batch(self, step: int, size: int) -> DurationBatch:
        """Return the parts of a step: recordings drawn in proportion to their number of phones."""
        rng = np.random.default_rng([self._seed, 1, step])
        chosen = rng.choice(len(self.training), size=size, p=self._shares)
        return self._stacked([self.training[i] for i in chosen], rng)

    def validation_batches(self, size: int) -> Iterable[DurationBatch]:
        """Yield a part of each validation recording, the same every time."""
        for first in range(0, len(self.validation), size):
            yield self._stacked(self.validation[first : first + size], np.random.default_rng([self._seed, 2, first]))

    def _stacked(self, utterances: Sequence[Utterance], rng: np.random.Generator) -> DurationBatch:
        phones = np.zeros((len(utterances), _PHONES), dtype=np.int64)
        log_durations, weights = (np.zeros(phones.shape, dtype=np.float32) for _ in range(2))
        for i, utterance in enumerate(utterances):
            rows = self._phones[utterance.id]
            first = int(rng.integers(max(1, len(rows) - _PHONES + 1)))
            part = slice(first, first + _PHONES)
            count = len(rows[part])
            phones[i, :count] = rows[part, 0]
            log_durations[i, :count] = relative_log_durations(rows[:, 0], rows[:, 2])[part]
            weights[i, :count] = 1.0
        return DurationBatch(phones, log_durations, weights, np.zeros(0, dtype=np.float32))
