"""Whisper (Radford et al. 2022) from a folder or a hub id, through ``transformers``.

Conventions: the network hears 30 s at a time, padded with silence; longer utterances are cut at pauses. Decoding is
greedy, in one named language, without time stamps; no more tokens are written than can be said in the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import Recognizer, check_audio, recognizers
from voiceveil.models.asr.segmentation import cut_at_pauses
from voiceveil.models.pretrained import check_files, digest, find_model, load_text, load_weights

__all__ = ["Whisper"]

_RATE = 16000  # Hz
_FEWEST = 400  # samples: one window of its spectrogram
_HEARD = 30.0


@dataclass(frozen=True)
class Whisper:
    """A Whisper model in ``folder``.

    ``language``: ISO code, for the models that know several. ``batch_seconds``: audio through the network at once, in
    pieces of 30 s. ``tokens_per_second``: the length guard.
    """

    folder: Path
    language: str = "en"
    tokens_per_second: float = 8.0
    batch_seconds: float = 0.0
    device: str = "cpu"

    rate, minimum = _RATE, _FEWEST / _RATE

    def __post_init__(self) -> None:
        check_files(self.folder, "whisper", ("tokenizer.json", "vocab.json"))

    def fingerprint(self) -> str:
        """Return the model's files and the options that change a transcript."""
        return f"whisper {digest(self.folder)} 1 {self.language} {self.tokens_per_second}"

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript, with the punctuation and the capitals that the model writes."""
        return self.many([wave])[0]

    def many(self, waves: Sequence[Waveform]) -> list[str]:
        """Return the transcripts of several utterances."""
        for wave in waves:
            check_audio(wave, self.rate, _FEWEST)
        pieces = [
            (i, wave.samples[start:stop])
            for i, wave in enumerate(waves)
            for start, stop in cut_at_pauses(wave.samples, wave.rate, _HEARD)
        ]
        texts: list[list[str]] = [[] for _ in waves]
        size = max(1, int(self.batch_seconds / _HEARD))
        for first in range(0, len(pieces), size):
            group = pieces[first : first + size]
            for (i, _), text in zip(group, self._recognize([samples for _, samples in group]), strict=True):
                texts[i].append(text)
        return [" ".join(filter(None, text)) for text in texts]

    def _recognize(self, signals: list[Samples]) -> list[str]:
        import torch
        from transformers import LogitsProcessorList

        network, processor = _model(self.folder, self.device)
        heard = processor.feature_extractor(signals, sampling_rate=self.rate, return_tensors="pt")
        limits = [max(1, round(len(signal) / self.rate * self.tokens_per_second)) for signal in signals]
        guard = _LengthGuard(torch.tensor(limits, device=self.device), network.generation_config.eos_token_id)
        multilingual = getattr(network.generation_config, "is_multilingual", False)
        spoken = {"language": self.language, "task": "transcribe"} if multilingual else {}
        with torch.inference_mode():
            tokens = network.generate(
                heard.input_features.to(self.device),
                do_sample=False,
                num_beams=1,
                logits_processor=LogitsProcessorList([guard]),
                # the rest of the decoder's positions is for its prompt: start, language, task, no time stamps
                max_new_tokens=min(max(limits) + 1, network.config.max_target_positions - 5),
                **spoken,
            )
        return [str(processor.tokenizer.decode(row, skip_special_tokens=True)).strip() for row in tokens]


class _LengthGuard:
    """Ends each row of a batch after its own number of tokens, so that the company it is in changes nothing."""

    def __init__(self, limits: Any, end: int) -> None:
        self.limits, self.end = limits, end
        self.prompt: int | None = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.prompt = input_ids.shape[1] if self.prompt is None else self.prompt
        over = input_ids.shape[1] - self.prompt >= self.limits
        scores = scores.masked_fill(over[:, None], -float("inf"))
        scores[over, self.end] = 0.0
        return scores


@lru_cache(maxsize=2)
def _model(folder: Path, device: str) -> tuple[Any, Any]:
    network = load_weights(folder, "WhisperForConditionalGeneration", device)
    return network, load_text(folder, "WhisperProcessor")


@recognizers.register("whisper")
def _whisper(model: str, *, online: bool = False) -> Recognizer:
    if not model:
        raise InputError("which Whisper model?", fix="write whisper:FOLDER or whisper:OWNER/NAME")
    return Whisper(find_model(model, online=online))
