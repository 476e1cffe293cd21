"""Training data of the phone encoder: perturbed crops of recordings, with the phone state at each output.

Phones and their times come from forced alignment with the transcripts (:mod:`voiceveil.models.asr.alignment`), once; a
cache keeps them. The crops of a step depend on the seed and the number of the step alone.

Conventions: 16 kHz; classes and output times as in :mod:`voiceveil.models.nets.phone_encoder`; class -1 has no loss.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform, load
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.asr.alignment import MAX_SECONDS, PHONES, align
from voiceveil.models.content.features import LEVEL
from voiceveil.models.nets.phone_encoder import HOP, OFFSET, SPAN, STATES
from voiceveil.run.context import RunContext
from voiceveil.run.extract import Evaluator
from voiceveil.training.voice_perturbation import PerturbationSettings, at_playback_speed, perturb_channel

__all__ = ["AlignedRecordings", "PhoneAligner", "PhoneBatch", "PhoneData", "state_classes"]

Array = NDArray[np.float32]
_RATE, _FRAMES_PER_SECOND = 16000, 100


@dataclass(frozen=True)
class PhoneAligner:
    """An evaluator that returns the phones of a transcript as rows (phone number, first frame, frames), int32.

    There are no rows if the recording does not fit the transcript. Without ``text`` it is for a whole corpus, of which
    :meth:`in_set` gives the evaluators.
    """

    text: str = ""

    name: ClassVar[str] = "the alignment of phones"
    rate: ClassVar[int] = _RATE
    minimum: ClassVar[float] = 0.1

    def fingerprint(self) -> str:
        """Return the name and version (1) of the alignment, and a hash of the transcript."""
        return f"phones pocketsphinx 1 {hashlib.sha256(self.text.encode()).hexdigest()[:32]}"

    def in_set(self, utterances: Sequence[Utterance]) -> Mapping[str, Evaluator[NDArray[np.int32]]]:
        """Return utterance id -> the evaluator for its transcript."""
        return {utterance.id: PhoneAligner(utterance.text or "") for utterance in utterances}

    def __call__(self, wave: Waveform) -> NDArray[np.int32]:
        """Return the rows (phones, 3) of a recording."""
        alignment = align(wave, self.text) if wave.duration <= MAX_SECONDS else None
        rows = [
            (PHONES.index(phone.phone), round(phone.start * _FRAMES_PER_SECOND), round((phone.end - phone.start) * 100))
            for phone in (alignment.phones if alignment else ())
        ]
        return np.array(rows, dtype=np.int32).reshape(-1, 3)


def state_classes(phones: NDArray[np.int32], times: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return the class at each time: 0 for silence, else the phone and its third; -1 beyond the phones.

    Parameters
    ----------
    phones
        Rows (phone number, first frame, frames), consecutive.
    times
        In frames of 10 ms.
    """
    starts, counts = phones[:, 1].astype(np.float64), np.maximum(phones[:, 2], 1)
    index = np.clip(np.searchsorted(starts, times, side="right") - 1, 0, len(phones) - 1)
    state = np.clip(((times - starts[index]) / counts[index] * STATES).astype(np.int64), 0, STATES - 1)
    number = phones[index, 0].astype(np.int64)
    classes = np.where(number == 0, 0, 1 + STATES * (number - 1) + state)
    return np.where((times < 0) | (times >= starts[-1] + counts[-1]), -1, classes)


class PhoneBatch(NamedTuple):
    """Crops: samples (B, N) float32, and classes (B, outputs) int64."""

    samples: Array
    classes: NDArray[np.int64]


class AlignedRecordings:
    """Recordings with the phones of their transcripts; about one speaker in fifteen is kept for validation.

    Parameters
    ----------
    utterances
        Recordings; those without a transcript, or that do not fit it, are left out.
    context
        Cache of the alignments, processes and progress.
    seed
        Of the division.
    fewest
        Fewest phones of a recording that is used.

    Raises
    ------
    InputError
        If no recording fits its transcript.
    """

    def __init__(self, utterances: Iterable[Utterance], context: RunContext, *, seed: int, fewest: int = 1) -> None:
        listed = [u for u in utterances if u.text]
        phones = context.extract(listed, PhoneAligner()) if listed else {}
        usable = [u for u in listed if len(phones[u.id]) >= fewest]
        if not usable:
            raise InputError("no recording fits its transcript", fix="give a corpus with audio and text")
        self._seed, self._phones = seed, {u.id: phones[u.id] for u in usable}
        speakers = sorted({u.speaker or u.id for u in usable})
        order = np.random.default_rng([seed, 0]).permutation(len(speakers))
        held_out = {speakers[i] for i in order[: max(1, len(speakers) // 15)]} if len(speakers) > 1 else set()
        self.validation = [u for u in usable if (u.speaker or u.id) in held_out]
        self.training = [u for u in usable if (u.speaker or u.id) not in held_out]

    def description(self) -> dict[str, Any]:
        """Return the numbers of speakers and utterances, and a hash of the alignments."""
        digest = hashlib.sha256(b"".join(key.encode() + self._phones[key].tobytes() for key in sorted(self._phones)))
        return {
            "speakers": len({u.speaker or u.id for u in (*self.training, *self.validation)}),
            "utterances": len(self.training),
            "validation_utterances": len(self.validation),
            "sha256": digest.hexdigest(),
        }


class PhoneData(AlignedRecordings):
    """Recordings with transcripts; about one speaker in fifteen is kept for validation.

    Parameters
    ----------
    utterances
        Recordings; those without a transcript, or that do not fit it, are left out.
    context
        Cache of the alignments, processes and progress.
    seconds
        Length of a crop.
    seed
        Of the division and of the crops.
    perturbation
        Random changes of voice and channel.

    Raises
    ------
    InputError
        If no recording fits its transcript.
    """

    def __init__(
        self,
        utterances: Iterable[Utterance],
        context: RunContext,
        *,
        seconds: float,
        seed: int,
        perturbation: PerturbationSettings | None = None,
    ) -> None:
        super().__init__(utterances, context, seed=seed)
        self._count = (round(seconds * _RATE) - SPAN) // (2 * HOP) * 2 * HOP + SPAN
        self._perturbation = perturbation or PerturbationSettings()
        lengths = np.array([float(self._phones[u.id][-1, 1:].sum()) for u in self.training])
        self._weights = lengths / lengths.sum()
        self._samples: dict[str, NDArray[np.float16]] = {}

    def batch(self, step: int, size: int) -> PhoneBatch:
        """Return the perturbed crops of a step: recordings drawn in proportion to their length."""
        rng = np.random.default_rng([self._seed, 1, step])
        chosen = rng.choice(len(self.training), size=size, p=self._weights)
        return _stacked([self._crop(self.training[i], rng, perturbed=True) for i in chosen])

    def validation_batches(self, size: int) -> Iterable[PhoneBatch]:
        """Yield a crop of each of up to 60 validation recordings, as they are, the same every time."""
        for first in range(0, min(60, len(self.validation)), size):
            rng = np.random.default_rng([self._seed, 2, first])
            crops = [self._crop(u, rng, perturbed=False) for u in self.validation[first : first + size]]
            yield _stacked(crops)

    def _crop(
        self, utterance: Utterance, rng: np.random.Generator, *, perturbed: bool
    ) -> tuple[Array, NDArray[np.int64]]:
        samples = self._read(utterance)
        speed = self._perturbation.draw_speed(rng) if perturbed else 1.0
        needed = int(self._count * speed) + 2
        first = int(rng.integers(max(1, len(samples) - needed + 1)))
        crop = at_playback_speed(samples[first : first + needed].astype(np.float32), speed)[: self._count]
        if perturbed:
            crop = perturb_channel(crop, rng, self._perturbation)
        crop = np.pad(crop, (0, self._count - len(crop)))
        outputs = 2 * ((self._count - SPAN) // (2 * HOP) + 1)
        centers = OFFSET + HOP * np.arange(outputs)  # in samples of the crop
        times = (first + centers * speed) / (_RATE / _FRAMES_PER_SECOND)
        return crop, state_classes(self._phones[utterance.id], times)

    def _read(self, utterance: Utterance) -> NDArray[np.float16]:
        """Return the recording at the common level, kept in memory in half precision."""
        if utterance.id not in self._samples:
            wave = load(utterance.path, rate=_RATE, start=utterance.start, duration=utterance.duration)
            level = max(1e-6, float(np.sqrt(np.mean(wave.samples**2))))
            self._samples[utterance.id] = (wave.samples * np.float32(LEVEL / level)).astype(np.float16)
        return self._samples[utterance.id]


def _stacked(crops: Sequence[tuple[Array, NDArray[np.int64]]]) -> PhoneBatch:
    samples, classes = zip(*crops, strict=True)
    return PhoneBatch(np.stack(samples), np.stack(classes))
