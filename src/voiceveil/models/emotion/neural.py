"""Neural emotion recognizers: wav2vec 2.0 and relatives with a classifier on top, in the format of ``transformers``.

The 2024 challenge trained one wav2vec2 model a fold (SpeechBrain's recipe for IEMOCAP). Its files are SpeechBrain's and
are not read here; any model ``...ForSequenceClassification`` is, one for all folds or one a fold:

>>> recognizer = PretrainedRecognizer({"1": EmotionModel("models/fold1"), ...})     # doctest: +SKIP
>>> recognizer = PretrainedRecognizer(EmotionModel("superb/wav2vec2-base-superb-er"))  # doctest: +SKIP

With one model for all folds make sure that it has not seen the corpus under test: most public ones were trained on
IEMOCAP.

Conventions: samples are at the model's rate; a label of the model is known by its first three letters in lower case, so
that ``Happiness`` is ``hap`` (and so are the emotions of a corpus); an utterance gets the likeliest of the emotions
that are told apart, whatever else the model knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.emotion.evaluation import EmotionFolds
from voiceveil.models.pretrained import digest, find_model, load_weights, preprocessing, read_config
from voiceveil.run.context import RunContext

__all__ = ["EmotionModel", "PretrainedRecognizer"]

_KIND = "ForSequenceClassification"


@dataclass(frozen=True)
class EmotionModel:
    """A classifier of waveforms, by its folder or by its hub id if it is on this machine: waveform -> probabilities."""

    model: str | Path
    minimum: float = 0.4  # seconds; an emotion takes longer than a row of the network, 25 ms
    device: str = "cpu"

    def __post_init__(self) -> None:
        folder = find_model(self.model)
        object.__setattr__(self, "model", folder)
        config = read_config(folder)
        kinds = [str(kind) for kind in config.get("architectures") or []]
        if not any(kind.endswith(_KIND) for kind in kinds) or not isinstance(config.get("conv_kernel"), list):
            what = f"a model of kind {', '.join(kinds) or config.get('model_type')}, not a classifier of waveforms"
            raise InputError(what, where=folder, fix=f"give e.g. a Wav2Vec2{_KIND}")
        if len(set(self.labels)) != len(self.labels):
            raise InputError(f"labels that begin alike: {', '.join(self.labels)}", where=folder / "config.json")

    @property
    def labels(self) -> tuple[str, ...]:
        """The model's classes, three letters each, in its order."""
        names = read_config(Path(self.model)).get("id2label") or {}
        return tuple(str(names[key]).strip().lower()[:3] for key in sorted(names, key=int))

    @property
    def rate(self) -> int:
        """What the model was trained with, 16 kHz as a rule."""
        return int(preprocessing(Path(self.model)).get("sampling_rate", 16000))

    def fingerprint(self) -> str:
        """Return the model's files."""
        return f"emotion model {digest(Path(self.model))} 1"

    def __call__(self, wave: Waveform) -> dict[str, float]:
        """Label -> probability."""
        import torch

        if wave.rate != self.rate or wave.duration < self.minimum:
            what = f"{wave.duration:.3f} s at {wave.rate} Hz, but {self.minimum} s at {self.rate} Hz are needed"
            raise InputError(what)
        samples = wave.samples
        if not np.isfinite(samples).all():
            raise InputError("samples that are not finite have no emotion", fix="repair the recording")
        if preprocessing(Path(self.model)).get("do_normalize", True):
            samples = ((samples - samples.mean()) / np.sqrt(samples.var() + 1e-7)).astype(np.float32)
        with torch.inference_mode():
            network = _network(Path(self.model), self.device)
            logits = network(torch.from_numpy(samples)[None].to(self.device)).logits[0].cpu()
        return dict(zip(self.labels, torch.softmax(logits, 0).tolist(), strict=True))


def _likeliest(emotions: Sequence[str], shares: Mapping[str, float]) -> str:
    return max(emotions, key=lambda emotion: shares[emotion[:3].lower()])


@lru_cache(maxsize=2)
def _network(folder: Path, device: str) -> Any:
    return load_weights(folder, "AutoModelForAudioClassification", device)


@dataclass(frozen=True)
class PretrainedRecognizer:
    """One model for all folds, or fold -> the model that was trained without that fold."""

    models: EmotionModel | Mapping[str, EmotionModel]

    def recognize(
        self,
        utterances: Sequence[Utterance],
        folds: EmotionFolds,
        context: RunContext | None = None,
    ) -> dict[str, str]:
        """Utterance id -> emotion."""
        hyps: dict[str, str] = {}
        groups: dict[str, list[Utterance]] = {}
        for utterance in utterances:
            groups.setdefault(folds.fold[utterance.id], []).append(utterance)
        chosen = {fold: self._model(fold, folds) for fold in groups}  # all are checked before the first one works
        for fold, members in groups.items():
            found = (context or RunContext()).extract(members, chosen[fold])
            hyps.update({name: _likeliest(folds.emotions, shares) for name, shares in found.items()})
        return {u.id: hyps[u.id] for u in utterances}

    def _model(self, fold: str, folds: EmotionFolds) -> EmotionModel:
        if isinstance(self.models, EmotionModel):
            model = self.models
        elif fold in self.models:
            model = self.models[fold]
        else:
            raise InputError(f"no model for fold {fold}", fix=f"there are models for {', '.join(sorted(self.models))}")
        wanted = [emotion[:3].lower() for emotion in folds.emotions]
        if lacking := sorted(set(wanted) - set(model.labels)):
            what = f"the model does not know {', '.join(lacking)}; it knows {', '.join(model.labels)}"
            raise InputError(what, where=model.model, fix="give another model, or name the emotions to tell apart")
        return model
