"""Pretrained models in the format of ``transformers``: locating, checking and loading them safely.

Conventions: a model is a folder (``config.json``, weights, vocabulary) or a hub id such as ``openai/whisper-base.en``.
A hub id is looked up among the models already on this machine; it is downloaded only if the user allows it
(``online=True``).

Weights are safetensors, or a ``.bin`` file that is read as data only (``weights_only``); code that comes with a model
is never run. A model with missing weights is refused, because ``transformers`` would initialize them at random.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.audio import Samples
from voiceveil.core.documents import read_json
from voiceveil.core.errors import InputError
from voiceveil.run.ledger import sha256_file

__all__ = [
    "check_files",
    "digest",
    "digest_files",
    "find_model",
    "load_processor",
    "load_weights",
    "model_kind",
    "normalize_samples",
    "preprocessing",
    "read_config",
]

_INSTALL = "pip install 'voiceveil[transformers]'"
_HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
_MAX_TENSORS = 20_000  # the largest Whisper has 1,300
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
#: Missing in checkpoints of wav2vec 2.0 that were trained without masking; only training uses it.
_OPTIONAL_WEIGHTS = {"masked_spec_embed"}


def find_model(model: str | Path, *, online: bool = False) -> Path:
    """Return the folder of a model.

    Parameters
    ----------
    model
        The folder, or a hub id ``OWNER/NAME``.
    online
        Whether a hub id that is not on this machine may be downloaded.

    Raises
    ------
    InputError
        If there is no such folder, or the hub id is not on this machine or cannot be downloaded.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if folder.exists():
        raise InputError("this is a file, not the folder of a model", where=folder, fix=f"give {folder.parent}")
    if not _HUB_ID.fullmatch(str(model)):
        raise InputError("no such folder", where=model, fix="give the folder of a model, or a hub id OWNER/NAME")
    return _download(str(model)) if online else _from_hub_cache(str(model))


def _from_hub_cache(hub_id: str) -> Path:
    hub = _hub()
    try:
        return Path(hub.snapshot_download(hub_id, local_files_only=True))
    except hub.errors.LocalEntryNotFoundError as error:
        fix = f"give its folder, download it with `hf download {hub_id}`, or allow downloads (online)"
        raise InputError(f"the model {hub_id} is neither a folder nor on this machine", fix=fix) from error


def _download(hub_id: str) -> Path:
    hub = _hub()
    try:
        folder = Path(hub.snapshot_download(hub_id, allow_patterns=["*.json", "*.txt", "*.model", _WEIGHTS[0]]))
        if not any(folder.glob(_WEIGHTS[0])):
            folder = Path(hub.snapshot_download(hub_id, allow_patterns=[_WEIGHTS[1]]))
    except (OSError, hub.errors.HfHubHTTPError, hub.errors.LocalEntryNotFoundError) as error:
        reason = str(error).strip().splitlines()[0]
        fix = "check the model's name and the network connection"
        raise InputError(f"the model {hub_id} cannot be downloaded: {reason}", fix=fix) from error
    return folder


def _hub() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError as error:
        raise InputError("transformers is not installed", fix=_INSTALL) from error
    return huggingface_hub


def read_config(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """Return the content of a JSON file in the folder of a model; an ``InputError`` if it is missing or no object."""
    path = folder / name
    if not path.exists():
        fix = f"give a folder with {name}, weights and vocabulary, as save_pretrained() writes it"
        raise InputError(f"not a model of transformers: {name} is missing", where=folder, fix=fix)
    config = read_json(path, nan=True)
    if not isinstance(config, dict):
        raise InputError("the settings of the model are not a JSON object", where=path, fix="copy the model again")
    return config


def model_kind(model: str | Path, *, online: bool = False) -> str:
    """Return ``ctc`` or ``whisper``, the kind of recognizer that the model's settings name.

    Parameters
    ----------
    model
        The folder, or a hub id.
    online
        Whether a hub id that is not on this machine may be downloaded.

    Raises
    ------
    InputError
        If the model is of any other kind.
    """
    folder = find_model(model, online=online)
    config = read_config(folder)
    architectures = config.get("architectures") or []
    if not isinstance(architectures, list):
        raise InputError("`architectures` is not a list", where=folder / "config.json", fix="copy the model again")
    if any(str(name).endswith("ForCTC") for name in architectures):
        return "ctc"
    if "WhisperForConditionalGeneration" in architectures:
        return "whisper"
    kind = ", ".join(map(str, architectures)) or config.get("model_type")
    fix = "give a CTC model (...ForCTC) or a Whisper model"
    raise InputError(f"a model of kind {kind}, not a recognizer", where=folder, fix=fix)


def check_files(folder: Path, kind: str, vocabulary: Sequence[str]) -> None:
    """Raise an ``InputError`` if a model is of another kind, or its weights or its vocabulary are missing.

    Parameters
    ----------
    folder
        The folder of the model.
    kind
        ``ctc`` or ``whisper``.
    vocabulary
        Names of vocabulary files, of which one is needed.
    """
    actual = model_kind(folder)
    if actual != kind:
        raise InputError(f"a {actual} model, not a {kind} model", where=folder, fix=f"use it as {actual}:{folder}")
    if not any(path for pattern in _WEIGHTS for path in folder.glob(pattern)):
        raise InputError("the model has no weights", where=folder, fix="it needs model.safetensors")
    if not any((folder / name).is_file() for name in vocabulary):
        raise InputError("the model has no vocabulary", where=folder, fix=f"it needs {' or '.join(vocabulary)}")


def preprocessing(folder: Path) -> dict[str, Any]:
    """Return the settings of the model's feature extractor; an empty dictionary if the folder has none."""
    if (folder / "preprocessor_config.json").is_file():
        return read_config(folder, "preprocessor_config.json")
    if (folder / "processor_config.json").is_file():
        nested = read_config(folder, "processor_config.json").get("feature_extractor")
        return nested if isinstance(nested, dict) else {}
    return {}


def normalize_samples(folder: Path, samples: Samples) -> Samples:
    """Return an utterance (n,) with zero mean and unit variance, if the model in ``folder`` was trained so."""
    if not preprocessing(folder).get("do_normalize", True):
        return samples
    scaled: Samples = ((samples - samples.mean()) / np.sqrt(samples.var() + 1e-7)).astype(np.float32)
    return scaled


def digest(folder: Path) -> str:
    """Return a hash of the files that results depend on: settings, vocabulary, weights."""
    patterns = ("*.json", "*.txt", "*.model", *_WEIGHTS)
    return digest_files(sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}))


def digest_files(paths: Iterable[Path]) -> str:
    """Return a hash of the names and contents of some files."""
    total = hashlib.sha256()
    for path in paths:
        status = path.stat()
        total.update(f"{path.name} {_file_digest(path, status.st_size, status.st_mtime_ns)}\n".encode())
    return total.hexdigest()[:32]


@lru_cache(maxsize=256)
def _file_digest(path: Path, size: int, modified: int) -> str:
    """Return the hash of a file, computed again only if its size or modification time changed."""
    return sha256_file(path)


def load_weights(folder: Path, auto_class: str, device: str) -> Any:
    """Return the network of a folder, in evaluation mode; torch is limited to one thread.

    Parameters
    ----------
    folder
        The folder of the model.
    auto_class
        The class of ``transformers`` that loads it, e.g. ``AutoModelForCTC``.
    device
        A device of torch, e.g. ``cpu`` or ``cuda:0``.

    Raises
    ------
    InputError
        If the weights are damaged or incomplete, or the device cannot be used.
    """
    torch, transformers = _import_libraries()
    from voiceveil.models.checkpoint import check_torch_file, limit_parameters

    torch.set_num_threads(1)
    # safetensors are preferred to .bin; code of the model is never run
    options = {"local_files_only": True, "trust_remote_code": False, "weights_only": True, "output_loading_info": True}
    files = [file for pattern in _WEIGHTS for file in folder.glob(pattern)]
    for file in files:
        if file.suffix == ".bin":
            check_torch_file(file)
    max_values = sum(file.stat().st_size for file in files) + 1_000_000  # a value takes at least a byte
    try:
        with limit_parameters(_MAX_TENSORS, max_values):
            network, loaded = getattr(transformers, auto_class).from_pretrained(folder, dtype=torch.float32, **options)
    except Exception as error:  # a damaged file can raise anything inside a large library
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"the model cannot be loaded: {reason}", where=folder, fix="copy it again") from error
    missing = [key for key in loaded["missing_keys"] if key.rsplit(".", 1)[-1] not in _OPTIONAL_WEIGHTS]
    if missing or loaded.get("mismatched_keys"):
        example = missing[0] if missing else next(iter(loaded["mismatched_keys"]))
        problem = f"weights are missing or have another shape, e.g. {example}"
        raise InputError(problem, where=folder, fix="give a model that was trained for recognition")
    try:
        return network.eval().to(device)
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = str(error).splitlines()[0]
        raise InputError(f"the device {device!r} cannot be used: {reason}", fix="use cpu") from error


def load_processor(folder: Path, auto_class: str) -> Any:
    """Return the tokenizer, feature extractor or processor of a folder, loaded by a class of ``transformers``."""
    _, transformers = _import_libraries()
    try:
        return getattr(transformers, auto_class).from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # as in load_weights
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        problem = f"the model's vocabulary cannot be loaded: {reason}"
        raise InputError(problem, where=folder, fix="copy it again") from error


def _import_libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise InputError("torch and transformers are not installed", fix=_INSTALL) from error
    logs: Any = transformers.logging
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    return torch, transformers
