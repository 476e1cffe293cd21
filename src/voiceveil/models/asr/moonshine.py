"""The embedded recognizer: Moonshine tiny (Jeffries et al. 2024), English, 27 million parameters, MIT licence.

Its weights come inside the wheel of ``moonshine-voice`` and run in onnxruntime; nothing is fetched. The encoder takes
the waveform at 16 kHz and gives a 288-dimensional vector every 384 samples (24 ms); the decoder writes tokens, each
from the encoder's output and its own past, until it writes the end.

Decoding is greedy. Left alone, such a decoder may run on where speech is unlike what it learned, as anonymized speech
can be: it is stopped when it has written more tokens than anybody can say in the time, or when it repeats itself.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import Recognizer, check_audio, recognizers
from voiceveil.models.asr.segmentation import heard_in_pieces
from voiceveil.run.ledger import sha256_file

__all__ = ["Moonshine", "model_file", "repetition"]

#: The files of moonshine-voice 0.1.0 and their hashes.
FILES = {
    "encoder_model.ort": "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
    "decoder_model_merged.ort": "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
    "tokenizer.bin": "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
}
_INSTALL = "pip install 'voiceveil[asr]'"
_START, _END = 1, 2
_LAYERS, _HEADS, _HEAD = 6, 8, 36
#: Samples below which the encoder's three convolutions (127/64, 7/3, 3/2) give no vector.
_FEWEST = 127 + 64 * (7 + 3 * (3 - 1) - 1)


@dataclass(frozen=True)
class Moonshine:
    """Moonshine tiny with greedy decoding.

    ``longest``: seconds of a piece; longer utterances are cut at pauses. ``tokens_per_second``: the length guard; fast
    English speech has up to six.
    """

    longest: float = 30.0
    tokens_per_second: float = 8.0

    @property
    def rate(self) -> int:
        """16 kHz."""
        return 16000

    @property
    def minimum(self) -> float:
        """56 ms: one vector of the encoder."""
        return _FEWEST / self.rate

    def fingerprint(self) -> str:
        """Return the model's hash and the options; the 1 is the version of the decoding."""
        model = hashlib.sha256("".join(FILES.values()).encode()).hexdigest()[:16]
        return f"moonshine-tiny {model} 1 {self.longest} {self.tokens_per_second}"

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript, with the punctuation and the capitals that the model writes."""
        check_audio(wave, self.rate, _FEWEST)
        return heard_in_pieces(wave, self.longest, self._piece)

    def _piece(self, samples: Samples) -> str:
        limit = max(1, round(len(samples) / self.rate * self.tokens_per_second))
        return _text(_network().decode(samples, limit))


def repetition(tokens: list[int], *, fewest: int = 4, total: int = 12, longest: int = 16) -> int:
    """Return the length of the phrase that the tokens end with over and over, or 0.

    A phrase of at most ``longest`` tokens counts when it stands at least ``fewest`` times, and has at least ``total``
    tokens with its repetitions: "no no no no" is something people say.
    """
    for period in range(1, longest + 1):
        times = max(fewest, -(-total // period))
        tail = tokens[-period * times :]
        if len(tail) == period * times and tail == tail[:period] * times:
            return period
    return 0


@dataclass(frozen=True, eq=False)
class _Network:
    """Both halves of the model, as sessions of onnxruntime."""

    encoder: Any
    decoder: Any

    def decode(self, samples: Samples, limit: int) -> list[int]:
        """Greedy tokens for one piece, at most ``limit``, without the loop that it may have ended in."""
        heard = np.ones((1, len(samples)), dtype=np.int64)
        (hidden,) = self.encoder.run(None, {"input_values": samples[None], "attention_mask": heard})
        # The exported decoder thins the mask out by itself: it wants that of the waveform.
        fixed = {"encoder_hidden_states": hidden, "encoder_attention_mask": heard}
        names = [output.name.replace("present", "past_key_values") for output in self.decoder.get_outputs()[1:]]
        past = {name: np.zeros((1, _HEADS, 0, _HEAD), dtype=np.float32) for name in names}
        tokens: list[int] = []
        token = _START
        while len(tokens) < limit:
            step = {"input_ids": np.array([[token]]), "use_cache_branch": np.array([bool(tokens)])}
            logits, *present = self.decoder.run(None, {**fixed, **past, **step})
            token = int(logits[0, -1].argmax())
            if token == _END:
                break
            # Only the first step computes the keys of the encoder's output; later ones give back nothing for them.
            past.update((n, v) for n, v in zip(names, present, strict=True) if not tokens or ".decoder." in n)
            tokens.append(token)
            if period := repetition(tokens):
                return _without_loop(tokens, period)
        return tokens


def _without_loop(tokens: list[int], period: int) -> list[int]:
    """Return the tokens up to the first repetition of the phrase that they end with."""
    keep = len(tokens)
    while keep > period and tokens[keep - 1] == tokens[keep - 1 - period]:
        keep -= 1
    return tokens[:keep]


@lru_cache(maxsize=1)
def _network() -> _Network:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1

    def session(name: str) -> Any:
        return onnxruntime.InferenceSession(str(model_file(name)), options, providers=["CPUExecutionProvider"])

    return _Network(session("encoder_model.ort"), session("decoder_model_merged.ort"))


def model_file(name: str) -> Path:
    """Return a file of the wheel, which is found and not imported (its microphone code needs more libraries)."""
    spec = importlib.util.find_spec("moonshine_voice")
    if spec is None or spec.origin is None:
        raise InputError("the model Moonshine tiny is not installed", fix=_INSTALL)
    path = Path(spec.origin).parent / "assets" / "tiny-en" / name
    if not path.is_file() or sha256_file(path) != FILES[name]:
        fix = f"{_INSTALL} --force-reinstall"
        raise InputError("not the file of moonshine-voice 0.1.0 that the figures hold for", where=path, fix=fix)
    return path


@lru_cache(maxsize=1)
def _vocabulary() -> list[bytes]:
    """Token -> bytes. An entry of the file is a length (one byte, or two from 128 on: low 7 bits first) and a text."""
    data = model_file("tokenizer.bin").read_bytes()
    entries, place = [], 0
    while place < len(data):
        length, place = data[place], place + 1
        if length >= 128:
            length, place = length - 128 + 128 * data[place], place + 1
        entries.append(data[place : place + length])
        place += length
    return entries


def _text(tokens: list[int]) -> str:
    """Return the text of tokens; SentencePiece writes a space as U+2581. Tokens such as <<ST_7>> are not text."""
    data = b"".join(_vocabulary()[token] for token in tokens if not _vocabulary()[token].startswith(b"<<"))
    return data.decode("utf-8", errors="ignore").replace("\N{LOWER ONE EIGHTH BLOCK}", " ").strip()


@recognizers.register("moonshine")
def _moonshine(model: str, *, online: bool = False) -> Recognizer:
    if model:
        raise InputError(f"moonshine takes no model, but {model!r} is given", fix="use `moonshine` alone")
    if importlib.util.find_spec("onnxruntime") is None:
        raise InputError("onnxruntime is not installed", fix=_INSTALL)
    for name in FILES:  # now, and not after an hour in a worker
        model_file(name)
    return Moonshine()
