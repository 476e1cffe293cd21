"""The pool: external speakers whose voices a pseudo-speaker is made of.

Conventions: ``n`` speakers, embeddings of shape (n, d): the mean over a speaker's utterances of their embeddings, each
brought to length 1, so that no utterance weighs more for being loud or long. Genders are "f" and "m". ``log_f0`` is the
mean natural logarithm of F0 in Hz over the voiced frames.

A pool is a file of safetensors with the fingerprint of the encoder that the embeddings come from; those of another
encoder mean nothing to a synthesizer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.documents import build
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.checkpoint import load_tensors, save_tensors
from voiceveil.models.pitch.correlation import PitchTracker
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.models.speaker.plda import Plda, PldaScorer, TwoCovariance
from voiceveil.run.context import RunContext
from voiceveil.run.extract import Evaluator
from voiceveil.systems.resynthesis.speaking_style import Heights

if TYPE_CHECKING:
    pass

__all__ = [
    "GENDERS",
    "KIND",
    "Pool",
    "build_pool",
    "load_pool",
    "save_pool",
]

KIND = "pool of speakers"
GENDERS = ("f", "m")
Embedding = NDArray[np.float32]
#: Speakers of each gender that a voice is compared with, and what difference of their cosines is one unit of log odds.
_NEIGHBOURS, _UNIT = 5, 0.015
#: Units of log odds that a high F0 speaks for a woman, at most.
_SHOUTED = 1.0
_LEAST_DEVIATION = 0.1  # of ln F0, between speakers
_HIGHEST = 12.0  # ln F0
_FIX = "build the pool again"


@dataclass(frozen=True, eq=False)
class Pool:
    """``ids`` and ``genders`` of n speakers, ``embeddings`` (n, d), ``log_f0`` (n,), the encoder's fingerprint.

    ``plda`` scores two embeddings, as the challenges measure distances; ``where`` is the file, for messages.
    ``ratings`` (n,): how natural each voice sounds (:mod:`voiceveil.systems.resynthesis.rating`), if that is known.
    """

    ids: tuple[str, ...]
    genders: NDArray[np.str_]
    embeddings: Embedding
    log_f0: NDArray[np.float32]
    encoder: str
    plda: PldaScorer
    where: Path | None = None
    ratings: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        counts = {len(self.ids), len(self.genders), len(self.embeddings), len(self.log_f0)}
        counts |= set() if self.ratings is None else {len(self.ratings)}
        if counts != {len(self.ids)} or self.embeddings.ndim != 2 or not set(self.genders) <= set(GENDERS):
            raise InputError("damaged: its tables do not fit each other", where=self.where, fix="build the pool again")
        numbers = [table for table in (self.embeddings, self.log_f0, self.ratings) if table is not None]
        if not all(np.isfinite(table).all() for table in numbers):
            raise InputError("damaged: a value is not finite", where=self.where, fix="build the pool again")

    def __len__(self) -> int:
        return len(self.ids)

    def of_gender(self, gender: str) -> NDArray[np.int64]:
        """Return the rows of the speakers of a gender."""
        return np.flatnonzero(self.genders == gender)

    def best(self, gender: str, share: float) -> NDArray[np.int64]:
        """Return the rows of that share of the speakers of a gender who sound best; of all, if they are not rated."""
        rows = self.of_gender(gender)
        if self.ratings is None:
            return rows
        count = max(1, round(share * len(rows)))
        return np.sort(rows[np.argsort(-self.ratings[rows], kind="stable")[:count]])

    def gender_of(self, embedding: Embedding, log_f0: float | None = None) -> str:
        """Return the more likely gender of a voice, by its embedding and the mean of ln F0, if anything is voiced.

        Of the embedding, by how much the nearest speakers of one gender are nearer: those of other languages,
        microphones and moods lie elsewhere than the pool's, where a plane that parts the pool says little; but
        neighbors stay neighbors. F0 is a Gaussian in each gender; but a high one says little, as men can shout.
        """
        likeness = self.embeddings @ l2_normalized(embedding) / np.linalg.norm(self.embeddings, axis=1)
        first, second = (float(np.sort(likeness[self.of_gender(g)])[-_NEIGHBOURS:].mean()) for g in GENDERS)
        evidence = (second - first) / _UNIT
        if log_f0 is not None:
            one, other = map(self.heights, GENDERS)
            variance = (one.deviation**2 + other.deviation**2) / 2
            of_f0 = (other.usual - one.usual) * (log_f0 - (one.usual + other.usual) / 2) / variance
            evidence += max(of_f0, -_SHOUTED)
        return GENDERS[int(evidence > 0)]

    def heights(self, gender: str) -> Heights:
        """How high speakers of a gender speak."""
        means = self.log_f0[self.of_gender(gender)].astype(np.float64)
        return Heights(float(means.mean()), max(float(means.std()), _LEAST_DEVIATION))

    def gender_of_nearest(self, embedding: Embedding) -> str:
        """That of the most similar speaker: for a voice that is made of the pool, some of whom sound like the other."""
        likeness = self.embeddings @ l2_normalized(embedding) / np.linalg.norm(self.embeddings, axis=1)
        return str(self.genders[int(likeness.argmax())])


def build_pool(
    utterances: Iterable[Utterance],
    encoder: Evaluator[Embedding],
    tracker: PitchTracker,
    context: RunContext | None = None,
) -> Pool:
    """Embed every utterance, and take the mean of each speaker; the distance (PLDA) is learned from them too."""
    listed = list(utterances)
    groups = _speakers(listed)
    run = context or RunContext()
    vectors = {key: l2_normalized(value) for key, value in run.extract(listed, encoder).items()}
    tracks = run.extract(listed, tracker)
    means = {speaker: np.mean([vectors[u.id] for u in group], axis=0) for speaker, group in groups.items()}
    voices = {speaker: np.concatenate([tracks[u.id] for u in group]) for speaker, group in groups.items()}
    unvoiced = [speaker for speaker, f0 in voices.items() if not (f0 > 0).any()]
    if unvoiced:
        raise InputError(f"speaker {unvoiced[0]} is never voiced", fix="leave the speaker out, or listen to it")
    codes = {speaker: code for code, speaker in enumerate(groups)}
    scorer = Plda(by_count=False).fit(
        np.array([vectors[u.id] for u in listed], dtype=np.float64), np.array([codes[u.speaker or ""] for u in listed])
    )
    return Pool(
        tuple(groups),
        np.array([group[0].gender for group in groups.values()], dtype=np.str_),
        np.array(list(means.values()), dtype=np.float32),
        np.array([np.log(f0[f0 > 0]).mean() for f0 in voices.values()], dtype=np.float32),
        encoder.fingerprint(),
        scorer,
    )


def _speakers(utterances: list[Utterance]) -> dict[str, list[Utterance]]:
    """Speaker -> utterances, in the order of the speakers' names; each with one gender, one of them with two or more
    utterances, without which nobody knows how the embeddings of one voice differ."""
    groups: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        if utterance.speaker is None or utterance.gender not in GENDERS:
            lack = "speaker" if utterance.speaker is None else "gender"
            fix = "give speakers and genders (utt2spk and spk2gender, or columns of a manifest)"
            raise InputError(f"utterance {utterance.id} has no {lack}", where=utterance.path, fix=fix)
        groups[utterance.speaker].append(utterance)
    for speaker, group in groups.items():
        if len({u.gender for u in group}) > 1:
            raise InputError(f"speaker {speaker} has two genders", where=group[0].path, fix="correct the lists")
    if len({group[0].gender for group in groups.values()}) < 2:
        raise InputError("a pool needs speakers of both genders", fix="add a corpus to --data")
    if all(len(group) == 1 for group in groups.values()):
        raise InputError("no speaker has two utterances", fix="add a corpus to --data")
    return dict(sorted(groups.items()))


def save_pool(path: Path, pool: Pool) -> None:
    """Write a pool as safetensors."""
    import torch

    plda = pool.plda.model
    arrays = {
        "embeddings": pool.embeddings,
        "log_f0": pool.log_f0,
        "plda.centre": pool.plda.mean,
        "plda.mean": plda.mean,
        "plda.between": plda.between,
        "plda.within": plda.within,
    }
    if pool.ratings is not None:
        arrays["ratings"] = pool.ratings
    record = {"kind": KIND, "encoder": pool.encoder, "ids": pool.ids, "genders": "".join(pool.genders)}
    save_tensors(path, {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}, record)


def load_pool(path: Path) -> Pool:
    """Return the pool of a file, or of the folder that `voiceveil train pool` wrote; read once a process."""
    file = path / "pool.safetensors" if path.is_dir() else path
    stamp = file.stat().st_mtime_ns if file.is_file() else 0
    return _load(file, stamp)


@lru_cache(maxsize=2)
def _load(path: Path, stamp: int) -> Pool:
    tensors, record = load_tensors(path, KIND)
    stated = build(_Record, record, where=path, fix=_FIX)
    try:
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        model = TwoCovariance(arrays["plda.mean"], arrays["plda.between"], arrays["plda.within"])
        pool = Pool(
            stated.ids,
            np.array(list(stated.genders), dtype=np.str_),
            arrays["embeddings"].astype(np.float32),  # those that ship are in half precision
            arrays["log_f0"].astype(np.float32),
            stated.encoder,
            PldaScorer(arrays["plda.centre"], None, model, by_count=False),
            path,
            arrays["ratings"].astype(np.float32) if "ratings" in arrays else None,
        )
    except KeyError as error:
        raise InputError(f"damaged: no {error.args[0]}", where=path, fix=_FIX) from error
    _check_voices(pool)
    return pool


@dataclass(frozen=True)
class _Record:
    """The record in the header of a pool's file; ``genders`` has a letter for each speaker."""

    kind: str
    encoder: str
    ids: tuple[str, ...]
    genders: str


def _check_voices(pool: Pool) -> None:
    """Raise an ``InputError`` if a pool that was read has voices that cannot be."""
    model, d = pool.plda.model, pool.embeddings.shape[1]
    shapes = [pool.plda.mean.shape, model.mean.shape, model.between.shape, model.within.shape]
    if shapes != [(d,), (d,), (d, d), (d, d)] or set(pool.genders) != set(GENDERS):
        raise InputError("damaged: its tables do not fit each other", where=pool.where, fix=_FIX)
    try:
        np.linalg.cholesky(model.within.astype(np.float64))
    except np.linalg.LinAlgError:
        raise InputError("damaged: its covariance is no covariance", where=pool.where, fix=_FIX) from None
    if not (np.abs(pool.log_f0) <= _HIGHEST).all() or not pool.embeddings.any(axis=1).all():
        raise InputError("damaged: a voice that nobody has", where=pool.where, fix=_FIX)
