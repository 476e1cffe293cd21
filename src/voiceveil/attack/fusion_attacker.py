"""``fusion``: the attackers that are named beside it, together; see :mod:`voiceveil.attack.fusion`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from voiceveil.attack.attacker import Attacker, Health, Knowledge, ModelWork, TrainingSpeech
from voiceveil.attack.fusion import Fusion, learn_fusion
from voiceveil.attack.registry import AttackerOptions, attackers
from voiceveil.attack.sets import Condition, TrialSet
from voiceveil.core.errors import InputError
from voiceveil.models.speaker.covariances import Floats
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

__all__ = ["FusionAttacker"]

_CONDITION: Condition = "aa"


@dataclass(eq=False)
class FusionAttacker(Attacker):
    """Add up the scores of other attackers, with weights that are learned from trials among training speakers.

    The weights of trials of several utterances are learned from such trials among training speakers, as far as they
    have so many utterances.

    Parameters
    ----------
    members : tuple of Attacker
        The attackers that can be fused: those that attack anonymized speech and score training speakers.
    similar : bool
        The training speech is of a similar system, not of the one that is attacked.
    """

    members: tuple[Attacker, ...] = ()
    similar: bool = False
    scores_groups = True
    combines = True
    name = "fusion"
    _learned: dict[int, Fusion] = field(default_factory=dict, init=False)
    _used: tuple[Attacker, ...] = field(default=(), init=False)
    _training: TrainingSpeech = field(default_factory=TrainingSpeech, init=False)

    def combined(self, others: Sequence[Attacker]) -> FusionAttacker:
        """Return the fusion of those attackers that can be fused; its own members, if it has some."""
        usable = tuple(other for other in others if _CONDITION in other.conditions() and other.fusible)
        return self if self.members else replace(self, members=usable)

    @property
    def minimum(self) -> float:
        """Shortest utterance in seconds."""
        return max((member.minimum for member in self.members), default=0.0)

    @property
    def backend(self) -> str:
        """How the weights of trials of one utterance were found, or "" before ``fit``."""
        return self._learned[1].choice if 1 in self._learned else ""

    @property
    def needs_training(self) -> bool:
        """True: the weights are always learned."""
        return True

    def conditions(self, *, anonymized: bool = True) -> Mapping[Condition, Knowledge]:
        """Return the condition ``aa``."""
        if not anonymized:
            return {}
        return {_CONDITION: "similar-system" if self.similar else "semi-informed"}

    def fingerprint(self) -> str:
        """Return the version and the fingerprints of the members."""
        return f"fusion 1 {' '.join(member.fingerprint() for member in self.members)}"

    def check(self) -> None:
        """Raise an ``InputError`` if there are fewer than two members, or one cannot be used."""
        if len(self.members) < 2:
            fix = "name two that learn from --train, e.g. --attackers campplus-adapted,moonshine-adapted,fusion"
            raise InputError(f"fusion needs two other attackers beside it, but has {len(self.members)}", fix=fix)
        for member in self.members:
            member.check()

    def fit(self, training: TrainingSpeech, context: RunContext) -> None:
        """Let the members learn, and learn the weights."""
        if not self._learned:
            self._training = training
            for member in self.members:
                member.fit(training, context)
            self._learn(1, context)

    def _learn(self, size: int, context: RunContext) -> Fusion:
        """Return the fusion for trials of ``size`` utterances, or of as many as training speakers have."""
        if size not in self._learned:
            try:
                pairs = [(member, member.held_out(self._training, context, size)) for member in self.members]
            except InputError:
                if size == 1:
                    raise
                self._learned[size] = self._learn(size - 1, context)
                return self._learned[size]
            known = [(member, scores) for member, scores in pairs if scores is not None]
            self._used = tuple(member for member, _ in known)
            names = [member.name for member in self._used]
            self._learned[size] = learn_fusion([scores for _, scores in known], names)
        return self._learned[size]

    def score(self, trial_set: TrialSet, condition: Condition, context: RunContext) -> Floats:
        """Return the fused score of each trial, shape (trials,)."""
        fusion = self._learn(trial_set.size, context)
        return fusion(np.array([member.score(trial_set, condition, context) for member in self._used]))

    def work(
        self,
        sets: Sequence[TrialSet],
        conditions: Sequence[Condition],
        training: Mapping[str, Sequence[str]],
        cache: Cache,
    ) -> Iterator[ModelWork]:
        """Yield the models of the members."""
        for member in self.members:
            yield from member.work(sets, conditions, training, cache)

    def weights(self, size: int = 1) -> dict[str, float]:
        """Return attacker -> its share of the weights, the largest first; those without weight are left out."""
        weight = self._learned[size].weight
        shares = zip(self._used, weight / weight.sum(), strict=True)
        return {m.name: float(share) for m, share in sorted(shares, key=lambda pair: -pair[1]) if share > 0.0005}

    def health(self, eer: float | None, reference_eer: float | None) -> Health:
        """Return the choice among the fusions, with the weights."""
        if 1 not in self._learned:
            return Health(self.name)
        fusion = self._learned[1]
        shares = ", ".join(f"{share:.0%} {member}" for member, share in self.weights().items())
        name, rate = fusion.alone[0]
        return Health(
            self.name,
            validation_eer=fusion.validation[0][1],
            choice=f"{fusion.choice} ({shares}; {name} alone has {rate:.1%} there)",
            tried=fusion.validation,
        )


@attackers.register("fusion")
def make_fusion(options: AttackerOptions) -> list[Attacker]:
    """Return the fusion; the attackers that are named beside it become its members."""
    if options.argument:
        raise InputError("fusion takes no argument", fix="name the attackers beside it: campplus-adapted,words,fusion")
    return [FusionAttacker(similar=options.similar)]
