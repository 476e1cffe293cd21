"""Find, check and load the models of a system of resynthesis."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from voiceveil.core.activity import report_status
from voiceveil.core.errors import InputError
from voiceveil.models.feature_extractors import FeatureExtractors, feature_extractors
from voiceveil.models.weights import store
from voiceveil.run.device import current_device
from voiceveil.run.ledger import sha256_file
from voiceveil.systems.resynthesis.pipeline import Pipeline
from voiceveil.systems.resynthesis.pool import load_pool
from voiceveil.systems.resynthesis.strategies import HasWeights
from voiceveil.systems.resynthesis.synthesis import LoadedStage, load_stage

if TYPE_CHECKING:
    from voiceveil.systems.resynthesis.base import Resynthesis

__all__ = ["fingerprints", "load_pipeline", "model_files"]

#: Network that predicts prosody from the words -> field of :class:`ProsodyChange` that needs it unless it is 0.
_PREDICTORS = {"intonation": "predicted_f0_weight", "voicing": "voicing", "durations": "durations"}
#: The kinds of their files.
_PREDICTOR_KINDS = {"durations": "durations of phones"}


def load_pipeline(system: Resynthesis) -> Pipeline:
    """Return the models of a system, loaded once in a process.

    Raises
    ------
    InputError
        If a package or a model is missing, or models do not fit each other.
    """
    if find_spec("torch") is None or find_spec("safetensors") is None:
        raise InputError(f"{system.name} needs torch, which is not installed", fix="pip install 'voiceveil[neural]'")
    weights, pool, predictors = _weights_files(system), _pool_file(system), _predictor_files(system)
    stamps = tuple(map(_stamp, (*weights, pool, *predictors.values())))
    system = replace(system, source_gender="stated")  # the stream has the gender: one pipeline serves all
    return _load(system, weights, pool, tuple(predictors.items()), (*stamps, current_device()))


def fingerprints(system: Resynthesis) -> dict[str, str]:
    """Return name -> hash or version of every model that the output of a system depends on."""
    pipeline = load_pipeline(system)
    hashes = {name: sha256_file(file) for name, file in model_files(system).items()}
    return {**hashes, **pipeline.extractors.fingerprints()}


def model_files(system: Resynthesis) -> dict[str, Path]:
    """Return name -> file of the weights, the pool and the network of the strategy that a system uses."""
    weights = {
        f"weights {stage}".strip(): file for stage, file in zip(system.stages, _weights_files(system), strict=True)
    }
    weights |= {f"weights {name}": file for name, file in _predictor_files(system).items()}
    strategy = system.chosen_strategy()
    of_strategy = strategy.files() if isinstance(strategy, HasWeights) else {}
    return {**weights, "pool": _pool_file(system), **of_strategy}


@lru_cache(maxsize=2)
def _load(
    system: Resynthesis,
    weights: tuple[Path, ...],
    pool_file: Path,
    predictors: tuple[tuple[str, Path], ...],
    stamps: tuple[int | str, ...],
) -> Pipeline:
    """Load the models; ``stamps`` (times of change of the files, and the device) are part of the cache key."""
    report_status("loading models")
    stages = tuple(
        replace(load_stage(file, kinds, system.synthesis()), uses_source=stage in system.source_speaker_stages)
        for file, (stage, kinds) in zip(weights, system.stages.items(), strict=True)
    )
    pool = load_pool(pool_file)
    extractors = feature_extractors(content=system.content, pitch=system.pitch, speaker=system.speaker)
    for number, (stage, file) in enumerate(zip(stages, weights, strict=True)):
        # the content of a later stage is the output of the one before
        _check_extractors(stage, file, extractors, ("speaker",) if number else ("content", "speaker"))
    loaded = {name: load_stage(file, (_PREDICTOR_KINDS.get(name, f"{name} of words"),)) for name, file in predictors}
    for name, file in predictors:
        if name == "durations":  # its input is phones, whatever recognized them
            if not getattr(extractors.content, "probabilities", False):
                fix = "--set durations=0, or content=phones with weights that were trained on it"
                raise InputError(f"durations of phones need phones as content, not {system.content!r}", fix=fix)
            continue
        fix = f"--set {_PREDICTORS[name]}=0, or `voiceveil train {name} --out {name}` in the folder of the weights"
        _check_extractors(loaded[name], file, extractors, ("content",), fix)
    encoder = extractors.fingerprints()["speaker"]
    if pool.encoder != encoder:
        problem = f"this pool is of another speaker encoder: {pool.encoder!r}, not {encoder!r}"
        raise InputError(problem, where=pool_file, fix=f"voiceveil train pool --speaker {system.speaker}")
    strategy = system.chosen_strategy()
    strategy.check(pool)
    return Pipeline(
        extractors,
        pool,
        strategy,
        (*stages, *system.final_stages()),
        system.prosody(),
        f0_predictor=loaded.get("intonation"),
        voicing_predictor=loaded.get("voicing"),
        duration_predictor=loaded.get("durations"),
    )


def _check_extractors(
    stage: LoadedStage, file: Path, extractors: FeatureExtractors, names: tuple[str, ...], fix: str = ""
) -> None:
    """Raise an ``InputError`` if a stage was trained on features of other extractors."""
    present = extractors.fingerprints()
    for name in names:
        trained_with = stage.extractor_fingerprints.get(name)
        accepted = [present[name], *([getattr(extractors.content, "imitates", "")] if name == "content" else [])]
        if trained_with not in accepted:
            problem = f"these weights were trained with another {name}: {trained_with!r}, not {present[name]!r}"
            fix = fix or f"--set {name}=NAME as in the training, or other weights"
            raise InputError(problem, where=file, fix=fix)


def _weights_files(system: Resynthesis) -> tuple[Path, ...]:
    """Return the weights of every stage: the user's, with the hash that the record beside them states, or shipped."""
    if not system.weights:
        if not system.shipped:
            fix = "train them (see `voiceveil train --help`) and give --weights DIR"
            raise InputError(f"no weights of {system.name} ship with voiceveil", fix=fix)
        return tuple(store.path("-".join(filter(None, (system.shipped, stage)))) for stage in system.stages)
    return tuple(_trained_weights(Path(system.weights) / stage) for stage in system.stages)


def _trained_weights(path: Path) -> Path:
    file = path / "model.safetensors" if path.is_dir() else path
    if not file.is_file():
        raise InputError("no weights here", where=file, fix="give the folder that `voiceveil train` wrote")
    expected = store.recorded_sha256(file)
    return file if expected is None else store.verified(file, expected, fix="copy the whole folder again")


def _predictor_files(system: Resynthesis) -> dict[str, Path]:
    """Return the weights of the predictors of prosody that the system needs: the user's, or those that ship."""
    files = {}
    for name, field in _PREDICTORS.items():
        if getattr(system.prosody(), field):
            folder = Path(system.weights) / name
            own = system.weights and folder.is_dir()
            shipped = f"{system.shipped}-{name}"
            if not own and shipped not in store.names():
                fix = f"--set {field}=0, or `voiceveil train {name} --out {name}` in the folder of --weights"
                raise InputError(f"no predictor of {name} ships for {system.name}", fix=fix)
            files[name] = _trained_weights(folder) if own else store.path(shipped)
    return files


def _pool_file(system: Resynthesis) -> Path:
    """Return the pool that the user names, or the one beside the user's weights, or the one that ships."""
    if system.pool:
        given = Path(system.pool)
        return given / "pool.safetensors" if given.is_dir() else given
    beside = Path(system.weights) / "pool.safetensors"
    return beside if system.weights and beside.is_file() else store.path("pool")


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns if path.is_file() else 0
