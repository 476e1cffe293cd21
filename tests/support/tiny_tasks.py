"""Trainings of tiny networks of resynthesis, and batches for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from tests.support.synthesis_inputs import voices
from voiceveil.dsp.kaldi import hires_mfcc
from voiceveil.models.nets.acoustic_model import AcousticModel, AcousticModelSize
from voiceveil.models.nets.ctc_attention import CtcAttention, CtcAttentionSize
from voiceveil.models.nets.hifigan import HifiGan, HifiGanSize
from voiceveil.models.nets.intonation import Intonation, Voicing
from voiceveil.models.nets.nsf import HnSincNsf, HnSincNsfSize
from voiceveil.models.nets.source_filter import SourceFilterSize
from voiceveil.models.nets.tdnnf import Tdnnf, TdnnfSize
from voiceveil.testing.voices import synthetic_voice
from voiceveil.training.b1_tasks import AcousticModelTask, VocoderTask
from voiceveil.training.ctc_attention_task import CtcAttentionTask
from voiceveil.training.discriminators import Discriminators
from voiceveil.training.gan_task import GanTask
from voiceveil.training.intonation_task import IntonationTask, VoicingTask
from voiceveil.training.recognition_data import SpeechBatch
from voiceveil.training.source_filter_task import MelSourceFilterTask, SourceFilterTask
from voiceveil.training.tdnnf_task import TdnnfTask

#: Network -> kind of its file.
KINDS = {
    "am": "acoustic model",
    "nsf": "mel vocoder",
    "mel-source-filter": "source-filter vocoder",
    "nsf-hifigan": "hn-sinc-NSF generator",
    "hifigan": "HiFi-GAN generator",
    "tdnnf": "TDNN-F",
    "veil": "source-filter decoder",
    "intonation": "intonation of words",
    "voicing": "voicing of words",
    "ctc-attention-masked": "CTC/attention recogniser",
}


class Crops:
    """Batches of synthetic voices, different in each step."""

    def batch(self, step: int, size: int) -> Any:
        batch = voices(2, frames=6)
        return batch._replace(content=batch.content + np.float32(0.01 * step))

    def validation_batches(self, size: int) -> Iterable[Any]:
        return [self.batch(99, size)]

    def content_vectors(self, count: int) -> Any:
        return np.random.default_rng(0).standard_normal((100, 12), dtype=np.float32)


class Utterances:
    """Batches of two utterances of two tokens."""

    def batch(self, step: int, size: int) -> SpeechBatch:
        wave = synthetic_voice(step % 3, step, seconds=0.4).samples
        features = np.stack([hires_mfcc(wave)] * 2)
        tokens = np.array([1, 2])
        return SpeechBatch(wave, features, np.ones((2, 3), np.float32), np.array([40, 31]), (tokens, tokens))

    def validation_batches(self, size: int) -> Iterable[SpeechBatch]:
        return [self.batch(99, size)]


def task(name: str, device: str = "cpu") -> Any:
    """Return the training of a tiny network."""
    torch.manual_seed(0)
    if name == "am":
        size = AcousticModelSize(12, 6, hidden=8, base=8, recurrent=8, dropout=0.5)
        return AcousticModelTask(AcousticModel(size), device)
    if name == "nsf":
        return VocoderTask(HnSincNsf(HnSincNsfSize(80, 6, hidden=8, blocks=1, convolutions=2, recurrent=8)), device)
    if name in ("mel-source-filter", "veil"):
        make, content, codes = (SourceFilterTask, 12, 32) if name == "veil" else (MelSourceFilterTask, 80, 0)
        sizes = SourceFilterSize(content=content, speaker=6, width=16, blocks=1, fine_blocks=1, codes=codes)
        return make(sizes, device=device)
    if name == "intonation":
        return IntonationTask(Intonation(12, width=8, codes=32), device)
    if name == "voicing":
        return VoicingTask(Voicing(12, width=8, codes=32), device)
    if name == "nsf-hifigan":
        network = HnSincNsf(HnSincNsfSize(12, 6, hidden=8, blocks=1, convolutions=2, recurrent=8))
        return GanTask(network, Discriminators(1 / 64), device)
    if name == "hifigan":
        generator = HifiGan(HifiGanSize(12, 6, channels=16, block_kernels=(3,), dilations=(1,)))
        return GanTask(generator, Discriminators(1 / 64), device)
    if name == "ctc-attention-masked":
        recognizer = CtcAttention(CtcAttentionSize(3, channels=2, hidden=6, layers=1, width=6))
        return CtcAttentionTask(recognizer, device, adversary_loss=1.0, speaker=3)
    return TdnnfTask(Tdnnf(TdnnfSize(3, 40, 3, dim=16, factor=4, bottleneck=6, strides=(1, 0, 3))), device)
