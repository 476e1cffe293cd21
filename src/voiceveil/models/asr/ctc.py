"""Recognizers with connectionist temporal classification (Graves et al. 2006) on waveforms: wav2vec 2.0 and similar.

The 2024 challenge measured WER with ``facebook/wav2vec2-large-960h-lv60-self``, to which SpeechBrain had added two
layers, fine-tuned on LibriSpeech. The name ``vpc2024`` means the model before that, in the format of ``transformers``;
its figures are close to those of the challenge but not equal. The challenge's own model is ``speechbrain:exp/asr``
(:mod:`voiceveil.models.speechbrain`).

Conventions: samples are at the model's rate; the network returns a row of logits every ``stride`` samples (320, 20 ms).
Decoding is greedy: the best token of each row, repetitions merged, blanks removed; or by a beam search with a language
model (:mod:`voiceveil.models.asr.beam_search`). Long recordings are processed in
overlapping windows, of which only the middle rows are kept, so that memory is bounded and each row has its context.
Rows are numbered in the whole recording: row ``g`` begins at sample ``g * stride``.
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
from voiceveil.models.asr.beam_search import BeamDecoder
from voiceveil.models.asr.ctc_alignment import align_places, fewest_frames
from voiceveil.models.asr.recognition import Recognizer, check_audio, recognizers
from voiceveil.models.pretrained import (
    check_files,
    digest,
    find_model,
    load_processor,
    load_weights,
    normalize_samples,
    preprocessing,
    read_config,
)
from voiceveil.run.batches import MAX_BATCH_SECONDS
from voiceveil.run.device import current_device

__all__ = [
    "CTC",
    "VPC2024",
    "Convolutions",
    "LoadedModel",
    "Window",
    "collapse",
    "load_model",
    "token_texts",
    "windows",
]

#: The hub id of the challenge's model, before its fine-tuning.
VPC2024 = "facebook/wav2vec2-large-960h-lv60-self"
VOCABULARY = ("vocab.json", "tokenizer.json")


@dataclass(frozen=True)
class Convolutions:
    """Kernel sizes and strides of the convolutions at the input of a network."""

    kernels: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def stride(self) -> int:
        """Samples between two rows of logits."""
        return prod(self.strides)

    @property
    def min_samples(self) -> int:
        """Samples that one row of logits depends on, at least."""
        samples = 1
        for kernel, stride in zip(self.kernels[::-1], self.strides[::-1], strict=True):
            samples = (samples - 1) * stride + kernel
        return samples

    def rows(self, samples: int) -> int:
        """Return the number of rows of logits for ``samples`` samples."""
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            samples = (samples - kernel) // stride + 1
        return max(samples, 0)


@dataclass(frozen=True)
class Window:
    """Samples ``start:stop`` of a recording, and the rows ``first:last`` of the recording that are kept from them."""

    start: int
    stop: int
    first: int
    last: int


def windows(samples: int, convolutions: Convolutions, max_samples: int, overlap: int) -> Iterator[Window]:
    """Yield overlapping windows whose kept rows together are all rows of a recording.

    Parameters
    ----------
    samples
        Length of the recording.
    convolutions
        The input layers of the network.
    max_samples
        Length of the longest window.
    overlap
        Samples on each side of a window that serve as context only.

    Raises
    ------
    InputError
        If the windows are too short for the overlap, or the overlap for a row.
    """
    stride = convolutions.stride
    context = -(-overlap // stride) * stride
    core = (max_samples - 2 * context) // stride * stride
    if core <= 0 or context < convolutions.min_samples:
        problem = f"windows of {max_samples} samples with an overlap of {overlap} on each side cannot be used"
        fix = f"use an overlap of at least {convolutions.min_samples} samples, and windows of more than twice that"
        raise InputError(problem, fix=fix)
    if samples <= max_samples:
        core = samples
    for middle in range(0, samples, core):
        start, stop = max(0, middle - context), min(samples, middle + core + context)
        last = convolutions.rows(samples) if stop == samples else (middle + core) // stride
        yield Window(start, stop, middle // stride, last)
        if stop == samples:
            return


def collapse(best: NDArray[np.int64], blank: int) -> NDArray[np.int64]:
    """Return the tokens of a greedy CTC path (rows,): repetitions merged, then blanks removed.

    >>> collapse(np.array([0, 7, 7, 0, 7, 5, 5, 0]), blank=0)
    array([7, 7, 5])
    """
    is_new = np.ones(len(best), dtype=bool)
    is_new[1:] = best[1:] != best[:-1]
    tokens: NDArray[np.int64] = best[is_new & (best != blank)]
    return tokens


@dataclass(frozen=True)
class CTC:
    """A CTC model on waveforms.

    Parameters
    ----------
    folder
        Model in the format of ``transformers``.
    window, overlap
        Seconds of a window, and seconds on each of its sides that serve as context only.
    batch_seconds
        Audio that :meth:`batch` processes together, padding included.
    decoder
        Decodes with a language model; None: greedily.
    """

    folder: Path
    window: float = 30.0
    overlap: float = 2.0
    batch_seconds: float = MAX_BATCH_SECONDS
    decoder: BeamDecoder | None = None

    def __post_init__(self) -> None:
        check_files(self.folder, "ctc", VOCABULARY)
        next(windows(1 << 40, self.convolutions, *self._window_samples()))  # raises if the lengths do not match

    @property
    def rate(self) -> int:
        """Sampling rate of the model in Hz, usually 16,000."""
        return int(preprocessing(self.folder).get("sampling_rate", 16000))

    @property
    def minimum(self) -> float:
        """Shortest audio in seconds: one row of logits, usually 25 ms."""
        return self.convolutions.min_samples / self.rate

    @property
    def convolutions(self) -> Convolutions:
        """The input layers of the model."""
        config = read_config(self.folder)
        kernels, strides = config.get("conv_kernel"), config.get("conv_stride")
        if not (isinstance(kernels, list) and isinstance(strides, list)) or config.get("add_adapter"):
            problem = f"a CTC model of type {config.get('model_type')} does not take waveforms"
            fix = "give a model such as wav2vec2, hubert, wavlm, data2vec-audio"
            raise InputError(problem, where=self.folder, fix=fix)
        return Convolutions(tuple(kernels), tuple(strides))

    def fingerprint(self) -> str:
        """Return the hash of the model and the windows; neither batches nor the device change a result."""
        greedy = f"ctc {digest(self.folder)} 1 {self.window} {self.overlap}"
        return greedy if self.decoder is None else f"{greedy} {self.decoder.fingerprint()}"

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript, in the characters that the model writes."""
        return self._transcribe([wave], 0.0)[0]

    def batch(self, waves: Sequence[Waveform]) -> list[str]:
        """Return the transcripts of several utterances; their windows are batched by length."""
        return self._transcribe(waves, self.batch_seconds)

    def word_times(self, wave: Waveform, words: Sequence[str]) -> list[tuple[float, float]] | None:
        """Return start and end in seconds of each word of a known text, by forced alignment; None if it does not fit.

        Parameters
        ----------
        wave
            Recording of at most one window.
        words
            What is said. Characters that the model does not know are left out; a word without any other is an end of
            the alignment: None.
        """
        samples, convolutions = self.normalize(wave.samples), self.convolutions
        check_audio(wave, self.rate, convolutions.min_samples)
        model = load_model(self.folder, current_device())
        letters = model.letters
        written = [
            "".join(letter for letter in (word.upper() if "E" in letters else word.lower()) if letter in letters)
            for word in words
        ]
        if not all(written) or not written:
            return None
        tokens, owners = [], []
        for number, word in enumerate(written):
            separator = model.tokens("|") if number else ()
            own = model.tokens(word)
            tokens += [*separator, *own]
            owners += [*[-1] * len(separator), *[number] * len(own)]
        (rows,) = model.log_probabilities([samples])
        if len(rows) < fewest_frames(tokens):
            return None
        spans: dict[int, tuple[int, int]] = {}
        for row, place in enumerate(align_places(rows, tokens, model.blank)):
            if place >= 0 and owners[place] >= 0:
                spans[owners[place]] = spans.get(owners[place], (row, row))[0], row + 1
        step = convolutions.stride / self.rate
        return [(spans[number][0] * step, spans[number][1] * step) for number in range(len(written))]

    def _transcribe(self, waves: Sequence[Waveform], batch_seconds: float) -> list[str]:
        """Return the transcripts; windows of ``batch_seconds`` in all are processed together, of 0 one by one."""
        convolutions, sizes = self.convolutions, self._window_samples()
        for wave in waves:
            check_audio(wave, self.rate, convolutions.min_samples)
        signals = [self.normalize(wave.samples) for wave in waves]
        kept: list[dict[int, NDArray[Any]]] = [{} for _ in waves]  # first row of each window -> its rows
        pieces = [(i, window) for i, wave in enumerate(waves) for window in windows(len(wave), convolutions, *sizes)]
        model = load_model(self.folder, current_device())
        for batch in self._batches(pieces, batch_seconds, padding=model.takes_padding):
            cut = [signals[i][window.start : window.stop] for i, window in batch]
            results: Sequence[NDArray[Any]] = (
                model.best_tokens(cut) if self.decoder is None else model.log_probabilities(cut)
            )
            for (i, window), rows in zip(batch, results, strict=True):
                offset = window.start // convolutions.stride
                kept[i][window.first] = rows[window.first - offset : window.last - offset]
        return [self._text(model, np.concatenate([rows[first] for first in sorted(rows)])) for rows in kept]

    def _text(self, model: LoadedModel, rows: NDArray[Any]) -> str:
        """Return the text of the best tokens (rows,) or, with a decoder, of log-probabilities (rows, tokens)."""
        if self.decoder is None:
            return model.text(collapse(rows, model.blank))
        return self.decoder.decode(rows, model.token_texts, model.blank)

    def _window_samples(self) -> tuple[int, int]:
        return round(self.window * self.rate), round(self.overlap * self.rate)

    def normalize(self, samples: Samples) -> Samples:
        """Return the utterance with zero mean and unit variance, if the model was trained so."""
        return normalize_samples(self.folder, samples)

    def _batches(
        self, pieces: list[tuple[int, Window]], batch_seconds: float, *, padding: bool
    ) -> Iterator[list[tuple[int, Window]]]:
        """Yield batches of at most ``batch_seconds``, longest first; without ``padding``, of equal length."""
        limit = batch_seconds * self.rate
        batch: list[tuple[int, Window]] = []
        for piece in sorted(pieces, key=lambda piece: piece[1].start - piece[1].stop):
            length, longest = (w.stop - w.start for w in (piece[1], (batch or [piece])[0][1]))
            if batch and (longest * (len(batch) + 1) > limit or (length != longest and not padding)):
                yield batch
                batch = []
            batch.append(piece)
        if batch:
            yield batch


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A CTC network of ``transformers`` and its tokenizer."""

    network: Any
    tokenizer: Any
    device: str

    @property
    def blank(self) -> int:
        """Number of the blank token."""
        return int(self.network.config.pad_token_id)

    @property
    def takes_padding(self) -> bool:
        """True if padding does not change results; it does if the input layers normalize over time ("group")."""
        return getattr(self.network.config, "feat_extract_norm", "group") == "layer"

    @property
    def letters(self) -> set[str]:
        """Characters that the model can write, without the space."""
        return {token for token in self.tokenizer.get_vocab() if len(token) == 1} - {"|"}

    def logits(self, signals: list[Samples]) -> Any:
        """Return logits (signals, rows, tokens); rows beyond the end of a shorter signal have no meaning."""
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
        """Return, for each signal, the best token of each row of logits."""
        import torch

        with torch.inference_mode():
            best: NDArray[np.int64] = self.logits(signals).argmax(dim=-1).cpu().numpy()
        return list(best)

    def log_probabilities(self, signals: list[Samples]) -> list[NDArray[np.float32]]:
        """Return, for each signal, the natural log-probabilities (rows, tokens)."""
        import torch

        with torch.inference_mode():
            rows: NDArray[np.float32] = self.logits(signals).float().log_softmax(dim=-1).cpu().numpy()
        return list(rows)

    @property
    def token_texts(self) -> list[str]:
        """The text of each token, for a beam search."""
        return token_texts(self.tokenizer, self.network.config.vocab_size)

    def text(self, tokens: NDArray[np.int64]) -> str:
        """Return the text of tokens (n,) that are already collapsed."""
        return str(self.tokenizer.decode(tokens.tolist(), skip_special_tokens=True, group_tokens=False)).strip()

    def tokens(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text that is written in the model's characters."""
        return tuple(self.tokenizer(text, add_special_tokens=False).input_ids)


def token_texts(tokenizer: Any, size: int) -> list[str]:
    """Return the text of each of ``size`` tokens; a blank separates words, and marks such as ``<s>`` have no text."""
    texts = [""] * size
    special = {*tokenizer.all_special_tokens, tokenizer.pad_token}
    separator = getattr(tokenizer, "word_delimiter_token", "|")
    for token, number in tokenizer.get_vocab().items():
        if number < size and token not in special - {separator} and not (token.startswith("<") and token.endswith(">")):
            texts[number] = " " if token == separator else token.replace("\N{LOWER ONE EIGHTH BLOCK}", " ")
    return texts


@lru_cache(maxsize=2)
def load_model(folder: Path, device: str) -> LoadedModel:
    """Return the model of a folder, loaded once per process."""
    return LoadedModel(load_weights(folder, "AutoModelForCTC", device), load_processor(folder, "AutoTokenizer"), device)


@recognizers.register("ctc")
def _ctc(model: str, *, online: bool = False) -> Recognizer:
    if not model:
        raise InputError("no CTC model is named", fix="write ctc:FOLDER or ctc:OWNER/NAME")
    folder = find_model(model, online=online)
    check_files(folder, "ctc", VOCABULARY)
    if "conv_kernel" in read_config(folder):
        return CTC(folder)
    from voiceveil.models.asr.ctc_features import FeatureCTC

    return FeatureCTC(folder)


@recognizers.register("vpc2024")
def _vpc2024(model: str, *, online: bool = False) -> Recognizer:
    return CTC(find_model(model or VPC2024, online=online))
