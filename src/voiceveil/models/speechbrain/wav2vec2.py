"""The wav2vec 2.0 network inside ASR_eval and SER_eval.

Its weights are in ``wav2vec2.ckpt``; its configuration is that of the hub model which ``hyperparams.yaml`` names, in a
folder or in the cache of the challenge's checkout. For the two hub models of the challenge it is known here. A training
here leaves a copy of the configuration in the folder ``wav2vec2`` beside the weights.

Conventions: samples at 16 kHz, shape (B, N); hidden states (B, T, D), one row every 20 ms. As in SpeechBrain, the
waveform is normalized to zero mean and unit variance, with 1e-5 added to the variance, so that results depend a little
on the level; and the hidden states over time and dimensions together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiceveil.core.documents import read_json
from voiceveil.core.errors import InputError
from voiceveil.models.speechbrain.files import read_tensors
from voiceveil.models.speechbrain.hyperparams import require

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["CONFIGURATION", "Wav2Vec2", "check_wav2vec2", "load_wav2vec2", "wav2vec2_configuration"]

#: Folder beside the weights in which a training here leaves the configuration.
CONFIGURATION = "wav2vec2"
_INSTALL = "pip install 'voiceveil[transformers]'"
_EPSILON = 1e-5
_DEEPEST = 4  # folders between a checkpoint and the checkout: exp/ser/fold_1/CKPT+1
_CONVOLUTIONS = {
    "conv_dim": [512] * 7,
    "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
    "num_conv_pos_embeddings": 128,
    "num_conv_pos_embedding_groups": 16,
    "layer_norm_eps": 1e-5,
    "hidden_act": "gelu",
    "feat_extract_activation": "gelu",
}
#: Configuration of the hub models that the challenge's evaluators began from.
_KNOWN: dict[str, dict[str, Any]] = {
    "facebook/wav2vec2-large-960h-lv60-self": {
        **_CONVOLUTIONS,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "conv_bias": True,
        "feat_extract_norm": "layer",
        "do_stable_layer_norm": True,
    },
    "facebook/wav2vec2-base": {
        **_CONVOLUTIONS,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "conv_bias": False,
        "feat_extract_norm": "group",
        "do_stable_layer_norm": False,
    },
}


@dataclass(frozen=True, eq=False)
class Wav2Vec2:
    """The network of ``transformers`` between SpeechBrain's two normalizations."""

    network: Any
    normalize_wave: bool

    def __call__(self, samples: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the hidden states (B, T, D) of samples (B, N).

        ``mask`` (B, N) is False where samples are padding, which attention then leaves out; the evaluators have none.
        The normalizations are over the padding too.
        """
        from torch.nn.functional import layer_norm

        if self.normalize_wave:
            samples = layer_norm(samples, samples.shape[1:], eps=_EPSILON)
        hidden = self.network(samples, attention_mask=mask).last_hidden_state
        return layer_norm(hidden, hidden.shape[1:], eps=_EPSILON)


def wav2vec2_configuration(settings: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], bool]:
    """Return the configuration of the hub model that some settings name, and whether it normalizes waveforms.

    Parameters
    ----------
    settings : mapping
        Content of ``hyperparams.yaml``.
    path : Path
        That file: ``config.json`` is searched for in the folder ``wav2vec2`` beside it, in the folder that
        ``wav2vec2.source`` names, relative to the folder of the file, those above it and the working directory, and in
        the cache ``wav2vec2.save_path`` there.

    Raises
    ------
    InputError
        If it is not found, and the model is not one of the challenge's.
    """
    section = settings.get("wav2vec2")
    if not isinstance(section, dict) or not isinstance(section.get("source"), str):
        raise InputError("the settings have no wav2vec2.source", where=path, fix="give the challenge's folder")
    require(section, {"output_norm": True, "output_all_hiddens": False}, path, "wav2vec2")
    source = section["source"]
    for folder in _candidates(source, str(section.get("save_path", "")), path.resolve().parent):
        if (folder / "config.json").is_file():
            return _checked(read_json(folder / "config.json", nan=True), folder / "config.json"), _normalizes(folder)
    if source not in _KNOWN:
        fix = f"put its config.json into a folder {source} beside exp, or into the working directory"
        raise InputError(f"the configuration of {source!r} is not on this machine", where=path, fix=fix)
    return _KNOWN[source], True


def check_wav2vec2(settings: Mapping[str, Any], path: Path) -> None:
    """Raise an ``InputError`` now, before the work begins, if ``transformers`` or the configuration is missing."""
    if find_spec("transformers") is None or find_spec("torch") is None:
        raise InputError("torch and transformers are not installed", where=path, fix=_INSTALL)
    wav2vec2_configuration(settings, path)


def load_wav2vec2(path: Path, configuration: tuple[Mapping[str, Any], bool], device: str) -> Wav2Vec2:
    """Return the network with the weights of a ``wav2vec2.ckpt``.

    Raises
    ------
    InputError
        If ``transformers`` is missing, or the weights do not fit the configuration.
    """
    try:
        import torch
        from transformers import Wav2Vec2Config, Wav2Vec2Model
    except ImportError as error:
        raise InputError("torch and transformers are not installed", where=path, fix=_INSTALL) from error
    from voiceveil.models.checkpoint import limit_parameters

    torch.set_num_threads(1)  # one thread a process, many processes
    weights = dict(_renamed(read_tensors(path)))
    values = sum(tensor.numel() for tensor in weights.values())
    try:
        with torch.device("meta"), limit_parameters(4 * len(weights) + 100, 4 * values + 1_000_000):
            network: Any = Wav2Vec2Model(Wav2Vec2Config(**configuration[0], mask_time_prob=0.0, mask_feature_prob=0.0))
        network.load_state_dict(weights, assign=True)
    except (ValueError, RuntimeError, KeyError, TypeError, ArithmeticError) as error:
        reason = (str(error).splitlines() or [""])[-1].strip()
        fix = "give weights and configuration of the same model"
        raise InputError(f"the weights do not fit the configuration: {reason}", where=path, fix=fix) from error
    return Wav2Vec2(network.eval().to(device), configuration[1])


def _candidates(source: str, save_path: str, folder: Path) -> Iterator[Path]:
    """Yield folders in which the configuration may be, in the checkout of the challenge and the working directory."""
    yield folder / CONFIGURATION
    for root in (folder, *list(folder.parents)[:_DEEPEST], Path.cwd()):
        yield root / source
        snapshots = root / save_path / f"models--{source.replace('/', '--')}" / "snapshots"
        yield from sorted(snapshots.iterdir()) if snapshots.is_dir() else ()


def _normalizes(folder: Path) -> bool:
    file = folder / "preprocessor_config.json"
    content = read_json(file, nan=True) if file.is_file() else {}
    return bool(content.get("do_normalize", True)) if isinstance(content, dict) else True


def _checked(content: Any, path: Path) -> dict[str, Any]:
    """Return the settings of a configuration that the network depends on, each of the type that it has to be."""
    chosen = {}
    for key, example in _KNOWN["facebook/wav2vec2-base"].items():
        value = content.get(key) if isinstance(content, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and isinstance(example, float):
            value = float(value)
        whole = value if isinstance(value, list) else [value]
        kind = type(example[0]) if isinstance(example, list) else type(example)
        if isinstance(value, list) != isinstance(example, list) or not all(type(item) is kind for item in whole):
            raise InputError(
                f"{key} is missing or of the wrong type", where=path, fix="copy the hub model's config.json"
            )
        chosen[key] = value
    return chosen


def _renamed(state: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield the names and weights of ``Wav2Vec2Model``.

    The weight norm of the position convolution has two names, before and since torch 2.1. The embedding of masked
    spans is for training alone.
    """
    for name, tensor in state.items():
        name = name.removeprefix("model.")
        for former, present in (("weight_g", "0"), ("weight_v", "1")):
            if name.endswith(f".conv.{former}"):
                name = f"{name.removesuffix(former)}parametrizations.weight.original{present}"
        if name != "masked_spec_embed":
            yield name, tensor
