"""How natural the voices of a pool sound when a decoder speaks with them.

Some embeddings, of a noisy recording or of a voice unlike those of the training, make a decoder speak badly. Therefore
every voice of a pool says the same few sentences, those of its gender, through `veil`, and DNSMOS rates what is heard;
`veil` then draws from the voices that sound best.
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
from voiceveil.run.local import run_items
from voiceveil.run.progress import Progress
from voiceveil.systems.resynthesis.pipeline import Engine, ResynthesisStream, engine_of
from voiceveil.systems.resynthesis.pool import GENDERS, Embedding, Pool
from voiceveil.systems.resynthesis.pseudo import PseudoSpeaker
from voiceveil.systems.resynthesis.veil import Veil

__all__ = ["rated"]

RATE = 16000
#: Sentences of each gender, by as many speakers, and seconds of each: one window of DNSMOS, once they are doubled.
SENTENCES, SECONDS = 4, 5.0


@dataclass(frozen=True, eq=False)
class _Voice:
    """A speaker of the pool, and the strategy in which everybody becomes that speaker."""

    row: int
    gender: str
    embedding: Embedding
    log_f0: float

    needs_source_embedding: ClassVar[bool] = True

    def check(self, pool: Pool) -> None:
        """Any will do."""

    def draw(self, source: Embedding, gender: str, pool: Pool, rng: np.random.Generator) -> PseudoSpeaker:
        """That speaker."""
        return PseudoSpeaker(self.embedding, self.log_f0)


@dataclass(frozen=True)
class _Rating:
    """The work of one process: a voice to its rating; ``cache`` keeps what is known already."""

    sentences: Mapping[str, Sequence[Samples]]
    cache: Path | None

    def __call__(self, voice: _Voice) -> float:
        # as those who said the sentences spoke: the voice is to be heard, and not what is expected of words
        system = Veil(predicted_f0_weight=0.0, f0_range_kept=1.0, voicing=0.0, arousal_threshold=0.0)
        judge, sentences = DNSMOS(), self.sentences[voice.gender]
        engine = replace(engine_of(system), strategy=voice)

        def ratings() -> list[float]:
            made = (_spoken(engine, samples, number) for number, samples in enumerate(sentences))
            return [judge(Waveform(samples, RATE))["ovr"] for samples in made]

        what = f"voice 1 {judge.fingerprint()} {sorted(system.models().items())} {system.parameters()}"
        inputs = [voice.embedding, voice.log_f0, *sentences]
        return float(np.mean(_opened(self.cache, os.getpid()).remember(what, inputs, ratings)))


@lru_cache(maxsize=1)
def _opened(cache: Path | None, process: int) -> Cache:
    """Return a database has to be opened by the process that uses it."""
    return Cache(cache)


def _spoken(engine: Engine, samples: Samples, number: int) -> Samples:
    """Return a sentence by an engine: with the same draws, of speed and tempo, for every voice."""
    return ResynthesisStream(engine, np.random.default_rng(number)).convert_all(samples)


def rated(
    pool: Pool, utterances: Iterable[Utterance], *, cache: Path | None = None, jobs: int = 1, quiet: bool = True
) -> Pool:
    """Return the pool with a rating of each voice: the mean of DNSMOS, overall, over the sentences of its gender.

    Sentences are the first five seconds of an utterance of each of four speakers of the gender; ``utterances`` are what
    they are taken from. A voice takes about four seconds of computing.
    """
    if pool.encoder != engine_of(Veil()).pool.encoder:
        raise InputError("voices can be rated of the encoder that veil has, campplus, alone", fix="leave out --rate")
    listed = list(utterances)
    work = _Rating({gender: _sentences(listed, gender) for gender in GENDERS}, cache)
    columns = zip(pool.genders, pool.embeddings, pool.log_f0, strict=True)
    voices = [_Voice(row, str(gender), embedding, float(f0)) for row, (gender, embedding, f0) in enumerate(columns)]
    ratings = np.zeros(len(pool), dtype=np.float32)
    with Progress("rating voices", len(pool), unit="voices", quiet=quiet) as progress:
        for voice, outcome in run_items(work, voices, jobs=jobs, preload=Veil.preload):
            if isinstance(outcome, Exception):
                raise outcome
            ratings[voice.row] = outcome
            progress.advance(audio=SENTENCES * SECONDS)
    return replace(pool, ratings=ratings)


def _sentences(utterances: Sequence[Utterance], gender: str) -> tuple[Samples, ...]:
    """Return the beginnings of the first utterance that is long enough of each of the first speakers of a gender."""
    found: dict[str | None, Samples] = {}
    for utterance in sorted((u for u in utterances if u.gender == gender), key=lambda u: u.id):
        if len(found) < SENTENCES and utterance.speaker not in found:
            whole = load(utterance.path, rate=RATE, start=utterance.start, duration=utterance.duration)
            if whole.duration >= SECONDS:
                found[utterance.speaker] = whole.samples[: round(SECONDS * RATE)]
    if len(found) < SENTENCES:
        what = f"{len(found)} speakers of gender {gender} have an utterance of {SECONDS:g} s, {SENTENCES} are needed"
        raise InputError(what, fix="add a corpus to --data, or leave out --rate")
    return tuple(found.values())
