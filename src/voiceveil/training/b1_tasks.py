"""Training of the synthesizers of B1.a: the acoustic model, and the vocoder hn-sinc-NSF on recorded mel spectra.

B1.b, which is trained against discriminators, is in :mod:`voiceveil.training.gan_task`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from voiceveil.models.nets.acoustic_model import AcousticModel
from voiceveil.models.nets.mel import log_mel, stft_loss
from voiceveil.models.nets.nsf import HnSincNsf
from voiceveil.training.single_loss_task import SingleLossTask, batch_tensors, fit_scales, torch_generator
from voiceveil.training.synthesis_data import SynthesisBatch, SynthesisData

__all__ = ["AcousticModelTask", "VocoderTask"]


class AcousticModelTask(SingleLossTask[SynthesisBatch]):
    """Mean square error of mel spectra; the recorded frames are fed back (teacher forcing)."""

    kind = "acoustic model"
    network: AcousticModel

    def __init__(self, network: AcousticModel, device: str = "cpu") -> None:
        super().__init__(network, device)

    def prepare(self, data: SynthesisData) -> None:
        """Fit the standardization of the inputs and of the mel spectra."""
        net = self.network
        scales = {"content": net.content_scale, "speaker": net.speaker_scale, "f0": net.f0_scale, "mel": net.mel_scale}
        fit_scales(scales, data, self.device)

    def loss(self, batch: SynthesisBatch, rng: np.random.Generator) -> Tensor:
        """Return the loss; the noise of the gates and the dropout are drawn from ``rng``."""
        samples, content, f0, speaker = batch_tensors(batch, self.device)
        torch.manual_seed(int(rng.integers(2**40)))
        return self.network.loss(content, f0, speaker, log_mel(samples))


class VocoderTask(SingleLossTask[SynthesisBatch]):
    """Distance of log power spectra at three resolutions; the input is the mel spectrum of the recording."""

    kind = "mel vocoder"
    network: HnSincNsf

    def __init__(self, network: HnSincNsf, device: str = "cpu") -> None:
        super().__init__(network, device)

    def prepare(self, data: SynthesisData) -> None:
        """Fit the standardization of the inputs; the content of this network is the mel spectrum."""
        net = self.network
        fit_scales({"mel": net.content_scale, "speaker": net.speaker_scale, "f0": net.f0_scale}, data, self.device)

    def loss(self, batch: SynthesisBatch, rng: np.random.Generator) -> Tensor:
        """Return the loss; phases and noise of the source are drawn from ``rng``."""
        samples, _, f0, speaker = batch_tensors(batch, self.device)
        return stft_loss(self.network(log_mel(samples), f0, speaker, generator=torch_generator(rng)), samples)
