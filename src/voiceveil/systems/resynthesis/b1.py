"""Baseline B1 of the challenges and its published alternatives, each a declaration of its models.

The weights that ship are small: trained on a laptop, with features of Moonshine and CAM++, and a pool of 130 speakers
of each gender, so that N = 80 and N* = 40 replace the challenges' 200 and 100, which a pool with 200 speakers of each
gender gets. The published sizes are trained by `voiceveil train` and given as ``weights``.

Differences from the official B1: candidates depend on the embedding of the utterance (official: the mean over the
speaker), and the gender, if the metadata do not state it, is estimated from it (official: from a list). Official draws
are refused, since they depend on the order of twelve data sets and a system sees one recording at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.systems.contract import register
from voiceveil.systems.parameters import parameter
from voiceveil.systems.resynthesis.base import Averaging

__all__ = ["B1a", "B1b", "B1bResNet", "B1bSsl", "JointHifiGan"]


@register("b1b")
@dataclass(frozen=True)
class B1b(Averaging):
    """Content and F0 of the source with the average voice of distant speakers; one network generates the waveform.

    B1.b of VoicePrivacy 2022 and B1 of 2024. A compact source-filter decoder ships, the same as for veil; the published
    network is trained by `voiceveil train`, as hn-sinc-NSF with the discriminators of HiFi-GAN. Content features of a
    recognizer's inner layer keep more of the voice than the challenge's bottleneck features, hence ``bottleneck``.
    """

    source: ClassVar[str] = "VoicePrivacy 2022, section 6.1 (B1.b); VoicePrivacy 2024, section 5.1 (B1)"
    stages: ClassVar[dict[str, tuple[str, ...]]] = {"": ("source-filter decoder", "hn-sinc-NSF generator")}
    shipped: ClassVar[str] = "veil"

    def official_rng(self, index: int, utterance: Utterance, level: str) -> np.random.Generator:
        """Refuse official draws: they are one sequence over all lists of a data set, for Kaldi's x-vectors."""
        raise InputError(
            f"the official draws of {self.name} apply only to the challenge's own x-vectors and lists",
            fix="use --seed or --key-file",
        )


@register("b1a")
@dataclass(frozen=True)
class B1a(B1b):
    """Variant of b1b in two stages: an acoustic model for mel spectra, then a neural source-filter vocoder.

    B1.a of VoicePrivacy 2022 and B1 of 2020. ``weights`` is a folder with the sub-folders ``am`` and ``nsf``, which
    `voiceveil train am` and `voiceveil train nsf` write.
    """

    source: ClassVar[str] = "VoicePrivacy 2022, section 6.1 (B1.a); VoicePrivacy 2020, section 3.1 (B1)"
    stages: ClassVar[dict[str, tuple[str, ...]]] = {
        "am": ("acoustic model",),
        "nsf": ("source-filter vocoder", "mel vocoder"),
    }
    shipped: ClassVar[str] = "b1a"
    unused_parameters: ClassVar[frozenset[str]] = frozenset({"bottleneck"})


@register("joint-hifigan")
@dataclass(frozen=True)
class JointHifiGan(B1b):
    """Variant of b1b with HiFi-GAN, which has no excitation signal: an alternative of VoicePrivacy 2022."""

    source: ClassVar[str] = "VoicePrivacy 2022, section 6.4.2"
    stages: ClassVar[dict[str, tuple[str, ...]]] = {"": ("HiFi-GAN generator",)}
    shipped: ClassVar[str] = ""
    unused_parameters: ClassVar[frozenset[str]] = frozenset({"bottleneck"})


@register("b1b-resnet")
@dataclass(frozen=True)
class B1bResNet(B1b):
    """Variant of b1b with embeddings of a ResNet-34: an alternative of VoicePrivacy 2022.

    The encoder is trained by `voiceveil train asv --model resnet34`; decoder and pool need its embeddings.
    """

    source: ClassVar[str] = "VoicePrivacy 2022, section 6.4.1"
    shipped: ClassVar[str] = ""
    speaker: str = parameter("resnet34", "speaker encoder: resnet34:FOLDER")


@register("b1b-ssl")
@dataclass(frozen=True)
class B1bSsl(B1b):
    """Variant of joint-hifigan with the last layer of a self-supervised network as content: an alternative of 2022."""

    source: ClassVar[str] = "VoicePrivacy 2022, section 6.4.3"
    stages: ClassVar[dict[str, tuple[str, ...]]] = {"": ("HiFi-GAN generator",)}
    shipped: ClassVar[str] = ""
    unused_parameters: ClassVar[frozenset[str]] = frozenset({"bottleneck"})
    content: str = parameter("ssl", "content features: ssl:FOLDER or ssl:HUB_ID")
