"""What a speaker encoder is trained and validated on, and the batches of each step.

Every random choice comes from (seed, what it is for, epoch, batch), never from a running generator: a training that
was interrupted draws the same chunks as one that was not.

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
from voiceveil.models.speaker.networks import FRAMES_A_SECOND, repeated, subtract_mean
from voiceveil.training.asv_recipes import Recipe
from voiceveil.training.feature_store import FeatureStore

__all__ = ["Batches", "Division", "collect", "digest", "divide", "long_enough"]

_DIVISION, _ORDER, _CROP = 1, 2, 3  # what a draw is for
#: No more utterances of a validation speaker than this: pairs grow with the square.
VALIDATION_UTTERANCES = 10
MOST_VALIDATION_SPEAKERS = 40


def collect(corpora: Sequence[Corpus]) -> list[Utterance]:
    """The utterances of all corpora; an ``InputError`` if one has no speaker or there are fewer than two speakers."""
    utterances = [utterance for corpus in corpora for utterance in corpus]
    for corpus in corpora:
        without = [utterance.id for utterance in corpus if utterance.speaker is None]
        if without:
            what = f"{len(without)} of {len(corpus)} utterances of {corpus.name} have no speaker, e.g. {without[0]!r}"
            raise InputError(what, where=corpus.root, fix="training needs to know who speaks: add utt2spk or folders")
    speakers = {utterance.speaker for utterance in utterances}
    if len(speakers) < 2:
        what = f"{len(speakers)} speaker{'' if len(speakers) == 1 else 's'} in {len(utterances)} utterances"
        raise InputError(what, fix="an encoder learns to tell speakers apart: give two or more")
    return utterances


def digest(utterances: Sequence[Utterance]) -> str:
    """What identifies a training set: ids, speakers, and sizes of the files."""
    rows = sorted(f"{u.id}\0{u.speaker}\0{_size(u)}\0{u.start}\0{u.duration}" for u in utterances)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _size(utterance: Utterance) -> int:
    try:
        return utterance.path.stat().st_size
    except OSError as error:
        raise InputError("no such audio file", where=utterance.path) from error


def long_enough(utterances: list[Utterance], store: FeatureStore, recipe: Recipe) -> list[Utterance]:
    """Without the utterances, and then the speakers, that the recipe leaves out."""
    counts: dict[str | None, int] = defaultdict(int)
    for utterance in (kept := [u for u in utterances if store.entry(u).frames >= recipe.least_frames]):
        counts[utterance.speaker] += 1
    kept = [u for u in kept if counts[u.speaker] >= recipe.least_utterances]
    if len({u.speaker for u in kept}) < 2:
        what = f"recipe {recipe.name} leaves fewer than two speakers: it takes those with {recipe.least_utterances}"
        what += f" utterances or more of {recipe.least_frames / FRAMES_A_SECOND:g} s of speech"
        raise InputError(what, fix="use --recipe fixed, or more data")
    return kept


@dataclass(frozen=True)
class Division:
    """Three parts of a corpus: to train on, other utterances of the same speakers, and speakers not trained on."""

    train: list[Utterance]
    held_out: list[Utterance]
    validation: list[Utterance]

    @property
    def speakers(self) -> list[str]:
        """The training speakers; the place of one in this list is its number."""
        return sorted({str(utterance.speaker) for utterance in self.train})


def divide(utterances: Sequence[Utterance], recipe: Recipe, seed: int, speakers: int | None = None) -> Division:
    """Take out validation speakers (a tenth of those with two utterances, or ``speakers``), then held-out utterances.

    With fewer than four speakers, or fewer than two with two utterances, nobody is taken out, unless asked for.
    """
    rng = np.random.default_rng([seed, _DIVISION])
    by_speaker: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in sorted(utterances, key=lambda u: (u.id, str(u.path))):
        by_speaker[str(utterance.speaker)].append(utterance)
    able = sorted(speaker for speaker, own in by_speaker.items() if len(own) >= 2)
    count = min(max(2, round(len(able) / 10)), MOST_VALIDATION_SPEAKERS) if speakers is None else speakers
    if len(able) < count or len(by_speaker) - count < 2 or count == 1 or count < 0:
        if speakers is not None:
            what = f"{count} validation speakers of {len(by_speaker)}, of whom {len(able)} have two utterances"
            raise InputError(what, fix="take 0, or at least 2, and leave two to train on")
        count = 0
    chosen = set(rng.choice(able, count, replace=False).tolist()) if count else set()
    validation: list[Utterance] = []
    rest: list[Utterance] = []
    for speaker, own in by_speaker.items():
        if speaker in chosen:
            order = rng.permutation(len(own))[:VALIDATION_UTTERANCES]
            validation.extend(own[index] for index in sorted(order))
        else:
            rest.extend(own)
    size = round(recipe.held_out * len(rest))
    order = rng.permutation(len(rest))
    held_out = [rest[index] for index in sorted(order[:size])]
    train = [rest[index] for index in sorted(order[size:])]
    known = {utterance.speaker for utterance in train}
    return Division(train, [u for u in held_out if u.speaker in known], validation)


class Batches:
    """The batches of every epoch: features (B, T, width) float32, speaker numbers (B,) int64."""

    def __init__(
        self, utterances: Sequence[Utterance], numbers: dict[str, int], store: FeatureStore, recipe: Recipe,
        *, subtract_mean: bool, seed: int
    ) -> None:  # fmt: skip
        self._utterances, self._store, self._recipe = utterances, store, recipe
        self._subtract, self._seed = subtract_mean, seed
        self._speakers = np.array([numbers[str(u.speaker)] for u in utterances], dtype=np.int64)
        entries = [store.entry(u) for u in utterances]
        frames = np.array([entry.frames for entry in entries], dtype=np.int64)
        chunk = 0.5 * (recipe.shortest + recipe.longest) * FRAMES_A_SECOND
        if recipe.rows == "whole":
            self._shares = np.array([entry.loud_chunks for entry in entries], dtype=np.int64)
        else:
            self._shares = np.maximum(1, np.rint(frames / chunk).astype(np.int64))
        self.rows = (
            math.ceil(recipe.repeats * frames.sum() / chunk) if recipe.rows == "balanced" else self._shares.sum()
        )
        # A last batch of one row is left out: batch normalization needs two.
        full, rest = divmod(int(self.rows), recipe.batch_size)
        self.count = full + (rest > 1)
        if self.count == 0:
            fix = "use --recipe fixed, shorter --seconds-per-chunk, or more data"
            raise InputError(f"recipe {recipe.name} finds {self.rows} chunks of {chunk / FRAMES_A_SECOND:g} s", fix=fix)

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Return the utterance of each row of an epoch."""
        rng = np.random.default_rng([self._seed, _ORDER, epoch])
        if self._recipe.rows != "balanced":
            return rng.permutation(np.repeat(np.arange(len(self._shares)), self._shares))
        by_speaker = [np.flatnonzero(self._speakers == number) for number in np.unique(self._speakers)]
        passes = math.ceil(self.rows / len(by_speaker))
        speakers = np.concatenate([rng.permutation(len(by_speaker)) for _ in range(passes)])[: self.rows]
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
        length = round(rng.uniform(recipe.shortest, recipe.longest) * FRAMES_A_SECOND)
        chunks = []
        for row in rows:
            frames = repeated(self._store.read(self._utterances[row]), length)
            first = rng.integers(0, len(frames) - length + 1)
            chunks.append(subtract_mean(frames[first : first + length], self._subtract))
        return np.stack(chunks), self._speakers[rows]
