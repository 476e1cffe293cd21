"""Recognizers with connectionist temporal classification (Graves et al. 2006) on waveforms: wav2vec 2.0 and relatives.

The 2024 challenge measured WER with ``facebook/wav2vec2-large-960h-lv60-self``, to which SpeechBrain had added two
layers and fine-tuned all on LibriSpeech. The name ``vpc2024`` means the former, in the format of ``transformers``; the
checkpoint of SpeechBrain is not read, so that figures come near those of the challenge but do not equal them.

Conventions: samples are at the model's rate; the network gives a row of logits every ``stride`` samples (320, 20 ms);
the best token of each row is taken (greedy), repetitions are merged and blanks removed. Row g covers the samples from
``g * stride`` on, whatever piece of the recording it was computed from: long recordings are read through overlapping
windows, of which the middle is kept, so that memory is bounded and each row still has its context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import Recognizer, check_audio, recognizers
from voiceveil.models.pretrained import (
    check_files,
    digest,
    find_model,
    load_text,
    load_weights,
    preprocessing,
    read_config,
)

__all__ = ["CTC", "VPC2024", "Convolutions", "LoadedModel", "Window", "collapse", "load_model", "windows"]

#: The hub id of the challenge's model, before its fine-tuning.
VPC2024 = "facebook/wav2vec2-large-960h-lv60-self"
VOCABULARY = ("vocab.json", "tokenizer.json")


@dataclass(frozen=True)
class Convolutions:
    """The front end of a network: kernels and strides of its convolutions."""

    kernels: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def stride(self) -> int:
        """Samples from one row of logits to the next."""
        return prod(self.strides)

    @property
    def fewest(self) -> int:
        """Samples that make one row."""
        need = 1
        for kernel, stride in zip(self.kernels[::-1], self.strides[::-1], strict=True):
            need = (need - 1) * stride + kernel
        return need

    def rows(self, samples: int) -> int:
        """Rows of logits for so many samples."""
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            samples = (samples - kernel) // stride + 1
        return max(samples, 0)


@dataclass(frozen=True)
class Window:
    """Samples ``start:stop`` of a recording, of whose rows those from ``first`` to ``last`` are kept."""

    start: int
    stop: int
    first: int  # counted in the whole recording
    last: int


def windows(samples: int, front: Convolutions, longest: int, overlap: int) -> Iterator[Window]:
    """Windows of at most ``longest`` samples whose kept rows make up all; ``overlap`` on each side is context."""
    stride = front.stride
    side = -(-overlap // stride) * stride
    core = (longest - 2 * side) // stride * stride
    if core <= 0 or side < front.fewest:
        raise InputError(f"windows of {longest} samples with {overlap} on each side", fix="take longer ones")
    if samples <= longest:
        core = samples
    for middle in range(0, samples, core):
        start, stop = max(0, middle - side), min(samples, middle + core + side)
        last = front.rows(samples) if stop == samples else (middle + core) // stride
        yield Window(start, stop, middle // stride, last)
        if stop == samples:
            return


def collapse(best: NDArray[np.int64], blank: int) -> NDArray[np.int64]:
    """Tokens of the best row by row: repetitions merged, then blanks removed.

    >>> collapse(np.array([0, 7, 7, 0, 7, 5, 5, 0]), blank=0)
    array([7, 7, 5])
    """
    changed = np.ones(len(best), dtype=bool)
    changed[1:] = best[1:] != best[:-1]
    tokens: NDArray[np.int64] = best[changed & (best != blank)]
    return tokens


@dataclass(frozen=True)
class CTC:
    """A CTC model in ``folder``.

    ``window`` and ``overlap``: seconds read at once, and of these on each side for context alone. ``batch_seconds``:
    audio through the network at once, padding included; 0: one piece after the other, best on a processor.
    """

    folder: Path
    window: float = 30.0
    overlap: float = 2.0
    batch_seconds: float = 0.0
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_files(self.folder, "ctc", VOCABULARY)
        next(windows(1 << 40, self.front, *self._window_samples()))  # do the lengths go together?

    @property
    def rate(self) -> int:
        """What the model was trained with, 16 kHz as a rule."""
        return int(preprocessing(self.folder).get("sampling_rate", 16000))

    @property
    def minimum(self) -> float:
        """One row of logits: 25 ms as a rule."""
        return self.front.fewest / self.rate

    @property
    def front(self) -> Convolutions:
        """The model's convolutions."""
        config = read_config(self.folder)
        kernels, strides = config.get("conv_kernel"), config.get("conv_stride")
        if not (isinstance(kernels, list) and isinstance(strides, list)) or config.get("add_adapter"):
            what = f"a CTC model of type {config.get('model_type')}, which does not read waveforms row by row"
            raise InputError(
                what, where=self.folder, fix="give a model such as wav2vec2, hubert, wavlm, data2vec-audio"
            )
        return Convolutions(tuple(kernels), tuple(strides))

    def fingerprint(self) -> str:
        """Return the model's files and what is read at once; neither batches nor the device change a result."""
        return f"ctc {digest(self.folder)} 1 {self.window} {self.overlap}"

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript in the model's own letters."""
        return self.many([wave])[0]

    def many(self, waves: Sequence[Waveform]) -> list[str]:
        """Return the transcripts of several utterances; their pieces go through the network sorted by length."""
        front = self.front
        for wave in waves:
            check_audio(wave, self.rate, front.fewest)
        signals = [self.normalized(wave.samples) for wave in waves]
        best = [np.zeros(front.rows(len(wave)), dtype=np.int64) for wave in waves]
        sizes = self._window_samples()
        pieces = [(i, window) for i, wave in enumerate(waves) for window in windows(len(wave), front, *sizes)]
        model = load_model(self.folder, self.device)
        for group in self._groups(pieces, padded=model.takes_padding):
            rows = model.best_tokens([signals[i][window.start : window.stop] for i, window in group])
            for (i, window), row in zip(group, rows, strict=True):
                offset = window.start // front.stride
                best[i][window.first : window.last] = row[window.first - offset : window.last - offset]
        return [model.text(collapse(tokens, model.blank)) for tokens in best]

    def _window_samples(self) -> tuple[int, int]:
        return round(self.window * self.rate), round(self.overlap * self.rate)

    def normalized(self, samples: Samples) -> Samples:
        """Zero mean and unit variance over the whole utterance, as in the model's training."""
        if not preprocessing(self.folder).get("do_normalize", True):
            return samples
        scaled: Samples = ((samples - samples.mean()) / np.sqrt(samples.var() + 1e-7)).astype(np.float32)
        return scaled

    def _groups(self, pieces: list[tuple[int, Window]], *, padded: bool) -> Iterator[list[tuple[int, Window]]]:
        """Pieces for the network at once: at most ``batch_seconds``; equally long ones, unless it takes padding."""
        limit = self.batch_seconds * self.rate
        group: list[tuple[int, Window]] = []
        for piece in sorted(pieces, key=lambda piece: piece[1].start - piece[1].stop):
            length, top = (w.stop - w.start for w in (piece[1], (group or [piece])[0][1]))
            if group and (top * (len(group) + 1) > limit or (length != top and not padded)):
                yield group
                group = []
            group.append(piece)
        if group:
            yield group


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A network of ``transformers`` and its vocabulary."""

    network: Any
    tokenizer: Any
    device: str

    @property
    def blank(self) -> int:
        """The token that means nothing new."""
        return int(self.network.config.pad_token_id)

    @property
    def takes_padding(self) -> bool:
        """A front end that is normalized over time ("group") would take padding for silence, and change."""
        return getattr(self.network.config, "feat_extract_norm", "group") == "layer"

    @property
    def letters(self) -> set[str]:
        """The characters that it can write, spaces aside."""
        return {token for token in self.tokenizer.get_vocab() if len(token) == 1} - {"|"}

    def logits(self, signals: list[Samples]) -> Any:
        """Return a tensor of shape (signals, rows, tokens); rows beyond the end of a signal mean nothing."""
        import torch

        lengths = torch.tensor([len(signal) for signal in signals])
        values = torch.zeros(len(signals), int(lengths.max()))
        for row, signal in zip(values, signals, strict=True):
            row[: len(signal)] = torch.from_numpy(signal)
        mask = None
        if self.takes_padding and len(set(lengths.tolist())) > 1:
            mask = (torch.arange(values.shape[1]) < lengths[:, None]).long().to(self.device)
        return self.network(values.to(self.device), attention_mask=mask).logits

    def best_tokens(self, signals: list[Samples]) -> list[NDArray[np.int64]]:
        """Return the best token of each row of logits, for each signal."""
        import torch

        with torch.inference_mode():
            best: NDArray[np.int64] = self.logits(signals).argmax(dim=-1).cpu().numpy()
        return list(best)

    def text(self, tokens: NDArray[np.int64]) -> str:
        """Words of tokens; the tokenizer is not to merge repetitions once more."""
        return str(self.tokenizer.decode(tokens.tolist(), skip_special_tokens=True, group_tokens=False)).strip()

    def tokens(self, text: str) -> tuple[int, ...]:
        """Tokens of a text in the model's letters."""
        return tuple(self.tokenizer(text, add_special_tokens=False).input_ids)


@lru_cache(maxsize=2)
def load_model(folder: Path, device: str) -> LoadedModel:
    """Return the model of a folder, loaded once a process."""
    return LoadedModel(load_weights(folder, "AutoModelForCTC", device), load_text(folder, "AutoTokenizer"), device)


@recognizers.register("ctc")
def _ctc(model: str, *, online: bool = False) -> Recognizer:
    if not model:
        raise InputError("which CTC model?", fix="write ctc:FOLDER or ctc:OWNER/NAME")
    folder = find_model(model, online=online)
    check_files(folder, "ctc", VOCABULARY)
    if "conv_kernel" in read_config(folder):
        return CTC(folder)
    from voiceveil.models.asr.ctc_features import FeatureCTC

    return FeatureCTC(folder)


@recognizers.register("vpc2024")
def _vpc2024(model: str, *, online: bool = False) -> Recognizer:
    return CTC(find_model(model or VPC2024, online=online))
