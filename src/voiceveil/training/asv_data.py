"""Training and validation data of speaker encoders, and the batches of each step.

Every random choice depends on (seed, purpose, epoch, batch), never on a running generator: an interrupted training
draws the same chunks as an undisturbed one.

Speakers with the same id in several corpora are one speaker.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.models.speaker.networks import FRAMES_PER_SECOND, repeat_frames, subtract_mean
from voiceveil.training.asv_recipes import AsvRecipe
from voiceveil.training.feature_store import Store

__all__ = ["Batches", "Division", "TrainingSet", "collect", "digest", "divide", "usable_utterances"]

_DIVISION, _ORDER, _CROP = 1, 2, 3  # purposes of draws
#: Largest number of utterances of a validation speaker: the pairs grow with the square.
VALIDATION_UTTERANCES = 10
MOST_VALIDATION_SPEAKERS = 40


def collect(corpora: Sequence[Corpus]) -> list[Utterance]:
    """Return the utterances of all corpora; ``InputError`` if a speaker is unknown or there are fewer than two."""
    utterances = [utterance for corpus in corpora for utterance in corpus]
    for corpus in corpora:
        without = [utterance.id for utterance in corpus if utterance.speaker is None]
        if without:
            message = (
                f"{len(without)} of {len(corpus)} utterances of {corpus.name} have no speaker, e.g. {without[0]!r}"
            )
            raise InputError(message, where=corpus.root, fix="add utt2spk, or sort the files into folders by speaker")
    speakers = {utterance.speaker for utterance in utterances}
    if len(speakers) < 2:
        message = f"{len(speakers)} speaker{'' if len(speakers) == 1 else 's'} in {len(utterances)} utterances"
        raise InputError(message, fix="give two speakers or more")
    return utterances


def digest(utterances: Sequence[Utterance]) -> str:
    """Return a hash of a training set: ids, speakers, and sizes of the files."""
    rows = sorted(f"{u.id}\0{u.speaker}\0{_size(u)}\0{u.start}\0{u.duration}" for u in utterances)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _size(utterance: Utterance) -> int:
    try:
        return utterance.path.stat().st_size
    except OSError as error:
        raise InputError("no such audio file", where=utterance.path) from error


def usable_utterances(utterances: list[Utterance], store: Store, recipe: AsvRecipe) -> list[Utterance]:
    """Return the utterances without those, and then without the speakers, that the recipe leaves out."""
    counts: dict[str | None, int] = defaultdict(int)
    for utterance in (kept := [u for u in utterances if store.entry(u).frames >= recipe.least_frames]):
        counts[utterance.speaker] += 1
    kept = [u for u in kept if counts[u.speaker] >= recipe.least_utterances]
    if len({u.speaker for u in kept}) < 2:
        seconds = recipe.least_frames / FRAMES_PER_SECOND
        message = f"recipe {recipe.name} leaves fewer than two speakers: it takes speakers with at least "
        message += f"{recipe.least_utterances} utterances of {seconds:g} s or more"
        raise InputError(message, fix="use --recipe fixed, or more data")
    return kept


@dataclass(frozen=True)
class Division:
    """Two parts of a corpus.

    Attributes
    ----------
    train
        Utterances to train on.
    validation
        Utterances of speakers that are not trained on.
    """

    train: list[Utterance]
    validation: list[Utterance]

    @property
    def speakers(self) -> list[str]:
        """Training speakers; the index of a speaker is its class number."""
        return sorted({str(utterance.speaker) for utterance in self.train})


def divide(utterances: Sequence[Utterance], seed: int, speakers: int | None = None) -> Division:
    """Divide a corpus: take out validation speakers.

    Parameters
    ----------
    utterances
        Utterances with speakers.
    seed
        Of the choice.
    speakers
        Number of validation speakers (default: a tenth of those with two utterances; none if there are fewer than four
        speakers, or fewer than two with two utterances).

    Raises
    ------
    InputError
        If ``speakers`` is 1 or negative, or leaves fewer than two speakers to train on.
    """
    rng = np.random.default_rng([seed, _DIVISION])
    by_speaker: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in sorted(utterances, key=lambda u: (u.id, str(u.path))):
        by_speaker[str(utterance.speaker)].append(utterance)
    eligible = sorted(speaker for speaker, listed in by_speaker.items() if len(listed) >= 2)
    count = min(max(2, round(len(eligible) / 10)), MOST_VALIDATION_SPEAKERS) if speakers is None else speakers
    if len(eligible) < count or len(by_speaker) - count < 2 or count == 1 or count < 0:
        if speakers is not None:
            message = f"{count} validation speakers of {len(by_speaker)}, of whom {len(eligible)} have two utterances"
            raise InputError(message, fix="use 0, or at least 2, and leave two speakers to train on")
        count = 0
    chosen = set(rng.choice(eligible, count, replace=False).tolist()) if count else set()
    validation: list[Utterance] = []
    rest: list[Utterance] = []
    for speaker, listed in by_speaker.items():
        if speaker in chosen:
            order = rng.permutation(len(listed))[:VALIDATION_UTTERANCES]
            validation.extend(listed[index] for index in sorted(order))
        else:
            rest.extend(listed)
    return Division(rest, validation)


@dataclass(frozen=True)
class TrainingSet:
    """A divided corpus, and the features of its utterances."""

    division: Division
    store: Store


class Batches:
    """The batches of every epoch: features (B, T, width) float32, speaker numbers (B,) int64.

    Parameters
    ----------
    data
        Its training part is cut into chunks.
    recipe
        Chunks and batches.
    subtract_mean
        Subtract the mean of each chunk.
    seed
        Of order and places.

    Raises
    ------
    InputError
        If there are too few chunks for one batch.
    """

    def __init__(self, data: TrainingSet, recipe: AsvRecipe, *, subtract_mean: bool, seed: int) -> None:
        utterances, store = data.division.train, data.store
        self._utterances, self._store, self._recipe = utterances, store, recipe
        self._subtract, self._seed = subtract_mean, seed
        numbers = {speaker: number for number, speaker in enumerate(data.division.speakers)}
        self._speakers = np.array([numbers[str(u.speaker)] for u in utterances], dtype=np.int64)
        entries = [store.entry(u) for u in utterances]
        frames = np.array([entry.frames for entry in entries], dtype=np.int64)
        chunk = 0.5 * (recipe.shortest + recipe.longest) * FRAMES_PER_SECOND
        self._chunk_counts = np.maximum(1, np.rint(frames / chunk).astype(np.int64))
        self.chunks = (
            math.ceil(recipe.repeats * frames.sum() / chunk) if recipe.rows == "balanced" else self._chunk_counts.sum()
        )
        # A last batch of one chunk is left out: batch normalization needs two.
        full, rest = divmod(int(self.chunks), recipe.batch_size)
        self.count = full + (rest > 1)
        if self.count == 0:
            fix = "use --recipe fixed, shorter --seconds-per-chunk, or more data"
            raise InputError(
                f"recipe {recipe.name} gets {self.chunks} chunks of {chunk / FRAMES_PER_SECOND:g} s", fix=fix
            )

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Return the index of the utterance of each chunk of an epoch."""
        rng = np.random.default_rng([self._seed, _ORDER, epoch])
        if self._recipe.rows != "balanced":
            return rng.permutation(np.repeat(np.arange(len(self._chunk_counts)), self._chunk_counts))
        by_speaker = [np.flatnonzero(self._speakers == number) for number in np.unique(self._speakers)]
        passes = math.ceil(self.chunks / len(by_speaker))
        speakers = np.concatenate([rng.permutation(len(by_speaker)) for _ in range(passes)])[: self.chunks]
        return np.array([rng.choice(by_speaker[speaker]) for speaker in speakers], dtype=np.int64)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Yield the batches of an epoch from number ``start`` on."""
        order = self.order(epoch)
        size = self._recipe.batch_size
        for batch in range(start, self.count):
            yield self._batch(order[batch * size : (batch + 1) * size], epoch, batch)

    def _batch(self, rows: NDArray[np.int64], epoch: int, batch: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        rng = np.random.default_rng([self._seed, _CROP, epoch, batch])
        recipe = self._recipe
        length = round(rng.uniform(recipe.shortest, recipe.longest) * FRAMES_PER_SECOND)
        chunks = []
        for row in rows:
            frames = repeat_frames(self._store.read(self._utterances[row]), length)
            first = rng.integers(0, len(frames) - length + 1)
            chunks.append(subtract_mean(frames[first : first + length], self._subtract))
        return np.stack(chunks), self._speakers[rows]
