"""Attackers with a speaker encoder: embeddings are compared by a back-end.

:class:`EncoderAttacker` uses a given back-end: cosines, or PLDA as in the challenges of 2020 and 2022. A back-end that
learns gets the kind of speech that the encoder was trained on, so that it adds nothing to the attacker's knowledge.
:class:`AdaptedAttacker` learns from anonymized speech of other speakers, and chooses its back-end by cross-validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from voiceveil.attack.adaptation import Adapted, adapt, candidates, recording_units
from voiceveil.attack.attacker import (
    Attacker,
    Health,
    Knowledge,
    ModelWork,
    SpeechPart,
    TrainingSpeech,
    require_speakers,
)
from voiceveil.attack.backends import Backend, Cosine, Scorer, fit_with_enrollment
from voiceveil.attack.embedding import audio_models, embed, embed_raw, enroll, from_raw, has_trunk, score_trials
from voiceveil.attack.sets import Condition, TrialSet
from voiceveil.attack.validation import Candidate, HeldOutScores, LabeledEmbeddings, held_out_scores
from voiceveil.corpus import Corpus
from voiceveil.models.speaker.covariances import Floats
from voiceveil.models.speaker.encoders import SpeakerEncoder
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

__all__ = ["AdaptedAttacker", "EmbeddingAttacker", "EncoderAttacker", "attacked_parts", "training_set"]

_FEWEST_SPEAKERS = 20  # fewer training speakers do not span the variety of voices


@dataclass(eq=False)
class EmbeddingAttacker(Attacker):
    """Base class of attackers that compare embeddings.

    Parameters
    ----------
    encoder : SpeakerEncoder
        Computes the embeddings.
    """

    encoder: SpeakerEncoder = field()

    @property
    def compares_voices(self) -> bool:
        """True: any two embeddings can be compared."""
        return True

    @property
    def minimum(self) -> float:
        """Shortest utterance in seconds."""
        return self.encoder.minimum

    scores_groups = True
    fusible = True

    @property
    def reference(self) -> EncoderAttacker:
        """The encoder with cosines."""
        return EncoderAttacker(self.encoder)

    def fingerprint(self) -> str:
        """Return the fingerprint of the encoder."""
        return self.encoder.fingerprint()


@dataclass(eq=False)
class EncoderAttacker(EmbeddingAttacker):
    """Compare embeddings by a given back-end.

    Parameters
    ----------
    encoder : SpeakerEncoder
        Computes the embeddings.
    scoring : Backend
        The back-end; fitted to speech of the kind that the encoder was trained on, if it learns.
    """

    scoring: Backend = field(default_factory=Cosine)
    training_data: LabeledEmbeddings | None = field(default=None, init=False)  # that the back-end was fitted to
    _scorer: Scorer | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """Name of the encoder."""
        return self.encoder.name

    @property
    def backend(self) -> str:
        """Name of the back-end."""
        return self.scoring.name

    @property
    def llr(self) -> bool:
        """True if the back-end gives log-likelihood ratios."""
        return self.scoring.llr

    @property
    def needs_training(self) -> bool:
        """True if the back-end learns from anonymized speech, as the encoder did."""
        return self.scoring.learns and not self._knows_original

    @property
    def reference(self) -> EncoderAttacker:
        """The attacker itself."""
        return self

    @property
    def _knows_original(self) -> bool:
        return self.encoder.training().data == "original"

    def conditions(self, *, anonymized: bool = True) -> Mapping[Condition, Knowledge]:
        """Return all three conditions, or ``aa`` alone for an encoder of anonymized speech."""
        data = self.encoder.training().data
        if data == "original":
            known: dict[Condition, Knowledge] = {"oo": "unprotected", "oa": "ignorant", "aa": "lazy-informed"}
            return known if anonymized else {"oo": "unprotected"}
        if not anonymized:
            return {}
        return {"aa": "semi-informed" if data == "anonymized" else "similar-system"}

    def check_training(self, training: TrainingSpeech) -> None:
        """Raise an ``InputError`` if the back-end learns and has no labeled speech to learn from."""
        if self.scoring.learns and self._knows_original:
            require_speakers(self.name, training.original, "original", "--train-original")
        else:
            super().check_training(training)

    def fit(self, training: TrainingSpeech, context: RunContext) -> None:
        """Fit the back-end."""
        if self._scorer is not None:
            return
        if self.scoring.learns:
            corpora = training.original if self._knows_original else training.anonymized
            self.training_data = training_set(self.encoder, corpora, context)
            self._scorer = self.scoring.fit(self.training_data.embeddings, self.training_data.speaker)
        else:
            self._scorer = self.scoring.fit(np.zeros((0, self.encoder.dimension)), np.zeros(0, np.int64))

    def held_out(self, training: TrainingSpeech, context: RunContext, size: int) -> HeldOutScores | None:
        """Return the cosines of trials among training speakers; None for another back-end or without such speech."""
        if self.scoring.learns or not training.anonymized:
            return None
        data = training_set(self.encoder, training.anonymized, context)
        return held_out_scores(Candidate(self.scoring), data, size)

    def score(self, trial_set: TrialSet, condition: Condition, context: RunContext) -> Floats:
        """Return the back-end's score of each trial, shape (trials,)."""
        if self._scorer is None:
            raise RuntimeError(f"{self.name}: call fit before score")
        return _score(trial_set, condition, context, self.encoder, self._scorer, trunk=False)

    def compare(self, first: Corpus, second: Corpus, context: RunContext) -> Floats:
        """Return the back-end's score (n, m) of each utterance of ``first`` with each of ``second``."""
        if self._scorer is None:
            raise RuntimeError(f"{self.name}: call fit before compare")
        return _compare(first, second, context, self.encoder, self._scorer, trunk=False)

    def work(
        self,
        sets: Sequence[TrialSet],
        conditions: Sequence[Condition],
        training: Mapping[str, Sequence[str]],
        cache: Cache,
    ) -> Iterator[ModelWork]:
        """Yield the encoder, with the attacked speech, that of the back-end and, for the diagnosis, the original."""
        parts = attacked_parts(sets, [*(c for c in self.conditions() if c in conditions), "oo"])
        if self.scoring.learns:
            parts += [SpeechPart(name, "o" if self._knows_original else "a", ids) for name, ids in training.items()]
        for model in audio_models(self.encoder):
            yield ModelWork(self.name, model, parts)

    def health(self, eer: float | None, reference_eer: float | None) -> Health:
        """Return the signs of health from the encoder's training record and the back-end's training data."""
        record = self.encoder.training()
        warnings = []
        if record.peak_reached is False:
            warnings.append("the learning rate of its training never reached its peak: it was trained too briefly")
        if record.data != "original" and record.accuracy is None and record.validation_eer is None:
            warnings.append("its training record has neither accuracy nor validation EER")
        data = self.training_data
        if data is not None and 2 * data.sessions < data.speakers:
            known = f"{data.sessions} of the {data.speakers} speakers of its PLDA"
            warnings.append(f"{known} are known to have several recording sessions: its likelihood ratios are too sure")
        if record.speakers is not None and record.speakers < _FEWEST_SPEAKERS:
            warnings.append(f"it was trained on {record.speakers} speakers only")
        return Health(
            self.name,
            accuracy=record.accuracy,
            validation_eer=record.validation_eer,
            peak_reached=record.peak_reached,
            warnings=tuple(warnings),
        )


@dataclass(eq=False)
class AdaptedAttacker(EmbeddingAttacker):
    """Adapt to anonymized speech: the back-end that does best on held-out speakers of the training speech.

    Parameters
    ----------
    encoder : SpeakerEncoder
        Computes the embeddings.
    similar : bool
        The training speech is of a similar system, not of the one that is attacked.
    llr_only : bool
        Choose among back-ends that give log-likelihood ratios.
    from_enrollment : bool
        The back-end also learns from the enrollment utterances of the attacked speakers, with their labels.
    """

    similar: bool = False
    llr_only: bool = False
    from_enrollment: bool = False
    adapted: Adapted | None = field(default=None, init=False)
    _training_data: LabeledEmbeddings | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """Name of the encoder with ``-adapted`` after the kind of network: ``ecapa-adapted:exp/asv``."""
        family = self.encoder.family
        return f"{family}-adapted{self.encoder.name.removeprefix(family)}"

    @property
    def backend(self) -> str:
        """Name of the chosen back-end, or "" before ``fit``."""
        return "" if self.adapted is None else self.adapted.candidate.name

    @property
    def llr(self) -> bool:
        """True if the chosen back-end gives log-likelihood ratios."""
        return self.adapted is not None and self.adapted.candidate.backend.llr

    @property
    def needs_training(self) -> bool:
        """True: the back-end is always learned."""
        return True

    def conditions(self, *, anonymized: bool = True) -> Mapping[Condition, Knowledge]:
        """Return the condition ``aa``, the only one in which adaptation helps."""
        if not anonymized:
            return {}
        return {"aa": "similar-system" if self.similar else "semi-informed"}

    def fit(self, training: TrainingSpeech, context: RunContext) -> None:
        """Choose a back-end by cross-validation over training speakers, and fit it to all of them."""
        if self.adapted is None:
            data = training_set(self.encoder, training.anonymized, context)
            allowed = [c for c in candidates(data) if c.backend.llr or not self.llr_only]
            allowed = [replace(c, from_enrollment=self.from_enrollment) for c in allowed]
            self.adapted = adapt(
                data, allowed, cache=context.cache, quiet=not context.progress, label=f"{self.name} learning"
            )
            if self.from_enrollment:
                self._training_data = data

    def held_out(self, training: TrainingSpeech, context: RunContext, size: int) -> HeldOutScores:
        """Return the chosen back-end's scores of trials among held-out training speakers."""
        if self.adapted is None:
            raise RuntimeError(f"{self.name}: call fit before held_out")
        return held_out_scores(self.adapted.candidate, training_set(self.encoder, training.anonymized, context), size)

    def score(self, trial_set: TrialSet, condition: Condition, context: RunContext) -> Floats:
        """Return the chosen back-end's score of each trial, shape (trials,)."""
        if self.adapted is None:
            raise RuntimeError(f"{self.name}: call fit before score")
        scorer, trunk = self.adapted.scorer, self.adapted.candidate.on_trunk
        if self._training_data is not None:
            scorer = self._with_enrollment(self._training_data, trial_set, condition, context)
        return _score(trial_set, condition, context, self.encoder, scorer, trunk=trunk)

    def _with_enrollment(
        self, data: LabeledEmbeddings, trial_set: TrialSet, condition: Condition, context: RunContext
    ) -> Scorer:
        """Return the chosen back-end, fitted to the training speech and to the enrollment of a set."""
        assert self.adapted is not None  # noqa: S101 -- asked by score
        candidate = self.adapted.candidate
        enrollment = embed(trial_set.speech(condition)[0], self.encoder, context, trunk=candidate.on_trunk)
        first = int(data.speaker.max()) + 1
        numbers = {key: first + i for i, ids in enumerate(trial_set.enrollment.values()) for key in ids}
        vectors = np.concatenate([data.vectors(candidate.on_trunk), enrollment.vectors])
        speaker = np.concatenate([data.speaker, [numbers[key] for key in enrollment.ids]])
        return fit_with_enrollment(candidate.backend, vectors, speaker, np.arange(len(speaker)) >= len(data.speaker))

    def compare(self, first: Corpus, second: Corpus, context: RunContext) -> Floats:
        """Return the chosen back-end's score (n, m) of each utterance of ``first`` with each of ``second``."""
        if self.adapted is None:
            raise RuntimeError(f"{self.name}: call fit before compare")
        trunk = self.adapted.candidate.on_trunk
        return _compare(first, second, context, self.encoder, self.adapted.scorer, trunk=trunk)

    def work(
        self,
        sets: Sequence[TrialSet],
        conditions: Sequence[Condition],
        training: Mapping[str, Sequence[str]],
        cache: Cache,
    ) -> Iterator[ModelWork]:
        """Yield the encoder, with the attacked, the training and, for the diagnosis, the original speech."""
        learned = [SpeechPart(name, "a", ids) for name, ids in training.items()]
        parts = [*attacked_parts(sets, [*(c for c in self.conditions() if c in conditions), "oo"]), *learned]
        for model in audio_models(self.encoder):
            yield ModelWork(self.name, model, parts)

    def health(self, eer: float | None, reference_eer: float | None) -> Health:
        """Return the signs of health from the adaptation."""
        adapted = self.adapted
        if adapted is None:
            return Health(self.name)
        warnings = []
        if adapted.speakers < _FEWEST_SPEAKERS:
            warnings.append(f"it was adapted on {adapted.speakers} speakers only")
        if 2 * adapted.sessions < adapted.validated:
            known = f"{adapted.sessions} of {adapted.validated} training speakers"
            warnings.append(f"{known} are known to have several recording sessions: its validation EER is too good")
        if not adapted.candidate.backend.learns:
            warnings.append("nothing that it learned helped on held-out speakers: it is the lazy-informed attacker")
        if eer is not None and reference_eer is not None and eer > reference_eer:
            warnings.append(f"it does worse than without adaptation ({eer:.1%} against {reference_eer:.1%} EER)")
        return Health(
            self.name,
            accuracy=adapted.accuracy,
            validation_eer=adapted.validation_eer,
            unadapted_eer=adapted.unadapted,
            choice=adapted.candidate.name,
            tried=adapted.validation,
            warnings=tuple(warnings),
        )


def training_set(encoder: SpeakerEncoder, corpora: Sequence[Corpus], context: RunContext) -> LabeledEmbeddings:
    """Return the embeddings of training corpora; speakers and utterances of two corpora count once."""
    by_id = {utterance.id: utterance for corpus in corpora for utterance in corpus}
    utterances = list(by_id.values())
    raw = embed_raw(utterances, encoder, context).vectors
    speaker = np.unique([str(u.speaker) for u in utterances], return_inverse=True)[1].reshape(-1).astype(np.int64)
    gender = np.array([u.gender or "" for u in utterances])
    unit = recording_units(utterances)
    sessions = len({u.speaker for u, name in zip(utterances, unit, strict=True) if name != u.id})
    trunk = raw if has_trunk(encoder) else None
    return LabeledEmbeddings(from_raw(encoder, raw), trunk, speaker, gender, unit, sessions)


def attacked_parts(sets: Sequence[TrialSet], conditions: Sequence[Condition]) -> list[SpeechPart]:
    """Return the enrollment and trial utterances that some conditions compare."""
    parts = []
    for trial_set in sets:
        enrolled = [key for ids in trial_set.enrollment.values() for key in ids]
        for condition in conditions:
            enroll_side, trial_side = trial_set.sides(condition)
            parts.append(SpeechPart(trial_set.original[0].name, enroll_side, enrolled))
            parts.append(SpeechPart(trial_set.name, trial_side, trial_set.trial_utterances))
    return parts


def _score(
    trial_set: TrialSet,
    condition: Condition,
    context: RunContext,
    encoder: SpeakerEncoder,
    scorer: Scorer,
    *,
    trunk: bool,
) -> Floats:
    enrollment, trial = trial_set.speech(condition)
    enrolled = enroll(embed(enrollment, encoder, context, trunk=trunk), trial_set.enrollment)
    test = embed(trial, encoder, context, trunk=trunk).means(trial_set.groups)
    return score_trials(trial_set.trials, enrolled, test, scorer)


def _compare(
    first: Corpus, second: Corpus, context: RunContext, encoder: SpeakerEncoder, scorer: Scorer, *, trunk: bool
) -> Floats:
    rows, columns = (embed(corpus, encoder, context, trunk=trunk).vectors for corpus in (first, second))
    return scorer(rows, np.ones(len(rows), dtype=np.int64), columns)
