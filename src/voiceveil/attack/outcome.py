"""Results of an attack: EERs of each attacker on each set, rates of single speakers, and the attackers' health.

Conventions: rates are fractions. See :mod:`voiceveil.attack.attacker` for conditions and knowledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil.attack.attacker import Health, Knowledge
from voiceveil.attack.sets import Condition, Pairs
from voiceveil.core.checks import Check, check_lines
from voiceveil.core.errors import InputError
from voiceveil.core.tables import Table, Tabular
from voiceveil.metrics import ScoredTrials
from voiceveil.metrics.speaker_rates import SpeakerRates
from voiceveil.stats import Estimate, average

__all__ = ["AttackResult", "AttackRow"]

_COLUMNS = (
    "attacker",
    "knowledge",
    "condition",
    "scores",
    "set",
    "gender",
    "trials",
    "EER [95% interval]",
    "worst speaker",
    "below 20%",
    "identified",
)


@dataclass(frozen=True)
class AttackRow:
    """The EER of one attacker on one set in one condition.

    Parameters
    ----------
    attacker, knowledge, condition : str
        Name of the attacker, its knowledge, and enrollment and trial: ``oo``, ``oa`` or ``aa``.
    set, gender : str
        Directory of the trials, and ``f``, ``m`` or "".
    eer : Estimate
        With its 95% interval over speakers.
    scored : ScoredTrials
        The trials with their scores.
    encoder : str
        Family of the speaker encoder, e.g. ``campplus``; "" without one.
    backend : str
        Back-end that computed the scores, e.g. ``cosine``.
    llr : bool
        True if scores are log-likelihood ratios, for which Cllr is defined.
    scores : Path, optional
        The score file.
    trial_utterances : int
        Utterances of a trial.
    pairs : {"listed", "mixed"}
        The trials are those of the list, or all pairs of both genders.
    speakers : SpeakerRates, optional
        The worst speaker, the share of speakers below 20%, and of utterances whose speaker is identified.
    """

    attacker: str
    knowledge: Knowledge
    condition: Condition
    set: str
    gender: str
    eer: Estimate
    scored: ScoredTrials = field(compare=False, repr=False)
    encoder: str = ""
    backend: str = "cosine"
    llr: bool = False
    scores: Path | None = None
    trial_utterances: int = 1
    pairs: Pairs = "listed"
    speakers: SpeakerRates | None = None

    @property
    def usual(self) -> bool:
        """True for single utterances and the trials of the list, on which results are compared."""
        return self.trial_utterances == 1 and self.pairs == "listed"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = {key: value for key, value in vars(self).items() if key not in ("eer", "scored", "scores", "speakers")}
        files = {"scores": None if self.scores is None else str(self.scores)}
        speakers = {} if self.speakers is None else {"speakers": self.speakers.as_dict()}
        return {**plain, "trials": self.trials, "eer": self.eer.as_dict(), **speakers, **files}

    @property
    def trials(self) -> int:
        """Number of trials."""
        return len(self.scored.score)


@dataclass(frozen=True)
class AttackResult(Tabular):
    """Results of an attack; prints a table.

    Parameters
    ----------
    rows : tuple of AttackRow
        One for each attacker, condition and set, first of single utterances and the trials of the lists.
    health : tuple of Health
        One for each attacker.
    seconds : float
        Wall-clock time.
    checks : tuple of Check
        Those that failed.
    speakers : str
        ``odd`` or ``even`` if only speakers with such ids were attacked.
    """

    rows: tuple[AttackRow, ...]
    health: tuple[Health, ...]
    seconds: float = 0.0
    checks: tuple[Check, ...] = ()
    speakers: str = ""

    def mean(
        self, attacker: str, condition: Condition, *, trial_utterances: int = 1, pairs: Pairs = "listed"
    ) -> Estimate:
        """Return the mean EER over the sets, e.g. of women and men, for one kind of trials."""
        wanted = (attacker, condition, trial_utterances, pairs)
        rows = [row for row in self.rows if (row.attacker, row.condition, row.trial_utterances, row.pairs) == wanted]
        eers = [row.eer for row in rows]
        if not eers:
            raise InputError(f"no result of {attacker} in the condition {condition}")
        return average(eers)

    @property
    def strongest(self) -> tuple[str, Condition] | None:
        """Attacker and condition with the lowest mean EER on anonymized speech; None if there are no such rows.

        Attackers that use metadata alone do not count: the order of files is no property of the speech.
        """
        counted = [row for row in self.rows if row.usual and row.condition != "oo" and row.knowledge != "metadata"]
        pairs = dict.fromkeys((row.attacker, row.condition) for row in counted)
        return min(pairs, key=lambda pair: self.mean(*pair).value, default=None)

    @property
    def selected(self) -> tuple[str, Condition] | None:
        """Attacker with the lowest EER on held-out training speakers; None if none was validated.

        It was chosen without any look at the trials, unlike :attr:`strongest`.
        """
        validated = {health.attacker: health.validation_eer for health in self.health if health.tried}
        rates = {name: rate for name, rate in validated.items() if rate is not None}
        name = min(rates, key=lambda key: rates[key], default=None)
        row = next((row for row in self.rows if row.attacker == name and row.condition != "oo"), None)
        return None if row is None else (row.attacker, row.condition)

    @property
    def tried(self) -> dict[str, int]:
        """Numbers of attackers, and of back-ends and fusions that were compared on training speakers."""
        attackers = len(dict.fromkeys(row.attacker for row in self.rows))
        return {"attackers": attackers, "back-ends": sum(len(health.tried) for health in self.health)}

    def records(self) -> list[dict[str, Any]]:
        """Return one record per row; rates and the ends of their 95% intervals are fractions."""
        records = []
        for row in self.rows:
            plain = row.as_dict()
            eer, speakers = plain["eer"], plain.pop("speakers", None) or {}
            rates = {"eer": eer["value"], "eer_low": eer["low"], "eer_high": eer["high"]}
            names = {"worst": "worst_speaker_eer", "below": "speakers_below_20", "identified": "identified"}
            rates |= {name: speakers[key]["value"] for key, name in names.items() if key in speakers}
            records.append({**plain, **rates})
        return records

    def table(self) -> Table:
        """Return the rows, with the health of each attacker and the strongest one below."""
        notes = ["", "attackers' health", *(line for health in self.health for line in health.lines())]
        notes += ["", *self._choice_lines()]
        if self.checks:
            notes += ["", *check_lines(self.checks)]
        return Table(_COLUMNS, tuple(map(_cells, self.rows)), tuple(notes))

    def _choice_lines(self) -> list[str]:
        """Return the sentences about the strongest attacker, and about how many were tried."""
        lines = []
        if (best := self.strongest) is not None:
            lines.append(f"strongest attacker: {best[0]} ({best[1]}), EER {self.mean(*best)} over the sets")
            lines += self._other_trials(best)
        if (chosen := self.selected) is not None:
            held_out = next(h.validation_eer for h in self.health if h.attacker == chosen[0])
            lines.append(
                f"strongest on training speakers, chosen without the trials: {chosen[0]} "
                f"({held_out:.1%} there), EER {self.mean(*chosen)} over the sets"
            )
        count = self.tried
        where = ", chosen on training speakers, never on the trials" if count["back-ends"] else ""
        lines.append(f"tried: {count['attackers']} attackers, {count['back-ends']} back-ends and fusions{where}")
        if self.speakers:
            lines.append(f"attacked: speakers with {self.speakers} ids alone")
        return lines

    def _other_trials(self, attack: tuple[str, Condition]) -> list[str]:
        """Return the mean EERs of an attack with several utterances a trial and with both genders."""
        kinds = dict.fromkeys((row.trial_utterances, row.pairs) for row in self.rows if not row.usual)
        lines = []
        for size, pairs in kinds:
            if any((row.attacker, row.trial_utterances, row.pairs) == (attack[0], size, pairs) for row in self.rows):
                eer = self.mean(*attack, trial_utterances=size, pairs=pairs)
                lines.append(f"  {_kind(size, pairs)}: EER {eer}")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        best, chosen = self.strongest, self.selected
        return {
            "rows": [row.as_dict() for row in self.rows],
            "health": [health.as_dict() for health in self.health],
            "strongest": None
            if best is None
            else {"attacker": best[0], "condition": best[1], "eer": self.mean(*best).as_dict()},
            "selected": None
            if chosen is None
            else {"attacker": chosen[0], "condition": chosen[1], "eer": self.mean(*chosen).as_dict()},
            "tried": self.tried,
            "speakers": self.speakers,
            "checks": [check.as_dict() for check in self.checks],
            "seconds": self.seconds,
        }


def _kind(size: int, pairs: Pairs) -> str:
    """Return the kind of trials for a reader."""
    utterances = f"{size} utterances a trial" if size > 1 else ""
    return ", ".join(filter(None, ["both genders" if pairs == "mixed" else "", utterances])) or "as listed"


def _cells(row: AttackRow) -> tuple[str, ...]:
    """Return the cells of a row."""
    trials = " ".join(filter(None, [str(row.trial_utterances), "mixed" if row.pairs == "mixed" else ""]))
    cells = (row.attacker, row.knowledge, row.condition, row.backend, row.set, row.gender, trials, f"{row.eer}")
    rates: Sequence[Estimate] = ()
    if row.speakers is not None:
        rates = (row.speakers.worst, row.speakers.below, row.speakers.identified)
    return (
        *cells,
        *(f"{rate.value:.1%}" if np.isfinite(rate.value) else "" for rate in rates),
        *[""] * (3 - len(rates)),
    )
