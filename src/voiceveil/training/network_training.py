"""Training of a network of resynthesis on corpora of original speech, by its name and settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.content.features import content_encoder
from voiceveil.models.feature_extractors import feature_extractors
from voiceveil.models.nets.phone_encoder import CLASSES
from voiceveil.models.speaker.encoders import encoder
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.training.ctc_attention_task import CtcAttentionTask
from voiceveil.training.duration_data import DurationData
from voiceveil.training.network_recipes import Dimensions, NetworkRecipe, network_recipe
from voiceveil.training.network_settings import NetworkSettings, TrainingPlan
from voiceveil.training.phone_data import PhoneAligner, PhoneData
from voiceveil.training.recognition_data import ALPHABET, RecognitionData
from voiceveil.training.source_filter_task import SourceFilterTask
from voiceveil.training.synthesis_data import SynthesisData
from voiceveil.training.training_loop import NetworkTrainer, Task
from voiceveil.training.training_run import TrainingRun, check_run

__all__ = ["train_network"]


def train_network(
    utterances: Sequence[Utterance],
    out: Path,
    settings: NetworkSettings,
    run: TrainingRun | None = None,
    *,
    start: Path | None = None,
) -> dict[str, Any]:
    """Extract the features of the utterances and train a network on them; a killed training is resumed.

    Parameters
    ----------
    utterances
        Original speech; recognizers need transcripts.
    out
        Folder for ``model.safetensors`` and ``record.json``.
    settings
        Network, features, losses.
    run
        Device, processes and files (default: those of :class:`TrainingRun`).
    start
        Folder of an earlier training of the same network, whose weights are the first ones.

    Returns
    -------
    dict
        The record.

    Raises
    ------
    InputError
        If a setting is not one of this network, or the speech cannot be used.
    """
    run = check_run(run or TrainingRun())
    recipe = network_recipe(settings.network)
    _check_settings(settings)
    out.mkdir(parents=True, exist_ok=True)
    cache = Cache(run.features or out / "features.sqlite")
    context = RunContext(cache, run.jobs, run.device, progress=not run.quiet)
    read = _READERS.get(settings.network, _recognition_inputs if recipe.transcripts else _synthesis_inputs)
    inputs = read(utterances, recipe, settings, context)
    task = recipe.task(inputs.dimensions, settings.size, settings.seed, run.device)
    recorded: dict[str, Any] = {
        "network": settings.network,
        "parts": inputs.fingerprints,
        "data": inputs.data.description(),
        **({"crop": settings.crop} if settings.crop else {}),
        **_set_losses(task, settings),
    }
    return NetworkTrainer(task, inputs.data, _plan(recipe, settings), recorded, run).train(out, start)


def _check_settings(settings: NetworkSettings) -> None:
    """Raise ``InputError`` for settings of another network."""
    network, perceptual, recognizer = settings.network, settings.perceptual, settings.recognizer
    if (recognizer.input_features or recognizer.teacher) and not network.startswith("ctc-attention"):
        raise InputError(f"{network} takes no other network's features", fix="leave --input-features and --teacher out")
    if perceptual.content and network not in ("source-filter", "veil", "mel-source-filter"):
        raise InputError(f"{network} has no content loss", fix="leave --content-loss out")
    if (perceptual.swap_voices or perceptual.speaker) and not perceptual.content:
        raise InputError("--swap-voices and --speaker-loss need a content loss", fix="add --content-loss 1")
    if perceptual.speaker and not (perceptual.swap_voices and settings.speaker == "campplus"):
        raise InputError(
            "--speaker-loss needs swapped voices and embeddings of CAM++", fix="add --swap-voices, drop --speaker"
        )


def _plan(recipe: NetworkRecipe, settings: NetworkSettings) -> TrainingPlan:
    """Return the plan of the recipe with the settings that replace its own."""
    plan = recipe.plan(settings.size)
    return replace(
        plan,
        steps=settings.steps or plan.steps,
        batch_size=settings.batch_size or plan.batch_size,
        peak=settings.learning_rate or plan.peak,
        seed=settings.seed,
    )


class _Inputs(NamedTuple):
    """Training data, dimensions of the network, and fingerprints of the models that made the features."""

    data: SynthesisData | RecognitionData | PhoneData | DurationData
    dimensions: Dimensions
    fingerprints: dict[str, str]


def _synthesis_inputs(
    utterances: Sequence[Utterance], recipe: NetworkRecipe, settings: NetworkSettings, context: RunContext
) -> _Inputs:
    extractors = feature_extractors(
        content=settings.content, pitch=settings.pitch, speaker=settings.speaker, speeds=recipe.speeds
    )
    frames = round(100 * settings.crop) if settings.crop else recipe.frames
    data = SynthesisData(utterances, extractors, context, frames=frames, seed=settings.seed)
    dimensions = Dimensions(extractors.content.dimension, data.speaker_dimension)
    return _Inputs(data, dimensions, extractors.fingerprints())


def _recognition_inputs(
    utterances: Sequence[Utterance], recipe: NetworkRecipe, settings: NetworkSettings, context: RunContext
) -> _Inputs:
    names = settings.recognizer
    speaker = encoder(settings.speaker) if recipe.speaker else None
    input_features = content_encoder(names.input_features) if names.input_features else None
    teacher = content_encoder(names.teacher) if names.teacher else None
    data = RecognitionData(
        utterances, context, seed=settings.seed, speaker=speaker, input_features=input_features, teacher=teacher
    )
    dimensions = Dimensions(
        len(ALPHABET) + 1,
        data.speaker_dimension,
        input_features.dimension if input_features else 0,
        teacher.dimension if teacher else 0,
    )
    models = {"speaker": speaker, "heard": input_features, "teacher": teacher}  # the names of saved weights
    fingerprints = {name: model.fingerprint() for name, model in models.items() if model}
    if names.input_features:
        fingerprints["hears"] = names.input_features
    return _Inputs(data, dimensions, fingerprints)


def _phone_inputs(
    utterances: Sequence[Utterance], recipe: NetworkRecipe, settings: NetworkSettings, context: RunContext
) -> _Inputs:
    seconds = settings.crop or recipe.frames / 100
    data = PhoneData(utterances, context, seconds=seconds, seed=settings.seed)
    return _Inputs(data, Dimensions(CLASSES, 0), {"alignment": PhoneAligner().fingerprint()})


def _duration_inputs(
    utterances: Sequence[Utterance], recipe: NetworkRecipe, settings: NetworkSettings, context: RunContext
) -> _Inputs:
    data = DurationData(utterances, context, seed=settings.seed)
    return _Inputs(data, Dimensions(0, 0), {"alignment": PhoneAligner().fingerprint()})


#: Network -> function that reads its data; the others read crops, or with transcripts, data of recognizers.
_READERS = {"phones": _phone_inputs, "durations": _duration_inputs}


def _set_losses(task: Task, settings: NetworkSettings) -> dict[str, Any]:
    """Give a task the weights of its additional losses; return them for the record."""
    recorded: dict[str, Any] = {}
    if isinstance(task, CtcAttentionTask):
        weights = settings.recognizer
        if weights.teacher:
            task.teacher_loss = recorded["teacher_loss"] = weights.teacher_loss
        if task.adversary_loss and weights.adversary_loss:
            task.adversary_loss = recorded["adversary_loss"] = weights.adversary_loss
    if isinstance(task, SourceFilterTask) and settings.perceptual.content:
        task.perceptual = settings.perceptual
        recorded["content_loss"] = settings.perceptual.content
        recorded["swap_voices"] = settings.perceptual.swap_voices
        if settings.perceptual.speaker:
            recorded["speaker_loss"] = settings.perceptual.speaker
    return recorded
