"""The default recognizer: Moonshine tiny (Jeffries et al. 2024), English, 27 million parameters, MIT license.

Its weights come inside the wheel of ``moonshine-voice`` and run in onnxruntime; nothing is downloaded. The encoder
turns the waveform at 16 kHz into a 288-dimensional vector every 384 samples (24 ms); the decoder predicts the next
token from the encoder's output and its previous tokens, until it predicts the end.

``moonshine:FOLDER`` takes ``encoder_model.onnx`` and ``decoder_model_merged.onnx`` from a folder of the user's, such as
those of Moonshine base (61 million parameters), which makes half as many errors. The tokens are those of tiny.

Decoding is greedy. On speech unlike its training data, such as anonymized speech, such a decoder may not end: it is
stopped when there are more tokens than can be spoken in the time, or when it repeats a phrase.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from voiceveil.audio import Samples
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import Recognizer, recognizers
from voiceveil.models.asr.segmentation import PiecewiseRecognizer
from voiceveil.run.ledger import sha256_file

__all__ = ["Decoded", "Moonshine", "decode_with_entropy", "model_file", "repetition"]

#: The files of moonshine-voice 0.1.0 and their hashes.
FILES = {
    "encoder_model.ort": "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
    "decoder_model_merged.ort": "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
    "tokenizer.bin": "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
}
_INSTALL = "pip install 'voiceveil[asr]'"
_ENCODER, _DECODER = "encoder_model", "decoder_model_merged"
#: Largest file of a model of the user's.
_MAX_BYTES = 1 << 30
_FIX = "give a folder with encoder_model.onnx and decoder_model_merged.onnx, e.g. of the npm package moonshine-js"
_START, _END = 1, 2  # tokens
#: Fewest samples for one vector of the encoder: kernels/strides of its convolutions are 127/64, 7/3 and 3/2.
_MIN_SAMPLES = 127 + 64 * (7 + 3 * (3 - 1) - 1)


@dataclass(frozen=True)
class Moonshine(PiecewiseRecognizer):
    """Moonshine tiny, or another size of Moonshine, with greedy decoding.

    Parameters
    ----------
    max_seconds
        Longer utterances are cut at pauses.
    tokens_per_second
        Decoding stops after this many tokens for each second of audio; fast English speech has up to six.
    folder
        Folder of another size of Moonshine in the format ONNX; "" for tiny.
    """

    max_seconds: float = 30.0
    tokens_per_second: float = 8.0
    folder: str = ""

    min_samples: ClassVar[int] = _MIN_SAMPLES

    def fingerprint(self) -> str:
        """Return the hash of the model, the version (1) of the decoding, and the options."""
        hashes = [sha256_file(path) for path in _model_files(self.folder)] if self.folder else list(FILES.values())
        model = hashlib.sha256("".join(hashes).encode()).hexdigest()[:16]
        size = "" if self.folder else "-tiny"
        return f"moonshine{size} {model} 1 {self.max_seconds} {self.tokens_per_second}"

    def transcribe_piece(self, samples: Samples) -> str:
        """Return the transcript of a piece, with the punctuation and capitals that the model writes."""
        return _text(_network(self.folder).decode(samples, self.token_limit(len(samples))))

    def token_limit(self, samples: int) -> int:
        """Return after how many tokens decoding of a piece stops."""
        return max(1, round(samples / self.rate * self.tokens_per_second))


@dataclass(frozen=True)
class Decoded:
    """How sure the decoder was of a piece: tokens, mean entropy of its choices in nats, repetition without end."""

    tokens: int
    entropy: float
    repeated: bool


def decode_with_entropy(samples: Samples) -> Decoded:
    """Decode a piece (n,) at 16 kHz of at most 30 s, and return how sure the decoder was of tokens and end."""
    entropies: list[float] = []
    tokens = _network().decode(samples, Moonshine().token_limit(len(samples)), entropies)
    repeated = len(entropies) - len(tokens) > 1  # more than the end is missing: a loop was removed
    return Decoded(len(entropies) if repeated else len(tokens), float(np.mean(entropies)), repeated)


def repetition(tokens: list[int], *, min_times: int = 4, min_tokens: int = 12, max_period: int = 16) -> int:
    """Return the length in tokens of the phrase that is repeated at the end of the tokens; 0 if there is none.

    A phrase of at most ``max_period`` tokens counts as a loop if it occurs at least ``min_times`` times in a row and
    these occurrences have at least ``min_tokens`` tokens: "no no no no" is something people say.
    """
    for period in range(1, max_period + 1):
        times = max(min_times, -(-min_tokens // period))
        tail = tokens[-period * times :]
        if len(tail) == period * times and tail == tail[:period] * times:
            return period
    return 0


@dataclass(frozen=True, eq=False)
class _Network:
    """Encoder and decoder, as sessions of onnxruntime."""

    encoder: Any
    decoder: Any

    def decode(self, samples: Samples, limit: int, entropies: list[float] | None = None) -> list[int]:
        """Return at most ``limit`` greedily decoded tokens of a piece (n,), without a repeated phrase at the end.

        The entropy of each choice, in nats, is added to ``entropies`` if it is given.
        """
        mask = np.ones((1, len(samples)), dtype=np.int64)
        (hidden,) = _run(self.encoder, {"input_values": samples[None], "attention_mask": mask})
        # The exported decoder subsamples the mask itself: it takes that of the waveform, if it takes one.
        fixed = {"encoder_hidden_states": hidden, "encoder_attention_mask": mask}
        names = [output.name.replace("present", "past_key_values") for output in self.decoder.get_outputs()[1:]]
        shapes = {entry.name: entry.shape for entry in self.decoder.get_inputs()}  # (batch, heads, past, head size)
        past = {name: np.zeros((1, shapes[name][1], 0, shapes[name][3]), dtype=np.float32) for name in names}
        tokens: list[int] = []
        token = _START
        while len(tokens) < limit:
            step = {"input_ids": np.array([[token]]), "use_cache_branch": np.array([bool(tokens)])}
            logits, *present = _run(self.decoder, {**fixed, **past, **step})
            token = int(logits[0, -1].argmax())
            if entropies is not None:
                entropies.append(_entropy(logits[0, -1]))
            if token == _END:
                break
            # Only the first step returns keys and values of the encoder's output; later steps return them empty.
            past.update((n, v) for n, v in zip(names, present, strict=True) if not tokens or ".decoder." in n)
            tokens.append(token)
            if period := repetition(tokens):
                return _without_loop(tokens, period)
        return tokens


def _run(session: Any, values: dict[str, Any]) -> Any:
    """Return the outputs of a session for those of the values that it takes."""
    return session.run(None, {entry.name: values[entry.name] for entry in session.get_inputs()})


def _entropy(logits: Samples) -> float:
    """Return the entropy of the softmax of logits, in nats."""
    shifted = logits.astype(np.float64) - logits.max()
    weights = np.exp(shifted)
    return float(np.log(weights.sum()) - (weights * shifted).sum() / weights.sum())


def _without_loop(tokens: list[int], period: int) -> list[int]:
    """Return the tokens with the repeated phrase at their end kept once."""
    keep = len(tokens)
    while keep > period and tokens[keep - 1] == tokens[keep - 1 - period]:
        keep -= 1
    return tokens[:keep]


@lru_cache(maxsize=2)
def _network(folder: str = "") -> _Network:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        encoder, decoder = (
            onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
            for path in _model_files(folder)
        )
    except Exception as error:  # onnxruntime raises many types on a file of another kind
        reason = str(error).splitlines()[0][:200]
        raise InputError(f"onnxruntime cannot load the model: {reason}", where=folder or None, fix=_FIX) from error
    names = {entry.name for entry in (*encoder.get_inputs(), *decoder.get_inputs())}
    if not {"input_values", "input_ids", "encoder_hidden_states", "use_cache_branch"} <= names:
        raise InputError("this is no recognizer of the kind Moonshine", where=folder or None, fix=_FIX)
    return _Network(encoder, decoder)


def _model_files(folder: str) -> tuple[Path, Path]:
    """Return the files of encoder and decoder: those of the wheel for "", else those in a folder."""
    if not folder:
        return model_file(f"{_ENCODER}.ort"), model_file(f"{_DECODER}.ort")
    encoder, decoder = (Path(folder) / f"{name}.onnx" for name in (_ENCODER, _DECODER))
    for path in (encoder, decoder):
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            raise InputError("no such model", where=path, fix=_FIX)
    return encoder, decoder


def model_file(name: str) -> Path:
    """Return a file of the wheel, after checking its hash.

    The package is located, not imported, because its microphone code needs more libraries.
    """
    spec = importlib.util.find_spec("moonshine_voice")
    if spec is None or spec.origin is None:
        raise InputError("the model Moonshine tiny is not installed", fix=_INSTALL)
    path = Path(spec.origin).parent / "assets" / "tiny-en" / name
    if not path.is_file() or sha256_file(path) != FILES[name]:
        fix = f"{_INSTALL} --force-reinstall"
        problem = "the file is missing, or differs from that of moonshine-voice 0.1.0"
        raise InputError(problem, where=path, fix=fix)
    return path


@lru_cache(maxsize=1)
def _vocabulary() -> list[bytes]:
    """Return the bytes of each token.

    An entry of the file is a length (one byte, or two bytes from 128 on: low 7 bits first), then the token's bytes.
    """
    data = model_file("tokenizer.bin").read_bytes()
    entries, position = [], 0
    while position < len(data):
        length, position = data[position], position + 1
        if length >= 128:
            length, position = length - 128 + 128 * data[position], position + 1
        entries.append(data[position : position + length])
        position += length
    return entries


def _text(tokens: list[int]) -> str:
    """Return the text of tokens, without control tokens such as <<ST_7>>; SentencePiece writes a space as U+2581."""
    data = b"".join(_vocabulary()[token] for token in tokens if not _vocabulary()[token].startswith(b"<<"))
    return data.decode("utf-8", errors="ignore").replace("\N{LOWER ONE EIGHTH BLOCK}", " ").strip()


@recognizers.register("moonshine")
def _moonshine(model: str, *, online: bool = False) -> Recognizer:
    if importlib.util.find_spec("onnxruntime") is None:
        raise InputError("onnxruntime is not installed", fix=_INSTALL)
    for name in FILES:  # an error now is better than one in a worker an hour later
        model_file(name)
    if model:
        _network(model)
    return Moonshine(folder=model)
