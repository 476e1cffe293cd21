"""The attacker that undoes McAdams' coefficient: it estimates the coefficient from the audio and moves the poles back.

The anonymization moves a pole of the linear predictor from the angle phi to phi ** alpha, which phi ** (1 / alpha)
undoes. The coefficient alpha scales the logarithms of all angles, and so can be estimated from the result. The attacker
applies a range of coefficients to original enrollment speech and counts the log angles of the poles after each. For an
anonymized recording it takes the coefficient that makes its log angles most likely. No network is trained, and the key
of the system is not needed.

Conventions: samples are float32 of shape (n,) at 16 kHz; angles are in radians; alpha = 1 is unchanged speech.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.attacker import Attacker, Knowledge, ModelWork, SpeechPart
from voiceveil.attack.backends import Cosine
from voiceveil.attack.embedding import Embedded, audio_models, embed, enroll, score_trials
from voiceveil.attack.encoder_attackers import EmbeddingAttacker, attacked_parts
from voiceveil.attack.registry import AttackerOptions, attackers
from voiceveil.attack.sets import Condition, TrialSet
from voiceveil.audio import Samples, Waveform
from voiceveil.corpus import Utterance
from voiceveil.dsp.lpc import ORDER, pole_angles
from voiceveil.dsp.mcadams import McAdams, analysis_window
from voiceveil.models.speaker.encoders import Embedding, SpeakerEncoder, encoder
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

__all__ = ["ALPHAS", "AngleCounts", "AngleModel", "InversionAttacker", "InvertingEncoder", "invert"]

Floats = NDArray[np.float64]

#: Coefficients whose angle distributions are learned; estimates between them are interpolated.
ALPHAS: tuple[float, ...] = tuple(np.round(np.arange(0.4, 1.16, 0.05), 2).tolist())

_NAME = "mcadams-inversion"
_RATE = 16000
_EDGES = np.linspace(-4.0, 1.2, 105)  # of log angles; log(pi) is 1.14
_ACTIVE = 10**-3.0  # of the loudest frames (95th percentile)
_LONGEST = 6 * _RATE  # samples of an utterance that is learned from
_LEARNED = 16  # enrollment utterances from which pole angles are learned


def count_angles(samples: Samples) -> Floats:
    """Return the histogram of the log pole angles in all frames of 20 ms that are not silent, shape (104,)."""
    window = analysis_window(_RATE)
    frames = 1 + (len(samples) - len(window)) // (len(window) // 2)
    if frames < 1:
        return np.zeros(len(_EDGES) - 1)
    angles, power = np.empty((frames, ORDER)), np.empty(frames)
    pole_angles(np.ascontiguousarray(samples, dtype=np.float32), window, angles, power)
    active = angles[power > _ACTIVE * np.percentile(power, 95)]
    logs = np.log(active[active > 0.0])
    return np.histogram(np.clip(logs, _EDGES[0], _EDGES[-1]), _EDGES)[0].astype(np.float64)


@dataclass(frozen=True)
class AngleCounts:
    """Evaluator of original speech: counts of pole angles after each coefficient, shape (coefficients, 104)."""

    rate, minimum = _RATE, 0.05

    def fingerprint(self) -> str:
        """Return version and coefficients."""
        return f"pole angles 1 {ALPHAS}"

    def __call__(self, wave: Waveform) -> Floats:
        """Return the counts of the first six seconds."""
        samples = wave.samples[:_LONGEST]
        return np.array([count_angles(McAdams(alpha)(samples).astype(np.float32)) for alpha in ALPHAS])


@dataclass(frozen=True, eq=False)
class AngleModel:
    """Distribution of log angles after each coefficient: ``log_likelihood`` of shape (coefficients, 104)."""

    log_likelihood: Floats

    @classmethod
    def learn(cls, counts: Iterable[Floats]) -> AngleModel:
        """Return the model for the counts of original utterances, each of shape (coefficients, 104)."""
        total = np.sum(list(counts), axis=0) + 1.0
        return cls(np.log(total / total.sum(axis=1, keepdims=True)))

    def estimate(self, samples: Samples) -> float:
        """Return the most likely coefficient, between the smallest and the largest of `ALPHAS`."""
        likelihood = self.log_likelihood @ count_angles(samples)
        best = int(likelihood.argmax())
        if not 0 < best < len(ALPHAS) - 1:
            return ALPHAS[best]
        left, middle, right = likelihood[best - 1 : best + 2]
        bend = left - 2 * middle + right
        shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
        return float(ALPHAS[best] + shift * (ALPHAS[best + 1] - ALPHAS[best]))

    def fingerprint(self) -> str:
        """Return a digest of the numbers."""
        return hashlib.sha256(np.ascontiguousarray(self.log_likelihood).tobytes()).hexdigest()


def invert(samples: Samples, alpha: float) -> Samples:
    """Return an estimate of the speech before McAdams' coefficient ``alpha``, with its peak at half of full scale."""
    raw = McAdams(1.0 / alpha, clip_angle=True)(samples)
    peak = float(np.abs(raw).max(initial=0.0))
    return (0.5 * raw / peak if peak > 0 else raw).astype(np.float32)


@dataclass(frozen=True, eq=False)
class InvertingEncoder:
    """An encoder of speech whose McAdams' coefficient was estimated and undone."""

    encoder: SpeakerEncoder
    model: AngleModel

    rate: ClassVar[int] = _RATE

    @property
    def minimum(self) -> float:
        """Shortest utterance in seconds."""
        return max(self.encoder.minimum, AngleCounts.minimum)

    @property
    def preload(self) -> tuple[str, ...]:
        """Modules that workers import once."""
        return (type(self.encoder).__module__, *getattr(self.encoder, "preload", ()))

    def fingerprint(self) -> str:
        """Return version, encoder and model."""
        return f"mcadams inversion 1 {self.model.fingerprint()} {self.encoder.fingerprint()}"

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the embedding of the restored speech."""
        samples = invert(wave.samples, self.model.estimate(wave.samples))
        return self.encoder(Waveform(samples, wave.rate))


@dataclass(eq=False)
class InversionAttacker(EmbeddingAttacker):
    """Estimate McAdams' coefficient of each trial, undo it, and compare with the original enrollment by cosines.

    Parameters
    ----------
    encoder : SpeakerEncoder
        Computes the embeddings.
    """

    scores_groups = False
    fusible = False

    @property
    def name(self) -> str:
        """``mcadams-inversion``, with the name of the encoder unless it is CAM++."""
        return _NAME if self.encoder.name == "campplus" else f"{_NAME}:{self.encoder.name}"

    @property
    def minimum(self) -> float:
        """Shortest utterance in seconds."""
        return max(self.encoder.minimum, AngleCounts.minimum)

    @property
    def backend(self) -> str:
        """Cosine."""
        return Cosine().name

    def conditions(self, *, anonymized: bool = True) -> Mapping[Condition, Knowledge]:
        """Return the only condition: original enrollment, anonymized trials."""
        return {"oa": "inverting"} if anonymized else {}

    def score(self, trial_set: TrialSet, condition: Condition, context: RunContext) -> Floats:
        """Return the cosine of each trial, shape (trials,); angles are learned from the original enrollment."""
        enrollment, trial = trial_set.speech(condition)
        enrolled = enroll(embed(enrollment, self.encoder, context), trial_set.enrollment)
        model = AngleModel.learn(context.extract(_learned_from(trial_set), AngleCounts()).values())
        vectors = context.extract(trial, InvertingEncoder(self.encoder, model))
        inverted = Embedded(tuple(vectors), np.array(list(vectors.values()), dtype=np.float64))
        scorer = Cosine().fit(inverted.vectors[:0], np.zeros(0, np.int64))
        return score_trials(trial_set.trials, enrolled, inverted, scorer)

    def work(
        self,
        sets: Sequence[TrialSet],
        conditions: Sequence[Condition],
        training: Mapping[str, Sequence[str]],
        cache: Cache,
    ) -> Iterator[ModelWork]:
        """Yield the encoder and the counts of angles, with original speech, and the encoder of inverted trials."""
        for model in audio_models(self.encoder):
            yield ModelWork(self.encoder.name, model, attacked_parts(sets, ["oo"]))
        for trial_set in sets:
            learned_from = _learned_from(trial_set)
            enrollment = SpeechPart(trial_set.original[0].name, "o", [u.id for u in learned_from])
            yield ModelWork("pole angles", AngleCounts(), [enrollment])
            inverting = InvertingEncoder(self.encoder, _cached_angles(learned_from, cache))
            trials = SpeechPart(trial_set.name, "a", trial_set.trial_utterances)
            yield ModelWork(f"{self.name}, {trial_set.name}", inverting, [trials])


@attackers.register(_NAME)
def make_inversion(options: AttackerOptions) -> list[Attacker]:
    """Return the attacker of ``mcadams-inversion`` or ``mcadams-inversion:ENCODER``."""
    return [InversionAttacker(encoder(options.argument or "campplus"))]


def _learned_from(trial_set: TrialSet) -> list[Utterance]:
    """Return original enrollment utterances from which pole angles are learned, always the same ones."""
    enrollment = trial_set.speech("oo")[0]
    return sorted(enrollment, key=lambda u: hashlib.sha256(u.id.encode()).digest())[:_LEARNED]


def _cached_angles(utterances: Sequence[Utterance], cache: Cache) -> AngleModel:
    """Return the model for which the cache has all counts, or else an empty one, of which nothing is cached."""
    cached = {} if cache.empty() else cache.get_all(cache.keys(AngleCounts().fingerprint(), utterances))
    counts = [value for value in cached.values() if value is not None]
    return AngleModel.learn(counts) if utterances and len(counts) == len(utterances) else AngleModel(np.zeros(0))
