"""Attackers without a model: cues to the speaker that anonymization often leaves as they are.

* ``duration``  length of the utterance
* ``silence``   share of silence, length and rate of pauses, silence at the beginning and the end
* ``f0``        mean and standard deviation of the pitch
* ``order``     position of the file in its directory, from 0 to 1

Each cue is a small vector. The score is the negative distance between the cue of an utterance and the mean of the
enrollment, with each dimension scaled by its spread over the attacked data. Conventions: times in seconds, F0 in Hz.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.attacker import Attacker, Health, Knowledge, ModelWork
from voiceveil.attack.embedding import Embedded, enroll, score_trials
from voiceveil.attack.encoder_attackers import attacked_parts
from voiceveil.attack.registry import AttackerOptions, attackers
from voiceveil.attack.sets import Condition, TrialSet
from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.corpus import Corpus, Utterance
from voiceveil.models.speaker.covariances import Codes, Floats
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

__all__ = ["CUES", "CueAttacker", "Cues", "Distance", "OrderAttacker", "mean_f0", "silence_pattern"]

#: Cue -> its columns in the result of :class:`Cues`.
CUES = {"duration": slice(0, 1), "silence": slice(1, 6), "f0": slice(6, 8)}

_HOP = 160  # samples at 16 kHz: 10 ms
_LOWEST, _HIGHEST = 60.0, 400.0  # Hz
_OCTAVE_COST = 0.05
_ORDER_LIMIT = 0.40  # EER below which the order of files reveals speakers; without information it is 0.5


@dataclass(frozen=True)
class Cues:
    """Cues of an utterance, shape (8,): log duration; five of silence; mean and standard deviation of log F0."""

    rate, minimum = 16000, 0.045
    name: str = "free"

    def fingerprint(self) -> str:
        """Return the version."""
        return "free cues 1"

    def __call__(self, wave: Waveform) -> NDArray[np.float64]:
        """Return all cues, shape (8,)."""
        return np.concatenate([[np.log(wave.duration)], silence_pattern(wave.samples), mean_f0(wave.samples)])


def silence_pattern(samples: NDArray[Any]) -> Floats:
    """Return share of silence, log mean pause, pauses per second, log leading and trailing silence, shape (5,).

    ``samples`` are at 16 kHz. A frame of 10 ms is silent if it is 35 dB below the loudest (95th percentile). A pause
    has 100 ms or more.
    """
    count = max(len(samples) // _HOP, 1)
    frames = np.resize(samples, count * _HOP) if len(samples) < _HOP else samples[: count * _HOP]
    power = np.square(frames.reshape(count, _HOP).astype(np.float64)).mean(axis=1)
    silent = power <= np.percentile(power, 95) * 10**-3.5
    edges = np.flatnonzero(np.diff(np.concatenate([[0], silent.astype(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    before = ends[0] if len(starts) and starts[0] == 0 else 0
    after = count - starts[-1] if len(starts) and ends[-1] == count else 0
    inner = (starts > 0) & (ends < count) & (ends - starts >= 10)
    lengths = (ends - starts)[inner] / 100.0
    pause = lengths.mean() if len(lengths) else 0.1
    rate = len(lengths) / (count / 100.0)
    return np.array([silent.mean(), np.log(pause), rate, np.log(0.01 * before + 0.01), np.log(0.01 * after + 0.01)])


def mean_f0(samples: NDArray[Any]) -> Floats:
    """Return mean and standard deviation of log F0 over voiced frames, shape (2,); zeros if no frame is voiced.

    ``samples`` are at 16 kHz.

    Autocorrelation of 40 ms frames every 20 ms, divided by that of the window (Boersma 1993); a frame is voiced if the
    highest peak between 60 and 400 Hz has at least 0.6 of the energy and the frame is not silent.
    """
    from scipy.fft import irfft, rfft

    size, hop, padded = 640, 320, 2048
    if len(samples) < size:
        return np.zeros(2)
    frames = np.lib.stride_tricks.sliding_window_view(samples, size)[::hop]
    window = np.hanning(size).astype(np.float32)
    frames = (frames - frames.mean(axis=1, keepdims=True)) * window
    shortest, longest = int(16000 / _HIGHEST), int(16000 / _LOWEST)
    correlation = irfft(np.abs(rfft(frames, padded, axis=1)) ** 2, axis=1)[:, : longest + 2]
    window_correlation = irfft(np.abs(rfft(window, padded)) ** 2)[: longest + 2]
    energy = correlation[:, :1]
    ratio = correlation / np.maximum(energy, 1e-12) / (window_correlation / window_correlation[0])
    # two periods are as periodic as one: an octave lower costs something
    cost = _OCTAVE_COST * np.log2(np.arange(shortest, longest + 1) / shortest)
    best = shortest + (ratio[:, shortest : longest + 1] - cost).argmax(axis=1)
    row = np.arange(len(ratio))
    left, peak, right = ratio[row, best - 1], ratio[row, best], ratio[row, best + 1]
    voiced = (peak > 0.6) & (peak >= left) & (peak >= right) & (energy[:, 0] > 1e-3 * np.percentile(energy, 95))
    if not voiced.any():
        return np.zeros(2)
    bend = np.maximum(2 * peak - left - right, 1e-9)
    lag = best + np.clip(0.5 * (right - left) / bend, -0.5, 0.5)
    log_f0 = np.log(16000.0 / lag[voiced])
    return np.array([log_f0.mean(), log_f0.std()])


@dataclass(frozen=True, eq=False)
class Distance:
    """Negative Euclidean distance; ``scale`` (d,) is the spread of each dimension."""

    scale: Floats

    @classmethod
    def of(cls, vectors: Floats) -> Distance:
        """Return the distance with the spread of vectors (n, d); a constant dimension is not scaled."""
        spread = vectors.std(axis=0)
        return cls(np.where(spread > 0.0, spread, 1.0))

    def __call__(self, enroll: Floats, counts: Codes, test: Floats) -> Floats:
        """Return scores (s, n)."""
        return np.asarray(-np.linalg.norm((enroll[:, None] - test[None]) / self.scale, axis=-1))


@dataclass(eq=False)
class CueAttacker(Attacker):
    """Compare one cue of the audio.

    Parameters
    ----------
    cue : str
        One of :data:`CUES`.
    """

    cue: str
    scores_vary = False

    @property
    def name(self) -> str:
        """``free:`` and the cue."""
        return f"free:{self.cue}"

    @property
    def minimum(self) -> float:
        """Shortest utterance in seconds."""
        return Cues.minimum

    @property
    def backend(self) -> str:
        """Negative distance."""
        return "distance"

    def conditions(self, *, anonymized: bool = True) -> Mapping[Condition, Knowledge]:
        """Return anonymized against anonymized speech, or original speech if there is no other."""
        return {"aa" if anonymized else "oo": "free"}

    def fingerprint(self) -> str:
        """Return the version of the cues."""
        return Cues().fingerprint()

    def score(self, trial_set: TrialSet, condition: Condition, context: RunContext) -> Floats:
        """Return the negative distance of each trial, shape (trials,)."""
        enrollment, trial = trial_set.speech(condition)
        return _score(trial_set, self._cues(enrollment, context), self._cues(trial, context))

    def work(
        self,
        sets: Sequence[TrialSet],
        conditions: Sequence[Condition],
        training: Mapping[str, Sequence[str]],
        cache: Cache,
    ) -> Iterator[ModelWork]:
        """Yield the cues, with the attacked speech; all cues of an utterance are computed at once."""
        yield ModelWork("free cues", Cues(), attacked_parts(sets, [c for c in self.conditions() if c in conditions]))

    def _cues(self, utterances: Sequence[Utterance], context: RunContext) -> Embedded:
        cues = context.extract(utterances, Cues())
        return Embedded(tuple(cues), np.array(list(cues.values()))[:, CUES[self.cue]])


@dataclass(eq=False)
class OrderAttacker(Attacker):
    """Compare the positions of files in their directories, without their audio.

    The order is no property of the speech and can be mended by shuffling, so that it never is the strongest attacker.
    """

    scores_vary = False
    name = "free:order"
    minimum = Cues.minimum
    backend = "distance"

    def conditions(self, *, anonymized: bool = True) -> Mapping[Condition, Knowledge]:
        """Return anonymized against anonymized speech, or original speech if there is no other."""
        return {"aa" if anonymized else "oo": "metadata"}

    def fingerprint(self) -> str:
        """Return the version."""
        return Cues().fingerprint()

    def score(self, trial_set: TrialSet, condition: Condition, context: RunContext) -> Floats:
        """Return the negative distance of each trial, shape (trials,)."""
        return _score(trial_set, *(_positions(corpus) for corpus in trial_set.corpora(condition)))

    def health(self, eer: float | None, reference_eer: float | None) -> Health:
        """Return a warning if the order of the files reveals the speakers."""
        if eer is None or eer >= _ORDER_LIMIT:
            return Health(self.name)
        warning = "the place of a file in its directory tells who speaks: shuffle and rename before publishing"
        return Health(self.name, warnings=(warning,))


@attackers.register("free")
def make_free(options: AttackerOptions) -> list[Attacker]:
    """Return the attackers without a model: all of them, or that of ``free:CUE``."""
    known: dict[str, Attacker] = {**{cue: CueAttacker(cue) for cue in CUES}, "order": OrderAttacker()}
    if not options.argument:
        return list(known.values())
    if options.argument not in known:
        raise InputError(f"unknown cue {options.argument!r}", fix=did_you_mean(options.argument, list(known)))
    return [known[options.argument]]


def _score(trial_set: TrialSet, enrollment: Embedded, trial: Embedded) -> Floats:
    distance = Distance.of(np.concatenate([enrollment.vectors, trial.vectors]))
    return score_trials(trial_set.trials, enroll(enrollment, trial_set.enrollment), trial, distance)


def _positions(corpus: Corpus) -> Embedded:
    """Return the position of each utterance in its directory, from 0 to 1, shape (n, 1)."""
    return Embedded(tuple(u.id for u in corpus), np.linspace(0.0, 1.0, len(corpus))[:, None])
