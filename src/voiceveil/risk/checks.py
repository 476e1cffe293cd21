"""Checks of a risk assessment's input: signs that its figures must not be believed.

Conventions: vectors are compared exactly, as an encoder gives the same vector for the same audio. At most 50,000
vectors of a set and 200 speakers are compared, the same ones in every run.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from voiceveil.attack.checks import audio_content, check_audio, check_training, check_trials
from voiceveil.core.checks import Check, failed
from voiceveil.metrics import ScoredTrials
from voiceveil.metrics.legal import UtteranceEmbeddings, unit_rows
from voiceveil.risk.sets import RiskAttack
from voiceveil.run.cache import Cache

if TYPE_CHECKING:
    from voiceveil.risk.audio import Recordings

__all__ = ["check_attacks", "check_recordings"]

_ROWS = 50_000
_SPEAKERS = 200
_UTTERANCES = 5  # of each speaker of B at most


def check_attacks(attacks: Sequence[RiskAttack]) -> list[Check]:
    """Return the failed checks of the embeddings of all attackers, and of the scores between them."""
    checks: list[Check] = []
    rows = {attack.name: tuple(_rows(side) for side in (attack.parts[0].a, attack.parts[0].b)) for attack in attacks}
    unprotected = {row for side in rows.get("original", ()) for row in side}
    for attack in attacks:
        a, b = rows[attack.name]
        shared = len(a.keys() & b.keys())
        if shared:
            sentence = f"{shared:,} embeddings are in A and in B ({attack.name} attacker)."
            checks.append(failed("shared-utterances", sentence))
        for name, side in (("A", a), ("B", b)):
            if side and max(side.values()) > 1:
                count, total = max(side.values()), side.total()
                sentence = f"{count:,} of {total:,} embeddings of {name} are one vector ({attack.name} attacker)."
                checks.append(failed("repeated-audio", sentence))
        same = sum(side[row] for side in (a, b) for row in side if row in unprotected)
        if attack.name != "original" and same:
            sentence = f"{same:,} of {a.total() + b.total():,} embeddings equal those of original speech"
            checks.append(failed("identical-audio", f"{sentence} ({attack.name} attacker)."))
        checks += attack.checks
        trials = _trials(attack)
        checks += [] if trials is None else check_trials(trials, where=f"{attack.name} attacker, one utterance each")
    return checks


def _rows(voices: UtteranceEmbeddings) -> Counter[bytes]:
    """Return digest -> count of the vectors of a set."""
    return Counter(hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in voices.matrix[:_ROWS])


def _trials(attack: RiskAttack) -> ScoredTrials | None:
    """Return the cosines between means of A and single utterances of B; None with fewer than two speakers."""
    part = attack.parts[0]
    names = [name for name in part.b.names if part.only is None or name in part.only][:_SPEAKERS]
    enrolled = [part.a.matrix[part.a.codes == part.a.names.index(name)].mean(axis=0) for name in names]
    tested = [np.flatnonzero(part.b.codes == part.b.names.index(name))[:_UTTERANCES] for name in names]
    if len(names) < 2:
        return None
    scores = unit_rows(np.array(enrolled)) @ unit_rows(part.b.matrix[np.concatenate(tested)]).T
    speaker = np.repeat(np.arange(len(names)), [len(rows) for rows in tested])
    claimed, spoken = np.meshgrid(np.arange(len(names)), speaker, indexing="ij")
    same = claimed == spoken
    return ScoredTrials.of_speakers(scores.reshape(-1), same.reshape(-1), claimed.reshape(-1), spoken.reshape(-1))


def check_recordings(recordings: Recordings, cache: Cache) -> list[Check]:
    """Return the failed checks of the audio of A and B, and of training speech that is not the release itself."""
    originals = {u.id: u for u in recordings.side(False)} if recordings.original else {}
    anonymized = {u.id: u for u in recordings.side(True)} if recordings.anonymized else {}
    checks = check_audio(anonymized or originals, originals if anonymized else {}, cache)
    contents = {audio_content(u, cache) for side in (originals, anonymized) for u in side.values()}
    sides: dict[str, dict[tuple[str, float, float | None], str]] = {"A": {}, "B": {}}
    for key, u in (originals or anonymized).items():
        sides[recordings.split[key]][audio_content(u, cache)] = key
    shared = sorted(sides["A"].keys() & sides["B"].keys())
    if shared:
        first = f"{sides['B'][shared[0]]} is {sides['A'][shared[0]]}"
        sentence = f"{len(shared):,} utterances of B have the audio of one of A, e.g. {first}."
        checks.append(failed("shared-utterances", sentence))
    known = recordings.known()  # speakers of the release that are known as such are attacked by other models
    release = {u.speaker for u in known.values()}
    training = (*recordings.training, *recordings.similar)
    strangers = [corpus.filter(lambda u: known.get(u.id, u).speaker not in release) for corpus in training]
    return checks + check_training([c for c in strangers if len(c)], frozenset(), contents, cache)
