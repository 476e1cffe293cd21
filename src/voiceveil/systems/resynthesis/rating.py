"""Naturalness of the voices of a pool.

Some embeddings, of noisy recordings or of voices unlike those of the training, make a decoder sound bad. To find them,
`veil` converts the same few sentences to every voice of the same gender, and DNSMOS rates the result; `veil` then draws
from the voices that sound best.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from voiceveil.audio import Samples, Waveform, load
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.naturalness import DNSMOS
from voiceveil.run.cache import Cache
from voiceveil.run.device import OnDevice, worker_device
from voiceveil.run.executor import executor_of
from voiceveil.run.local import run_items
from voiceveil.run.progress import Progress
from voiceveil.systems.resynthesis.loader import load_pipeline
from voiceveil.systems.resynthesis.pipeline import Pipeline, ResynthesisStream
from voiceveil.systems.resynthesis.pool import GENDERS, Embedding, Pool
from voiceveil.systems.resynthesis.strategies import PseudoSpeaker
from voiceveil.systems.resynthesis.veil import Veil

__all__ = ["rate_voices"]

RATE = 16000
#: Sentences of each gender, by as many speakers, and seconds of each: repeated once they fill a window of DNSMOS.
SENTENCES, SECONDS = 4, 5.0


@dataclass(frozen=True, eq=False)
class _Voice:
    """A speaker of the pool, as the strategy that always draws this speaker."""

    row: int
    gender: str
    embedding: Embedding
    log_f0: float

    needs_source_embedding: ClassVar[bool] = True

    def check(self, pool: Pool) -> None:
        """Accept any pool."""

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """Return the speaker."""
        return PseudoSpeaker(self.embedding, self.log_f0)


@dataclass(frozen=True)
class _Rating:
    """Function of worker processes: rates a voice; ``cache`` keeps ratings."""

    sentences: Mapping[str, Sequence[Samples]]
    cache: Path | None

    def __call__(self, voice: _Voice) -> float:
        # prosody of the sentences, not predicted from the words: the rating is to depend on the voice
        system = Veil(predicted_f0_weight=0.0, f0_range_kept=1.0, voicing=0.0, arousal_threshold=0.0)
        judge, sentences = DNSMOS(), self.sentences[voice.gender]
        pipeline = replace(load_pipeline(system), strategy=voice)

        def ratings() -> list[float]:
            converted = (_convert(pipeline, samples, number) for number, samples in enumerate(sentences))
            return [judge(Waveform(samples, RATE))["ovr"] for samples in converted]

        version = f"voice 1 {judge.fingerprint()} {sorted(system.models().items())} {system.parameters()}"
        inputs = [voice.embedding, voice.log_f0, *sentences]
        return float(np.mean(_opened(self.cache, os.getpid()).remember(version, inputs, ratings)))


@lru_cache(maxsize=1)
def _opened(cache: Path | None, process: int) -> Cache:
    """Return the cache, opened once by each process that uses it."""
    return Cache(cache)


def _convert(pipeline: Pipeline, samples: Samples, number: int) -> Samples:
    """Convert sentence ``number`` with the same draws of speed and tempo for every voice."""
    return ResynthesisStream(pipeline, np.random.default_rng(number)).convert_all(samples)


def rate_voices(
    pool: Pool, utterances: Iterable[Utterance], *, cache: Path | None = None, jobs: int = 1, quiet: bool = True
) -> Pool:
    """Return the pool with a rating of each voice: the mean overall DNSMOS over the sentences of its gender.

    A voice takes about four seconds of computing.

    Parameters
    ----------
    pool
        Speakers with embeddings of the encoder of `veil`.
    utterances
        Speech to take the sentences from: the first five seconds of an utterance of four speakers of each gender.
    cache
        SQLite file that keeps ratings.
    jobs
        Number of processes.
    quiet
        Show no progress.

    Raises
    ------
    InputError
        If the pool is of another encoder, or too few utterances are long enough.
    """
    if pool.encoder != load_pipeline(Veil()).pool.encoder:
        raise InputError("only voices of the encoder of veil, campplus, can be rated", fix="leave out --rate")
    listed = list(utterances)
    work = _Rating({gender: _sentences(listed, gender) for gender in GENDERS}, cache)
    columns = zip(pool.genders, pool.embeddings, pool.log_f0, strict=True)
    voices = [_Voice(row, str(gender), embedding, float(f0)) for row, (gender, embedding, f0) in enumerate(columns)]
    ratings = np.zeros(len(pool), dtype=np.float32)
    device = worker_device(executor_of(jobs))
    with Progress("rating voices", len(pool), unit="voices", quiet=quiet) as progress:
        for voice, outcome in run_items(OnDevice(work, device), voices, jobs=jobs, preload=Veil.preload):
            if isinstance(outcome, Exception):
                raise outcome
            ratings[voice.row] = outcome
            progress.advance(audio=SENTENCES * SECONDS)
    return replace(pool, ratings=ratings)


def _sentences(utterances: Sequence[Utterance], gender: str) -> tuple[Samples, ...]:
    """Return the beginning of the first long enough utterance of each of the first speakers of a gender."""
    sentences: dict[str | None, Samples] = {}
    for utterance in sorted((u for u in utterances if u.gender == gender), key=lambda u: u.id):
        if len(sentences) < SENTENCES and utterance.speaker not in sentences:
            whole = load(utterance.path, rate=RATE, start=utterance.start, duration=utterance.duration)
            if whole.duration >= SECONDS:
                sentences[utterance.speaker] = whole.samples[: round(SECONDS * RATE)]
    if len(sentences) < SENTENCES:
        problem = (
            f"{len(sentences)} speakers of gender {gender} have an utterance of {SECONDS:g} s, {SENTENCES} are needed"
        )
        raise InputError(problem, fix="add a corpus to --data, or leave out --rate")
    return tuple(sentences.values())
