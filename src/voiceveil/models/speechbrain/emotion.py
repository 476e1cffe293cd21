"""``speechbrain:FOLDER`` as an emotion recognizer: SER_eval of the 2024 challenge, ``exp/ser`` with five folds.

wav2vec 2.0, mean over time, one linear layer, softmax. The order of the emotions is that of each fold's label file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import check_audio
from voiceveil.models.emotion.neural import PretrainedRecognizer, emotion_models
from voiceveil.models.pretrained import digest_files
from voiceveil.models.speechbrain import Mode
from voiceveil.models.speechbrain.files import checkpoint, read_labels, read_tensors
from voiceveil.models.speechbrain.hyperparams import read_hyperparams, require
from voiceveil.models.speechbrain.wav2vec2 import check_wav2vec2, load_wav2vec2, wav2vec2_configuration

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SpeechBrainEmotionModel", "emotion_model_folds"]

_VERSION = 1
_FEWEST = 400  # samples that make one row
_LABELS = ("label_encoder.ckpt", "label_encoder.txt")  # the official loader's order
_FOLD = re.compile(r"fold_(.+)")
_FIX = "give exp/ser of the challenge, with fold_1 to fold_5"
_SEED = 0  # of the pooling's noise


@dataclass(frozen=True)
class SpeechBrainEmotionModel:
    """Emotions by the model of one fold.

    Parameters
    ----------
    path : Path
        Folder of the fold, e.g. ``exp/ser/fold_1``.
    mode : {"official", "correct"}
        With the noise that SpeechBrain adds to the mean over time (here always the same), or without.
    device : str
        Where the network runs.
    """

    path: Path
    mode: Mode = "official"
    device: str = "cpu"

    rate: ClassVar[int] = 16000
    minimum: ClassVar[float] = _FEWEST / 16000

    @property
    def folder(self) -> Path:
        """Folder of the weights, e.g. ``exp/ser/fold_1/CKPT+1``."""
        return checkpoint(Path(self.path), self.mode)

    @property
    def labels(self) -> tuple[str, ...]:
        """Emotions in the order of the model's outputs."""
        return tuple(read_labels(_files(self.folder)[-1]))

    def fingerprint(self) -> str:
        """Return version and hash of the files."""
        return f"speechbrain emotion model {_VERSION} {digest_files(_files(self.folder))} {self.mode}"

    def check(self) -> None:
        """Raise an ``InputError`` now, before the work begins, if the model cannot be used."""
        self._model()

    def __call__(self, wave: Waveform) -> dict[str, float]:
        """Return emotion -> probability of one utterance."""
        check_audio(wave, self.rate, _FEWEST)
        return self._model().probabilities(wave, _SEED if self.mode == "official" else None)

    def _model(self) -> _Model:
        files = _files(self.folder)
        return _loaded(files[0].parent, self.device, tuple(path.stat().st_mtime_ns for path in files))


@dataclass(frozen=True, eq=False)
class _Model:
    """Network, output layer (labels, D) and labels."""

    wav2vec2: Any
    output: Tensor
    labels: tuple[str, ...]
    device: str

    def pooled(self, wave: Waveform) -> Tensor:
        """Return the mean of the hidden states over time, (D,)."""
        samples = np.ascontiguousarray(wave.samples, dtype=np.float32)
        import torch

        with torch.inference_mode():
            hidden: Tensor = self.wav2vec2(torch.from_numpy(samples)[None].to(self.device))[0]
            return hidden.mean(dim=0)

    def probabilities(self, wave: Waveform, seed: int | None) -> dict[str, float]:
        """Return label -> probability; ``seed``: of SpeechBrain's noise, None for none."""
        import torch

        with torch.inference_mode():
            vector = self.pooled(wave)
            if seed is not None:
                layers = int(self.wav2vec2.network.config.num_hidden_layers)
                vector = vector + _noise(len(vector), seed, layers).to(vector.device)
            values = torch.softmax(self.output @ vector, 0).tolist()
        return dict(zip(self.labels, values, strict=True))


def _noise(size: int, seed: int, layers: int) -> Tensor:
    """Return what SpeechBrain adds to a mean when torch is seeded before each utterance: 1e-5 to 9e-5, shape (size,).

    Normal noise, mapped linearly. Each of the network's layers has drawn a number before, to decide on dropping it.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    for _ in range(layers):
        torch.rand([], generator=generator)
    noise = torch.randn(size, generator=generator)
    noise = noise - noise.min()
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
        settings, *_, labels = _files(model.folder)
        check_wav2vec2(read_hyperparams(settings), settings)
        read_labels(labels)
    return models


def _files(folder: Path) -> list[Path]:
    files = [folder / name for name in ("hyperparams.yaml", "wav2vec2.ckpt", "model.ckpt")]
    labels = [folder / name for name in _LABELS if (folder / name).is_file()]
    for path in files:
        if not path.is_file():
            raise InputError(f"the emotion model has no {path.name}", where=folder, fix=_FIX)
    if not labels:
        raise InputError(f"the emotion model has no {' or '.join(_LABELS)}", where=folder, fix=_FIX)
    return [*files, labels[0]]


@lru_cache(maxsize=1)
def _loaded(folder: Path, device: str, stamps: tuple[int, ...]) -> _Model:
    path, weights, head, label_file = _files(folder)
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
    name = "speechbrain" if mode == "official" else f"speechbrain-{mode}"
    if not argument:
        raise InputError(f"the emotion model {name} needs a folder", fix=f"write {name}:FOLDER, e.g. {name}:exp/ser")
    folds = emotion_model_folds(Path(argument), mode)
    return PretrainedRecognizer(folds, "official" if mode == "official" else "published")


emotion_models.register("speechbrain")(partial(_make, mode="official"))
emotion_models.register("speechbrain-correct")(partial(_make, mode="correct"))
