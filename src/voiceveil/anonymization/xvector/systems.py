"""The systems of the challenges that resynthesise speech, each a declaration of its parts.

What ships is small: trained on a laptop, with features of Moonshine and CAM++, and a pool of 130 speakers of each
gender, so that N = 80 and N* = 40 stand for the challenges' 200 and 100. The published sizes are trained by
`voiceveil train` and given as ``weights``.

Where we differ from the official B1: the embedding of the source, which the candidates depend on, is the utterance's
(theirs is the mean over the speaker), and the gender is estimated from it (theirs is from a list). A system sees one
recording at a time; an official draw depends on the order of twelve data sets, and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from voiceveil.anonymization.contract import register
from voiceveil.anonymization.xvector.resynthesis import Resynthesis
from voiceveil.corpus import Utterance
from voiceveil.errors import InputError

__all__ = ["B1b"]


@register("b1b")
@dataclass(frozen=True)
class B1b(Resynthesis):
    """Content and F0 of the source, the voice of an average of far speakers; one network makes the waveform.

    B1.b of VoicePrivacy 2022 and B1 of 2024. The weights that ship are a compact source-filter decoder.
    """

    source: ClassVar[str] = "VoicePrivacy 2022, section 6.1 (B1.b); VoicePrivacy 2024, section 5.1 (B1)"
    shipped: ClassVar[str] = "b1b"

    def official_rng(self, index: int, utterance: Utterance, level: str) -> np.random.Generator:
        """Refused: they are those of one sequence over all lists of a data set, for Kaldi's x-vectors."""
        raise InputError(
            f"the official draws of {self.name} hold for the challenge's own x-vectors and lists alone",
            fix="use --seed or --key-file",
        )
