"""Rules of a protocol besides its sets: ranking, allowed resources, official files, the legal framework.

Conventions: rates are fractions in [0, 1]; `docs/how-to/protocols.md` explains every key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from voiceveil.core.errors import InputError
from voiceveil.metrics.challenge import Membership

__all__ = ["AllowedResources", "Legal", "Official", "RankingRules"]


@dataclass(frozen=True)
class Legal:
    """The sets A and B of the legal framework, and its numbers; the defaults are those of Vauquier et al. 2025.

    Parameters
    ----------
    a, b
        Sets: every speaker of B is in A, with other utterances.
    lengths
        Utterances in a conversation.
    speakers
        Numbers of speakers to assess; empty: all of them, halved down to 20.
    enrolled
        Speakers of B who are enrolled for Singling Out.
    draws
        Random draws of utterances.
    """

    a: str
    b: str
    lengths: tuple[int, ...] = (1, 3, 30)
    speakers: tuple[int, ...] = ()
    enrolled: int = 495
    draws: int = 5


@dataclass(frozen=True)
class RankingRules:
    """Rules by which systems are ranked.

    Parameters
    ----------
    minimum_eer
        The minimum EER of each condition, fractions, ascending.
    by
        The metrics that systems are ranked by within a condition, each separately.
    membership
        ``"interval"``: a condition takes EERs up to the next minimum. ``"minimum"``: every EER above its minimum.
    systems_per_team
        A team with more systems than this in one condition keeps only its best one by each metric of ``by``.
        None: all systems are ranked.
    minimum_pitch_correlation
        Systems whose pitch correlation is not above this in every set, of all splits, are not ranked.
    """

    minimum_eer: tuple[float, ...]
    by: tuple[str, ...]
    membership: Membership = "interval"
    systems_per_team: int | None = None
    minimum_pitch_correlation: float | None = None

    def __post_init__(self) -> None:
        ascending = all(low < high for low, high in zip(self.minimum_eer, self.minimum_eer[1:], strict=False))
        if not self.minimum_eer or not ascending or not all(0 <= eer < 1 for eer in self.minimum_eer):
            shown = ", ".join(f"{eer:g}" for eer in self.minimum_eer)
            raise InputError(f"ranking.minimum_eer is [{shown}]", fix="give ascending fractions, e.g. [0.1, 0.2]")
        if not self.by:
            raise InputError("ranking.by is empty", fix='name the metrics to rank by, e.g. by = ["wer"]')
        if self.systems_per_team is not None and self.systems_per_team < 1:
            raise InputError(f"ranking.systems_per_team is {self.systems_per_team}", fix="give 1 or more")


@dataclass(frozen=True)
class AllowedResources:
    """Training data and pretrained models that systems may be made from, named as by `voiceveil systems`."""

    allowed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Official:
    """The challenge's own result files: their layout, and the evaluators whose names stand in them.

    ``family`` is the kind of speaker encoder that the challenge used, preferred if several attackers could have a name;
    ``asv``, ``asr`` and ``ser`` describe the challenge's evaluators of speakers, words and emotions. If files have WERs
    with several language models, those with ``language_model`` count in rankings and reports. ``evaluators`` maps
    ``asv``, ``asr`` or ``ser`` to the names of models that are the challenge's own, without their folders. ``track`` is
    that of 2026, which has files and archives of its own.
    """

    layout: Literal["vpc2020", "vpc2022", "vpc2024", "vpc2026"]
    family: str = ""
    asv: str = ""
    asr: str = ""
    ser: str = ""
    language_model: str = ""
    evaluators: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    track: int = 1

    def __post_init__(self) -> None:
        if self.track not in (1, 2) or (self.track == 2 and self.layout != "vpc2026"):
            fix = "1, or 2 with layout vpc2026"
            raise InputError(f"official.track is {self.track} with the layout {self.layout}", fix=fix)
