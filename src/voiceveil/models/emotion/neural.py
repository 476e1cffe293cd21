"""Neural emotion recognizers: wav2vec 2.0 and similar models with a classifier, in the format of ``transformers``.

The 2024 challenge trained a wav2vec2 model for each fold (SpeechBrain's recipe for IEMOCAP): ``speechbrain:exp/ser``,
see :mod:`voiceveil.models.speechbrain`. This module reads models ``...ForSequenceClassification`` of ``transformers``,
one for all folds or one for each fold:

>>> recognizer = PretrainedRecognizer({"1": EmotionModel("models/fold1"), ...})     # doctest: +SKIP
>>> recognizer = PretrainedRecognizer(EmotionModel("superb/wav2vec2-base-superb-er"))  # doctest: +SKIP

A single model for all folds must not have been trained on the corpus under test; most public ones were trained on
IEMOCAP.

Conventions: samples are at the model's rate; labels of the model and emotions of the corpus are compared by their first
three letters in lower case, so that ``Happiness`` is ``hap``; an utterance gets the most probable of the emotions under
test, whatever other labels the model has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.core.registry import Registry
from voiceveil.corpus import Utterance
from voiceveil.metrics.emotion import Method
from voiceveil.models.emotion.evaluation import EmotionFolds
from voiceveil.models.pretrained import digest, find_model, load_weights, normalize_samples, preprocessing, read_config
from voiceveil.run.batches import MAX_BATCH_SECONDS, group_equal
from voiceveil.run.context import RunContext
from voiceveil.run.device import current_device
from voiceveil.run.extract import Evaluator

__all__ = ["EmotionClassifier", "EmotionModel", "PretrainedRecognizer", "emotion_models", "pretrained_recognizer"]

_KIND = "ForSequenceClassification"


class EmotionClassifier(Evaluator[dict[str, float]], Protocol):
    """An evaluator that returns label -> probability."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Classes, three letters each."""
        ...


@dataclass(frozen=True)
class EmotionModel:
    """A classifier of waveforms, given by its folder, or by its hub id if it is on this machine."""

    model: str | Path
    minimum: float = 0.4  # seconds; the network needs only 25 ms, but an emotion cannot be recognized from them

    def __post_init__(self) -> None:
        folder = find_model(self.model)
        object.__setattr__(self, "model", folder)
        config = read_config(folder)
        kinds = [str(kind) for kind in config.get("architectures") or []]
        if not any(kind.endswith(_KIND) for kind in kinds) or not isinstance(config.get("conv_kernel"), list):
            problem = f"a model of kind {', '.join(kinds) or config.get('model_type')}, not a classifier of waveforms"
            raise InputError(problem, where=folder, fix=f"give e.g. a Wav2Vec2{_KIND}")
        if len(set(self.labels)) != len(self.labels):
            problem = f"labels have the same first three letters: {', '.join(self.labels)}"
            raise InputError(problem, where=folder / "config.json", fix="rename them in id2label")

    @property
    def labels(self) -> tuple[str, ...]:
        """Classes of the model, three letters each, in its order."""
        names = read_config(Path(self.model)).get("id2label") or {}
        return tuple(str(names[key]).strip().lower()[:3] for key in sorted(names, key=int))

    @property
    def rate(self) -> int:
        """Sampling rate of the model in Hz, usually 16,000."""
        return int(preprocessing(Path(self.model)).get("sampling_rate", 16000))

    def fingerprint(self) -> str:
        """Return the hash of the model."""
        return f"emotion model {digest(Path(self.model))} 1"

    def __call__(self, wave: Waveform) -> dict[str, float]:
        """Return label -> probability."""
        return self.batch([wave])[0]

    def batch(self, waves: Sequence[Waveform]) -> list[dict[str, float]]:
        """Return label -> probability of several utterances; those of equal length are processed together."""
        import torch

        signals = [self._checked(wave) for wave in waves]
        device = current_device()
        network = _network(Path(self.model), device)
        results: list[dict[str, float]] = [{} for _ in waves]
        for group in group_equal(map(len, signals), MAX_BATCH_SECONDS * self.rate):
            with torch.inference_mode():
                rows = torch.from_numpy(np.stack([signals[i] for i in group])).to(device)
                logits = network(rows).logits.cpu()
            for i, row in zip(group, logits, strict=True):
                results[i] = dict(zip(self.labels, torch.softmax(row, 0).tolist(), strict=True))
        return results

    def _checked(self, wave: Waveform) -> Samples:
        """Return the samples as the model was trained with them."""
        if wave.rate != self.rate or wave.duration < self.minimum:
            problem = f"the emotion of {wave.duration:.3f} s of audio at {wave.rate} Hz cannot be recognized"
            raise InputError(problem, fix=f"give at least {self.minimum} s at {self.rate} Hz")
        if not np.isfinite(wave.samples).all():
            raise InputError("the audio has a sample that is not finite", fix="repair the recording")
        return normalize_samples(Path(self.model), wave.samples)


def _most_probable(emotions: Sequence[str], probabilities: Mapping[str, float]) -> str:
    return max(emotions, key=lambda emotion: probabilities[emotion[:3].lower()])


@lru_cache(maxsize=2)
def _network(folder: Path, device: str) -> Any:
    return load_weights(folder, "AutoModelForAudioClassification", device)


@dataclass(frozen=True)
class PretrainedRecognizer:
    """A recognizer from one model for all folds, or from fold -> model that was trained without that fold."""

    models: EmotionClassifier | Mapping[str, EmotionClassifier]
    uar_method: Method = "published"

    @property
    def by_fold(self) -> bool:
        """True if each fold has its own model."""
        return isinstance(self.models, Mapping)

    def recognize(
        self,
        utterances: Sequence[Utterance],
        folds: EmotionFolds,
        context: RunContext | None = None,
    ) -> dict[str, str]:
        """Return utterance id -> emotion, for utterances of ``folds``."""
        hyps: dict[str, str] = {}
        groups: dict[str, list[Utterance]] = {}
        for utterance in utterances:
            groups.setdefault(folds.fold[utterance.id], []).append(utterance)
        models = {fold: self.model(fold, folds) for fold in groups}  # all are checked before the first is used
        for fold, members in groups.items():
            probabilities = (context or RunContext()).extract(members, models[fold])
            hyps.update({name: _most_probable(folds.emotions, values) for name, values in probabilities.items()})
        return {u.id: hyps[u.id] for u in utterances}

    def model(self, fold: str, folds: EmotionFolds) -> EmotionClassifier:
        """Return the model for the utterances of a fold; an ``InputError`` if there is none, or it lacks an emotion."""
        if not isinstance(self.models, Mapping):
            model = self.models
        elif fold in self.models:
            model = self.models[fold]
        else:
            given = ", ".join(sorted(self.models))
            raise InputError(f"there is no model for fold {fold}", fix=f"give one; there are models for {given}")
        needed = {emotion[:3].lower() for emotion in folds.emotions}
        if missing := sorted(needed - set(model.labels)):
            problem = f"the model has no label for {', '.join(missing)}; it has {', '.join(model.labels)}"
            raise InputError(problem, fix="give another model, or name the emotions to recognize")
        return model


#: Name -> function that makes the recognizer from the part after the colon of ``NAME:FOLDER``, or "".
emotion_models: Registry[Callable[[str], PretrainedRecognizer]] = Registry(
    "emotion model", group="voiceveil.emotion_models", modules=("voiceveil.models.speechbrain.emotion",)
)


def pretrained_recognizer(spec: str) -> PretrainedRecognizer:
    """Return the recognizer that a user names: ``NAME:FOLDER``, or the folder or hub id of a classifier.

    Examples: ``speechbrain:exp/ser``, ``models/my_classifier``, ``superb/wav2vec2-base-superb-er``.
    """
    name, _, argument = spec.partition(":")
    if name in emotion_models or (argument and not Path(spec).exists()):
        return emotion_models[name](argument)  # an unknown name: says which one was meant
    return PretrainedRecognizer(EmotionModel(spec))
