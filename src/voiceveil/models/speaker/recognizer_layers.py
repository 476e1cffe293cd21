"""All layers of a Moonshine encoder in one pass: of tiny, whose model comes inside a wheel, or of a file of the user's.

Conventions: 16 kHz; the output of layer ``i``, counted from 1, has shape (frames, width), a vector every 384 samples.
The last layer is taken after its normalization, as the decoder receives it.

Exported models have one output, that of the last layer. onnxruntime returns those of inner layers if the graph lists
them: in an ONNX file (protobuf) outputs can be appended, as concatenated messages are merged; in the ORT file of the
wheel (a FlatBuffer) the reference to the list of outputs is changed to point to a list at the end of the file.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples
from voiceveil.core.errors import InputError
from voiceveil.models.asr import moonshine

__all__ = ["SPAN", "STRIDE", "check_model", "count_layers", "layer_outputs"]

#: Samples between two vectors, and samples that enter one: the convolutions have kernels of 127, 7 and 3, strides of
#: 64, 3 and 2.
STRIDE = 64 * 3 * 2
SPAN = 127 + 64 * (7 - 1) + 64 * 3 * (3 - 1)

_TINY_LAYERS = 6
_MAX_BYTES = 1 << 30
_PIECE, _CONTEXT = 16 * 16000 // STRIDE, 40  # frames of a piece, and of context on each side: about a second
_LAST = "last_hidden_state"
_FIX = "give encoder_model.onnx of Moonshine, e.g. of the npm package @usefulsensors/moonshine-js"
#: Position in the ORT file of the wheel of the reference to the list of outputs: a distance in bytes from there.
_OUTPUTS_REFERENCE = 4412


def count_layers(file: str = "") -> int:
    """Return the number of layers of Moonshine tiny (6), or of the model in an ONNX file."""
    return len(_inner_names(Path(file).read_bytes())) if file else _TINY_LAYERS


def check_model(file: str, layer: int) -> None:
    """Raise an ``InputError`` if a model is missing or of another kind, or has no such layer."""
    if not file:
        moonshine.model_file("encoder_model.ort")
    elif not Path(file).is_file() or Path(file).stat().st_size > _MAX_BYTES:
        raise InputError("no such model", where=file, fix=_FIX)
    layers = count_layers(file)
    if layers < 2:
        raise InputError("this is no encoder of Moonshine in the format ONNX", where=file, fix=_FIX)
    if not 1 <= layer <= layers:
        model = f"the model {file}" if file else "Moonshine tiny"
        raise InputError(f"{model} has no layer {layer}", fix=f"use a layer from 1 to {layers}")
    if file:
        _session(file)


def layer_outputs(samples: Samples, file: str = "") -> list[NDArray[np.float32]]:
    """Return the output (frames, width) of each layer, the first one first.

    Recordings longer than 16 s are processed in overlapping pieces.

    Parameters
    ----------
    samples
        At 16 kHz, at least ``SPAN``.
    file
        An ONNX file, or "" for Moonshine tiny.
    """
    session, names = _session(file)
    inputs = {entry.name for entry in session.get_inputs()}
    frames = (len(samples) - SPAN) // STRIDE + 1
    pieces = []
    for first in range(0, frames, _PIECE):
        begin, end = max(0, first - _CONTEXT), min(frames, first + _PIECE + _CONTEXT)
        piece = samples[begin * STRIDE : (end - 1) * STRIDE + SPAN][None]
        given = {"input_values": piece, "attention_mask": np.ones(piece.shape, dtype=np.int64)}
        outputs = session.run(names, {name: value for name, value in given.items() if name in inputs})
        keep = slice(first - begin, min(_PIECE, frames - first) + first - begin)
        pieces.append([output[0, keep] for output in outputs])
    return [np.concatenate(layer) for layer in zip(*pieces, strict=True)]


def _inner_names(model: bytes) -> list[str]:
    """Return the names of the layers' outputs in an ONNX model; that of the last one is its normalized output."""
    numbers = {int(number) for number in re.findall(rb"/layers\.(\d+)/Add_1_output_0", model)}
    if numbers != set(range(len(numbers))) or _LAST.encode() not in model:
        return []
    return [f"/layers.{number}/Add_1_output_0" for number in sorted(numbers)[:-1]] + [_LAST]


@lru_cache(maxsize=2)
def _session(file: str) -> tuple[Any, list[str]]:
    """Return a session of onnxruntime and the names of its outputs, one of each layer."""
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError("onnxruntime is not installed", fix="pip install 'voiceveil[asr]'") from error
    if file:
        data = Path(file).read_bytes()
        names = _inner_names(data)
        model = data + _protobuf_outputs(names[:-1])
    else:
        names = [f"/layers.{number}/Add_1_output_0" for number in range(_TINY_LAYERS - 1)] + [_LAST]
        model = _flatbuffer_outputs(moonshine.model_file("encoder_model.ort").read_bytes(), names)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # it warns that appended outputs have no type
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises many types on a file of another kind
        reason = str(error).splitlines()[0][:200]
        raise InputError(f"onnxruntime cannot load the model: {reason}", where=file or None, fix=_FIX) from error
    return session, names


def _protobuf_outputs(names: list[str]) -> bytes:
    """Return a ``ModelProto`` with nothing but a graph (field 7) with outputs (field 12) of some names (field 1)."""
    graph = b"".join(_field(12, _field(1, name.encode())) for name in names)
    return _field(7, graph)


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field of a protobuf message."""
    size, digits = len(content), b""
    while size >= 128:
        digits += bytes([size % 128 + 128])
        size //= 128
    return bytes([8 * number + 2]) + digits + bytes([size]) + content


def _flatbuffer_outputs(model: bytes, names: list[str]) -> bytes:
    """Return an ORT model whose list of outputs has the names given; right for the file of the wheel alone."""
    data = bytearray(model + b"\0" * (-len(model) % 4))
    struct.pack_into("<I", data, _OUTPUTS_REFERENCE, len(data) - _OUTPUTS_REFERENCE)
    data += struct.pack("<I", len(names))
    references = len(data)
    data += b"\0" * (4 * len(names))
    for number, name in enumerate(names):
        position = references + 4 * number
        struct.pack_into("<I", data, position, len(data) - position)
        data += struct.pack("<I", len(name)) + name.encode() + b"\0" * (4 - len(name) % 4)
    return bytes(data)
