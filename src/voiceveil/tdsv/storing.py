"""A trained system as one file, ``.npz``: named arrays and a JSON record. Data, never code: no pickle is read."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.backends import Linear
from voiceveil.audio import atomic_path
from voiceveil.errors import InputError
from voiceveil.npz import read_npz
from voiceveil.tdsv.fusion import Fusion, Logistic
from voiceveil.tdsv.system import System
from voiceveil.tdsv.voices import VoiceSpace
from voiceveil.tdsv.wording import PhraseClassifier, PhraseMatch, Projection, Wording
from voiceveil.utility.logistic import LinearClassifier

__all__ = ["load_system", "save_system"]

_KIND = "voiceveil tdsv system 1"
_LARGEST = 1 << 28  # bytes
Arrays = dict[str, NDArray[Any]]


def save_system(path: str | Path, system: System) -> Path:
    """Write a system; the same one gives the same bytes of each array."""
    voices, wording = system.voices, system.wording
    arrays: Arrays = {"voice_mean": voices.linear.mean, "cohort": voices.cohort}
    if voices.linear.matrix is not None:
        arrays["voice_matrix"] = voices.linear.matrix
    if isinstance(wording, PhraseClassifier):
        one = wording.classifier
        arrays |= {
            "class_mean": one.mean,
            "class_scale": one.scale,
            "class_weights": one.weights,
            "class_bias": one.bias,
        }
        labels = list(one.labels)
    elif isinstance(wording, PhraseMatch):
        labels = []
    else:
        raise InputError(f"a system with wording of the kind {wording.kind!r} cannot be kept")
    arrays |= {"content_mean": wording.projection.mean, "content_matrix": wording.projection.matrix}
    arrays["fusion"] = _coefficients(system.fusion)
    if system.fusion_free is not None:
        arrays["fusion_free"] = _coefficients(system.fusion_free)
    record = {
        "kind": _KIND,
        "task": system.task,
        "encoder": system.encoder,
        "fingerprint": system.fingerprint,
        "content": system.content,
        "wording": wording.kind,
        "labels": labels,
        "top": voices.top,
        "record": dict(system.record),
    }
    arrays["json"] = np.frombuffer(json.dumps(record, sort_keys=True).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    with atomic_path(path) as part:
        part.write_bytes(buffer.getbuffer())
    return Path(path)


def _coefficients(fusion: Fusion) -> NDArray[np.float64]:
    """Shape (2, 3): against impostors, against wrong words; two weights and the bias."""
    return np.array([[*one.weights, one.bias] for one in (fusion.impostor, fusion.wrong)])


def load_system(path: str | Path) -> System:
    """Read a system; anything else is an ``InputError``."""
    path = Path(path)
    fix = "give the file that `voiceveil tdsv train` wrote"
    try:
        if path.stat().st_size > _LARGEST:
            raise InputError("too large for a system", where=path, fix=fix)
        arrays = read_npz(path, largest=_LARGEST)
        record = json.loads(arrays["json"].tobytes())
        if record["kind"] != _KIND:
            raise InputError(f"a file of another kind: {record['kind']}", where=path, fix=fix)
        return _system(arrays, record)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or 'not a system'}", where=path, fix=fix) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("not a system, or a damaged one", where=path, fix=fix) from error


def _system(arrays: Arrays, record: dict[str, Any]) -> System:
    projection = Projection(arrays["content_mean"], arrays["content_matrix"])
    wording: Wording = PhraseMatch(projection)
    if record["wording"] == PhraseClassifier.kind:
        names = ("class_mean", "class_scale", "class_weights", "class_bias")
        wording = PhraseClassifier(
            projection, LinearClassifier(tuple(map(str, record["labels"])), *(arrays[name] for name in names))
        )
    linear = Linear(arrays["voice_mean"], arrays.get("voice_matrix"))
    return System(
        int(record["task"]),
        str(record["encoder"]),
        str(record["fingerprint"]),
        str(record["content"]),
        VoiceSpace(linear, arrays["cohort"], int(record["top"])),
        wording,
        _fusion(arrays["fusion"]),
        _fusion(arrays["fusion_free"]) if "fusion_free" in arrays else None,
        dict(record["record"]),
    )


def _fusion(table: NDArray[np.float64]) -> Fusion:
    impostor, wrong = (Logistic(np.array(row[:2]), float(row[2])) for row in table)
    return Fusion(impostor, wrong)
