"""Balanced draws of utterances, speakers and versions, so that no evaluator hears an utterance twice.

Conventions: a :class:`Deck` belongs to one set of evaluators; an utterance that it has dealt, in any version or role,
is not dealt again. Counts over the whole study decide what is dealt next: always what was dealt least, with ties in an
order that depends on the seed alone. So all counts stay within one of each other if the corpus allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from voiceveil.apps.listen.study import ORIGINAL
from voiceveil.core.errors import InputError
from voiceveil.corpus.model import Utterance
from voiceveil.corpus.sampling import shuffled

__all__ = ["Balance", "Deck", "deal_cells", "deal_pairs", "panel_shape"]

Counts = Counter[tuple[str, ...]]


class Balance:
    """Counts of everything that was dealt in the whole study, and the seed of all draws."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.counts: Counts = Counter()

    def least(self, names: Iterable[str], purpose: str, *key: str) -> list[str]:
        """Return the names, those dealt least for ``key`` first; ties are in the random order of ``purpose``."""
        drawn = shuffled(names, self.seed, purpose)
        return sorted(drawn, key=lambda name: self.counts[(*key, name)])


def deal_cells(items: int, systems: Sequence[str], balance: Balance, purpose: str) -> list[tuple[str, bool]]:
    """Return (source, same speaker) of each item of a session.

    Half of the items are original, the other half is shared by the systems; half have the same speaker twice. Items
    that cannot be divided evenly go to the sources that had fewer of them so far.
    """
    original = items // 2 + (items % 2 and balance.counts["odd",] % 2)
    balance.counts["odd",] += items % 2
    count = Counter({ORIGINAL: original})
    for turn in range(items - original):
        name = balance.least(systems, f"{purpose} {turn}", "source")[0]
        count[name] += 1
        balance.counts["source", name] += 1
    # A source with an odd number of items has one left over: "same speaker" for the sources that had fewer of these.
    odd = [source for source in (ORIGINAL, *systems) if count[source] % 2]
    odd.sort(key=lambda source: balance.counts["same", source] - balance.counts["different", source])
    spare = (len(odd) + (1 if balance.counts["same",] <= balance.counts["different",] else 0)) // 2
    cells = []
    for source, number in count.items():
        same = number // 2 + (1 if source in odd[:spare] else 0)
        balance.counts["same", source] += same
        balance.counts["different", source] += number - same
        balance.counts["same",] += same
        balance.counts["different",] += number - same
        cells += [(source, True)] * same + [(source, False)] * (number - same)
    return cells


def deal_pairs(items: int, systems: Sequence[str], balance: Balance, purpose: str) -> list[tuple[str, str]]:
    """Return (version A, version B) of each preference: all ordered pairs of systems equally often."""
    sources = list(systems) if len(systems) > 1 else [ORIGINAL, *systems]
    pairs = {f"{a} {b}": (a, b) for a, b in combinations(sources, 2)}
    dealt = []
    for turn in range(items):
        name = balance.least(pairs, f"{purpose} {turn}", "pair")[0]
        a, b = pairs[name]
        dealt.append((a, b) if balance.counts["pair", name] % 2 == 0 else (b, a))
        balance.counts["pair", name] += 1
    return dealt


def panel_shape(sizes: Sequence[int], seed: int, purpose: str, *, excerpts: int = 15) -> tuple[int, ...] | None:
    """Draw the number of excerpts of each of three reference speakers: 2 to 6 each, ``excerpts`` in total.

    ``sizes``: the most that each of them has. Returns None if there is no such split.
    """
    shapes = {
        f"{a} {b} {excerpts - a - b}": (a, b, excerpts - a - b)
        for a in range(2, 7)
        for b in range(2, 7)
        if 2 <= excerpts - a - b <= 6
    }
    possible = [k for k, shape in shapes.items() if all(n <= most for n, most in zip(shape, sizes, strict=True))]
    return shapes[shuffled(possible, seed, purpose)[0]] if possible else None


class Deck:
    """The utterances that one set of evaluators has not heard."""

    def __init__(
        self, trials: Mapping[str, Sequence[Utterance]], enroll: Mapping[str, Sequence[Utterance]], balance: Balance
    ) -> None:
        self._trials, self._enroll = trials, enroll
        self._balance = balance
        self._heard: set[str] = set()
        self._dealt: Counter[str] = Counter()  # speakers, in this set
        self._gender = {u.speaker: u.gender for us in (*trials.values(), *enroll.values()) for u in us}

    def trial(self, source: str, purpose: str, *, same: bool) -> tuple[Utterance, Utterance]:
        """Return an utterance to rate and one to compare it with.

        The second is of the same speaker, or of another speaker of the same gender.
        """
        for speaker in self._in_turn(self._trials, "trial"):
            mine = self._fresh(self._trials[speaker])
            others = (
                [speaker]
                if same
                else [o for o in self._in_turn(self._enroll, "enroll") if self._comparable(speaker, o)]
            )
            for utterance in self._by_use(mine, purpose, source):
                for other in others:
                    known = [
                        u
                        for u in self._by_use(self._fresh(self._enroll.get(other, ())), purpose, "enroll")
                        if u.id != utterance.id
                    ]
                    if known:
                        self._deal(utterance, source, "trial")
                        self._deal(known[0], "enroll", "enroll")
                        return utterance, known[0]
        raise InputError(
            f"too few utterances: an evaluator who never hears one twice runs out after {len(self._heard)}",
            fix="fewer --items or --sessions, or a larger corpus",
        )

    def alone(self, sources: Sequence[str], purpose: str) -> Utterance:
        """Return an utterance that is not compared with another utterance."""
        for speaker in self._in_turn(self._trials, "preference"):
            fresh = self._by_use(self._fresh(self._trials[speaker]), purpose, *sources)
            if fresh:
                self._deal(fresh[0], " ".join(sources), "preference")
                return fresh[0]
        raise InputError(
            f"too few utterances: an evaluator who never hears one twice runs out after {len(self._heard)}",
            fix="fewer --items or --sessions, or a larger corpus",
        )

    def several(self, utterances: Sequence[Utterance], count: int, purpose: str) -> list[Utterance]:
        """Deal ``count`` of these utterances, or as many as are left."""
        fresh = self._by_use(self._fresh(utterances), purpose, "panel")[:count]
        for utterance in fresh:
            self._deal(utterance, "panel", "panel")
        return fresh

    def left(self, utterances: Sequence[Utterance]) -> int:
        """Return the number of these utterances that were not dealt yet."""
        return len(self._fresh(utterances))

    def _fresh(self, utterances: Sequence[Utterance]) -> list[Utterance]:
        return [utterance for utterance in utterances if utterance.id not in self._heard]

    def _in_turn(self, speakers: Iterable[str], role: str) -> list[str]:
        names = self._balance.least(speakers, f"speakers {len(self._heard)}", role)
        return sorted(names, key=lambda name: self._dealt[f"{role} {name}"])

    def _by_use(self, utterances: Sequence[Utterance], purpose: str, *key: str) -> list[Utterance]:
        by_id = {utterance.id: utterance for utterance in utterances}
        return [by_id[name] for name in self._balance.least(by_id, purpose, "utterance", " ".join(key))]

    def _comparable(self, speaker: str, other: str) -> bool:
        return speaker != other and self._gender[speaker] == self._gender[other]

    def _deal(self, utterance: Utterance, key: str, role: str) -> None:
        self._heard.add(utterance.id)
        self._dealt[f"{role} {utterance.speaker}"] += 1
        self._balance.counts[role, str(utterance.speaker)] += 1
        self._balance.counts["utterance", key, utterance.id] += 1
