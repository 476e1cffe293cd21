"""Averages and rankings as the VoicePrivacy Challenges define them; the numbers come from a protocol.

Conventions: rates are fractions in [0, 1], G_VD is in dB. An average needs every dataset that has a weight: a missing
one is an ``InputError``, never a silent renormalization.

A condition of a challenge is a minimum EER. The plans of 2022 and 2024 describe its members in two ways. Section 4.1
(5.1 in 2022): every system whose EER is *greater* than the minimum, so that a private system competes in all conditions
below its own: ``membership="minimum"``. Section 6 (7 in 2022): systems are ranked within the *intervals* [10%, 20%),
[20%, 30%), ...: ``membership="interval"`` (default, because this section states the rules).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from voiceveil.core.errors import InputError

__all__ = ["Entry", "Membership", "average", "condition", "rank"]

Membership = Literal["interval", "minimum"]
K = TypeVar("K", bound=Hashable)


def average(values: Mapping[K, float], weights: Mapping[K, float]) -> float:
    """Return the weighted average of ``values``.

    Parameters
    ----------
    values
        Dataset -> value; datasets without a weight are ignored.
    weights
        Dataset -> weight; the weights sum to 1.

    Raises
    ------
    InputError
        If a dataset with a weight has no value.

    Examples
    --------
    >>> average({"female": 0.07483, "male": 0.01557}, {"female": 0.5, "male": 0.5})
    0.0452
    """
    missing = [dataset for dataset in weights if dataset not in values]
    if missing or not weights:
        names = ", ".join(map(str, missing)) or "any dataset"
        raise InputError(f"no value for {names}", fix="an average needs all datasets of the protocol")
    return sum(weight * values[dataset] for dataset, weight in weights.items())


def condition(eer: float, minimum_eer: Sequence[float]) -> float | None:
    """Return the minimum EER of the interval that ``eer`` is in, or None if it is below the lowest.

    Examples
    --------
    >>> condition(0.2524, [0.1, 0.2, 0.3]), condition(0.2, [0.1, 0.2, 0.3]), condition(0.05, [0.1, 0.2, 0.3])
    (0.2, 0.2, None)
    """
    return max((minimum for minimum in minimum_eer if eer >= minimum), default=None)


@dataclass(frozen=True)
class Entry:
    """A line of a ranking: ``place`` counts from 1; equal values share a place, and the next place is left out."""

    place: int
    system: str
    value: float


def rank(
    eers: Mapping[str, float],
    utility: Mapping[str, float],
    minimum_eer: Sequence[float],
    *,
    better: Literal["lower", "higher"] = "lower",
    membership: Membership = "interval",
) -> dict[float, tuple[Entry, ...]]:
    """Rank systems within each EER condition by a utility metric.

    Parameters
    ----------
    eers, utility
        System -> its average EER, and its average of the utility metric.
    minimum_eer
        The minimum EER of each condition, ascending.
    better
        ``"lower"`` for a WER, ``"higher"`` for a UAR.
    membership
        Which systems are in a condition, see the module.

    Returns
    -------
    dict
        Minimum EER -> its systems, best first.

    Examples
    --------
    >>> rank({"b3": 0.2732, "b6": 0.2114, "b2": 0.0452}, {"b3": 0.0435, "b6": 0.0909, "b2": 0.0995}, [0.1, 0.2])[0.2]
    (Entry(place=1, system='b3', value=0.0435), Entry(place=2, system='b6', value=0.0909))
    """
    if better not in ("lower", "higher") or membership not in ("interval", "minimum"):
        raise InputError(f"cannot rank by {better!r} and {membership!r}", fix="lower or higher; interval or minimum")
    if eers.keys() != utility.keys():
        incomplete = ", ".join(sorted(eers.keys() ^ utility.keys()))
        raise InputError(f"only one of EER and utility for {incomplete}", fix="give both values of each system")
    for system in eers:
        if eers[system] != eers[system] or utility[system] != utility[system]:
            raise InputError(f"a value of {system!r} is NaN", fix="leave out what was not measured")
    table = {}
    for minimum in minimum_eer:
        if membership == "interval":
            members = [system for system in eers if condition(eers[system], minimum_eer) == minimum]
        else:
            members = [system for system in eers if eers[system] > minimum]
        table[minimum] = _places({system: utility[system] for system in members}, better)
    return table


def _places(values: Mapping[str, float], better: str) -> tuple[Entry, ...]:
    def count_better(value: float) -> int:
        return sum(other > value if better == "higher" else other < value for other in values.values())

    entries = [Entry(count_better(value) + 1, system, value) for system, value in values.items()]
    return tuple(sorted(entries, key=lambda entry: (entry.place, entry.system)))
