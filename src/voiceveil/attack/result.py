"""What an attack finds: rows of EERs with intervals, the health of each attacker, the strongest of them.

Conventions: rates are fractions. Conditions name enrollment and trial, ``o`` original, ``a`` anonymized. What the
attacker knows goes by the challenges' names; the legal paper calls the semi-informed attacker *informed*, and calls
*semi-informed* the one who has learned from a similar system, which is ``similar-system`` here:

    unprotected     oo   there is no anonymization; what the attacker can do at best
    ignorant        oa   compares original enrollment with anonymized speech, with a model of original speech
    lazy-informed   aa   anonymizes the enrollment too, with a model of original speech
    semi-informed   aa   and with a model trained on, or adapted to, speech of the same system
    similar-system  aa   the same with speech of a similar system
    inverting       oa   undoes the anonymization first, as far as it can, and compares with original enrollment
    free            aa   needs no model
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from voiceveil.attack.sets import Condition
from voiceveil.core.checks import Check
from voiceveil.core.errors import InputError
from voiceveil.stats import Estimate, average

__all__ = ["AttackResult", "Health", "Knowledge", "Row"]

Knowledge = Literal["unprotected", "ignorant", "lazy-informed", "semi-informed", "similar-system", "inverting", "free"]


@dataclass(frozen=True)
class Row:
    """The EER of one attacker on one set in one condition."""

    attacker: str
    knowledge: Knowledge
    condition: Condition
    set: str
    gender: str
    eer: Estimate
    trials: int
    backend: str = "cosine"  # how scores are made of embeddings
    llr: bool = False  # whether they are log likelihood ratios, of which a Cllr makes sense
    scores: Path | None = None  # the score file

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = {key: value for key, value in vars(self).items() if key not in ("eer", "scores")}
        return {**plain, "eer": self.eer.as_dict(), "scores": None if self.scores is None else str(self.scores)}


@dataclass(frozen=True)
class Health:
    """Whether an attacker can be trusted: a weak one makes weak protection look strong."""

    attacker: str
    original_eer: float | None  # of the same model family on original speech, mean over the sets
    control_eer: float  # with identities shuffled: about one half
    accuracy: float | None = None  # of identifying the training speakers
    validation_eer: float | None = None  # on speakers held out of the training
    unadapted_eer: float | None = None  # of the encoder as it was, on the same speakers
    peak_reached: bool | None = None  # whether the learning rate got to its largest value
    choice: str = ""  # which back-end was chosen
    tried: tuple[tuple[str, float], ...] = ()  # all that were tried, with their validation EER, best first
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class AttackResult:
    """All rows, the attackers' health, and the wall-clock seconds it took."""

    rows: tuple[Row, ...]
    health: tuple[Health, ...]
    seconds: float = 0.0
    checks: tuple[Check, ...] = ()  # that failed: see `voiceveil.core.checks`

    def mean(self, attacker: str, condition: Condition) -> Estimate:
        """The mean over the sets, e.g. of women and men."""
        found = [row.eer for row in self.rows if (row.attacker, row.condition) == (attacker, condition)]
        if not found:
            raise InputError(f"no result of {attacker} in the condition {condition}")
        return average(found)

    @property
    def strongest(self) -> tuple[str, Condition] | None:
        """Attacker and condition of the lowest mean EER on anonymized speech: *the* result; None if there is none.

        The order of files is no property of the speech, and can be mended by shuffling: it does not count here.
        """
        heard = [row for row in self.rows if row.condition != "oo" and row.attacker != "free:order"]
        pairs = dict.fromkeys((row.attacker, row.condition) for row in heard)
        return min(pairs, key=lambda pair: self.mean(*pair).value, default=None)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        best = self.strongest
        return {
            "rows": [row.as_dict() for row in self.rows],
            "health": [one.as_dict() for one in self.health],
            "strongest": None
            if best is None
            else {"attacker": best[0], "condition": best[1], "eer": self.mean(*best).as_dict()},
            "checks": [check.as_dict() for check in self.checks],
            "seconds": self.seconds,
        }
