"""Whisper (Radford et al. 2022) from a folder or a hub id, through ``transformers``.

A language other than English is named behind the model, by its ISO code: ``whisper:models/whisper-large-v3:de``.

Conventions: the network takes 30 s at a time, padded with silence; longer utterances are cut at pauses. Decoding is
greedy, in one given language, without time stamps; the number of tokens is limited by the duration of the audio.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import Recognizer, check_audio, recognizers
from voiceveil.models.asr.segmentation import cut_at_pauses
from voiceveil.models.pretrained import check_files, digest, find_model, load_processor, load_weights
from voiceveil.run.batches import MAX_BATCH_SECONDS
from voiceveil.run.device import current_device

__all__ = ["Whisper"]

_RATE = 16000  # Hz
_MIN_SAMPLES = 400  # samples: one window of its spectrogram
_WINDOW = 30.0  # seconds
_NAMED = re.compile(r"(?P<model>.+?)(?::(?P<language>[a-z]{2,3}))?")  # FOLDER, or FOLDER:LANGUAGE


@dataclass(frozen=True)
class Whisper:
    """A Whisper model.

    Parameters
    ----------
    folder
        Model in the format of ``transformers``.
    language
        ISO code; only multilingual models use it.
    tokens_per_second
        Decoding stops after this many tokens for each second of audio.
    batch_seconds
        Audio that :meth:`batch` processes together, in pieces of 30 s.
    """

    folder: Path
    language: str = "en"
    tokens_per_second: float = 8.0
    batch_seconds: float = MAX_BATCH_SECONDS

    rate, minimum = _RATE, _MIN_SAMPLES / _RATE

    def __post_init__(self) -> None:
        check_files(self.folder, "whisper", ("tokenizer.json", "vocab.json"))

    def fingerprint(self) -> str:
        """Return the hash of the model and the options that change a transcript."""
        return f"whisper {digest(self.folder)} 1 {self.language} {self.tokens_per_second}"

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript, with punctuation and capitals."""
        return self._transcribe([wave], 1)[0]

    def batch(self, waves: Sequence[Waveform]) -> list[str]:
        """Return the transcripts of several utterances."""
        return self._transcribe(waves, max(1, int(self.batch_seconds / _WINDOW)))

    def _transcribe(self, waves: Sequence[Waveform], size: int) -> list[str]:
        """Return the transcripts; ``size`` pieces of 30 s are processed together."""
        for wave in waves:
            check_audio(wave, self.rate, _MIN_SAMPLES)
        pieces = [
            (i, wave.samples[start:stop])
            for i, wave in enumerate(waves)
            for start, stop in cut_at_pauses(wave.samples, wave.rate, _WINDOW)
        ]
        texts: list[list[str]] = [[] for _ in waves]
        for first in range(0, len(pieces), size):
            batch = pieces[first : first + size]
            for (i, _), text in zip(batch, self._transcribe_pieces([samples for _, samples in batch]), strict=True):
                texts[i].append(text)
        return [" ".join(filter(None, parts)) for parts in texts]

    def _transcribe_pieces(self, signals: list[Samples]) -> list[str]:
        import torch
        from transformers import LogitsProcessorList

        device = current_device()
        network, processor = _model(self.folder, device)
        features = processor.feature_extractor(signals, sampling_rate=self.rate, return_tensors="pt", device=device)
        limits = [max(1, round(len(signal) / self.rate * self.tokens_per_second)) for signal in signals]
        limiter = _LengthLimit(torch.tensor(limits, device=device), network.generation_config.eos_token_id)
        multilingual = getattr(network.generation_config, "is_multilingual", False)
        prompt = {"language": self.language, "task": "transcribe"} if multilingual else {}
        with torch.inference_mode():
            tokens = network.generate(
                features.input_features.to(device),
                do_sample=False,
                num_beams=1,
                logits_processor=LogitsProcessorList([limiter]),
                # the other positions of the decoder are for its prompt: start, language, task, no time stamps
                max_new_tokens=min(max(limits) + 1, network.config.max_target_positions - 5),
                **prompt,
            )
        return [str(processor.tokenizer.decode(row, skip_special_tokens=True)).strip() for row in tokens]


class _LengthLimit:
    """Ends each row of a batch after its own number of tokens, so that the batch does not change its transcript."""

    def __init__(self, limits: Any, end: int) -> None:
        self.limits, self.end = limits, end
        self.prompt_length: int | None = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.prompt_length = input_ids.shape[1] if self.prompt_length is None else self.prompt_length
        over = input_ids.shape[1] - self.prompt_length >= self.limits
        scores = scores.masked_fill(over[:, None], -float("inf"))
        scores[over, self.end] = 0.0
        return scores


@lru_cache(maxsize=2)
def _model(folder: Path, device: str) -> tuple[Any, Any]:
    network = load_weights(folder, "WhisperForConditionalGeneration", device)
    return network, load_processor(folder, "WhisperProcessor")


@recognizers.register("whisper")
def _whisper(model: str, *, online: bool = False) -> Recognizer:
    named = _NAMED.fullmatch(model)
    if named is None:
        fix = "write whisper:FOLDER or whisper:OWNER/NAME; a language other than English follows: whisper:FOLDER:de"
        raise InputError("no Whisper model is named", fix=fix)
    return Whisper(find_model(named["model"], online=online), language=named["language"] or "en")
