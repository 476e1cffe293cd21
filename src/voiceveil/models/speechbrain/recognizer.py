"""``speechbrain:FOLDER`` as a speech recognizer: ASR_eval of the 2024 challenge, ``exp/asr``.

wav2vec 2.0, two layers with leaky ReLU, one linear layer to characters; the best character of each row of 20 ms is
taken, repetitions are merged and blanks removed.

The challenge's code reads all utterances of a set, the longest first, eight at a time, padded with zeros to the
longest of the eight, and masks nothing. The padding is heard as silence, so that the words of an utterance depend on
the other utterances of its set. ``official`` does the same: :meth:`SpeechBrainRecognizer.in_set` says to what length
each utterance of a set is padded. A row of a batch may be computed by itself, which gives the same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform, info
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.asr.beam_search import BeamDecoder
from voiceveil.models.asr.ctc import collapse
from voiceveil.models.asr.recognition import Recognizer, check_audio, recognizers
from voiceveil.models.asr.text_normalization import Normalization
from voiceveil.models.speechbrain import Mode
from voiceveil.models.speechbrain.files import read_labels, read_tensors
from voiceveil.models.speechbrain.hyperparams import TAG, read_hyperparams, require
from voiceveil.models.speechbrain.model_folder import SpeechBrainModel, folder_argument
from voiceveil.models.speechbrain.wav2vec2 import check_wav2vec2, load_wav2vec2, wav2vec2_configuration
from voiceveil.run.batches import MAX_BATCH_SECONDS, group_equal
from voiceveil.run.device import current_device

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SpeechBrainRecognizer"]

_BATCH = 8
_FEWEST = 400  # samples that make one row
_SLOPE = 0.01  # of the leaky ReLU


@dataclass(frozen=True)
class SpeechBrainRecognizer(SpeechBrainModel):
    """Words by the recognizer in a folder such as ``exp/asr``.

    The mode ``official`` reads sets as the challenge's code does, ``correct`` each utterance by itself.

    Parameters
    ----------
    padded : int
        Samples to which audio is padded with zeros: the length of its batch. 0: not padded.
    decoder : BeamDecoder, optional
        Decodes with a language model; the challenge decoded greedily.
    """

    padded: int = 0
    decoder: BeamDecoder | None = None

    minimum: ClassVar[float] = _FEWEST / 16000
    kind: ClassVar[str] = "recognizer"
    example: ClassVar[str] = "exp/asr"
    file_names: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("hyperparams.yaml",),
        ("wav2vec2.ckpt",),
        ("asr.ckpt",),
        ("tokenizer.ckpt",),
    )

    @property
    def normalization(self) -> Normalization:
        """How transcripts are compared with references: ``official`` counts two spaces as an inserted word."""
        return "official" if self.mode == "official" else "plain"

    def in_set(self, utterances: Sequence[Utterance]) -> dict[str, SpeechBrainRecognizer]:
        """Return utterance id -> the recognizer that pads it to the length of its batch.

        Utterances of equal length are in the order of their ids, as in the challenge's files.
        """
        if self.mode != "official":
            return {u.id: self for u in utterances}
        lengths = {u.id: self._samples(u) for u in utterances}
        ordered = sorted(lengths, key=lambda id: (-lengths[id], id))
        batches = [ordered[start : start + _BATCH] for start in range(0, len(ordered), _BATCH)]
        padding = [replace(self, padded=lengths[batch[0]]) for batch in batches]
        return {id: recognizer for batch, recognizer in zip(batches, padding, strict=True) for id in batch}

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript as the model writes it, with single, double and outer spaces."""
        return self.batch([wave])[0]

    def batch(self, waves: Sequence[Waveform]) -> list[str]:
        """Return the transcripts of several utterances; those padded to equal lengths are processed together."""
        for wave in waves:
            check_audio(wave, self.rate, _FEWEST)
        model, texts = self._model(), [""] * len(waves)
        sizes = [max(self.padded, len(wave)) for wave in waves]
        for group in group_equal(sizes, MAX_BATCH_SECONDS * self.rate):
            signals = [waves[i].samples for i in group]
            for i, text in zip(group, model.texts(signals, self.padded, self.decoder), strict=True):
                texts[i] = text
        return texts

    def _samples(self, utterance: Utterance) -> int:
        seconds = info(utterance.path).duration - utterance.start if utterance.duration is None else utterance.duration
        return round(seconds * self.rate)

    def _variant(self) -> list[str]:
        return [str(self.padded), *([] if self.decoder is None else [self.decoder.fingerprint()])]

    def _model(self) -> _Model:
        return _loaded(tuple(self.files), current_device(), self._stamps())


@dataclass(frozen=True, eq=False)
class _Model:
    """Network and characters."""

    wav2vec2: Any
    layers: tuple[tuple[Tensor, Tensor], ...]  # weight and bias of each linear layer
    characters: tuple[str, ...]
    blank: int
    device: str

    def logits(self, samples: NDArray[np.float32]) -> Tensor:
        """Return the logits (B, T, characters) of samples (B, N)."""
        import torch
        from torch.nn.functional import leaky_relu, linear

        with torch.inference_mode():
            values = self.wav2vec2(torch.from_numpy(samples).to(self.device))
            for weight, bias in self.layers[:-1]:
                values = leaky_relu(linear(values, weight, bias), _SLOPE)
            return linear(values, *self.layers[-1])

    def texts(self, signals: Sequence[Samples], padded: int, decoder: BeamDecoder | None = None) -> list[str]:
        """Return the texts of utterances, padded with zeros to one length; rows of the padding alone are left out."""
        size = max(padded, *map(len, signals))
        rows = np.zeros((len(signals), size), dtype=np.float32)
        for row, samples in zip(rows, signals, strict=True):
            row[: len(samples)] = samples
        logits = self.logits(rows)
        kept = [np.round(np.float32(len(samples) / size) * np.float32(logits.shape[1])) for samples in signals]
        # numpy rounds a half to the even number
        return [self._text(row[: int(count)], decoder) for row, count in zip(logits, kept, strict=True)]

    def _text(self, logits: Tensor, decoder: BeamDecoder | None) -> str:
        """Return the text of rows of logits (T, characters)."""
        if decoder is not None:
            texts = ["" if len(character) > 1 else character for character in self.characters]
            return decoder.decode(logits.float().log_softmax(dim=-1).cpu().numpy(), texts, self.blank)
        best = logits.argmax(dim=-1).cpu().numpy()
        return "".join(self.characters[token] for token in collapse(best, self.blank))


@lru_cache(maxsize=1)
def _loaded(files: tuple[Path, ...], device: str, stamps: tuple[int, ...]) -> _Model:
    path, weights, head, tokenizer = files
    settings = read_hyperparams(path)
    require(settings, {"sample_rate": 16000}, path, "hyperparams")
    activation = settings.get("activation")
    if isinstance(activation, dict):
        require(activation, {TAG: "name:torch.nn.LeakyReLU"}, path, "activation")
    blank = settings.get("blank_index", 0)
    characters = read_labels(tokenizer)
    layers = _layers(head)
    if not isinstance(blank, int) or not 0 <= blank < len(characters) or len(layers[-1][0]) != len(characters):
        what = f"{len(characters)} characters, but {len(layers[-1][0])} outputs, of which {blank} is the blank"
        raise InputError(what, where=tokenizer, fix="give the files of one model")
    wav2vec2 = load_wav2vec2(weights, wav2vec2_configuration(settings, path), device)
    if layers[0][0].shape[1] != wav2vec2.network.config.hidden_size:
        raise InputError("its first layer is not as wide as wav2vec2", where=head, fix="give the files of one model")
    on_device = tuple((weight.to(device), bias.to(device)) for weight, bias in layers)
    return _Model(wav2vec2, on_device, tuple(characters), blank, device)


def _layers(path: Path) -> list[tuple[Tensor, Tensor]]:
    """Return the linear layers of ``asr.ckpt`` from the first to the last."""
    state = read_tensors(path)
    hidden = sorted(
        {name.rpartition(".w.")[0] for name in state if name.startswith("0.linear")}
    )  # linear, linear_0 ...
    try:
        layers = [(state.pop(f"{name}.w.weight"), state.pop(f"{name}.w.bias")) for name in (*hidden, "1")]
    except KeyError as error:
        raise InputError(f"the layer {error} is missing", where=path, fix="give exp/asr of the challenge") from error
    sizes = [tuple(weight.shape) for weight, _ in layers]
    fitting = all(weight.dim() == 2 and bias.shape == weight.shape[:1] for weight, bias in layers)
    if state or not fitting or any(below[0] != above[1] for below, above in pairwise(sizes)):
        what = f"layers of the shapes {sizes}" + (f", and {next(iter(state))}" if state else "")
        raise InputError(f"{what} are not a recognizer", where=path, fix="give exp/asr of the challenge")
    return layers


def _make(model: str, *, online: bool = False, mode: Mode) -> Recognizer:
    recognizer = SpeechBrainRecognizer(folder_argument(model, mode, SpeechBrainRecognizer), mode)
    settings, *_, tokenizer = recognizer.files
    check_wav2vec2(read_hyperparams(settings), settings)
    read_labels(tokenizer)
    return recognizer


recognizers.register("speechbrain")(partial(_make, mode="official"))
recognizers.register("speechbrain-correct")(partial(_make, mode="correct"))
