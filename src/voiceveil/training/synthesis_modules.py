"""The networks of resynthesis that can be trained, by name, each in the published size and in one for a laptop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

if TYPE_CHECKING:
    from voiceveil.training.synthesis import Plan, Task

__all__ = ["MODULES", "Dimensions", "Module", "Size", "module"]

Size = Literal["small", "paper"]
#: The width of discriminators, of the published one.
_DISCRIMINATORS: dict[Size, float] = {"small": 0.125, "paper": 1.0}


@dataclass(frozen=True)
class Dimensions:
    """Of the inputs: content and speaker embedding.

    For what learns from transcripts, ``content`` is the number of outputs; ``heard``: the length of a vector that it
    hears instead of MFCC; ``taught``: that of its teacher's content; 0: there is no such thing.
    """

    content: int
    speaker: int
    heard: int = 0
    taught: int = 0


@dataclass(frozen=True)
class Module:
    """``task(dimensions, size, seed, device)`` and ``plan(size)`` make what :func:`synthesis_training.train` takes.

    ``frames``: the length of a crop, of 10 ms. ``transcripts``: it learns from whole utterances and what was said;
    ``voices``: and from the embeddings of who said it. ``speeds``: the content of a crop is that of the recording, or
    of the recording played so much faster.
    """

    help: str
    frames: int
    task: Callable[[Dimensions, Size, int, str], Task]
    plan: Callable[[Size], Plan]
    transcripts: bool = False
    voices: bool = True
    speeds: tuple[float, ...] = ()


def _source_filter(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    from voiceveil.models.nets.source_filter import SourceFilterSize
    from voiceveil.training.source_filter_task import SourceFilterTask

    inputs = SourceFilterSize(content=dimensions.content, speaker=dimensions.speaker)  # nobody has published another
    return SourceFilterTask(inputs, seed=seed, device=device)


def _source_filter_plan(size: Size) -> Plan:
    from voiceveil.training.synthesis import Plan

    return Plan(steps=8000)


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
    return IntonationTask(Intonation(dimensions.content), device)  # nobody has published another


def _intonation_plan(size: Size) -> Plan:
    from voiceveil.training.synthesis import Plan

    return Plan(steps=1500, peak=1.5e-3)


def _voicing(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.intonation import Voicing
    from voiceveil.training.intonation_task import VoicingTask

    torch.manual_seed(seed)
    return VoicingTask(Voicing(dimensions.content), device)


def _voicing_plan(size: Size) -> Plan:
    from voiceveil.training.synthesis import Plan

    return Plan(steps=1200, peak=2e-3)


def _acoustic_model(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.acoustic_model import AcousticModel
    from voiceveil.training.b1_tasks import AcousticModelTask

    torch.manual_seed(seed)
    make = AcousticModel.small if size == "small" else AcousticModel
    return AcousticModelTask(make(dimensions.content, dimensions.speaker), device)


def _acoustic_model_plan(size: Size) -> Plan:
    from voiceveil.training.synthesis import Plan

    return Plan(steps=3000, peak=1e-3) if size == "small" else Plan(steps=200_000, batch_size=32, peak=1e-4)


def _mel_source_filter(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    from voiceveil.models.nets.mel import BANDS
    from voiceveil.models.nets.source_filter import SourceFilterSize
    from voiceveil.training.source_filter_task import MelSourceFilterTask

    width, blocks = {"small": (160, 2), "paper": (224, 5)}[size]
    inputs = SourceFilterSize(content=BANDS, speaker=dimensions.speaker, width=width, blocks=blocks)
    return MelSourceFilterTask(inputs, seed=seed, device=device)


def _mel_source_filter_plan(size: Size) -> Plan:
    from voiceveil.training.synthesis import Plan

    return Plan(steps=2000)


def _vocoder(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.mel import BANDS
    from voiceveil.models.nets.nsf import HnSincNsf
    from voiceveil.training.b1_tasks import VocoderTask

    torch.manual_seed(seed)
    make = HnSincNsf.small if size == "small" else HnSincNsf
    return VocoderTask(make(BANDS, dimensions.speaker), device)


def _vocoder_plan(size: Size) -> Plan:
    from voiceveil.training.synthesis import Plan

    return Plan(steps=2000, batch_size=8, peak=2e-3) if size == "small" else Plan(330_000, batch_size=5, peak=1e-4)


def _nsf_hifigan(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.nsf import HnSincNsf
    from voiceveil.training.discriminators import Discriminators
    from voiceveil.training.gan_task import GanTask

    torch.manual_seed(seed)
    make = HnSincNsf.small if size == "small" else HnSincNsf
    return GanTask(make(dimensions.content, dimensions.speaker), Discriminators(_DISCRIMINATORS[size]), device)


def _hifigan(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.hifigan import HifiGan
    from voiceveil.training.discriminators import Discriminators
    from voiceveil.training.gan_task import GanTask

    torch.manual_seed(seed)
    make = HifiGan.small if size == "small" else HifiGan
    return GanTask(make(dimensions.content, dimensions.speaker), Discriminators(_DISCRIMINATORS[size]), device)


def _gan_plan(size: Size) -> Plan:
    from voiceveil.training.synthesis import Plan

    return Plan(steps=5000, peak=5e-4) if size == "small" else Plan(300_000, batch_size=32, peak=1e-4)


def _tdnnf(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    import torch

    from voiceveil.models.nets.tdnnf import Tdnnf
    from voiceveil.training.tdnnf_task import TdnnfTask

    torch.manual_seed(seed)
    outputs, vector = dimensions.content, dimensions.speaker
    return TdnnfTask(Tdnnf.small(outputs, vector) if size == "small" else Tdnnf(outputs, utterance=vector), device)


def _tdnnf_plan(size: Size) -> Plan:
    from voiceveil.training.synthesis import Plan

    return Plan(steps=5000, batch_size=8) if size == "small" else Plan(steps=200_000, batch_size=32, peak=5e-4)


def _ctc_attention(dimensions: Dimensions, size: Size, seed: int, device: str, masking: float = 0.0) -> Task:
    import torch

    from voiceveil.models.nets.ctc_attention import CtcAttention
    from voiceveil.training.ctc_attention_task import CtcAttentionTask

    torch.manual_seed(seed)
    outputs, small = dimensions.content, size == "small"
    if dimensions.heard:
        network = CtcAttention.on(outputs, dimensions.heard, dimensions.taught or dimensions.heard)
    elif small:
        network = CtcAttention.small(outputs, dimensions.taught or 128)
    else:
        network = CtcAttention(outputs, width=dimensions.taught or 1024)
    spelt = 1 if small else None
    return CtcAttentionTask(network, device, masking=masking, speaker=dimensions.speaker, spelt=spelt)


def _ctc_attention_masked(dimensions: Dimensions, size: Size, seed: int, device: str) -> Task:
    return _ctc_attention(dimensions, size, seed, device, masking=1.0)


MODULES: dict[str, Module] = {
    "source-filter": Module(
        "train a compact source-filter decoder (b1b): content, F0 and speaker to a waveform",
        128,
        _source_filter,
        _source_filter_plan,
    ),
    "veil": Module(
        "train the decoder of veil: source-filter behind a bottleneck of codes, with speed augmentation",
        128,
        _veil,
        _source_filter_plan,
        speeds=(0.85, 1.18),
    ),
    "intonation": Module(
        "train the F0 predictor of veil: codes of content to an F0 contour",
        400,
        _intonation,
        _intonation_plan,
        speeds=(0.85, 1.18),
    ),
    "voicing": Module(
        "train the voicing predictor of veil: codes of content to voicing",
        400,
        _voicing,
        _voicing_plan,
        speeds=(0.85, 1.18),
    ),
    "am": Module(
        "train the acoustic model of b1a: content, F0 and speaker to mel spectra",
        160,
        _acoustic_model,
        _acoustic_model_plan,
    ),
    "nsf": Module(
        "train the published vocoder of b1a, hn-sinc-NSF: mel spectra, F0 and speaker to a waveform",
        64,
        _vocoder,
        _vocoder_plan,
    ),
    "mel-source-filter": Module(
        "train a compact vocoder of b1a: mel spectra, F0 and speaker to a waveform",
        128,
        _mel_source_filter,
        _mel_source_filter_plan,
    ),
    "nsf-hifigan": Module(
        "train the published generator of b1b: hn-sinc-NSF with the discriminators of HiFi-GAN",
        32,
        _nsf_hifigan,
        _gan_plan,
    ),
    "hifigan": Module(
        "train HiFi-GAN (joint-hifigan): content, F0 and speaker to a waveform",
        32,
        _hifigan,
        _gan_plan,
    ),
    "tdnnf": Module(
        "train the TDNN-F whose bottleneck is the content of B1; needs transcripts",
        0,
        _tdnnf,
        _tdnnf_plan,
        transcripts=True,
    ),
    "ctc-attention": Module(
        "train the CTC/attention recognizer whose encoder is the content of m1; needs transcripts",
        0,
        _ctc_attention,
        _tdnnf_plan,
        transcripts=True,
        voices=False,
    ),
    "ctc-attention-masked": Module(
        "the same with an adversary that predicts the speaker (m1c1); needs transcripts",
        0,
        _ctc_attention_masked,
        _tdnnf_plan,
        transcripts=True,
    ),
}


def module(name: str) -> Module:
    """Return the module of that name."""
    if name not in MODULES:
        raise InputError(f"unknown module {name!r}", fix=did_you_mean(name, list(MODULES)))
    return MODULES[name]
