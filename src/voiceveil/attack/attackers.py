"""The attackers: how each comes to the scores of a trial list.

``campplus`` compares embeddings as they are; ``campplus-adapted`` with what it learned from anonymized speech of other
speakers; ``free`` stands for the four cues that need no model; ``mcadams-inversion`` undoes McAdams' coefficient, then
compares embeddings. Any encoder's name can be in the place of ``campplus``.

Scoring: ``cosine``, or ``plda`` as in the challenges of 2020 and 2022. A PLDA learns from the kind of speech that its
encoder was trained on, so that it adds nothing to what the attacker knows; an adapted attacker chooses among PLDAs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

import numpy as np

from voiceveil.attack.adaptation import Adapted, TrainingSet, adapt, candidates, recording_units
from voiceveil.attack.backends import Cosine, Scorer
from voiceveil.attack.embedding import Embedded, embed, enroll, score_trials
from voiceveil.attack.inversion import AngleCounts, AngleModel, InvertingEncoder
from voiceveil.attack.model_free import CUES, Cues, Distance
from voiceveil.attack.result import Knowledge
from voiceveil.attack.sets import Condition, TrialSet
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.corpus import Corpus, Utterance
from voiceveil.models.speaker.covariances import Floats
from voiceveil.models.speaker.encoders import Layered, SpeakerEncoder, TrainingRecord, encoder, encoders
from voiceveil.models.speaker.plda import Plda
from voiceveil.run.cache import Cache
from voiceveil.run.executor import Jobs
from voiceveil.run.extract import Evaluator, extract

__all__ = [
    "INVERSION",
    "AdaptedAttacker",
    "Attacker",
    "EncoderAttacker",
    "FreeAttacker",
    "InversionAttacker",
    "Means",
    "Scoring",
    "attacker",
]

Value = TypeVar("Value")
Scoring = Literal["cosine", "plda"]

#: The attacker who undoes McAdams' coefficient.
INVERSION = "mcadams-inversion"

_SUFFIX = "-adapted"
_LEARNED = 16  # enrollment utterances that pole angles are learned from
_LDA = 200  # dimensions at most, as in the challenges' recipe


@dataclass(frozen=True)
class Means:
    """What an attack works with: where results are kept, how many processes, training speech of other speakers.

    ``training`` is anonymized, by the system that is attacked or a similar one; ``original`` is not.
    """

    cache: Cache
    jobs: Jobs = 1
    quiet: bool = True
    training: tuple[Corpus, ...] = ()
    original: tuple[Corpus, ...] = ()

    def embed(self, utterances: Iterable[Utterance], by: SpeakerEncoder, *, trunk: bool = False) -> Embedded:
        """Embeddings by an encoder."""
        return embed(utterances, by, trunk=trunk, cache=self.cache, jobs=self.jobs, quiet=self.quiet)

    def extract(self, utterances: Iterable[Utterance], by: Evaluator[Value]) -> dict[str, Value]:
        """Return the results of any evaluator, utterance id -> result."""
        return extract(utterances, by, cache=self.cache, jobs=self.jobs, quiet=self.quiet)


class Attacker(Protocol):
    """What the engine asks of each."""

    name: str

    @property
    def minimum(self) -> float:
        """The shortest utterance in seconds that it can take."""
        ...

    def check(self, means: Means) -> None:
        """Raise an ``InputError`` if something is missing; the work has not begun yet."""
        ...

    def conditions(self) -> dict[Condition, Knowledge]:
        """In which conditions it attacks, and what it then knows."""
        ...

    def scores(self, trial_set: TrialSet, condition: Condition, means: Means) -> Floats:
        """The score of each trial."""
        ...

    @property
    def backend(self) -> str:
        """How its scores are made: ``cosine``, ``plda200``, ...; an adapted attacker knows it once it has learned."""
        ...

    @property
    def llr(self) -> bool:
        """Whether its scores are log likelihood ratios (natural logarithm), of which a Cllr makes sense."""
        ...


@dataclass
class EncoderAttacker:
    """Cosines between the embeddings of an encoder, or the scores of a PLDA."""

    encoder: SpeakerEncoder
    scoring: Scoring = "cosine"
    scorer: Scorer | None = field(default=None, init=False)
    learned: TrainingSet | None = field(default=None, init=False)  # what a PLDA was fitted to

    def __post_init__(self) -> None:
        self.name = self.encoder.name
        self.minimum = self.encoder.minimum
        self.llr = self.scoring == "plda"
        self.backend = Plda(_LDA).name if self.llr else self.scoring

    def check(self, means: Means) -> None:
        """The weights can be used, and there is speech to train a PLDA on."""
        self.encoder.check()
        if self.llr:
            _check_training(self.name, self._speech(means), *self._kind())

    def training(self) -> TrainingRecord:
        """How the encoder was trained."""
        return self.encoder.training()

    def conditions(self) -> dict[Condition, Knowledge]:
        """An encoder of anonymized speech has nothing to do with original enrollment."""
        data = self.training().data
        if data == "original":
            return {"oo": "unprotected", "oa": "ignorant", "aa": "lazy-informed"}
        return {"aa": "semi-informed" if data == "anonymized" else "similar-system"}

    def scores(self, trial_set: TrialSet, condition: Condition, means: Means) -> Floats:
        """In the order of the trials."""
        return _scores(trial_set, condition, means, self.encoder, self.learn(means), trunk=False)

    def learn(self, means: Means) -> Scorer:
        """Fit the PLDA, once; cosines need nothing."""
        if self.scorer is None and self.llr:
            self.learned = training_set(self.encoder, self._speech(means), means)
            self.scorer = Plda(_LDA).fit(self.learned.embeddings, self.learned.speaker)
        elif self.scorer is None:
            self.scorer = Cosine().fit(np.zeros((0, self.encoder.dimension)), np.zeros(0, np.int64))
        return self.scorer

    def _speech(self, means: Means) -> tuple[Corpus, ...]:
        """Training speech of the kind that the encoder knows."""
        return means.original if self.training().data == "original" else means.training

    def _kind(self) -> tuple[str, str]:
        """What it is called, and the option that gives it."""
        original = self.training().data == "original"
        return ("original", "--train-original") if original else ("anonymized", "--train")


@dataclass
class AdaptedAttacker:
    """An encoder and the back-end that does best on held-out speakers of the anonymized training speech."""

    encoder: SpeakerEncoder
    similar: bool = False
    scoring: Scoring = "cosine"  # "plda": no other back-end is tried
    adapted: Adapted | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        head, colon, file = self.encoder.name.partition(":")
        self.name = f"{head}{_SUFFIX}{colon}{file}"
        self.minimum = self.encoder.minimum

    def check(self, means: Means) -> None:
        """There is training speech, of labelled speakers, and the weights can be used."""
        self.encoder.check()
        _check_training(self.name, means.training, "anonymized", "--train")

    @property
    def backend(self) -> str:
        """The one that was chosen."""
        return "" if self.adapted is None else self.adapted.candidate.name

    @property
    def llr(self) -> bool:
        """Whether that is a PLDA."""
        return self.adapted is not None and self.adapted.candidate.llr

    def conditions(self) -> dict[Condition, Knowledge]:
        """Anonymized against anonymized."""
        return {"aa": "similar-system" if self.similar else "semi-informed"}

    def learn(self, means: Means) -> Adapted:
        """Fit the back-end, once."""
        if self.adapted is None:
            data = training_set(self.encoder, means.training, means)
            tried = [one for one in candidates(data) if one.llr or self.scoring != "plda"]
            self.adapted = adapt(data, tried, cache=means.cache)
        return self.adapted

    def scores(self, trial_set: TrialSet, condition: Condition, means: Means) -> Floats:
        """Scores of the chosen back-end, in the order of the trials."""
        adapted = self.learn(means)
        return _scores(trial_set, condition, means, self.encoder, adapted.scorer, trunk=adapted.candidate.on_trunk)


def _check_training(name: str, corpora: tuple[Corpus, ...], kind: str, option: str) -> None:
    """There is training speech, and it is known who speaks."""
    if not corpora:
        raise InputError(f"the attacker {name} needs {kind} training speech", fix=f"give {option} CORPUS")
    for corpus in corpora:
        unknown = next((u.id for u in corpus if u.speaker is None), None)
        if unknown is not None:
            raise InputError(f"training utterance {unknown} has no speaker", where=corpus.root, fix="add utt2spk")


def training_set(by: SpeakerEncoder, corpora: Sequence[Corpus], means: Means) -> TrainingSet:
    """The embeddings of training corpora; the same speaker in two of them is one speaker."""
    listed = [utterance for corpus in corpora for utterance in corpus]
    layered = isinstance(by, Layered)
    parts = [means.embed(corpus, by, trunk=layered).vectors for corpus in corpora]
    vectors = np.concatenate(parts)
    speaker = np.unique([str(u.speaker) for u in listed], return_inverse=True)[1].reshape(-1).astype(np.int64)
    gender = np.array([u.gender or "" for u in listed])
    unit = recording_units(listed)
    sessions = len({u.speaker for u, name in zip(listed, unit, strict=True) if name != u.id})
    if not isinstance(by, Layered):
        return TrainingSet(vectors, None, speaker, gender, unit, sessions)
    weight, bias = (np.asarray(array, dtype=np.float64) for array in by.last_layer())
    return TrainingSet(vectors @ weight.T + bias, vectors, speaker, gender, unit, sessions)


@dataclass
class InversionAttacker:
    """Estimates McAdams' coefficient of each trial, undoes it, and compares with the original enrollment."""

    encoder: SpeakerEncoder
    backend, llr = "cosine", False

    def __post_init__(self) -> None:
        name = self.encoder.name
        self.name = INVERSION if name == "campplus" else f"{INVERSION}:{name}"
        self.minimum = max(self.encoder.minimum, AngleCounts.minimum)

    def check(self, means: Means) -> None:
        """Check that the weights can be used."""
        self.encoder.check()

    def conditions(self) -> dict[Condition, Knowledge]:
        """Return the only condition: original enrollment, anonymized trials."""
        return {"oa": "inverting"}

    def learned_from(self, trial_set: TrialSet) -> list[Utterance]:
        """Return the original enrollment utterances that show the angles of unchanged speech: some, always the same."""
        enrollment = trial_set.speech("oo")[0]
        return sorted(enrollment, key=lambda u: hashlib.sha256(u.id.encode()).digest())[:_LEARNED]

    def scores(self, trial_set: TrialSet, condition: Condition, means: Means) -> Floats:
        """Return cosines, in the order of the trials; the angles are learned from the original enrollment."""
        enrollment, trial = trial_set.speech(condition)
        enrolled = enroll(means.embed(enrollment, self.encoder), trial_set.enrollment)
        model = AngleModel.learn(means.extract(self.learned_from(trial_set), AngleCounts()).values())
        vectors = means.extract(trial, InvertingEncoder(self.encoder, model))
        heard = Embedded(tuple(vectors), np.array(list(vectors.values()), dtype=np.float64))
        return score_trials(trial_set.trials, enrolled, heard, Cosine().fit(heard.vectors[:0], np.zeros(0, np.int64)))


@dataclass
class FreeAttacker:
    """One cue that needs no model."""

    cue: str  # of CUES, or "order"
    backend, llr = "distance", False

    def __post_init__(self) -> None:
        self.name = f"free:{self.cue}"
        self.minimum = Cues.minimum

    def check(self, means: Means) -> None:
        """Nothing can be missing."""

    def conditions(self) -> dict[Condition, Knowledge]:
        """On anonymized speech; the engine takes ``oo`` if there is none."""
        return {"aa": "free"}

    def scores(self, trial_set: TrialSet, condition: Condition, means: Means) -> Floats:
        """Negative distances, in the order of the trials."""
        if self.cue == "order":
            sides = [_places(corpus) for corpus in trial_set.corpora(condition)]
        else:
            sides = [self._cues(side, means) for side in trial_set.speech(condition)]
        enrolled = enroll(sides[0], trial_set.enrollment)
        distance = Distance.of(np.concatenate([side.vectors for side in sides]))
        return score_trials(trial_set.trials, enrolled, sides[1], distance)

    def _cues(self, utterances: tuple[Utterance, ...], means: Means) -> Embedded:
        found = means.extract(utterances, Cues())
        return Embedded(tuple(found), np.array(list(found.values()))[:, CUES[self.cue]])


def _places(corpus: Corpus) -> Embedded:
    """Where each utterance stands in its directory, from 0 to 1."""
    return Embedded(tuple(u.id for u in corpus), np.linspace(0.0, 1.0, len(corpus))[:, None])


def _scores(
    trial_set: TrialSet, condition: Condition, means: Means, by: SpeakerEncoder, scorer: Scorer, *, trunk: bool
) -> Floats:
    enrollment, trial = trial_set.speech(condition)
    enrolled = enroll(means.embed(enrollment, by, trunk=trunk), trial_set.enrollment)
    return score_trials(trial_set.trials, enrolled, means.embed(trial, by, trunk=trunk), scorer)


def attacker(spec: str, *, similar: bool = False, scoring: Scoring = "cosine") -> list[Attacker]:
    """The attackers of a name: ``ENCODER``, ``ENCODER-adapted``, either with ``:FILE``, ``free`` or ``free:CUE``,
    ``mcadams-inversion`` or ``mcadams-inversion:ENCODER``."""
    head, _, file = spec.partition(":")
    if head == "free":
        known = [*CUES, "order"]
        if file and file not in known:
            raise InputError(f"unknown cue {file!r}", fix=f"known: {', '.join(known)}")
        return [FreeAttacker(cue) for cue in ([file] if file else known)]
    if head == INVERSION:
        return [InversionAttacker(encoder(file or "campplus"))]
    if head.removesuffix(_SUFFIX) not in encoders:
        raise InputError(f"unknown attacker {spec!r}", fix=did_you_mean(head, [*encoders, "free", INVERSION]))
    plain = encoder(head.removesuffix(_SUFFIX) + (f":{file}" if file else ""))
    return [AdaptedAttacker(plain, similar, scoring) if head.endswith(_SUFFIX) else EncoderAttacker(plain, scoring)]
