"""``speechbrain:FOLDER`` as a speaker encoder: ASV_eval and ASV_eval^anon of the 2024 challenge.

The folder is ``exp/asv_orig`` or ``exp/asv_anon<suffix>``, or one of their ``CKPT+<number>``. Audio is scaled to a
peak of 1 and zeros at its ends are cut off, as in the challenge. (Its normalization to -30 LUFS comes before that
scaling and so has no effect; for silence, of which it makes NaN, there is an error here.)
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.core.files import read_text
from voiceveil.models.speaker.encoders import Embedding, TrainingRecord, encoders
from voiceveil.models.speechbrain import Mode
from voiceveil.models.speechbrain.files import checkpoints, error_rate, read_labels, read_tensors
from voiceveil.models.speechbrain.hyperparams import read_hyperparams, require
from voiceveil.models.speechbrain.model_folder import SpeechBrainModel, folder_argument, registered_name
from voiceveil.run.batches import MAX_BATCH_SECONDS, group_equal
from voiceveil.run.device import current_device

__all__ = ["SpeechBrainEncoder"]

_SETTINGS = "hyperparams.yaml"
#: Settings of each section that this program has code for; others are the challenge's by default.
_FBANK = {"sample_rate": 16000, "deltas": False, "context": False, "n_fft": 400, "win_length": 25, "hop_length": 10}
_NETWORK = {"kernel_sizes": [5, 3, 3, 3, 1], "dilations": [1, 2, 3, 4, 1], "global_context": True}


@dataclass(frozen=True)
class SpeechBrainEncoder(SpeechBrainModel):
    """Embeddings of an ECAPA-TDNN that SpeechBrain trained.

    The mode ``official`` takes the last epoch, as the challenge's code, ``correct`` the epoch with the lowest error
    rate on the development data.
    """

    family: ClassVar[str] = "speechbrain"
    minimum: ClassVar[float] = 0.04  # seconds: five frames
    kind: ClassVar[str] = "encoder"
    example: ClassVar[str] = "exp/asv_orig"
    file_names: ClassVar[tuple[tuple[str, ...], ...]] = (("embedding_model.ckpt",),)

    @property
    def name(self) -> str:
        """Name in tables, e.g. ``speechbrain:exp/asv_orig``."""
        return f"{registered_name(self.mode)}:{self.path}"

    @property
    def dimension(self) -> int:
        """Length of an embedding: 192."""
        return int(self._model().dimension)

    def training(self) -> TrainingRecord:
        """Return the record of ``voiceveil train asv``, or else what SpeechBrain's files tell of the training."""
        root = self.folder.parent if self.folder.name.startswith("CKPT+") else self.folder
        if (root / "record.json").is_file():
            return TrainingRecord.read(root / "record.json")
        labels, rows = root / "label_encoder.txt", root / "train.csv"
        speakers = tuple(read_labels(labels)) if labels.is_file() else ()
        error = error_rate(self.folder)
        return TrainingRecord(
            data="anonymized" if root.resolve().name.startswith("asv_anon") else "original",
            speakers=len(speakers) or None,
            utterances=_utterances(rows) if rows.is_file() else None,
            accuracy=None if error is None or not 0 <= error <= 1 else 1 - error,
            speaker_ids=speakers,
        )

    def __call__(self, wave: Waveform) -> Embedding:
        """Return the embedding (192,), float32, of one utterance at 16 kHz."""
        return self.batch([wave])[0]

    def batch(self, waves: Sequence[Waveform]) -> list[Embedding]:
        """Return the embeddings of several utterances; those of equal length are processed together."""
        import torch

        from voiceveil.models.speechbrain.fbank import fbank, subtract_sentence_mean

        signals, network, device = [self._scaled(wave) for wave in waves], self._model(), current_device()
        embeddings = [np.zeros(0, dtype=np.float32)] * len(waves)
        for group in group_equal(map(len, signals), MAX_BATCH_SECONDS * self.rate):
            with torch.inference_mode():
                samples = torch.from_numpy(np.stack([signals[i] for i in group])).to(device)
                features = fbank(samples, network.first.conv.in_channels)
                rows = network(subtract_sentence_mean(features)).cpu().numpy()
            for i, row in zip(group, rows, strict=True):
                embeddings[i] = np.asarray(row, dtype=np.float32)
        return embeddings

    def _scaled(self, wave: Waveform) -> Samples:
        """Return the samples between zeros at both ends, scaled to a peak of 1."""
        samples = wave.samples
        peak = float(np.abs(samples).max(initial=0.0))
        if not np.isfinite(peak):
            raise InputError("a sample is not finite", fix="repair the recording")
        samples = np.trim_zeros(samples)
        if len(samples) < self.minimum * self.rate:
            what = f"{len(samples) / self.rate:.3f} s of audio besides digital silence, but {self.minimum} s are needed"
            raise InputError(what, fix="leave the utterance out")
        return np.asarray(samples / np.float32(peak), dtype=np.float32)

    def _model(self) -> Any:
        if find_spec("torch") is None:
            raise InputError("an encoder of SpeechBrain needs torch", fix="pip install 'voiceveil[asv]'")
        weights = self.files[0]
        return _loaded(weights, settings_file(weights.parent), current_device(), self._stamps())


def settings_file(folder: Path) -> Path:
    """Return the ``hyperparams.yaml`` of a checkpoint.

    The challenge's code copies it into the last checkpoint when it evaluates; until then, and for other checkpoints,
    that of another checkpoint or of the training says the same about the network.
    """
    beside = checkpoints(folder.parent) if folder.name.startswith("CKPT+") else []
    for candidate in (folder, *beside, folder.parent):
        if (candidate / _SETTINGS).is_file():
            return candidate / _SETTINGS
    raise InputError(f"the model has no {_SETTINGS}", where=folder, fix="copy it from the challenge's archive")


@lru_cache(maxsize=2)
def _loaded(weights: Path, settings: Path, device: str, stamps: tuple[int, ...]) -> Any:
    """Return the network on a device; ``stamps`` change when the file of its weights does."""
    import torch

    from voiceveil.models.speechbrain.ecapa import build

    torch.set_num_threads(1)  # one thread a process, many processes
    _check_settings(settings)
    try:
        return build(read_tensors(weights)).to(device)
    except InputError:
        raise
    except (ValueError, RuntimeError, KeyError, IndexError, TypeError) as error:
        reason = (str(error).splitlines() or [""])[-1].strip()
        fix = "copy it again from the challenge's archive, or train it again"
        raise InputError(f"the weights are not of an ECAPA-TDNN: {reason}", where=weights, fix=fix) from error


def _check_settings(path: Path) -> None:
    """Raise an ``InputError`` if the network or its features are not those of the challenge but for their size."""
    settings = read_hyperparams(path)
    sections = {name: settings.get(name) for name in ("embedding_model", "mean_var_norm", "compute_features")}
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise InputError(f"the settings have no section {name}", where=path, fix="give the challenge's ASV folder")
    require(sections["embedding_model"] or {}, _NETWORK, path, "embedding_model")
    require(sections["mean_var_norm"] or {}, {"norm_type": "sentence", "std_norm": False}, path, "mean_var_norm")
    require(sections["compute_features"] or {}, _FBANK, path, "compute_features")


def _utterances(path: Path) -> int:
    """Return how many recordings the rows of ``train.csv`` are of."""
    rows = csv.DictReader(read_text(path).splitlines())
    return len({row.get("wav") for row in rows})


def _make(argument: str | None, mode: Mode) -> SpeechBrainEncoder:
    return SpeechBrainEncoder(folder_argument(argument, mode, SpeechBrainEncoder), mode)


encoders.register("speechbrain")(partial(_make, mode="official"))
encoders.register("speechbrain-correct")(partial(_make, mode="correct"))
