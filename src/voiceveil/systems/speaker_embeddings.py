"""Mean speaker embeddings of a corpus, from which systems draw pseudo-speakers at speaker level.

Embeddings of two recordings of one speaker differ. A system whose draw depends on the embedding would give each of them
another pseudo-speaker, though with the same random numbers. At speaker level such systems get the mean over all
recordings of a speaker, as in the challenges, so that all of them have one pseudo-speaker.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import MixedDownWarning, load
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.corpus.model import UtteranceSource
from voiceveil.run.device import OnDevice, worker_device
from voiceveil.run.executor import Jobs, executor_of
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.feature_cache import feature_cache

__all__ = ["SpeakerEmbeddings", "mean_speaker_embeddings"]

_SCALE = float(1 << 40)  # of embeddings in sums of 64 bits: four million recordings of a speaker fit
#: Speaker -> mean embedding (d,), L2-normalized.
SpeakerEmbeddings = Mapping[str, NDArray[np.float32]]


def mean_speaker_embeddings(
    utterances: UtteranceSource, system: Anonymizer, jobs: Jobs, *, folder: Path, features: Path | None = None
) -> dict[str, NDArray[np.float32]]:
    """Return the mean embedding of each speaker; empty if the system's draws depend on no embedding.

    Parameters
    ----------
    utterances
        Recordings; those of unknown speakers, and those that cannot be read, are passed over.
    system
        Extracts the embeddings.
    jobs
        Number of processes, or an executor.
    folder
        Where workers may write; it must exist.
    features
        File that keeps features of recordings, see :mod:`.feature_cache`.

    Returns
    -------
    dict
        Speaker -> embedding (d,) float32, L2-normalized.
    """
    if not system.uses_source_embedding:
        return {}
    modules = ("voiceveil.systems.speaker_embeddings", type(system).__module__, *system.preload)
    executor = executor_of(jobs)
    outcomes = executor.run(
        OnDevice(partial(_embedding, system=system, features=features), worker_device(executor)),
        (utterance for utterance in utterances if utterance.speaker is not None),
        folder=folder,
        seconds=lambda utterance: utterance.length or 0.0,
        preload=modules,
    )
    sums: dict[str, NDArray[np.int64]] = {}
    with closing(outcomes):
        for utterance, result in outcomes:
            if isinstance(result, Exception) and not isinstance(result, InputError):
                raise result
            if not isinstance(result, Exception) and result is not None:
                speaker = utterance.speaker or ""
                # whole numbers, so that the sum does not depend on the order in which recordings are finished
                sums[speaker] = sums.get(speaker, 0) + np.rint(result.astype(np.float64) * _SCALE).astype(np.int64)
    return {speaker: _normalized(total) for speaker, total in sums.items() if total.any()}


def _normalized(total: NDArray[np.int64]) -> NDArray[np.float32]:
    direction = total / np.linalg.norm(total.astype(np.float64))
    return np.asarray(direction, dtype=np.float32)


def _embedding(utterance: Utterance, *, system: Anonymizer, features: Path | None) -> NDArray[np.float32] | None:
    """Return the embedding of one recording, L2-normalized."""
    with feature_cache(features), warnings.catch_warnings():
        warnings.simplefilter("ignore", MixedDownWarning)  # said once, when it is converted
        wave = load(utterance.path, start=utterance.start, duration=utterance.duration)
        return system.source_embedding(wave)
