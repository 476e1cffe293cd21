"""Verdicts of an assessment: what a rate and its 95% interval allow to say.

Conventions: rates are fractions. Every verdict has one of three outcomes, decided by the interval alone:

* ``found``: the whole interval lies above ``floor``;
* ``not found``: the whole interval lies at or below ``ceiling``;
* ``cannot be said``: neither, as too few people were tested. ``needed`` is the number of people with whom a verdict
  would fall in 8 of 10 cases, if the true rate is the one that was measured.

For a limit of the user, floor and ceiling are the limit: found means that it is exceeded. Without limits, a criterion
is judged against guessing: the floor is the rate of guessing, and the ceiling lies :data:`MARGIN` above it.

With the true rate at the limit, a wrong verdict in either direction falls in about 2.5% of assessments each; the tests
repeat the simulation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from voiceveil.core.errors import InputError

__all__ = [
    "MARGIN",
    "CriterionVerdict",
    "LimitVerdict",
    "Outcome",
    "RiskLimits",
    "decide",
    "needed_speakers",
    "overall_outcome",
    "parse_rate",
]

Outcome = Literal["found", "not found", "cannot be said"]

#: Without a limit: an attack at most this much better than guessing counts as not found.
MARGIN = 0.05
#: More people than this are not counted: the measured rate is too close to the limit for any verdict.
_MOST = 100_000
_POWER = 0.8


@dataclass(frozen=True)
class RiskLimits:
    """The highest rates that the user accepts, for the strongest protected attacker.

    Parameters
    ----------
    linkability, singling_out : float, optional
        Rates from 0 to 1.
    inference : float, optional
        Unweighted average recall of any attribute.
    speakers : int, optional
        N at which the rates are judged, or the nearest to it that was measured; the largest by default.
    length : int, optional
        Conversation length; any by default.
    """

    linkability: float | None = None
    singling_out: float | None = None
    inference: float | None = None
    speakers: int | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        for name in ("linkability", "singling_out", "inference"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= 1.0:
                raise InputError(
                    f"the limit for {name} is {value:g}, but must be from 0 to 1",
                    fix="give a fraction such as 0.05, or 5%",
                )


@dataclass(frozen=True)
class _Verdict:
    """A judged rate: of the strongest attacker on anonymized speech, at one L and one N.

    ``speakers`` is N, the people among whom somebody is sought; ``tested`` the people who were sought.
    """

    criterion: str
    value: float
    low: float
    high: float
    chance: float
    attacker: str
    length: int
    speakers: int
    tested: int

    @property
    def floor(self) -> float:
        """The rate above which the whole interval must lie for ``found``."""
        raise NotImplementedError

    @property
    def ceiling(self) -> float:
        """The rate at or below which the whole interval must lie for ``not found``."""
        raise NotImplementedError

    @property
    def outcome(self) -> Outcome:
        """Found, not found, or cannot be said with so few people."""
        return decide(self.low, self.high, self.floor, self.ceiling)

    @property
    def needed(self) -> int | None:
        """The number of people that would be needed, if it cannot be said; None: no number would do."""
        if self.outcome != "cannot be said":
            return None
        border = self.ceiling if self.value <= self.ceiling else self.floor
        return needed_speakers(self.value, (self.low, self.high), self.tested, border)


@dataclass(frozen=True)
class CriterionVerdict(_Verdict):
    """A criterion, judged against guessing."""

    @property
    def floor(self) -> float:
        """The rate of guessing."""
        return self.chance

    @property
    def ceiling(self) -> float:
        """The rate of guessing, and a margin."""
        return min(self.chance + MARGIN, 1.0)


@dataclass(frozen=True)
class LimitVerdict(_Verdict):
    """A limit of the user, and the rate that was measured."""

    limit: float

    @property
    def floor(self) -> float:
        """The limit."""
        return self.limit

    @property
    def ceiling(self) -> float:
        """The limit."""
        return self.limit

    @property
    def exceeded(self) -> bool:
        """True if the rate is above the limit beyond doubt."""
        return self.outcome == "found"

    @property
    def kept(self) -> bool:
        """True if the rate is at or below the limit beyond doubt."""
        return self.outcome == "not found"

    @property
    def below_chance(self) -> bool:
        """True if even guessing exceeds the limit: no anonymization can keep it among so few people."""
        return self.limit < self.chance

    @property
    def needed(self) -> int | None:
        """As for every verdict; for a limit below chance, enough people for guessing to reach half of the limit."""
        if not self.below_chance:
            return super().needed
        is_linking = self.criterion == "linkability" and self.limit > 0
        return math.ceil(2 / self.limit) if is_linking and 2 / self.limit <= _MOST else None

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {
            **vars(self),
            "outcome": self.outcome,
            "exceeded": self.exceeded,
            "kept": self.kept,
            "below_chance": self.below_chance,
            "needed": self.needed,
        }


def parse_rate(text: str, option: str) -> float:
    """Return a rate that is written as a fraction or in percent.

    >>> parse_rate("5%", "--max-linkability"), parse_rate("0.05", "--max-linkability")
    (0.05, 0.05)
    """
    number = text.strip()
    try:
        rate = float(number.removesuffix("%")) / 100 if number.endswith("%") else float(number)
    except ValueError:
        rate = math.nan
    if not 0.0 <= rate <= 1.0:
        fix = f"did you mean {number}%?" if number.replace(".", "", 1).isdigit() and float(number) <= 100 else ""
        raise InputError(f"{option} {text} is not a rate", fix=fix or "give a fraction such as 0.05, or percent: 5%")
    return rate


def decide(low: float, high: float, floor: float, ceiling: float) -> Outcome:
    """Return the outcome for an interval.

    >>> decide(0.06, 0.2, 0.05, 0.05), decide(0.0, 0.04, 0.05, 0.05), decide(0.0, 0.2, 0.05, 0.05)
    ('found', 'not found', 'cannot be said')
    """
    if low > floor:
        return "found"
    return "not found" if high <= ceiling else "cannot be said"


def needed_speakers(value: float, limits: tuple[float, float], speakers: int, border: float) -> int | None:
    """Return the number of people with whom the interval of a rate would end before a border in 8 of 10 cases.

    The interval (:mod:`voiceveil.stats.intervals`) is a t interval of cube roots; its half-width shrinks with the root
    of the number of people. A rate of 0 has Wilson's upper limit.

    Parameters
    ----------
    value
        The measured rate, which is taken for the true one.
    limits
        Its 95% interval.
    speakers
        People who were tested.
    border
        The rate that the interval must not include.

    Returns
    -------
    int or None
        At least one more than ``speakers``; None if more than 100,000 would be needed.
    """
    from scipy.special import ndtri, stdtrit

    low, high = limits
    if value > 0.5:  # intervals of high rates are those of the errors
        value, border, low, high = 1 - value, 1 - border, 1 - high, 1 - low
    z = float(ndtri(0.975))
    if value <= 0:
        # With nobody found among n people the interval ends at z^2 / (n + z^2).
        count = z * z * (1 - border) / border if border > 0 else math.inf
        return _whole(count, speakers)
    distance = abs(math.cbrt(border) - math.cbrt(value))
    end = high if border >= value else low
    reach = abs(math.cbrt(end) - math.cbrt(value))
    if distance == 0 or speakers < 2:
        return None
    spread = reach * math.sqrt(speakers) / float(stdtrit(speakers - 1, 0.975))
    count = (spread * (z + float(ndtri(_POWER))) / distance) ** 2
    for _ in range(3):  # Student's t depends on the number of people
        n = max(count, 3.0)
        if n > _MOST:
            return None
        count = (spread * float(stdtrit(n - 1, 0.975) + stdtrit(n - 1, _POWER)) / distance) ** 2
    return _whole(count, speakers)


def _whole(count: float, speakers: int) -> int | None:
    """Return a count of people, of two digits as it is an estimate, above the number of people tested."""
    if count > _MOST:
        return None
    step = int(10 ** max(0, len(str(math.ceil(count))) - 2))
    rounded = math.ceil(count / step) * step
    return max(rounded, speakers + 1)


def overall_outcome(outcomes: list[Outcome]) -> Outcome:
    """Return the outcome of all verdicts together: found if any is, and not found only if all are."""
    if "found" in outcomes:
        return "found"
    return "cannot be said" if "cannot be said" in outcomes or not outcomes else "not found"
