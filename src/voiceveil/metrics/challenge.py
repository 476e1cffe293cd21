"""How the VoicePrivacy Challenges turn the figures of each test set into one figure and a rank.

Conventions: rates are fractions in [0, 1], G_VD is in dB; a dataset is called as in the challenge's files,
``libri_test_trials_f``, ``vctk_dev_trials_m_common``, ``vctk_test_asr``, ``IEMOCAP_dev``. An average needs every
dataset it is made of: a missing one is an ``InputError``, never a silent renormalisation.

* 2022 (evaluation plan, sections 5.1 and 7): EER, ρ_F0 and G_VD with the weights .25 libri, .20 vctk (different),
  .05 vctk (common), for each gender; WER .5 libri, .5 vctk; conditions EER 15, 20, 25, 30 %; ranked by WER; valid
  only with ρ_F0 > 0.3 on every dataset.
* 2024 (evaluation plan, sections 4.1 and 6): EER the mean of female and male; WER on libri; UAR on IEMOCAP; conditions
  EER 10, 20, 30, 40 %; ranked by WER and by UAR separately.

Both plans say it in two ways. Section 4.1 (5.1 in 2022): a condition takes every system whose EER is *greater* than
its minimum, so that a private system competes in all conditions below its own: ``membership="minimum"``. Section 6
(7 in 2022): systems are ranked within the *intervals* [10, 20), [20, 30), ...: ``membership="interval"`` (default,
for these are the rules of the challenge).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from voiceveil.core.errors import InputError

__all__ = ["CONDITIONS", "MIN_PITCH_CORRELATION", "Entry", "average", "condition", "rank", "weights"]

Edition = Literal[2022, 2024]
Split = Literal["dev", "test"]
Metric = Literal["eer", "wer", "pitch_correlation", "gvd", "uar"]
Membership = Literal["interval", "minimum"]

#: The minimum EER of each condition.
CONDITIONS: Mapping[int, tuple[float, ...]] = {2022: (0.15, 0.20, 0.25, 0.30), 2024: (0.10, 0.20, 0.30, 0.40)}

#: 2022: a system whose mean pitch correlation is not above this on some dataset is invalid.
MIN_PITCH_CORRELATION = 0.3

_TRIALS_2022 = {
    f"{corpus}_{{}}_trials_{gender}{suffix}": weight
    for corpus, suffix, weight in (("libri", "", 0.25), ("vctk", "", 0.20), ("vctk", "_common", 0.05))
    for gender in "fm"
}
_WEIGHTS: dict[tuple[int, str], dict[str, float]] = {
    (2022, "eer"): _TRIALS_2022,
    (2022, "pitch_correlation"): _TRIALS_2022,
    (2022, "gvd"): _TRIALS_2022,
    (2022, "wer"): {"libri_{}_asr": 0.5, "vctk_{}_asr": 0.5},
    (2024, "eer"): {"libri_{}_trials_f": 0.5, "libri_{}_trials_m": 0.5},
    (2024, "wer"): {"libri_{}_asr": 1.0},
    (2024, "uar"): {"IEMOCAP_{}": 1.0},
}


def weights(edition: Edition, metric: Metric, split: Split = "test") -> dict[str, float]:
    """The weight of each dataset in the challenge's average of ``metric``; they sum to 1.

    >>> weights(2024, "eer")
    {'libri_test_trials_f': 0.5, 'libri_test_trials_m': 0.5}
    """
    if (edition, metric) not in _WEIGHTS:
        known = ", ".join(f"{year} {name}" for year, name in _WEIGHTS)
        raise InputError(f"the {edition} challenge has no {metric!r}", fix=f"known: {known}")
    if split not in ("dev", "test"):
        raise InputError(f"unknown split {split!r}", fix="use 'dev' or 'test'")
    return {dataset.format(split): weight for dataset, weight in _WEIGHTS[edition, metric].items()}


def average(values: Mapping[str, float], edition: Edition, metric: Metric, split: Split = "test") -> float:
    """The challenge's average over the datasets; datasets that have no part in it are ignored.

    >>> average({"libri_test_trials_f": 0.07483, "libri_test_trials_m": 0.01557}, 2024, "eer")
    0.0452
    """
    parts = weights(edition, metric, split)
    missing = [dataset for dataset in parts if dataset not in values]
    if missing:
        raise InputError(f"no {metric} for {', '.join(missing)}", fix="evaluate all datasets of the challenge")
    return sum(weight * values[dataset] for dataset, weight in parts.items())


def condition(eer: float, edition: Edition) -> float | None:
    """The minimum EER of the interval that ``eer`` falls in, or None below the lowest.

    >>> condition(0.2524, 2024), condition(0.20, 2024), condition(0.0452, 2024)
    (0.2, 0.2, None)
    """
    return max((minimum for minimum in _conditions(edition) if eer >= minimum), default=None)


@dataclass(frozen=True)
class Entry:
    """One line of a ranking: ``place`` counts from 1, equal figures share a place and the next is left out."""

    place: int
    system: str
    value: float


def rank(
    eers: Mapping[str, float],
    utility: Mapping[str, float],
    edition: Edition,
    *,
    by: Literal["wer", "uar"] = "wer",
    membership: Membership = "interval",
    pitch_correlations: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[float, tuple[Entry, ...]]:
    """The ranking of the systems within each EER condition: lower WER or higher UAR is better.

    ``eers`` and ``utility`` map a system to its average EER and its average WER (or UAR). ``pitch_correlations``
    (2022) maps a system to its ρ_F0 of each dataset: a system that is not above 0.3 everywhere is left out.

    >>> rank({"b3": 0.2732, "b6": 0.2114, "b2": 0.0452}, {"b3": 0.0435, "b6": 0.0909, "b2": 0.0995}, 2024)[0.2]
    (Entry(place=1, system='b3', value=0.0435), Entry(place=2, system='b6', value=0.0909))
    """
    if by not in ("wer", "uar") or membership not in ("interval", "minimum"):
        raise InputError(f"cannot rank by {by!r} and {membership!r}", fix="wer or uar; interval or minimum")
    if eers.keys() != utility.keys():
        odd = ", ".join(sorted(eers.keys() ^ utility.keys()))
        raise InputError(f"only one of EER and {by} for {odd}", fix="give both figures of each system")
    for system in eers:
        if eers[system] != eers[system] or utility[system] != utility[system]:
            raise InputError(f"a figure of {system!r} is NaN", fix="leave out what was not measured")
    rho = pitch_correlations or {}
    valid = [s for s in eers if all(value > MIN_PITCH_CORRELATION for value in rho.get(s, {}).values())]
    table = {}
    for minimum in _conditions(edition):
        if membership == "interval":
            members = [system for system in valid if condition(eers[system], edition) == minimum]
        else:
            members = [system for system in valid if eers[system] > minimum]
        table[minimum] = _places({system: utility[system] for system in members}, descending=by == "uar")
    return table


def _places(values: Mapping[str, float], *, descending: bool) -> tuple[Entry, ...]:
    def better(value: float) -> int:
        return sum(other > value if descending else other < value for other in values.values())

    entries = [Entry(better(value) + 1, system, value) for system, value in values.items()]
    return tuple(sorted(entries, key=lambda entry: (entry.place, entry.system)))


def _conditions(edition: int) -> tuple[float, ...]:
    if edition not in CONDITIONS:
        raise InputError(f"no EER conditions for {edition}", fix="editions: 2022, 2024")
    return CONDITIONS[edition]
