"""How the source-filter decoder learns: filtered sources against the recording's spectra, at two resolutions.

With ``listening``, a second stage, a recognizer hears what is made of half of the crops as well: it is to hear the same
as in the recording. Spectra that are right on average are blurred ones, and words are lost in them. Where voices are
``exchanged``, it hears these crops in the voices of one another, as they are used later; of what it hears, the level
and the spread of every feature, which are the voice's, then do not count. With ``likeness``, CAM++ hears them as well,
and is to hear the voice that was asked for: whatever of the source's voice comes through with the content is an error.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from voiceveil.models.nets.mel import log_mel
from voiceveil.models.nets.moonshine_encoder import moonshine_encoder
from voiceveil.models.nets.soft_codes import SoftCodes, k_means
from voiceveil.models.nets.source_filter import (
    RATE,
    Excitation,
    MelSourceFilter,
    SourceFilter,
    SourceFilterSize,
    excitation,
    mel_to_linear,
    spectra,
)
from voiceveil.training.b1_tasks import fit
from voiceveil.training.campplus_loss import voice_hearing
from voiceveil.training.synthesis_data import Batch, SynthesisData

__all__ = ["MelSourceFilterTask", "SourceFilterTask"]

#: Window in samples, points of the Fourier transform, mel bands: fine in frequency, fine in time.
RESOLUTIONS = ((640, 1024, 80), (240, 512, 48))
#: Spectral magnitude, relative to noise of unit power, below which nothing matters: about 46 dB below speech.
FLOOR = 3e-4
#: Vectors of content that the codes of a bottleneck are found from.
_VECTORS = 200_000
#: Codes that stand for a vector, and how far they do, drawn for every step: both can be chosen when speech is made.
_NEAREST = (1, 2, 4, 8, 16)
_SHARES = (0.0, 0.5, 1.0)

#: Decibels that noise is below the speech in which CAM++ hears a voice.
_MASKING = (10.0, 30.0)

#: Of Moonshine's encoder, which has six.
_LAYERS = (2, 4, 6)


class SourceFilterTask:
    """L1 of logarithmic mel spectra, and a little of logarithmic magnitudes.

    ``listening``: the weight of what Moonshine's encoder hears, 0 for not at all; ``likeness``: that of whom CAM++
    hears in exchanged voices.
    """

    kind = "source-filter decoder"
    network_class: ClassVar[type[SourceFilter]] = SourceFilter
    listening = 0.0
    exchanged = False
    likeness = 0.0

    def __init__(self, size: SourceFilterSize, *, seed: int = 0, device: str = "cpu") -> None:
        torch.manual_seed(seed)
        self.device = device
        self.network: SourceFilter = self.network_class(size).to(device)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)
        self._spread = {p: torch.from_numpy(mel_to_linear(p)).to(device) for _, p, _ in RESOLUTIONS}
        self._mel = {p: torch.from_numpy(_mel_bands(bands, p)).to(device) for _, p, bands in RESOLUTIONS}

    @property
    def modules(self) -> torch.nn.Module:
        """All that learns."""
        return self.network

    def prepare(self, data: SynthesisData) -> None:
        """Find the codes of the bottleneck. (Content is normalized over each utterance, embeddings by their length.)"""
        if isinstance(self.network.codes, SoftCodes):
            vectors, rng = data.content_vectors(_VECTORS), np.random.default_rng(0)
            codes = k_means(vectors, self.network.size.codes, rng)
            self.network.codes.codes.copy_(torch.from_numpy(codes))

    def step(self, batch: Batch, rng: np.random.Generator) -> float:
        """Return one step of AdamW."""
        self.optimizer.zero_grad()
        if isinstance(self.network.codes, SoftCodes):
            self.network.codes.nearest = int(rng.choice(_NEAREST))
            self.network.codes.strength = float(rng.choice(_SHARES))
        loss = self._loss(batch, rng)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())

    def validate(self, batch: Batch, rng: np.random.Generator) -> float:
        """The same loss."""
        if isinstance(self.network.codes, SoftCodes):
            size = self.network.size
            self.network.codes.nearest, self.network.codes.strength = size.nearest, size.bottleneck_strength
        return float(self._loss(batch, rng))

    def record(self) -> dict[str, Any]:
        """Return the size."""
        return self.network.record()

    def _heard(self, content: Tensor, samples: Tensor) -> Tensor:
        """What the network takes for content."""
        return content

    def _loss(self, batch: Batch, rng: np.random.Generator) -> Tensor:
        samples, content, f0, speaker = (torch.from_numpy(x).to(self.device) for x in batch)
        source = Excitation(*(x.to(self.device) for x in excitation(batch.f0, rng)))
        pulses, noise = self.network(self._heard(content, samples), f0, speaker)
        total = torch.zeros((), device=self.device)
        for window, points, _ in RESOLUTIONS:
            unit = 1 / np.sqrt(3 / 8 * window)  # noise of unit power has a spectrum of unit power
            spread, mel = self._spread[points], self._mel[points]
            made = torch.exp(pulses @ spread) * spectra(source.pulses, window, points)
            made = unit * (made + torch.exp(noise @ spread) * spectra(source.noise, window, points)).abs()
            real = unit * spectra(samples, window, points).abs()
            total = total + (_log(made @ mel) - _log(real @ mel)).abs().mean()
            total = total + 0.1 * (_log(made) - _log(real)).abs().mean()
        if self.listening:
            half = slice(0, -(-len(samples) // 2))  # the crops are drawn; a recognizer is slow
            if self.exchanged:
                other = Batch(*(array[half] for array in batch)).exchanged()
                f0, speaker = (torch.from_numpy(x).to(self.device) for x in (other.f0, other.speaker))
                source = Excitation(*(x.to(self.device) for x in excitation(other.f0, rng)))
                pulses, noise = self.network(content[half], f0, speaker)
            sources = Excitation(source.pulses[half], source.noise[half])
            made = self.network.sounding(pulses[half], noise[half], sources)
            total = total + self.listening * _heard_otherwise(made, samples[half], own_voice=not self.exchanged)
            if self.likeness:
                heard = voice_hearing().to(self.device)(_noisy(made, rng))
                total = total + self.likeness * (1 - functional.cosine_similarity(heard, speaker[half])).mean()
        return total


class MelSourceFilterTask(SourceFilterTask):
    """The same for a vocoder, which learns from the recordings' own mel spectra."""

    kind = "source-filter vocoder"
    network_class: ClassVar[type[SourceFilter]] = MelSourceFilter

    def prepare(self, data: SynthesisData) -> None:
        """Means and deviations of mel spectra."""
        fit({"mel": self.network.get_submodule("scale")}, data, self.device)  # type: ignore[dict-item]

    def _heard(self, content: Tensor, samples: Tensor) -> Tensor:
        return log_mel(samples)


def _noisy(samples: Tensor, rng: np.random.Generator) -> Tensor:
    """Samples (B, N) in white noise, each at a level that is drawn: what a little noise hides is no voice.

    Without it a network soon finds sounds that nobody takes for a voice but CAM++.
    """
    below = torch.from_numpy(10 ** (-rng.uniform(*_MASKING, size=(len(samples), 1)) / 20)).to(samples)
    noise = torch.from_numpy(rng.standard_normal(samples.shape, dtype=np.float32)).to(samples)
    return samples + noise * below * samples.detach().square().mean(dim=1, keepdim=True).sqrt()


def _heard_otherwise(made: Tensor, real: Tensor, *, own_voice: bool) -> Tensor:
    """How far what Moonshine hears in two recordings (B, N) is apart: L1 in deviations, a mean over some layers.

    Unless it is the same voice, every feature is brought to mean 0 and deviation 1 over its recording first.
    """
    encoder = moonshine_encoder().to(made.device)
    with torch.no_grad():
        wanted = encoder(real)
    heard = encoder(made)
    distances = []
    for layer in _LAYERS:
        one, other = heard[layer - 1], wanted[layer - 1]
        if own_voice:
            distances.append(((one - other) / (other.std(dim=(0, 1)) + 1e-3)).abs().mean())
        else:
            distances.append((_standardized(one) - _standardized(other)).abs().mean())
    return torch.stack(distances).mean()


def _standardized(features: Tensor) -> Tensor:
    centered = features - features.mean(dim=1, keepdim=True)
    return centered / (centered.std(dim=1, keepdim=True) + 1e-3)


def _log(magnitude: Tensor) -> Tensor:
    return torch.log(magnitude + FLOOR)


def _mel_bands(bands: int, points: int) -> NDArray[np.float32]:
    """(points / 2 + 1, bands): triangles equally spaced in mel from 0 to 8 kHz, each of sum 1."""
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1)
    at = np.linspace(0, RATE / 2, points // 2 + 1)[:, None]
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    triangles = np.maximum(0, np.minimum((at - left) / (center - left), (right - at) / (right - center)))
    for band in np.flatnonzero(triangles.sum(axis=0) == 0):  # narrower than a bin: the nearest one
        triangles[np.abs(at[:, 0] - center[band]).argmin(), band] = 1.0
    return np.asarray(triangles / triangles.sum(axis=0), dtype=np.float32)
