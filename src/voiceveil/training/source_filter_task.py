"""Training of the source-filter decoder: filtered sources against the recording's spectra, at two resolutions.

A second stage adds losses that other networks compute (:class:`~voiceveil.training.network_settings.PerceptualLoss`)
from half of the crops:

* ``content``: Moonshine's features of the synthesized waveform are to equal those of the recording. A spectral loss
  alone favors average, blurred spectra, in which words are lost.
* ``swap_voices``: these crops are synthesized with the voices of other crops, as in anonymization. Mean and deviation
  of each feature depend on the voice, and are then left out of the comparison.
* ``speaker``: CAM++'s embedding of the synthesized waveform is to equal that of the target voice, so that traces of the
  source's voice in the content count as errors.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from voiceveil.dsp.excitation import RATE
from voiceveil.models.nets.mel import log_mel
from voiceveil.models.nets.moonshine_encoder import moonshine_encoder
from voiceveil.models.nets.soft_codes import SoftCodes, k_means
from voiceveil.models.nets.source_filter import (
    Excitation,
    MelSourceFilter,
    SourceFilter,
    SourceFilterSize,
    excitation,
    mel_to_linear,
    spectra,
)
from voiceveil.training.campplus_loss import differentiable_campplus
from voiceveil.training.network_settings import PerceptualLoss
from voiceveil.training.single_loss_task import SingleLossTask, batch_tensors, fit_scales
from voiceveil.training.synthesis_data import SynthesisBatch, SynthesisData

__all__ = ["MelSourceFilterTask", "SourceFilterTask"]

#: Window in samples, points of the Fourier transform, mel bands: fine in frequency, fine in time.
RESOLUTIONS = ((640, 1024, 80), (240, 512, 48))
#: Added to spectral magnitudes before the logarithm; relative to noise of unit power, about 46 dB below speech.
FLOOR = 3e-4
#: Vectors of content from which the codes of a bottleneck are computed by k-means.
_VECTORS = 200_000
#: Number of nearest codes, and strength of the bottleneck; drawn in each step, so that both can be chosen at inference.
_NEAREST = (1, 2, 4, 8, 16)
_STRENGTHS = (0.0, 0.5, 1.0)
#: Range of the signal-to-noise ratio, in dB, of the noise that is added before CAM++.
_NOISE_LEVELS = (10.0, 30.0)
#: Layers of Moonshine's encoder, of six, whose features are compared.
_LAYERS = (2, 4, 6)


class SourceFilterTask(SingleLossTask[SynthesisBatch]):
    """L1 distance of log mel spectra, and of log magnitudes with a tenth of the weight.

    Parameters
    ----------
    size
        Size of the network.
    seed
        Of the first weights.
    device
        Device of torch.

    Attributes
    ----------
    perceptual : PerceptualLoss
        Weights of the losses of the second stage; none by default.
    """

    kind = "source-filter decoder"
    network: SourceFilter
    network_class: ClassVar[type[SourceFilter]] = SourceFilter
    perceptual = PerceptualLoss()

    def __init__(self, size: SourceFilterSize, *, seed: int = 0, device: str = "cpu") -> None:
        torch.manual_seed(seed)
        super().__init__(self.network_class(size), device)
        self._to_linear = {p: torch.from_numpy(mel_to_linear(p)).to(device) for _, p, _ in RESOLUTIONS}
        self._to_mel = {p: torch.from_numpy(_mel_bands(bands, p)).to(device) for _, p, bands in RESOLUTIONS}

    def prepare(self, data: SynthesisData) -> None:
        """Compute the codes of the bottleneck by k-means, if the network has one."""
        if isinstance(self.network.codes, SoftCodes):
            vectors, rng = data.content_vectors(_VECTORS), np.random.default_rng(0)
            codes = k_means(vectors, self.network.size.codes, rng)
            self.network.codes.codes.copy_(torch.from_numpy(codes))

    def step(self, batch: SynthesisBatch, rng: np.random.Generator) -> float:
        """Draw the settings of the bottleneck, and update the weights; return the loss before."""
        if isinstance(self.network.codes, SoftCodes):
            self.network.codes.nearest = int(rng.choice(_NEAREST))
            self.network.codes.strength = float(rng.choice(_STRENGTHS))
        return super().step(batch, rng)

    def validate(self, batch: SynthesisBatch, rng: np.random.Generator) -> float:
        """Return the loss with the default settings of the bottleneck."""
        if isinstance(self.network.codes, SoftCodes):
            size = self.network.size
            self.network.codes.nearest, self.network.codes.strength = size.nearest, size.bottleneck_strength
        return super().validate(batch, rng)

    def record(self) -> dict[str, Any]:
        """Return the size of the network."""
        return self.network.record()

    def network_input(self, content: Tensor, samples: Tensor) -> Tensor:
        """Return the first input of the network for a batch: its content."""
        return content

    def loss(self, batch: SynthesisBatch, rng: np.random.Generator) -> Tensor:
        """Return the spectral loss plus the weighted perceptual losses."""
        samples, content, f0, speaker = batch_tensors(batch, self.device)
        source = self._source(batch.f0, rng)
        filters = self.network(self.network_input(content, samples), f0, speaker)
        total = self._spectral_loss(filters, source, samples)
        if self.perceptual.content:
            for loss in self._perceptual_losses(batch, filters, source, rng):
                total = total + loss
        return total

    def _source(self, f0: NDArray[np.float32], rng: np.random.Generator) -> Excitation:
        return Excitation(*(x.to(self.device) for x in excitation(f0, rng)))

    def _spectral_loss(self, filters: tuple[Tensor, Tensor], source: Excitation, samples: Tensor) -> Tensor:
        total = torch.zeros((), device=self.device)
        for window, points, _ in RESOLUTIONS:
            unit = 1 / np.sqrt(3 / 8 * window)  # noise of unit power gets a spectrum of unit power
            to_linear, to_mel = self._to_linear[points], self._to_mel[points]
            pulses = torch.exp(filters[0] @ to_linear) * spectra(source.pulses, window, points)
            noise = torch.exp(filters[1] @ to_linear) * spectra(source.noise, window, points)
            synthesized = unit * (pulses + noise).abs()
            real = unit * spectra(samples, window, points).abs()
            total = total + (_log(synthesized @ to_mel) - _log(real @ to_mel)).abs().mean()
            total = total + 0.1 * (_log(synthesized) - _log(real)).abs().mean()
        return total

    def _perceptual_losses(
        self, batch: SynthesisBatch, filters: tuple[Tensor, Tensor], source: Excitation, rng: np.random.Generator
    ) -> list[Tensor]:
        """Return the weighted losses of the first half of the crops: the other networks are slow."""
        weights = self.perceptual
        half = slice(0, -(-len(batch.samples) // 2))
        samples, content, f0, speaker = batch_tensors(SynthesisBatch(*(array[half] for array in batch)), self.device)
        pulses, noise = filters
        if weights.swap_voices:
            swapped = SynthesisBatch(*(array[half] for array in batch)).with_swapped_voices()
            _, _, f0, speaker = batch_tensors(swapped, self.device)
            source = self._source(swapped.f0, rng)
            pulses, noise = self.network(content, f0, speaker)
        source = Excitation(source.pulses[half], source.noise[half])
        synthesized = self.network.waveform_from_gains(pulses[half], noise[half], source)
        losses = [weights.content * _content_distance(synthesized, samples, same_voice=not weights.swap_voices)]
        if weights.speaker:
            embeddings = differentiable_campplus().to(self.device)(_with_noise(synthesized, rng))
            losses.append(weights.speaker * (1 - functional.cosine_similarity(embeddings, speaker)).mean())
        return losses


class MelSourceFilterTask(SourceFilterTask):
    """The vocoder of B1.a: its input is the mel spectrum of the recording instead of content."""

    kind = "source-filter vocoder"
    network_class: ClassVar[type[SourceFilter]] = MelSourceFilter

    def prepare(self, data: SynthesisData) -> None:
        """Fit the standardization of the mel spectra."""
        fit_scales({"mel": self.network.get_submodule("scale")}, data, self.device)  # type: ignore[dict-item]

    def network_input(self, content: Tensor, samples: Tensor) -> Tensor:
        """Return the log mel spectra of the samples."""
        return log_mel(samples)


def _with_noise(samples: Tensor, rng: np.random.Generator) -> Tensor:
    """Return samples (B, N) in white noise at a drawn level.

    Without noise the decoder soon learns faint sounds that only CAM++ takes for a voice.
    """
    gain = torch.from_numpy(10 ** (-rng.uniform(*_NOISE_LEVELS, size=(len(samples), 1)) / 20)).to(samples)
    noise = torch.from_numpy(rng.standard_normal(samples.shape, dtype=np.float32)).to(samples)
    return samples + noise * gain * samples.detach().square().mean(dim=1, keepdim=True).sqrt()


def _content_distance(synthesized: Tensor, real: Tensor, *, same_voice: bool) -> Tensor:
    """Return the L1 distance of Moonshine's features of two waveforms (B, N), in deviations, averaged over layers.

    Unless the voice is the same, each feature is standardized over its recording first.
    """
    encoder = moonshine_encoder().to(synthesized.device)
    with torch.no_grad():
        targets = encoder(real)
    features = encoder(synthesized)
    distances = []
    for layer in _LAYERS:
        feature, target = features[layer - 1], targets[layer - 1]
        if same_voice:
            distances.append(((feature - target) / (target.std(dim=(0, 1)) + 1e-3)).abs().mean())
        else:
            distances.append((_standardized(feature) - _standardized(target)).abs().mean())
    return torch.stack(distances).mean()


def _standardized(features: Tensor) -> Tensor:
    centered = features - features.mean(dim=1, keepdim=True)
    return centered / (centered.std(dim=1, keepdim=True) + 1e-3)


def _log(magnitude: Tensor) -> Tensor:
    return torch.log(magnitude + FLOOR)


def _mel_bands(bands: int, points: int) -> NDArray[np.float32]:
    """Return triangular filters (points / 2 + 1, bands), equally spaced in mel from 0 to 8 kHz, each of sum 1."""
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1)
    frequencies = np.linspace(0, RATE / 2, points // 2 + 1)[:, None]
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (frequencies - left) / (center - left), (right - frequencies) / (right - center)
    triangles = np.maximum(0, np.minimum(rising, falling))
    for band in np.flatnonzero(triangles.sum(axis=0) == 0):  # narrower than a bin: take the nearest bin
        triangles[np.abs(frequencies[:, 0] - center[band]).argmin(), band] = 1.0
    return np.asarray(triangles / triangles.sum(axis=0), dtype=np.float32)
