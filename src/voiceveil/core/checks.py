"""Named checks for figures that say nothing: what a failed check is, its texts, and how it is kept in JSON.

A check that fails gives a :class:`Check`; no checks is good news. The names are stable: they stand in ``results.json``,
``attack.json`` and ``comparison.json``, in the reports and in what the command line prints. The checks themselves are
in :mod:`voiceveil.attack.checks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

__all__ = ["NAMES", "Check", "check_lines", "failed", "merged"]

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
    "swapped-audio": (
        "Anonymized speech is that of other utterances",
        "Speakers and words do not belong to this audio: recognition looks harder than it is, and proves no privacy.",
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

_SENTENCES = 6  # of a merged check


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


def check_lines(checks: Iterable[Check]) -> list[str]:
    """Return the lines of a summary: one for each failed check, and what to do; nothing if none failed."""
    lines = [str(check) for check in checks]
    if not lines:
        return []
    return [*lines, "Do not use or publish these figures before the WARNINGs above are explained."]


def merged(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return one check for each name, in the order of `NAMES`, with the distinct sentences of what was seen."""
    seen: dict[str, dict[str, Check]] = {}
    for check in checks:
        seen.setdefault(check.name, {})[check.seen] = check
    order = sorted(seen, key=lambda name: NAMES.index(name) if name in NAMES else len(NAMES))
    return tuple(_joined(list(seen[name].values())) for name in order)


def _joined(checks: list[Check]) -> Check:
    """Return one check for several of one name; of many sentences the first are kept, and the others counted."""
    sentences = [check.seen for check in checks[:_SENTENCES]]
    if len(checks) > _SENTENCES:
        sentences.append(f"And {len(checks) - _SENTENCES:,} more such cases.")
    return replace(checks[0], seen=" ".join(sentences))
