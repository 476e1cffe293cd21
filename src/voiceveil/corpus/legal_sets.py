"""Sets A and B of the legally validated evaluation (Vauquier et al. 2025, section 3.3), for any corpus.

Conventions: amounts are minutes of speech or numbers of utterances. A holds every speaker with at least its amount,
B those who have at least B's amount on top of it, so that every speaker of B is in A, with other utterances. B enrolls
and A tests for Singling Out; A enrolls and B tests for Linkability.

The utterances of a speaker are drawn in turn for A until it has its amount. What is left goes to B if it is enough,
and otherwise to A: nothing needs to be kept apart then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from voiceveil.audio import info
from voiceveil.core.errors import InputError
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.sampling import shuffled_utterances
from voiceveil.corpus.trial_design import Design, set_name

__all__ = ["design_legal_sets"]

Unit = Literal["minutes", "utterances"]


def design_legal_sets(
    corpus: Corpus, *, name: str | None = None, a: float = 2.0, b: float = 3.0, unit: Unit = "minutes", seed: int = 0
) -> Design:
    """Divide a corpus into the sets ``<name>_A`` and ``<name>_B``.

    Parameters
    ----------
    corpus
        Utterances with speakers.
    name
        The first part of the sets' names; None: the name of the corpus.
    a, b
        Least amount of speech of each speaker in A, and in B on top of it; the defaults are the paper's.
    unit
        ``"minutes"`` or ``"utterances"``.
    seed
        Of all draws.

    Raises
    ------
    InputError
        If fewer than two speakers have enough for A, or none has enough for B.
    """
    if unit not in ("minutes", "utterances") or not (a > 0 and b > 0):
        raise InputError(
            f"{a:g} and {b:g} {unit} are no amounts", fix="give amounts above zero, of minutes or utterances"
        )
    label = set_name(corpus, name)
    amounts = _minutes(corpus) if unit == "minutes" else dict.fromkeys(corpus.by_id, 1.0)
    in_a: list[Utterance] = []
    in_b: list[Utterance] = []
    for spoken in corpus.by_speaker.values():
        first, second = _divide(shuffled_utterances(spoken, seed, "legal"), amounts, a, b)
        in_a += first
        in_b += second
    sets = {f"{label}_A": _set(f"{label}_A", in_a, corpus), f"{label}_B": _set(f"{label}_B", in_b, corpus)}
    speakers = {key: len(part.by_speaker) for key, part in sets.items()}
    if speakers[f"{label}_A"] < 2 or not speakers[f"{label}_B"]:
        raise InputError(
            f"too little speech: {speakers[f'{label}_A']} speaker(s) have {a:g} {unit} for A, "
            f"{speakers[f'{label}_B']} have {b:g} more for B",
            where=corpus.root,
            fix="at least 2 in A and 1 in B are needed: ask for less",
        )
    record = {
        "format": "voiceveil design 1",
        "what": "legal: every speaker of B is in A, with other utterances; the rest is A's if B has not enough",
        "corpus": {"name": corpus.name, "kind": corpus.kind, "utterances": len(corpus)},
        "seed": seed,
        "options": {"unit": unit, "a": a, "b": b},
        "sets": {
            key: {
                "speakers": speakers[key],
                "utterances": len(part),
                **({"minutes": round(sum(amounts[u.id] for u in part), 3)} if unit == "minutes" else {}),
            }
            for key, part in sets.items()
        },
        "without_gender": [spk for spk, spoken in sets[f"{label}_A"].by_speaker.items() if spoken[0].gender is None],
    }
    return Design(sets, record)


def _divide(
    drawn: Sequence[Utterance], amounts: Mapping[str, float], a: float, b: float
) -> tuple[Sequence[Utterance], Sequence[Utterance]]:
    """Return a speaker's utterances in A and in B; none if there are not enough for A."""
    total = 0.0
    for number, utterance in enumerate(drawn, start=1):
        total += amounts[utterance.id]
        if total >= a:
            rest = drawn[number:]
            return (drawn[:number], rest) if sum(amounts[u.id] for u in rest) >= b else (drawn, ())
    return (), ()


def _set(name: str, utterances: Sequence[Utterance], corpus: Corpus) -> Corpus:
    return Corpus(name, tuple(sorted(utterances, key=lambda u: u.id)), None, "kaldi", corpus.root)


def _minutes(corpus: Corpus) -> dict[str, float]:
    """Return utterance -> minutes, as the metadata state them, or else by the header of the file."""
    files: dict[Path, float] = {}
    minutes = {}
    for utterance in corpus:
        seconds = utterance.length
        if seconds is None:
            if utterance.path not in files:
                files[utterance.path] = info(utterance.path).duration
            seconds = files[utterance.path] - utterance.start
        minutes[utterance.id] = seconds / 60
    return minutes
