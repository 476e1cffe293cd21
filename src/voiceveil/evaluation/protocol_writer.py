"""Write a protocol as a TOML file, and make one for the enrollment and trial lists of any corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from voiceveil.corpus.trial_design import Design
from voiceveil.evaluation.protocol import (
    Legal,
    Protocol,
    ProtocolTrialSet,
    RankingRules,
    Recognition,
    Verification,
    protocol_document,
)

__all__ = ["protocol_of_design", "protocol_of_legal_sets", "protocol_text"]

_SPLIT = "test"


def protocol_of_design(design: Design) -> Protocol:
    """Return the protocol of designed enrollment and trial sets.

    The EER is measured, and the WER if every trial utterance has a transcript; systems are then ranked by it under the
    conditions of the 2024 challenge. Everything is anonymized at the utterance level.

    Parameters
    ----------
    design
        Sets of :func:`voiceveil.corpus.trial_design.design_trials`: one of role "enroll", the others with trials.
    """
    enroll = next(name for name, corpus in design.sets.items() if corpus.trials is None)
    name = enroll.removesuffix("_enrolls")
    trial_sets = {name: corpus for name, corpus in design.sets.items() if corpus.trials is not None}
    has_text = all(utterance.text for corpus in trial_sets.values() for utterance in corpus)
    trials = tuple(
        ProtocolTrialSet(
            key,
            gender="f" if key.endswith("_trials_f") else "m" if key.endswith("_trials_m") else "",
            target=design.record["sets"][key]["target"],
            nontarget=design.record["sets"][key]["nontarget"],
        )
        for key in trial_sets
    )
    verification = Verification(
        name,
        _SPLIT,
        enroll,
        trials,
        enroll_utterances=len(design.sets[enroll]),
        trial_utterances=sum(map(len, trial_sets.values())),
    )
    return Protocol(
        name=name,
        title=f"Enrollment and trials of {design.record['corpus']['name']}",
        metrics=("eer", "wer") if has_text else ("eer",),
        conditions=("oo", "oa", "aa"),
        verification=(verification,),
        recognition=(Recognition(name, _SPLIT, tuple(trial_sets)),) if has_text else (),
        ranking=RankingRules(minimum_eer=(0.1, 0.2, 0.3, 0.4), by=("wer",)) if has_text else None,
    )


def protocol_of_legal_sets(design: Design) -> Protocol:
    """Return the protocol of designed sets A and B, with the numbers of the paper."""
    a, b = design.sets
    name = a.removesuffix("_A")
    title = f"Legal sets of {design.record['corpus']['name']}"
    return Protocol(name=name, title=title, metrics=("singling_out", "linkability"), legal=Legal(a, b))


def protocol_text(protocol: Protocol) -> str:
    """Return a protocol as TOML; :func:`voiceveil.evaluation.protocol.load_protocol` reads it back."""
    document = protocol_document(protocol)
    plain = {key: value for key, value in document.items() if not _is_table(value) and not _is_tables(value)}
    lines = ["# The keys are explained in docs/how-to/protocols.md. Rates are fractions, weights are relative."]
    lines += _entries(plain)
    for key, value in document.items():
        if _is_table(value):
            lines += ["", f"[{key}]", *_entries(value)]
    for key, value in document.items():
        for table in value if _is_tables(value) else ():
            lines += ["", f"[[{key}]]", *_entries(table)]
    return "".join(f"{line}\n" for line in lines)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_table, value))


def _entries(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        if _is_tables(value):
            yield f"{key} = ["
            yield from (f"    {_value(row)}," for row in value)
            yield "]"
        else:
            yield f"{key} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)  # text, numbers, true and false are written alike in JSON and TOML
