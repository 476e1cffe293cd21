"""``speechbrain:FOLDER`` as an emotion recognizer: SER_eval of the 2024 challenge, ``exp/ser`` with five folds.

wav2vec 2.0, mean over time, one linear layer, softmax. The order of the emotions is that of each fold's label file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import check_audio
from voiceveil.models.emotion.neural import PretrainedRecognizer, emotion_models
from voiceveil.models.speechbrain import Mode
from voiceveil.models.speechbrain.files import read_labels, read_tensors
from voiceveil.models.speechbrain.hyperparams import read_hyperparams, require
from voiceveil.models.speechbrain.model_folder import SpeechBrainModel, folder_argument
from voiceveil.models.speechbrain.wav2vec2 import check_wav2vec2, load_wav2vec2, wav2vec2_configuration
from voiceveil.run.batches import MAX_BATCH_SECONDS, group_equal
from voiceveil.run.device import current_device

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SpeechBrainEmotionModel", "emotion_model_folds", "pooling_noise"]

_FEWEST = 400  # samples that make one row
_FOLD = re.compile(r"fold_(.+)")
_FIX = "give exp/ser of the challenge, with fold_1 to fold_5"
_SEED = 0  # of the pooling's noise


@dataclass(frozen=True)
class SpeechBrainEmotionModel(SpeechBrainModel):
    """Emotions by the model of one fold.

    ``path`` is the folder of the fold, e.g. ``exp/ser/fold_1``. The mode ``official`` has the noise that SpeechBrain
    adds to the mean over time (here always the same), ``correct`` has none.
    """

    minimum: ClassVar[float] = _FEWEST / 16000
    kind: ClassVar[str] = "emotion model"
    example: ClassVar[str] = "exp/ser"
    file_names: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("hyperparams.yaml",),
        ("wav2vec2.ckpt",),
        ("model.ckpt",),
        ("label_encoder.ckpt", "label_encoder.txt"),  # the official loader's order
    )

    @property
    def labels(self) -> tuple[str, ...]:
        """Emotions in the order of the model's outputs."""
        return tuple(read_labels(self.files[-1]))

    def __call__(self, wave: Waveform) -> dict[str, float]:
        """Return emotion -> probability of one utterance."""
        return self.batch([wave])[0]

    def batch(self, waves: Sequence[Waveform]) -> list[dict[str, float]]:
        """Return emotion -> probability of several utterances; those of equal length are processed together."""
        for wave in waves:
            check_audio(wave, self.rate, _FEWEST)
        model, seed = self._model(), _SEED if self.mode == "official" else None
        results: list[dict[str, float]] = [{} for _ in waves]
        for group in group_equal(map(len, waves), MAX_BATCH_SECONDS * self.rate):
            for i, vector in zip(group, model.pooled([waves[i] for i in group]), strict=True):
                results[i] = model.probabilities(vector, seed)
        return results

    def _variant(self) -> list[str]:
        return [self.mode]

    def _model(self) -> _Model:
        return _loaded(tuple(self.files), current_device(), self._stamps())


@dataclass(frozen=True, eq=False)
class _Model:
    """Network, output layer (labels, D) and labels."""

    wav2vec2: Any
    output: Tensor
    labels: tuple[str, ...]
    device: str

    def pooled(self, waves: Sequence[Waveform]) -> Tensor:
        """Return the mean of the hidden states over time of utterances of equal length, (B, D)."""
        import torch

        samples = np.stack([wave.samples for wave in waves]).astype(np.float32, copy=False)
        with torch.inference_mode():
            hidden: Tensor = self.wav2vec2(torch.from_numpy(samples).to(self.device))
            return hidden.mean(dim=1)

    def probabilities(self, vector: Tensor, seed: int | None) -> dict[str, float]:
        """Return label -> probability for a mean (D,); ``seed``: of SpeechBrain's noise, None for none."""
        import torch

        with torch.inference_mode():
            if seed is not None:
                layers = int(self.wav2vec2.network.config.num_hidden_layers)
                vector = vector + _noise(len(vector), seed, layers).to(vector.device)
            values = torch.softmax(self.output @ vector, 0).tolist()
        return dict(zip(self.labels, values, strict=True))


def _noise(size: int, seed: int, layers: int) -> Tensor:
    """Return what SpeechBrain adds to a mean when torch is seeded before each utterance: 1e-5 to 9e-5, shape (size,).

    Each of the network's layers has drawn a number before, to decide on dropping it.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    for _ in range(layers):
        torch.rand([], generator=generator)
    return pooling_noise(torch.randn(size, generator=generator))


def pooling_noise(normal: Tensor) -> Tensor:
    """Return what SpeechBrain adds to a mean: normal noise, mapped linearly to 1e-5 to 9e-5."""
    noise = normal - normal.min()
    return 1e-5 * (9 - 8 * noise / noise.max())


def emotion_model_folds(path: Path, mode: Mode) -> dict[str, SpeechBrainEmotionModel]:
    """Return fold -> model of the folders ``fold_<fold>`` in a folder such as ``exp/ser``.

    Raises
    ------
    InputError
        If there are none, or a model cannot be used.
    """
    if not path.is_dir():
        raise InputError("no such folder", where=path, fix=_FIX)
    matches = sorted((match[1], entry) for entry in path.iterdir() if (match := _FOLD.fullmatch(entry.name)))
    if not matches:
        raise InputError("no folder fold_1 to fold_5 with emotion models", where=path, fix=_FIX)
    models = {fold: SpeechBrainEmotionModel(entry, mode) for fold, entry in matches if entry.is_dir()}
    for model in models.values():  # what is missing is found before the work begins
        settings, *_, labels = model.files
        check_wav2vec2(read_hyperparams(settings), settings)
        read_labels(labels)
    return models


@lru_cache(maxsize=1)
def _loaded(files: tuple[Path, ...], device: str, stamps: tuple[int, ...]) -> _Model:
    path, weights, head, label_file = files
    settings = read_hyperparams(path)
    pooling = settings.get("avg_pool")
    if isinstance(pooling, dict):
        require(pooling, {"return_std": False, "return_mean": True}, path, "avg_pool")
    labels = tuple(read_labels(label_file))
    wav2vec2 = load_wav2vec2(weights, wav2vec2_configuration(settings, path), device)
    state = read_tensors(head)
    size = (len(labels), int(wav2vec2.network.config.hidden_size))
    if set(state) != {"0.w.weight"} or tuple(state["0.w.weight"].shape) != size:
        shapes = {name[:50]: tuple(tensor.shape) for name, tensor in list(state.items())[:5]}
        raise InputError(f"weights {shapes}, not 0.w.weight of the shape {size}", where=head, fix=_FIX)
    return _Model(wav2vec2, state["0.w.weight"].to(device), labels, device)


def _make(argument: str, mode: Mode) -> PretrainedRecognizer:
    folds = emotion_model_folds(folder_argument(argument, mode, SpeechBrainEmotionModel), mode)
    return PretrainedRecognizer(folds, "official" if mode == "official" else "published")


emotion_models.register("speechbrain")(partial(_make, mode="official"))
emotion_models.register("speechbrain-correct")(partial(_make, mode="correct"))
