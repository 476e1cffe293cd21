"""A whole protocol: anonymize, attack, recognise, measure, write the results.

Straight on, without a scheduler: each long step keeps its own results (the ledger of the anonymization, the cache of
the evaluators), so that a second run does only what is new and a killed one goes on where it stopped.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from voiceveil.anonymization import Anonymizer, anonymize
from voiceveil.challenges import measuring
from voiceveil.challenges.inventory import Inventory, take_inventory
from voiceveil.challenges.measuring import Tools
from voiceveil.challenges.protocol import Protocol, load_protocol
from voiceveil.challenges.results import Figure, Results
from voiceveil.corpus import Corpus, open_corpus
from voiceveil.errors import InputError
from voiceveil.run.cache import Cache
from voiceveil.utility import emotion_folds

__all__ = ["Evaluation", "evaluate"]

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What is to be evaluated, checked: made by :func:`prepare`, run by :func:`evaluate`."""

    inventory: Inventory
    data: Path
    out: Path
    system: Anonymizer | None  # None: somebody else has anonymized the data
    suffix: str
    anon_data: Path


def prepare(
    data: str | Path,
    out: str | Path,
    *,
    protocol: str | Path | Protocol = "vpc2024",
    system: Anonymizer | None = None,
    anon: str | None = None,
    train: Sequence[str] = (),
    emotion: Sequence[str] = (),
) -> Evaluation:
    """Find and check the data; nothing is written. Give a ``system``, or the suffix ``anon`` of anonymized sets."""
    if (system is None) == (anon is None):
        raise InputError(
            "one of a system and the suffix of anonymized data is needed", fix="--system b2, or --anon _b2"
        )
    declared = protocol if isinstance(protocol, Protocol) else load_protocol(protocol)
    inventory = take_inventory(declared, Path(data), train=train, emotion=emotion)
    for one in inventory.emotion:
        emotion_folds(inventory.corpora[one.set])  # finds what is wrong with the labels before the work begins
    if system is not None:
        return Evaluation(inventory, Path(data), Path(out), system, f"_{system.name}", Path(out) / "data")
    evaluation = Evaluation(inventory, Path(data), Path(out), None, anon or "", Path(data))
    for name in inventory.corpora:
        _check_anonymized(inventory.corpora[name], evaluation.anon_data / f"{name}{anon}")
    return evaluation


def _check_anonymized(original: Corpus, directory: Path) -> None:
    """A set that somebody else has anonymized: every utterance once, and no other."""
    if not (directory / "wav.scp").exists():
        raise InputError("no anonymized set", where=directory, fix="anonymize it: `voiceveil anonymize`")
    anonymized = open_corpus(directory)
    lost = [u.id for u in original if u.id not in anonymized]
    strange = [u.id for u in anonymized if u.id not in original]
    if lost:
        raise InputError(f"{len(lost)} utterances are missing, e.g. {lost[0]}", where=directory)
    if strange:
        raise InputError(f"{len(strange)} utterances are not in the original, e.g. {strange[0]}", where=directory)


def evaluate(
    evaluation: Evaluation,
    *,
    attackers: Sequence[str] = ("campplus", "campplus-adapted", "free"),
    recogniser: str = "moonshine",
    jobs: int = 1,
    seed: int | None = None,
    key_file: str | Path | None = None,
    quiet: bool = True,
    say: Say = lambda line: None,
) -> Results:
    """Run all that the protocol asks for and the data allow; writes ``results.json`` and the score files.

    ``attackers``: see ``voiceveil attack``; those that learn are left out when there is no training set.
    """
    inventory = evaluation.inventory
    notes = [f"missing: {name}" for name in inventory.missing] + list(inventory.differences)
    chosen = tuple(name for name in attackers if inventory.training or not name.split(":")[0].endswith("-adapted"))
    notes += [f"attacker {name} left out: no training set" for name in attackers if name not in chosen]
    anonymized = _anonymize(evaluation, jobs=jobs, seed=seed, key_file=key_file, quiet=quiet, say=say)
    cache = Cache(evaluation.out / "cache.sqlite")
    try:
        tools = Tools(chosen, recogniser, cache, jobs, quiet)
        figures, health = _measure(evaluation, anonymized, tools, say)
    finally:
        cache.close()
    results = Results(
        evaluation.system.name if evaluation.system else evaluation.suffix.strip("_"),
        inventory.protocol.name,
        tuple(figures),
        {"notes": notes, **health, **_circumstances(evaluation, seed, recogniser, chosen)},
    )
    results.save(evaluation.out / "results.json")
    return results


def _anonymize(
    evaluation: Evaluation, *, jobs: int, seed: int | None, key_file: str | Path | None, quiet: bool, say: Say
) -> dict[str, Corpus]:
    """Set -> anonymized corpus."""
    inventory, system = evaluation.inventory, evaluation.system
    for name in inventory.corpora if system is not None else ():
        say(f"anonymizing {name}")
        summary = anonymize(
            evaluation.data / name,
            evaluation.anon_data,
            system=system or "",
            level="speaker" if inventory.level(name) == "speaker" else "utterance",
            jobs=jobs,
            seed=seed,
            key_file=key_file,
            suffix=evaluation.suffix,
            quiet=quiet,
        )
        if summary.failures:
            first = summary.failures[0]
            raise InputError(f"{len(summary.failures)} utterances of {name} could not be anonymized: {first.error}")
    directories = {name: evaluation.anon_data / f"{name}{evaluation.suffix}" for name in inventory.corpora}
    return {name: open_corpus(directory) for name, directory in directories.items()}


def _measure(
    evaluation: Evaluation, anonymized: dict[str, Corpus], tools: Tools, say: Say
) -> tuple[list[Figure], dict[str, Any]]:
    inventory = evaluation.inventory
    wanted = set(inventory.protocol.metrics)
    figures: list[Figure] = []
    health: dict[str, Any] = {}
    if inventory.verification:
        say(f"attacking: {', '.join(tools.attackers)}")
        found, health = measuring.verification(
            inventory, evaluation.data, evaluation.anon_data, evaluation.suffix, evaluation.out, tools
        )
        figures += found
    steps = {
        "wer": (inventory.recognition, measuring.words, f"recognising words: {tools.recogniser}"),
        "uar": (inventory.emotion, measuring.emotions, "recognising emotions"),
        "pitch_correlation": (inventory.verification, measuring.pitch, "correlating pitch"),
        "gvd": (inventory.verification, measuring.distinctiveness, "comparing voices"),
    }
    for metric, (sets, step, line) in steps.items():
        if metric in wanted and sets:
            say(line)
            figures += step(inventory, anonymized, tools)
    return figures, health


def _circumstances(
    evaluation: Evaluation, seed: int | None, recogniser: str, attackers: Sequence[str]
) -> dict[str, Any]:
    system = evaluation.system
    return {
        "voiceveil": version("voiceveil"),
        "python": platform.python_version(),
        "parameters": {} if system is None else system.parameters(),
        "levels": dict(evaluation.inventory.protocol.levels),
        "training": list(evaluation.inventory.training),
        "attackers": list(attackers),
        "recogniser": recogniser,
        "seed": seed,
    }
