"""Rows of the official training of ASV_eval: which chunks of which recordings an epoch has, and in which order.

The challenge's script writes a row for each whole chunk of 3 s whose mean absolute sample is at least 5e-4. Yet the
place of the chunk is not used: in every epoch a row is a random chunk of its whole recording, also in the development
data, a tenth of the recordings. Recordings shorter than a chunk have no row.

Conventions: lengths of files are in samples at 16 kHz; epochs count from 1. The script shuffles and cuts with unseeded
generators; here both depend on a seed, and a chunk on (seed, part, epoch, row) alone, so that a killed training
resumes with the same chunks.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform, load
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.run.context import RunContext

__all__ = ["LoudChunks", "Row", "RowSplit", "csv_text", "make_rows", "read_chunk", "row_order", "split_rows"]

RATE = 16000
LEAST_LEVEL = 5e-4  # mean absolute sample of a chunk
SAMPLER_SEED = 563375142
TRAIN_PERCENT = 90


@dataclass(frozen=True)
class Row:
    """A chunk of a recording: the number of the chunk, and the recording that chunks are cut from."""

    utterance: Utterance
    samples: int  # of the whole recording
    chunk: int
    seconds: float  # of a chunk

    @property
    def name(self) -> str:
        """Name in the challenge's list, e.g. ``100--121669--0000_3.0_6.0``."""
        start = self.chunk * self.seconds
        return f"{'--'.join(self.utterance.id.split('-')[-3:])}_{start}_{start + self.seconds}"

    @property
    def speaker(self) -> str:
        """Speaker of the recording."""
        return str(self.utterance.speaker)


@dataclass(frozen=True)
class LoudChunks:
    """An evaluator: number of samples of a recording, then the numbers of its whole chunks that are not silent."""

    seconds: float

    rate: ClassVar[int] = RATE
    minimum: ClassVar[float] = 0.0

    def fingerprint(self) -> str:
        """Return the length of a chunk and the lowest level."""
        return f"loud chunks 1 {self.seconds} {LEAST_LEVEL}"

    def __call__(self, wave: Waveform) -> list[int]:
        """Return the list of one recording."""
        size = round(self.seconds * RATE)
        count = int(wave.duration / self.seconds)
        levels = [float(np.abs(wave.samples[i * size : (i + 1) * size]).mean()) for i in range(count)]
        return [len(wave), *(i for i, level in enumerate(levels) if level >= LEAST_LEVEL)]


@dataclass(frozen=True)
class RowSplit:
    """Rows of the training and of the development data, and the speakers by class number."""

    train: list[Row]
    dev: list[Row]
    speakers: list[str]  # in the order in which the training rows name them

    @property
    def numbers(self) -> dict[str, int]:
        """Speaker -> class number."""
        return {speaker: number for number, speaker in enumerate(self.speakers)}


def make_rows(utterances: Sequence[Utterance], seconds: float, context: RunContext) -> list[Row]:
    """Return the rows of recordings, in their order."""
    chunks = context.extract(utterances, LoudChunks(seconds))
    return [Row(u, chunks[u.id][0], chunk, seconds) for u in utterances for chunk in chunks[u.id][1:]]


def split_rows(utterances: Sequence[Utterance], seconds: float, seed: int, context: RunContext) -> RowSplit:
    """Return the rows of both parts; recordings are divided at random, so that both have the same speakers.

    Raises
    ------
    InputError
        If fewer than two speakers have a chunk to train on.
    """
    ordered = sorted(utterances, key=lambda u: (u.id, str(u.path)))
    random.Random(seed).shuffle(ordered)
    count = int(0.01 * TRAIN_PERCENT * len(ordered))
    rows = make_rows(ordered, seconds, context)
    in_train = {u.id for u in ordered[:count]}
    train = [row for row in rows if row.utterance.id in in_train]
    speakers = list(dict.fromkeys(row.speaker for row in train))
    if len(speakers) < 2:
        message = f"recipe official gets {len(train)} chunks of {seconds:g} s of {len(speakers)} speakers"
        raise InputError(message, fix="use --recipe fixed, shorter --seconds-per-chunk, or more data")
    known = set(speakers)
    dev = [row for row in rows if row.utterance.id not in in_train and row.speaker in known]
    return RowSplit(train, dev, speakers)


def row_order(rows: int, epoch: int) -> list[int]:
    """Return the order of the rows in an epoch; 0 is that of the development data."""
    import torch

    generator = torch.Generator().manual_seed(SAMPLER_SEED + epoch)
    return [int(number) for number in torch.randperm(rows, generator=generator)]


def read_chunk(row: Row, key: str) -> Samples:
    """Return a random chunk (samples,) of the recording of a row; ``key`` decides the place."""
    size = round(row.seconds * RATE)
    first = random.Random(key).randint(0, row.samples - size)
    utterance = row.utterance
    wave = load(utterance.path, rate=RATE, start=utterance.start + first / RATE, duration=size / RATE)
    chunk: NDArray[np.float32] = np.zeros(size, dtype=np.float32)
    chunk[: len(wave)] = wave.samples[:size]
    return chunk


def csv_text(rows: Sequence[Row]) -> str:
    """Return the challenge's list of rows: ``train.csv`` or ``dev.csv``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["ID", "duration", "wav", "start", "stop", "spk_id"])
    for row in rows:
        start = round(row.chunk * row.seconds * RATE)
        stop = start + round(row.seconds * RATE)
        writer.writerow([row.name, row.samples / RATE, Path(row.utterance.path), start, stop, row.speaker])
    return text.getvalue()
