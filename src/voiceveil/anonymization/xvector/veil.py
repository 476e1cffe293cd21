"""`veil`, our own system: nothing but words and, as far as one wants, intonation is taken from the source.

What identifies a speaker behind another voice is the way of making sounds, which content features keep; F0; loudness
and rhythm; room and noise. The bottleneck of content lets through what a few of 2,048 codes can say; loudness, room and
noise are those that the network expects of the words, as they are no input of it, and so is, from a second network, the
movement of F0. Its register and its reach carry the feeling, and are taken last. `docs/veil.md` says what each does to
privacy, to words and to feelings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from voiceveil.anonymization.contract import register
from voiceveil.anonymization.parameters import Range, parameter
from voiceveil.anonymization.xvector.disguise import Disguise
from voiceveil.anonymization.xvector.resynthesis import STRATEGY, Averaging

if TYPE_CHECKING:
    from voiceveil.anonymization.xvector.pseudo import Strategy

__all__ = ["Veil"]

#: Codes that a vector of content is made of.
_CODES = 4
#: How far content is replaced by codes where privacy is 0, of the bottleneck: as in b1b.
_LEAST = 0.85


@register("veil")
@dataclass(frozen=True)
class Veil(Averaging):
    """The words of the source in the voice of one speaker of a pool, drawn anew for every recording.

    ``privacy`` goes from 0, where words and feelings matter most, to 1. Up to 0.5 it takes what tells an attacker most
    and a listener least: content becomes codes (``bottleneck``) and is heard at another speed (``speeds``); loudness
    and the movement of F0 (``melody``) are those which are expected of the words; local tempo wanders (``rhythm``).
    From there on it takes the gender, and with it register and reach of F0: how high and how lively the source was.
    """

    source: ClassVar[str] = "voiceveil"
    shipped: ClassVar[str] = "veil"

    privacy: float = parameter(0.5, "0: words and feelings; 1: protection", low=0, high=1)
    strategy: str = parameter("pool-random", STRATEGY)
    gender: Literal["auto", "same", "other", "random", "f", "m"] = parameter(  # type: ignore[assignment]
        "auto", "of the pseudo-speaker, seen from the source's or named; auto: same up to privacy 0.5, random above"
    )
    best: float = parameter(0.5, "share of the pool's voices that are drawn from, those that sound best", low=0, high=1)
    intonation: Literal["source", "moved", "levelled"] = parameter(
        "levelled", "F0 as it is; with the pseudo-speaker's mean; with that and the same reach in all recordings"
    )
    bottleneck: float = parameter(
        1.0, "how far content is replaced by codes of other people's speech, from privacy 0.5 on", low=0, high=1
    )
    excursion: float = parameter(0.0, "what stays of the movement of F0 from privacy 0.5 on", low=0, high=1)
    melody: float = parameter(1.0, "movement of F0 that is expected of the words, from privacy 0.5 on", low=0, high=3)
    speeds: Range = parameter(
        (0.85, 1.18), "of the speech whose content is heard, from privacy 0.5 on", low=0.7, high=1.4
    )
    rhythm: float = parameter(0.15, "deviation of local tempo from privacy 0.5 on, logarithmic", low=0, high=0.5)

    loudness: float = parameter(1.0, "what stays, where privacy is 0, of the slow changes of loudness", low=0, high=1)

    def chosen_strategy(self) -> Strategy:
        """With a gender that goes with ``privacy``, if none is chosen."""
        if self.gender == "auto":
            return replace(self, gender="random" if self.privacy > 0.5 else "same").chosen_strategy()
        return super().chosen_strategy()

    def disguise(self) -> Disguise:
        """Loudness, speed, rhythm and melody in the first half of ``privacy``, register and reach in the second."""
        first, second = self._halves
        slow, fast = (speed**first for speed in self.speeds)
        return Disguise(
            self.intonation,
            excursion=1 - first * (1 - self.excursion),
            speeds=(slow, fast),
            rhythm=self.rhythm * first,
            levelling=second,
            height=1 - second,
            loudness=self.loudness * (1 - first),
            melody=self.melody * first,
        )

    def synthesis(self) -> dict[str, float]:
        """How far content is replaced by codes."""
        return {"nearest": _CODES, "share": self.bottleneck * (_LEAST + (1 - _LEAST) * self._halves[0])}

    @property
    def _halves(self) -> tuple[float, float]:
        """How much of the first half of ``privacy`` there is, and of the second, 0 to 1."""
        return min(1.0, 2 * self.privacy), max(0.0, 2 * self.privacy - 1)
