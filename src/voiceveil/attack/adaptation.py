"""Adaptation of an encoder to anonymized speech: candidate back-ends, and the choice among them.

The attacker has anonymized speech of other speakers with known identities. A back-end is fitted to its embeddings; the
candidates are compared by cross-validation over *speakers* of this training speech, never on the attacked trials
(:mod:`voiceveil.attack.validation`).

Conventions: as in :mod:`voiceveil.attack.backends`. A candidate works on embeddings, or on the output of the encoder's
trunk, where it takes the place of the last layer.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.backends import Backend, Centered, Cosine, Lda, MarginSoftmax, Pca, Scaled, Scorer, SNorm, Wccn
from voiceveil.attack.validation import FEWEST_UTTERANCES, Candidate, LabeledEmbeddings, unadapted_eer, validate
from voiceveil.corpus import Utterance
from voiceveil.models.speaker.covariances import Codes, Floats
from voiceveil.models.speaker.plda import Plda
from voiceveil.run.cache import Cache
from voiceveil.run.progress import Progress

__all__ = ["PRINCIPAL", "Adapted", "adapt", "candidates", "recording_units", "training_accuracy"]

_LARGEST = 300  # dimensions of an embedding; there are more in statistics, for which other back-ends are tried
PRINCIPAL = 1200  # dimensions from which on back-ends work on principal components alone, which saves minutes


def recording_units(utterances: Sequence[Utterance]) -> NDArray[np.str_]:
    """Return the recording session of each utterance, or its own id if its speaker has one session only.

    Sessions are read from ids of the form ``<speaker>-<session>-<number>``, as in LibriSpeech and VoxCeleb. A single
    utterance beside the longest session does not count as a second session: nothing would be left for the trials.
    """
    sessions: list[str] = []
    of_speaker: defaultdict[str | None, Counter[str]] = defaultdict(Counter)
    for utterance in utterances:
        parts = re.split("[-_]", utterance.id)
        has_session = len(parts) > 2 and parts[0] == utterance.speaker
        sessions.append(f"{parts[0]} {parts[1]}" if has_session else "")
        of_speaker[utterance.speaker][sessions[-1]] += 1
    several = {speaker for speaker, counts in of_speaker.items() if counts.total() - max(counts.values()) >= 2}
    pairs = zip(utterances, sessions, strict=True)
    return np.array([session if u.speaker in several and session else u.id for u, session in pairs])


@dataclass(frozen=True, eq=False)
class Adapted:
    """The result of :func:`adapt`.

    Parameters
    ----------
    candidate : Candidate
        The best one.
    scorer : Scorer
        Its back-end, fitted to all training speech.
    validation : tuple of (str, float)
        Names of all candidates and their EERs on held-out speakers, best first.
    unadapted : float
        EER of plain cosines on the same folds.
    accuracy : float
        Share of training utterances whose speaker is identified.
    speakers, utterances : int
        Size of the training speech.
    validated, sessions : int
        Number of speakers who were enrolled in the validation, and of those tested in another recording session.
    """

    candidate: Candidate
    scorer: Scorer
    validation: tuple[tuple[str, float], ...]
    unadapted: float
    accuracy: float
    speakers: int
    utterances: int
    validated: int
    sessions: int

    @property
    def validation_eer(self) -> float:
        """EER of the best candidate on held-out speakers."""
        return self.validation[0][1]


def candidates(training: LabeledEmbeddings) -> tuple[Candidate, ...]:
    """Return the candidates for some training speech, simple ones first.

    They depend on the number of dimensions: statistics have many, which are correlated and of different scales.
    """
    dimensions = training.embeddings.shape[1]
    if dimensions > _LARGEST and training.trunk is None:
        return tuple(Candidate(backend) for backend in _statistics_backends(dimensions))
    plain: list[Backend] = [Cosine(), Centered(), Wccn(0.05), Wccn(0.3), Lda(20), Lda(60), Plda(60)]
    plain += [Plda(60, by_count=False), MarginSoftmax(), SNorm(Wccn(0.05)), SNorm(Wccn(0.3)), SNorm(Lda(60))]
    chosen = [Candidate(backend) for backend in plain]
    if training.trunk is not None:
        deep: list[Backend] = [Wccn(0.3), Lda(60, 0.3), Plda(60, 0.3, by_count=False), SNorm(Wccn(0.1))]
        chosen += [Candidate(backend, True) for backend in deep]
    else:
        chosen += [Candidate(SNorm(Scaled(Wccn(shrinkage)))) for shrinkage in (0.1, 0.5, 0.8)]
    return tuple(chosen)


def _statistics_backends(dimensions: int) -> list[Backend]:
    """Return the back-ends for embeddings of many dimensions."""
    plda = Plda(60, 0.3, by_count=False)
    principal: list[Backend] = [
        SNorm(Scaled(Pca(size, backend)))
        for size, backend in ((100, Wccn(0.1)), (250, Wccn(0.1)), (250, Wccn(0.5)), (250, Lda(60, 0.3)), (250, plda))
    ]
    if dimensions > PRINCIPAL:
        return [Cosine(), Centered(), *principal]
    full: list[Backend] = [Cosine(), Centered(), Wccn(0.3), Lda(60, 0.3), plda]
    full += [SNorm(Scaled(Wccn(shrinkage))) for shrinkage in (0.1, 0.5, 0.8)]
    return [*full, SNorm(Scaled(Lda(60, 0.5))), SNorm(Scaled(Lda(150, 0.5))), *principal]


def adapt(
    training: LabeledEmbeddings,
    tried: Sequence[Candidate] | None = None,
    *,
    cache: Cache | None = None,
    quiet: bool = True,
    label: str = "attacker learning",
) -> Adapted:
    """Compare candidates on held-out speakers, and fit the best one to all training speech.

    Parameters
    ----------
    training : TrainingSet
        The training speech.
    tried : sequence of Candidate, optional
        By default those of :func:`candidates`.
    cache : Cache, optional
        Keeps the validation EERs, which take long, by the content of the training speech.
    quiet : bool
        Show no progress.
    label : str
        Name of the work in the display of progress.

    Raises
    ------
    InputError
        If there are too few training speakers.
    """
    tried = candidates(training) if tried is None else tried
    store = Cache(None) if cache is None else cache
    known = [training.embeddings, training.trunk, training.speaker, training.gender, training.unit]
    rates = []
    with Progress(label, len(tried), unit="back-ends", quiet=quiet) as progress:
        for candidate in tried:
            rates.append(store.remember("validation 2", [*known, candidate], partial(validate, candidate, training)))
            progress.advance()
    ranked = sorted(zip(rates, tried, strict=True), key=lambda pair: pair[0])  # stable: the simpler one of equals
    best = ranked[0][1]
    vectors = training.vectors(best.on_trunk)
    scorer = best.backend.fit(vectors, training.speaker)
    accuracy = store.remember(
        "training accuracy 1", [*known, best], lambda: training_accuracy(scorer, vectors, training.speaker)
    )
    return Adapted(
        best,
        scorer,
        tuple((candidate.name, rate) for rate, candidate in ranked),
        unadapted_eer(training),
        accuracy,
        len(np.unique(training.speaker)),
        len(training.speaker),
        training.speakers,
        training.sessions,
    )


def training_accuracy(scorer: Scorer, vectors: Floats, speaker: Codes) -> float:
    """Return the share of training utterances whose own speaker scores highest, as a fraction.

    Speakers are enrolled with all their utterances; the own speaker without the one that is tested.
    """
    _, codes, counts = np.unique(speaker, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts >= FEWEST_UTTERANCES)
    sums = np.array([vectors[codes == i].sum(axis=0) for i in several])
    right = total = 0
    for row, i in enumerate(several):
        utterances = vectors[codes == i]
        others = scorer(sums / counts[several, None], counts[several], utterances)
        others[row] = -np.inf
        without = (sums[row] - utterances) / (counts[i] - 1)
        own = np.diagonal(scorer(without, np.full(len(utterances), counts[i] - 1), utterances))
        right += int((own > others.max(axis=0)).sum())
        total += len(utterances)
    return right / total
