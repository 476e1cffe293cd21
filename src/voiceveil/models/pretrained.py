"""Models of ``transformers`` that a user names: found, checked and loaded safely.

Conventions: a model is a folder (``config.json``, weights, vocabulary), or a hub id such as
``openai/whisper-base.en``. A hub id is looked up among the models that are on this machine already; the network is
used only when the user says so (``online=True``).

Weights are safetensors, or a ``.bin`` that is read as data alone (``weights_only``); code that comes with a model is
never run. A model some of whose weights are missing is refused: ``transformers`` would fill them in at random.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from voiceveil.core.documents import read_json
from voiceveil.core.errors import InputError
from voiceveil.run.ledger import sha256_file

__all__ = ["digest", "find_model", "load_weights", "model_kind", "preprocessing", "read_config"]

_INSTALL = "pip install 'voiceveil[transformers]'"
_HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
_MOST_PARAMETERS = 20_000  # tensors; the largest Whisper has 1,300
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
#: Absent from checkpoints of wav2vec 2.0 that were trained without masking; used in training alone.
_MAY_BE_MISSING = {"masked_spec_embed"}


def find_model(model: str | Path, *, online: bool = False) -> Path:
    """Return the folder of a model that is given by its path or its hub id."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if folder.exists():
        raise InputError("a file, not the folder of a model", where=folder, fix=f"give {folder.parent}")
    if not _HUB_ID.fullmatch(str(model)):
        raise InputError("no such folder", where=model, fix="give the folder of a model, or a hub id OWNER/NAME")
    return _in_cache(str(model)) if not online else _download(str(model))


def _in_cache(hub_id: str) -> Path:
    from_hub = _hub()
    try:
        return Path(from_hub.snapshot_download(hub_id, local_files_only=True))
    except from_hub.errors.LocalEntryNotFoundError as error:
        fix = f"give its folder, fetch it with `hf download {hub_id}`, or allow downloads (online)"
        raise InputError(f"the model {hub_id} is neither a folder nor on this machine", fix=fix) from error


def _download(hub_id: str) -> Path:
    from_hub = _hub()
    try:
        folder = Path(from_hub.snapshot_download(hub_id, allow_patterns=["*.json", "*.txt", "*.model", _WEIGHTS[0]]))
        if not any(folder.glob(_WEIGHTS[0])):
            folder = Path(from_hub.snapshot_download(hub_id, allow_patterns=[_WEIGHTS[1]]))
    except (OSError, from_hub.errors.HfHubHTTPError, from_hub.errors.LocalEntryNotFoundError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"the model {hub_id} cannot be fetched: {reason}", fix="check its name and the net") from error
    return folder


def _hub() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError as error:
        raise InputError("transformers is not installed", fix=_INSTALL) from error
    return huggingface_hub


def read_config(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """Return a JSON file of the model."""
    path = folder / name
    if not path.exists():
        fix = f"give a folder with {name}, the weights and the vocabulary, as save_pretrained() writes it"
        raise InputError("not a model of transformers", where=folder, fix=fix)
    config = read_json(path, nan=True)
    if not isinstance(config, dict):
        raise InputError("not the settings of a model", where=path)
    return config


def model_kind(model: str | Path, *, online: bool = False) -> str:
    """``ctc`` or ``whisper``, by what the model's settings say; an ``InputError`` for any other kind."""
    folder = find_model(model, online=online)
    config = read_config(folder)
    kinds = config.get("architectures") or []
    if not isinstance(kinds, list):
        raise InputError("its architectures are not a list", where=folder / "config.json")
    if any(str(kind).endswith("ForCTC") for kind in kinds):
        return "ctc"
    if "WhisperForConditionalGeneration" in kinds:
        return "whisper"
    what = f"a model of kind {', '.join(map(str, kinds)) or config.get('model_type')}, not a recognizer"
    raise InputError(what, where=folder, fix="give a CTC model (...ForCTC) or a Whisper model")


def check_files(folder: Path, kind: str, vocabulary: Sequence[str]) -> None:
    """Refuse a folder of another kind, without weights, or without any of the ``vocabulary`` files."""
    found = model_kind(folder)
    if found != kind:
        raise InputError(f"a {found} model, not a {kind} model", where=folder, fix=f"use it as {found}:{folder}")
    if not any(path for pattern in _WEIGHTS for path in folder.glob(pattern)):
        raise InputError("the model has no weights", where=folder, fix="it needs model.safetensors")
    if not any((folder / name).is_file() for name in vocabulary):
        raise InputError("the model has no vocabulary", where=folder, fix=f"it needs {' or '.join(vocabulary)}")


def preprocessing(folder: Path) -> dict[str, Any]:
    """Return the settings of the model's feature extractor; none if the folder has none."""
    if (folder / "preprocessor_config.json").is_file():
        return read_config(folder, "preprocessor_config.json")
    if (folder / "processor_config.json").is_file():
        nested = read_config(folder, "processor_config.json").get("feature_extractor")
        return nested if isinstance(nested, dict) else {}
    return {}


def digest(folder: Path) -> str:
    """Return a hash of all that the results depend on: settings, vocabulary, weights."""
    patterns = ("*.json", "*.txt", "*.model", *_WEIGHTS)
    files = sorted({path for pattern in patterns for path in folder.glob(pattern) if path.is_file()})
    total = hashlib.sha256()
    for path in files:
        status = path.stat()
        total.update(f"{path.name} {_file_digest(path, status.st_size, status.st_mtime_ns)}\n".encode())
    return total.hexdigest()[:32]


@lru_cache(maxsize=256)
def _file_digest(path: Path, size: int, changed: int) -> str:
    """Read again only when the size or the time of change is new: weights have gigabytes."""
    return sha256_file(path)


def load_weights(folder: Path, auto_class: str, device: str) -> Any:
    """The network of a folder, by the ``transformers`` class that knows its kind; in evaluation mode, one thread."""
    torch, transformers = _libraries()
    from voiceveil.models.checkpoint import check_torch_file, limited_parameters

    torch.set_num_threads(1)
    # safetensors first, then .bin; never code of the model's own
    options = {"local_files_only": True, "trust_remote_code": False, "weights_only": True, "output_loading_info": True}
    files = [file for pattern in _WEIGHTS for file in folder.glob(pattern)]
    for file in files:
        if file.suffix == ".bin":
            check_torch_file(file)
    values = sum(file.stat().st_size for file in files)  # at least a byte each
    try:
        with limited_parameters(_MOST_PARAMETERS, values + 1_000_000):
            network, loaded = getattr(transformers, auto_class).from_pretrained(folder, dtype=torch.float32, **options)
    except Exception as error:  # whatever a damaged file leads to inside a large library
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"the model cannot be loaded: {reason}", where=folder) from error
    missing = [key for key in loaded["missing_keys"] if key.rsplit(".", 1)[-1] not in _MAY_BE_MISSING]
    if missing or loaded.get("mismatched_keys"):
        example = missing[0] if missing else next(iter(loaded["mismatched_keys"]))
        what = f"weights are missing or of another shape, e.g. {example}"
        raise InputError(what, where=folder, fix="give a model that was trained for recognition")
    try:
        return network.eval().to(device)
    except (RuntimeError, AssertionError) as error:  # torch raises either
        reason = str(error).splitlines()[0]
        raise InputError(f"the device {device!r} cannot be used: {reason}", fix="use cpu") from error


def load_text(folder: Path, auto_class: str) -> Any:
    """Return the tokenizer or processor of a folder."""
    _, transformers = _libraries()
    try:
        return getattr(transformers, auto_class).from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # as above
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"the model's vocabulary cannot be loaded: {reason}", where=folder) from error


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise InputError("torch and transformers are not installed", fix=_INSTALL) from error
    logs: Any = transformers.logging
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    return torch, transformers
