"""`veil`, our own system: nothing but words and, as far as one wants, intonation is taken from the source.

What identifies a speaker behind another voice is the way of making sounds, which content features keep; F0; loudness
and rhythm; room and noise. The bottleneck of content lets through what a few of 2,048 codes can say; loudness, room and
noise are those that the network expects of the words, as they are no input of it, and so is, from a second network, the
movement of F0. Its height and reach and the effort of the voice carry the feeling, where they are unusual together.
`docs/reference/veil.md` says what each does to privacy, to words and to feelings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from voiceveil.systems.contract import register
from voiceveil.systems.parameters import Range, parameter
from voiceveil.systems.resynthesis.base import STRATEGY, Averaging
from voiceveil.systems.resynthesis.prosody import Disguise

if TYPE_CHECKING:
    from voiceveil.systems.resynthesis.pseudo import Strategy

__all__ = ["Veil"]

#: Codes that a vector of content is made of.
_CODES = 4
#: How far content is replaced by codes where privacy is 0, of the bottleneck: as in b1b.
_LEAST = 0.85


@register("veil")
@dataclass(frozen=True)
class Veil(Averaging):
    """The words of the source in the voice of a speaker of a pool, drawn anew for every recording.

    ``privacy`` goes from 0, where words and feelings matter most, to 1. Up to 0.5 content becomes codes, whose mean
    over a recording is that of all, and is heard at other speeds (``bottleneck``, ``centred``, ``speeds``); loudness,
    what is voiced and how F0 moves become those which are expected of the words (``voicing``, ``melody``); tempo
    changes, of the whole and from place to place (``tempo``, ``rhythm``). How high, how lively and with how much effort
    somebody speaks tells the speaker, unless all three together are out of the ordinary, which tells a feeling: up to
    what is ``ordinary`` they are hidden, the more the higher ``privacy`` is. Where a feeling is to be heard, the voice
    is a mean of several (``steady``), which differ less from one recording to the next than voices of speakers do.
    Above 0.5 the gender goes too.
    """

    source: ClassVar[str] = "voiceveil"
    shipped: ClassVar[str] = "veil"
    keeps_length: ClassVar[bool] = False

    privacy: float = parameter(0.5, "0: words and feelings; 1: protection", low=0, high=1)
    strategy: str = parameter("pool-random", STRATEGY)
    gender: Literal["auto", "same", "other", "random", "f", "m"] = parameter(  # type: ignore[assignment]
        "auto", "of the pseudo-speaker, seen from the source's or named; auto: same up to privacy 0.5, random above"
    )
    best: float = parameter(0.5, "share of the pool's voices that are drawn from, those that sound best", low=0, high=1)
    voices: int = parameter(1, "speakers whose mean is the new voice", low=1)
    steady: int = parameter(8, "the same where a feeling is heard; 0: as many, and so it is at --level speaker", low=0)
    intonation: Literal["source", "moved", "levelled"] = parameter(
        "levelled", "F0 as it is; with the pseudo-speaker's mean; with that and the same reach in all recordings"
    )
    bottleneck: float = parameter(
        1.0, "how far content is replaced by codes of other people's speech, from privacy 0.5 on", low=0, high=1
    )
    centred: float = parameter(
        1.0, "how far the mean of a recording's codes is that of all, from privacy 0.5 on", low=0, high=1
    )
    excursion: float = parameter(0.0, "what stays of the movement of F0 from privacy 0.5 on", low=0, high=1)
    melody: float = parameter(1.0, "movement of F0 that is expected of the words, from privacy 0.5 on", low=0, high=3)
    voicing: float = parameter(1.0, "how far what is voiced is expected of the words, from 0.5 on", low=0, high=1)
    speeds: Range = parameter(
        (0.8, 1.25),
        "of the speech whose content is heard, faster and as much slower, from privacy 0.5 on",
        low=0.7,
        high=1.4,
    )
    rhythm: float = parameter(0.15, "deviation of local tempo from privacy 0.5 on, logarithmic", low=0, high=0.5)
    tempo: float = parameter(
        0.2, "largest change of the length of a recording from privacy 0.5 on, logarithmic", low=0, high=0.5
    )
    ordinary: float = parameter(
        2.25, "deviations of arousal within which height, reach and effort are hidden at privacy 0.5", low=0, high=9
    )
    loudness: float = parameter(1.0, "what stays, where privacy is 0, of the slow changes of loudness", low=0, high=1)

    def chosen_strategy(self) -> Strategy:
        """With a gender that goes with ``privacy``, if none is chosen."""
        gender = ("random" if self.privacy > 0.5 else "same") if self.gender == "auto" else self.gender
        return super(Veil, replace(self, gender=gender)).chosen_strategy()

    def at_level(self, level: str) -> Veil:
        """A speaker has one voice, whatever is felt."""
        return replace(self, steady=0) if level == "speaker" else self

    def disguise(self) -> Disguise:
        """Loudness, speed, rhythm and melody in the first half of ``privacy``; what is ordinary all along."""
        first = self._first_half
        slow, fast = (speed**first for speed in self.speeds)
        return Disguise(
            self.intonation,
            excursion=1 - first * (1 - self.excursion),
            speeds=(slow, fast),
            rhythm=self.rhythm * first,
            tempo=self.tempo * first,
            ordinary=self._ordinary,
            loudness=self.loudness * (1 - first),
            melody=self.melody * first,
            voicing=self.voicing * first,
        )

    def synthesis(self) -> dict[str, float]:
        """How far content is replaced by codes, and what they have in common taken away."""
        share = self.bottleneck * (_LEAST + (1 - _LEAST) * self._first_half)
        return {"nearest": _CODES, "share": share, "centred": self.centred * self._first_half}

    @property
    def _first_half(self) -> float:
        """How much of the first half of ``privacy`` there is, 0 to 1."""
        return min(1.0, 2 * self.privacy)

    @property
    def _ordinary(self) -> float:
        """Nothing where privacy is 0, all where it is 1."""
        return math.inf if self.privacy == 1 else self.ordinary * self.privacy / (1 - self.privacy)
