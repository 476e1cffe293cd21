"""Trained systems in files, ``.npz``: named arrays and a JSON record. Nothing is unpickled."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.backends import Linear
from voiceveil.core.atomic_files import atomic_path
from voiceveil.core.documents import build, parse_json
from voiceveil.core.errors import InputError
from voiceveil.core.files import exists
from voiceveil.core.zip_files import read_npz
from voiceveil.models.speaker.plda import PldaScorer, TwoCovariance
from voiceveil.stats.logistic import LinearClassifier
from voiceveil.tdsv.fusion import Fusion, Logistic
from voiceveil.tdsv.phrase_models import PhraseClassifier, PhraseMatch, PhraseModel, Projection
from voiceveil.tdsv.speaker_models import PldaSpace, Voices, VoiceSpace
from voiceveil.tdsv.system import System

__all__ = ["load_system", "save_system"]

_KIND = "voiceveil tdsv system 1"
_LARGEST = 1 << 28  # bytes
Arrays = dict[str, NDArray[Any]]


def save_system(path: str | Path, system: System) -> Path:
    """Write a system and return the path; equal systems give equal arrays."""
    voices, wording = system.voices, system.wording
    arrays: Arrays = {"cohort": voices.cohort}
    if isinstance(voices, PldaSpace):
        plda = voices.scorer.model
        arrays |= {"voice_mean": voices.scorer.mean, "plda_mean": plda.mean}
        arrays |= {"plda_between": plda.between, "plda_within": plda.within}
    else:
        arrays["voice_mean"] = voices.linear.mean
        if voices.linear.matrix is not None:
            arrays["voice_matrix"] = voices.linear.matrix
    if isinstance(wording, PhraseClassifier):
        classifier = wording.classifier
        arrays |= {
            "class_mean": classifier.mean,
            "class_scale": classifier.scale,
            "class_weights": classifier.weights,
            "class_bias": classifier.bias,
        }
        labels = list(classifier.labels)
    elif isinstance(wording, PhraseMatch):
        labels = []
    else:
        raise InputError(
            f"a system with wording of the kind {wording.kind!r} cannot be saved", fix="use a classifier or a match"
        )
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
    """Return two weights and the bias, against impostors and against wrong words, shape (2, 3)."""
    return np.array([[*part.weights, part.bias] for part in (fusion.impostor, fusion.wrong)])


def load_system(path: str | Path) -> System:
    """Read a system; raise an ``InputError`` if the file is not one."""
    path = Path(path)
    fix = "give the file that `voiceveil tdsv train` wrote"
    try:
        if exists(path) and path.stat().st_size > _LARGEST:
            raise InputError("too large for a system", where=path, fix=fix)
        arrays = read_npz(path, largest=_LARGEST)
        document = parse_json(arrays["json"].tobytes(), nan=True)
        if document["kind"] != _KIND:
            raise InputError(f"a file of another kind: {str(document['kind'])[:80]}", where=path, fix=fix)
        record = build(_Record, document, where=path, fix=fix)
        _check_arrays(arrays, record)
        return _system(arrays, record)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or 'not a system'}", where=path, fix=fix) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("not a system, or a damaged one", where=path, fix=fix) from error


@dataclass(frozen=True)
class _Record:
    """The JSON record of a system."""

    kind: str
    task: int
    encoder: str
    fingerprint: str
    content: str
    wording: str
    labels: tuple[str, ...]
    top: int
    record: dict[str, Any]


def _check_arrays(arrays: Arrays, record: _Record) -> None:
    """Raise a ``ValueError`` if the arrays have values that are not finite, or do not fit each other."""
    for name, array in arrays.items():
        if name != "json" and not (array.dtype.kind == "f" and np.isfinite(array).all()):
            raise ValueError(f"{name} has values that are not finite numbers")
    d, k = len(arrays["voice_mean"]), arrays["cohort"].shape[1]
    size, classes = len(arrays["content_mean"]), len(record.labels)
    wanted = {
        "voice_mean": (d,),
        "voice_matrix": (d, k),
        "plda_mean": (k,),
        "plda_between": (k, k),
        "plda_within": (k, k),
        "content_mean": (size,),
        "content_matrix": (size, arrays["content_matrix"].shape[1]),
        "class_mean": (c := len(arrays.get("class_mean", ())),),
        "class_scale": (c,),
        "class_weights": (c, classes),
        "class_bias": (classes,),
        "fusion": (2, 3),
        "fusion_free": (2, 3),
    }
    if any(name in arrays and arrays[name].shape != shape for name, shape in wanted.items()):
        raise ValueError("the shapes of arrays do not agree")
    if not 1 <= record.top <= len(arrays["cohort"]) or ("voice_matrix" not in arrays and k != d):
        raise ValueError("the cohort does not agree with the other arrays")
    if "plda_mean" in arrays and not np.linalg.eigvalsh(arrays["plda_within"])[0] > 0:
        raise ValueError("the covariance within speakers is none")


def _system(arrays: Arrays, record: _Record) -> System:
    projection = Projection(arrays["content_mean"], arrays["content_matrix"])
    wording: PhraseModel = PhraseMatch(projection)
    if record.wording == PhraseClassifier.kind:
        names = ("class_mean", "class_scale", "class_weights", "class_bias")
        wording = PhraseClassifier(projection, LinearClassifier(record.labels, *(arrays[name] for name in names)))
    return System(
        record.task,
        record.encoder,
        record.fingerprint,
        record.content,
        _voices(arrays, record.top),
        wording,
        _fusion(arrays["fusion"]),
        _fusion(arrays["fusion_free"]) if "fusion_free" in arrays else None,
        record.record,
    )


def _voices(arrays: Arrays, top: int) -> Voices:
    if "plda_mean" not in arrays:
        return VoiceSpace(Linear(arrays["voice_mean"], arrays.get("voice_matrix")), arrays["cohort"], top)
    model = TwoCovariance(arrays["plda_mean"], arrays["plda_between"], arrays["plda_within"])
    return PldaSpace(PldaScorer(arrays["voice_mean"], None, model, by_count=False), arrays["cohort"], top)


def _fusion(table: NDArray[np.float64]) -> Fusion:
    impostor, wrong = (Logistic(np.array(row[:2]), float(row[2])) for row in table)
    return Fusion(impostor, wrong)
