"""The pool: external speakers of whose voices pseudo-speakers are made.

Conventions: ``n`` speakers; embeddings (n, d), each the mean over the speaker's utterances of their L2-normalized
embeddings, so that every utterance has the same weight. Genders are "f" and "m". ``log_f0`` is the mean natural
logarithm of F0 in Hz over the voiced frames.

A pool is a safetensors file with the fingerprint of the encoder of its embeddings, as a synthesizer works only with
embeddings of the encoder that it was trained with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.documents import build
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.checkpoint import load_tensors, save_tensors
from voiceveil.models.pitch import trackers
from voiceveil.models.pitch.trackers import PitchTracker
from voiceveil.models.speaker import encoders
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.models.speaker.plda import Plda, PldaScorer, TwoCovariance
from voiceveil.run.context import RunContext
from voiceveil.run.extract import Evaluator
from voiceveil.systems.resynthesis.speaking_style import F0Population

__all__ = ["GENDERS", "KIND", "Pool", "build_pool", "load_pool", "save_pool", "write_pool"]

KIND = "pool of speakers"
GENDERS = ("f", "m")
Embedding = NDArray[np.float32]
#: Gender estimation: nearest speakers of each gender, and the difference of their mean cosines that is one log odd.
_NEIGHBORS, _COSINE_UNIT = 5, 0.015
#: Largest log odds for "f" from a high F0, since men can shout.
_MOST_FROM_HIGH_F0 = 1.0
#: Smallest standard deviation of mean ln F0 between speakers, and largest plausible ln F0.
_LEAST_DEVIATION, _HIGHEST_LOG_F0 = 0.1, 12.0
_FIX = "build the pool again"


@dataclass(frozen=True, eq=False)
class Pool:
    """Speakers with gender, embedding and mean F0.

    Parameters
    ----------
    ids, genders
        Names and genders of n speakers.
    embeddings, log_f0
        Speaker embeddings (n, d), and mean ln F0 (n,).
    encoder
        Fingerprint of the speaker encoder.
    plda
        Scores pairs of embeddings: the distance measure of the challenges.
    where
        File of the pool, for error messages.
    ratings
        Naturalness of each voice (n,), if it was rated; see :mod:`voiceveil.systems.resynthesis.rating`.
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
        """Return the rows of the most natural ``share`` of a gender's speakers, or of all if they were not rated."""
        rows = self.of_gender(gender)
        if self.ratings is None:
            return rows
        count = max(1, round(share * len(rows)))
        return np.sort(rows[np.argsort(-self.ratings[rows], kind="stable")[:count]])

    def gender_of(self, embedding: Embedding, log_f0: float | None = None) -> str:
        """Return the more likely gender of a voice.

        The embedding is compared with the nearest speakers of each gender: unlike a hyperplane fitted to the pool, this
        also works for other languages, microphones and emotions, whose embeddings lie elsewhere. F0 is modeled as a
        Gaussian for each gender; evidence for "f" from a high F0 is limited, since men can shout.

        Parameters
        ----------
        embedding
            Speaker embedding (d,).
        log_f0
            Mean ln F0; None: nothing is voiced.
        """
        cosines = self._cosines(embedding)
        female, male = (float(np.sort(cosines[self.of_gender(g)])[-_NEIGHBORS:].mean()) for g in GENDERS)
        log_odds = (male - female) / _COSINE_UNIT
        if log_f0 is not None:
            women, men = map(self.f0_population, GENDERS)
            variance = (women.deviation**2 + men.deviation**2) / 2
            from_f0 = (men.mean - women.mean) * (log_f0 - (women.mean + men.mean) / 2) / variance
            log_odds += max(from_f0, -_MOST_FROM_HIGH_F0)
        return GENDERS[int(log_odds > 0)]

    def f0_population(self, gender: str) -> F0Population:
        """Return the mean and deviation of mean ln F0 over the speakers of a gender."""
        means = self.log_f0[self.of_gender(gender)].astype(np.float64)
        return F0Population(float(means.mean()), max(float(means.std()), _LEAST_DEVIATION))

    def gender_of_nearest(self, embedding: Embedding) -> str:
        """Return the gender of the most similar speaker: for voices that were made of the pool."""
        return str(self.genders[int(self._cosines(embedding).argmax())])

    def _cosines(self, embedding: Embedding) -> NDArray[np.float32]:
        return np.asarray(self.embeddings @ l2_normalized(embedding) / np.linalg.norm(self.embeddings, axis=1))


def build_pool(
    utterances: Iterable[Utterance],
    encoder: Evaluator[Embedding],
    tracker: PitchTracker,
    context: RunContext | None = None,
) -> Pool:
    """Build a pool: mean embedding and mean F0 of every speaker, and a PLDA fitted to all utterances.

    Parameters
    ----------
    utterances
        Speech with speaker and gender; both genders, and a speaker with several utterances.
    encoder, tracker
        Speaker encoder and pitch tracker.
    context
        Cache and processes.

    Raises
    ------
    InputError
        If a speaker or gender is missing or contradictory, or a speaker is never voiced.
    """
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


def write_pool(
    utterances: Iterable[Utterance],
    out: Path,
    context: RunContext,
    *,
    speaker: str = "campplus",
    pitch: str = "swift",
    rate: bool = False,
) -> Pool:
    """Build a pool from speech, and write it as ``pool.safetensors``.

    Parameters
    ----------
    utterances
        Speech with speakers and genders.
    out
        Folder for the pool.
    context
        Cache, processes and progress.
    speaker, pitch
        Names of the speaker encoder and of the pitch tracker.
    rate
        Rate the naturalness of each voice, see :mod:`voiceveil.systems.resynthesis.rating`.

    Raises
    ------
    InputError
        If speakers or genders are missing, or a name is unknown.
    """
    listed = list(utterances)
    pool = build_pool(listed, encoders.encoder(speaker), trackers.tracker(pitch), context)
    if rate:
        from voiceveil.systems.resynthesis.rating import rate_voices  # which builds on this module

        jobs = context.jobs if isinstance(context.jobs, int) else 1  # rated on this computer
        pool = rate_voices(pool, listed, cache=context.cache.path, jobs=jobs, quiet=not context.progress)
    save_pool(out / "pool.safetensors", pool)
    return pool


def _speakers(utterances: list[Utterance]) -> dict[str, list[Utterance]]:
    """Return speaker -> utterances, sorted by speaker; refuse data from which no pool can be built.

    One speaker at least needs two utterances, from which the PLDA learns how embeddings of one voice differ.
    """
    groups: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        if utterance.speaker is None or utterance.gender not in GENDERS:
            missing = "speaker" if utterance.speaker is None else "gender"
            fix = "give speakers and genders (utt2spk and spk2gender, or columns of a manifest)"
            raise InputError(f"utterance {utterance.id} has no {missing}", where=utterance.path, fix=fix)
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
    """Raise an ``InputError`` if a pool that was read has impossible values."""
    model, d = pool.plda.model, pool.embeddings.shape[1]
    shapes = [pool.plda.mean.shape, model.mean.shape, model.between.shape, model.within.shape]
    if shapes != [(d,), (d,), (d, d), (d, d)] or set(pool.genders) != set(GENDERS):
        raise InputError("damaged: its tables do not fit each other", where=pool.where, fix=_FIX)
    try:
        np.linalg.cholesky(model.within.astype(np.float64))
    except np.linalg.LinAlgError:
        raise InputError("damaged: its covariance is not positive definite", where=pool.where, fix=_FIX) from None
    if not (np.abs(pool.log_f0) <= _HIGHEST_LOG_F0).all() or not pool.embeddings.any(axis=1).all():
        raise InputError("damaged: a voice has an impossible F0 or an embedding of zeros", where=pool.where, fix=_FIX)
