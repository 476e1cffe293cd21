"""Named checks for figures that say nothing: broken scores, broken audio, test data that the attacker knows.

A check that fails gives a :class:`Check`; no checks is good news. The names are stable: they stand in ``results.json``,
in ``attack.json``, in the reports and in what the command line prints.

Conventions: rates are fractions. Scores are higher for the same speaker. This module looks at scores, ids and vectors;
:mod:`voiceveil.attack.sanity_audio` looks at audio.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from voiceveil import metrics
from voiceveil.metrics import tally
from voiceveil.stats import ScoredTrials, estimate
from voiceveil.stats.measures import eer as eer_measure

__all__ = ["NAMES", "Check", "check_scores", "check_shared", "check_trials", "failed", "merged", "read_checks"]

#: Check -> its title, and what a failure means for the figures.
_TEXTS = {
    "identical-audio": (
        "Anonymized speech is the original speech",
        "Nothing protects these utterances: the figures describe unprotected speech, at least in part.",
    ),
    "silent-audio": (
        "Anonymized speech is silent",
        "Silence has no speaker: an attacker who cannot recognize anybody in it proves no privacy.",
    ),
    "noise-audio": (
        "Anonymized speech is noise",
        "Noise has no speaker: an attacker who cannot recognize anybody in it proves no privacy.",
    ),
    "repeated-audio": (
        "One recording stands for several utterances",
        "The anonymization has lost the speech: figures on copies of one recording prove no privacy.",
    ),
    "shared-utterances": (
        "Enrollment and trials share utterances",
        "The attacker compares recordings with themselves: recognition looks easier than it is.",
    ),
    "training-speakers-in-test": (
        "The attacker has learned from the test data",
        "It knows these voices already: recognition looks easier than it is for new speakers.",
    ),
    "constant-scores": (
        "All scores are equal",
        "The attacker has decided nothing: its EER of 50% is no privacy, it is a failure of the attack.",
    ),
    "tied-scores": (
        "Most scores have one value",
        "The attacker decides hardly anything: its EER is no measure of privacy.",
    ),
    "eer-above-half": (
        "The EER is well above 50%",
        "Targets score lower than nontargets. Usually labels are swapped or scores are distances: find out first. "
        "If not, an attacker who inverts the decision does better than chance.",
    ),
}
#: The names of all checks.
NAMES = tuple(_TEXTS)

_TIED = 0.5  # share of the most frequent score
_ABOVE = 0.55  # EER that calls for a look at its interval


@dataclass(frozen=True)
class Check:
    """A check that failed: its name, a title, what was seen (with counts), and what that means for the figures."""

    name: str
    title: str
    seen: str
    meaning: str

    def __str__(self) -> str:
        return f"WARNING {self.name}: {self.title}. {self.seen} {self.meaning}"

    def as_dict(self) -> dict[str, str]:
        """Return plain values for JSON."""
        return asdict(self)


def failed(name: str, seen: str) -> Check:
    """Return the named check as failed; ``seen`` is a sentence with counts.

    >>> print(failed("constant-scores", "All 40 scores are 0."))
    WARNING constant-scores: All scores are equal. All 40 scores are 0. The attacker has decided nothing: its EER of \
50% is no privacy, it is a failure of the attack.
    """
    title, meaning = _TEXTS[name]
    return Check(name, title, seen, meaning)


def merged(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return one check for each name, in the order of `NAMES`, with all distinct sentences of what was seen."""
    seen: dict[str, dict[str, Check]] = {}
    for check in checks:
        seen.setdefault(check.name, {})[check.seen] = check
    order = sorted(seen, key=lambda name: NAMES.index(name) if name in NAMES else len(NAMES))
    firsts = {name: next(iter(seen[name].values())) for name in order}
    return tuple(Check(name, firsts[name].title, " ".join(seen[name]), firsts[name].meaning) for name in order)


def read_checks(values: Any) -> tuple[Check, ...]:
    """Return the checks of a JSON value as :meth:`Check.as_dict` gives them; what has no name is left out."""
    rows = [row for row in values if isinstance(row, Mapping)] if isinstance(values, Sequence) else []
    texts = [[str(row.get(key, "")) for key in ("name", "title", "seen", "meaning")] for row in rows]
    return tuple(Check(*text) for text in texts if text[0])


def check_scores(target: ArrayLike, nontarget: ArrayLike, *, low: float | None = None, where: str = "") -> list[Check]:
    """Return the failed checks of verification scores: ``constant-scores``, ``tied-scores``, ``eer-above-half``.

    Parameters
    ----------
    target, nontarget
        Scores of shape (n,) and (m,), at least one each, without NaN.
    low
        Lower end of the 95% interval of the EER by the counting definition (``metrics.eer`` with ``"speechbrain"``:
        the convex hull never exceeds one half). Without it the trials are taken as independent.
    where
        What the scores are of, for the sentence: an attacker, a set.
    """
    tar, non = tally.check_scores(target, nontarget)
    name = f" ({where})" if where else ""
    scores = np.concatenate([tar, non])
    values, counts = np.unique(scores, return_counts=True)
    most, value = int(counts.max()), float(values[counts.argmax()])
    if most == len(scores):
        return [failed("constant-scores", f"All {most:,} scores are {value:.4g}{name}.")]
    found = []
    if most > _TIED * len(scores):
        sentence = f"{most:,} of {len(scores):,} scores ({most / len(scores):.0%}) are {value:.4g}{name}."
        found.append(failed("tied-scores", sentence))
    rate = metrics.eer(tar, non, method="speechbrain")
    if rate > _ABOVE:
        if low is None:  # as of a half total error rate: Bengio & Mariethoz 2004
            low = rate - 1.96 * float(np.sqrt(rate * (1 - rate) * (1 / len(tar) + 1 / len(non)))) / 2
        if low > 0.5:
            sentence = f"The EER is {rate:.1%}, at least {low:.1%}, over {len(tar):,} target trials{name}."
            found.append(failed("eer-above-half", sentence))
    return found


def check_trials(trials: ScoredTrials, *, where: str = "", resamples: int = 300, seed: int = 0) -> list[Check]:
    """Return the failed checks of scored trials, as :func:`check_scores`, with an interval over speakers."""
    classes = trials.classes()
    low = None
    if metrics.eer(*classes, method="speechbrain") > _ABOVE:
        low = estimate(trials, eer_measure("speechbrain"), resamples=resamples, seed=seed).low
    return check_scores(*classes, low=low, where=where)


def check_shared(enrolled: Mapping[str, Any], tried: Mapping[str, Any], *, where: str = "") -> list[Check]:
    """Return ``shared-utterances`` if an utterance is on both sides: by its id, or by equal content.

    Parameters
    ----------
    enrolled, tried
        Utterance id -> its content: a digest of the audio, or an embedding as bytes; None where it is not known.
    """
    ids = sorted(enrolled.keys() & tried.keys())
    known = {content: key for key, content in enrolled.items() if content is not None}
    same = sorted(key for key, content in tried.items() if content is not None and content in known and key not in ids)
    name = f" ({where})" if where else ""
    found = []
    if ids:
        sentence = f"{len(ids):,} of {len(tried):,} trial utterances are enrolled, e.g. {ids[0]}{name}."
        found.append(failed("shared-utterances", sentence))
    if same:
        first = f"{same[0]} is {known[tried[same[0]]]}"
        sentence = f"{len(same):,} of {len(tried):,} trial utterances have the content of an enrolled one, e.g. {first}"
        found.append(failed("shared-utterances", f"{sentence}{name}."))
    return found
