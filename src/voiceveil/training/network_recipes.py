"""The networks of resynthesis that can be trained, by name, each in the published size and in one for a laptop.

This module does not import torch, so that ``voiceveil train --help`` is fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.training.network_settings import Size, TrainingPlan

if TYPE_CHECKING:
    from voiceveil.training.training_loop import Task

__all__ = ["NETWORK_RECIPES", "Dimensions", "NetworkRecipe", "network_recipe"]

#: Width of the discriminators, relative to the published one.
_DISCRIMINATORS: dict[Size, float] = {"small": 0.125, "paper": 1.0}
#: Playback speeds at which the content for veil is extracted in addition.
_VEIL_SPEEDS = (0.85, 1.18)


@dataclass(frozen=True)
class Dimensions:
    """Dimensions of the inputs and outputs of a network.

    Parameters
    ----------
    content : int
        Dimension of the content features; number of outputs of a recognizer.
    speaker : int
        Dimension of the speaker embeddings.
    input_features, teacher : int
        Dimensions of the content features that a recognizer takes instead of MFCCs, and of its teacher's; 0: none.
    """

    content: int
    speaker: int
    input_features: int = 0
    teacher: int = 0


@dataclass(frozen=True)
class NetworkRecipe:
    """Recipe of a network: its task, and a plan for each size.

    Parameters
    ----------
    help : str
        Line for the command line.
    task : callable
        (dimensions, size, seed, device) to the task.
    small, paper : TrainingPlan
        Length and learning rate for each size.
    frames : int
        Length of a crop in frames of 10 ms; not used with ``transcripts``.
    transcripts : bool
        Trained on whole utterances with transcripts.
    speaker : bool
        With ``transcripts``: trained on speaker embeddings as well.
    speeds : tuple of float
        Playback speeds at which content is extracted in addition; each crop draws one of them.
    """

    help: str
    task: Callable[[Dimensions, Size, int, str], Task]
    small: TrainingPlan
    paper: TrainingPlan
    frames: int = 0
    transcripts: bool = False
    speaker: bool = True
    speeds: tuple[float, ...] = ()

    def plan(self, size: Size) -> TrainingPlan:
        """Return length and learning rate for a size."""
        return self.small if size == "small" else self.paper


def _source_filter(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    from voiceveil.models.nets.source_filter import SourceFilterSize
    from voiceveil.training.source_filter_task import SourceFilterTask

    inputs = SourceFilterSize(content=dimensions.content, speaker=dimensions.speaker)
    return SourceFilterTask(inputs, seed=seed, device=device)


def _veil(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    from voiceveil.models.nets.source_filter import SourceFilterSize
    from voiceveil.training.source_filter_task import SourceFilterTask

    inputs = SourceFilterSize(content=dimensions.content, speaker=dimensions.speaker, codes=2048)
    return SourceFilterTask(inputs, seed=seed, device=device)


def _intonation(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.intonation import Intonation
    from voiceveil.training.intonation_task import IntonationTask

    torch.manual_seed(seed)
    return IntonationTask(Intonation(dimensions.content), device)


def _voicing(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.intonation import Voicing
    from voiceveil.training.intonation_task import VoicingTask

    torch.manual_seed(seed)
    return VoicingTask(Voicing(dimensions.content), device)


def _acoustic_model(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.acoustic_model import AcousticModel, AcousticModelSize
    from voiceveil.training.b1_tasks import AcousticModelTask

    torch.manual_seed(seed)
    build = AcousticModelSize.small if size == "small" else AcousticModelSize
    return AcousticModelTask(AcousticModel(build(dimensions.content, dimensions.speaker)), device)


def _mel_source_filter(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    from voiceveil.models.nets.mel import BANDS
    from voiceveil.models.nets.source_filter import SourceFilterSize
    from voiceveil.training.source_filter_task import MelSourceFilterTask

    width, blocks = {"small": (160, 2), "paper": (224, 5)}[size]
    inputs = SourceFilterSize(content=BANDS, speaker=dimensions.speaker, width=width, blocks=blocks)
    return MelSourceFilterTask(inputs, seed=seed, device=device)


def _vocoder(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.mel import BANDS
    from voiceveil.models.nets.nsf import HnSincNsf, HnSincNsfSize
    from voiceveil.training.b1_tasks import VocoderTask

    torch.manual_seed(seed)
    build = HnSincNsfSize.small if size == "small" else HnSincNsfSize
    return VocoderTask(HnSincNsf(build(BANDS, dimensions.speaker)), device)


def _nsf_hifigan(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.nsf import HnSincNsf, HnSincNsfSize
    from voiceveil.training.discriminators import Discriminators
    from voiceveil.training.gan_task import GanTask

    torch.manual_seed(seed)
    build = HnSincNsfSize.small if size == "small" else HnSincNsfSize
    network = HnSincNsf(build(dimensions.content, dimensions.speaker))
    return GanTask(network, Discriminators(_DISCRIMINATORS[size]), device)


def _hifigan(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.hifigan import HifiGan, HifiGanSize
    from voiceveil.training.discriminators import Discriminators
    from voiceveil.training.gan_task import GanTask

    torch.manual_seed(seed)
    build = HifiGanSize.small if size == "small" else HifiGanSize
    network = HifiGan(build(dimensions.content, dimensions.speaker))
    return GanTask(network, Discriminators(_DISCRIMINATORS[size]), device)


def _tdnnf(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.tdnnf import Tdnnf, TdnnfSize
    from voiceveil.training.tdnnf_task import TdnnfTask

    torch.manual_seed(seed)
    outputs, speaker = dimensions.content, dimensions.speaker
    shape = TdnnfSize.small(outputs, speaker) if size == "small" else TdnnfSize(outputs, utterance=speaker)
    return TdnnfTask(Tdnnf(shape), device)


def _ctc_attention(dimensions: Dimensions, size: Size, seed: int, device: str, adversary_loss: float = 0.0) -> Task:
    import torch

    from voiceveil.models.nets.ctc_attention import CtcAttention, CtcAttentionSize
    from voiceveil.training.ctc_attention_task import CtcAttentionTask

    torch.manual_seed(seed)
    outputs, small = dimensions.content, size == "small"
    if dimensions.input_features:
        width = dimensions.teacher or dimensions.input_features
        shape = CtcAttentionSize.on_features(outputs, dimensions.input_features, width)
    elif small:
        shape = CtcAttentionSize.small(outputs, dimensions.teacher or 128)
    else:
        shape = CtcAttentionSize(outputs, width=dimensions.teacher or 1024)
    return CtcAttentionTask(
        CtcAttention(shape),
        device,
        adversary_loss=adversary_loss,
        speaker=dimensions.speaker,
        spelled=1 if small else None,
    )


def _phones(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    from voiceveil.models.nets.phone_encoder import PhoneEncoderSize
    from voiceveil.training.phone_task import PhoneTask

    return PhoneTask(PhoneEncoderSize(), seed=seed, device=device)


def _durations(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.durations import Durations
    from voiceveil.training.duration_task import DurationTask

    torch.manual_seed(seed)
    return DurationTask(Durations(), device)


def _ctc_attention_masked(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    return _ctc_attention(dimensions, size, seed, device, adversary_loss=1.0)


_DECODER_PLAN = TrainingPlan(steps=8000)
_INTONATION_PLAN = TrainingPlan(steps=1500, peak=1.5e-3)
_VOICING_PLAN = TrainingPlan(steps=1200, peak=2e-3)
_PHONE_PLAN = TrainingPlan(steps=4000, batch_size=16, peak=2e-4)
_DURATION_PLAN = TrainingPlan(steps=1200, batch_size=32)
_GAN_PLANS = (TrainingPlan(steps=5000, peak=5e-4), TrainingPlan(steps=300_000, batch_size=32, peak=1e-4))
_RECOGNIZER_PLANS = (TrainingPlan(steps=5000, batch_size=8), TrainingPlan(steps=200_000, batch_size=32, peak=5e-4))

#: Name on the command line -> recipe.
NETWORK_RECIPES: dict[str, NetworkRecipe] = {
    "source-filter": NetworkRecipe(
        "train a compact source-filter decoder (b1b): content, F0 and speaker to a waveform",
        _source_filter,
        _DECODER_PLAN,
        _DECODER_PLAN,
        frames=128,
    ),
    "veil": NetworkRecipe(
        "train the decoder of veil: source-filter behind a bottleneck of codes, with speed augmentation",
        _veil,
        _DECODER_PLAN,
        _DECODER_PLAN,
        frames=128,
        speeds=_VEIL_SPEEDS,
    ),
    "intonation": NetworkRecipe(
        "train the F0 predictor of veil: codes of content to an F0 contour",
        _intonation,
        _INTONATION_PLAN,
        _INTONATION_PLAN,
        frames=400,
        speeds=_VEIL_SPEEDS,
    ),
    "voicing": NetworkRecipe(
        "train the voicing predictor of veil: codes of content to voicing",
        _voicing,
        _VOICING_PLAN,
        _VOICING_PLAN,
        frames=400,
        speeds=_VEIL_SPEEDS,
    ),
    "phones": NetworkRecipe(
        "train a phone encoder, whose posteriors are content without the speaker; needs transcripts",
        _phones,
        _PHONE_PLAN,
        _PHONE_PLAN,
        frames=400,
        transcripts=True,
        speaker=False,
    ),
    "durations": NetworkRecipe(
        "train a predictor of the durations of phones, those of an average reader; needs transcripts",
        _durations,
        _DURATION_PLAN,
        _DURATION_PLAN,
        transcripts=True,
        speaker=False,
    ),
    "am": NetworkRecipe(
        "train the acoustic model of b1a: content, F0 and speaker to mel spectra",
        _acoustic_model,
        TrainingPlan(steps=3000, peak=1e-3),
        TrainingPlan(steps=200_000, batch_size=32, peak=1e-4),
        frames=160,
    ),
    "nsf": NetworkRecipe(
        "train the published vocoder of b1a, hn-sinc-NSF: mel spectra, F0 and speaker to a waveform",
        _vocoder,
        TrainingPlan(steps=2000, batch_size=8, peak=2e-3),
        TrainingPlan(steps=330_000, batch_size=5, peak=1e-4),
        frames=64,
    ),
    "mel-source-filter": NetworkRecipe(
        "train a compact vocoder of b1a: mel spectra, F0 and speaker to a waveform",
        _mel_source_filter,
        TrainingPlan(steps=2000),
        TrainingPlan(steps=2000),
        frames=128,
    ),
    "nsf-hifigan": NetworkRecipe(
        "train the published generator of b1b: hn-sinc-NSF with the discriminators of HiFi-GAN",
        _nsf_hifigan,
        *_GAN_PLANS,
        frames=32,
    ),
    "hifigan": NetworkRecipe(
        "train HiFi-GAN (joint-hifigan): content, F0 and speaker to a waveform", _hifigan, *_GAN_PLANS, frames=32
    ),
    "tdnnf": NetworkRecipe(
        "train the TDNN-F whose bottleneck is the content of B1; needs transcripts",
        _tdnnf,
        *_RECOGNIZER_PLANS,
        transcripts=True,
    ),
    "ctc-attention": NetworkRecipe(
        "train the CTC/attention recognizer whose encoder is the content of m1; needs transcripts",
        _ctc_attention,
        *_RECOGNIZER_PLANS,
        transcripts=True,
        speaker=False,
    ),
    "ctc-attention-masked": NetworkRecipe(
        "train the CTC/attention recognizer with an adversary that predicts the speaker (m1c1); needs transcripts",
        _ctc_attention_masked,
        *_RECOGNIZER_PLANS,
        transcripts=True,
    ),
}


def network_recipe(name: str) -> NetworkRecipe:
    """Return the recipe of the network of that name; raise an ``InputError`` if there is none."""
    if name not in NETWORK_RECIPES:
        raise InputError(f"unknown network {name!r}", fix=did_you_mean(name, list(NETWORK_RECIPES)))
    return NETWORK_RECIPES[name]
