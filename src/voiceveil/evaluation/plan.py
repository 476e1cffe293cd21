"""What an evaluation would do, said before it is done: steps, what is cached, time and disk. Nothing is written.

Conventions: audio in seconds; a pace is in processor seconds for a second of audio. A step is one model (or the
anonymization) on all the audio that it looks at; what two attackers share is counted once. Of a set with very many
utterances a sample is looked at, and the figures are said to be about right.

The steps follow those of :mod:`voiceveil.evaluation.measurement` and :mod:`voiceveil.evaluation.details_collection`; a
test holds them together.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voiceveil import models as utility
from voiceveil.attack import encoder
from voiceveil.attack.attacker import SpeechPart
from voiceveil.attack.embedding import audio_model
from voiceveil.attack.registry import make_attackers
from voiceveil.attack.sets import SIDES, Side, find_sets
from voiceveil.audio import info
from voiceveil.corpus import Corpus, Utterance
from voiceveil.evaluation.attackers import usable_attackers, uses_campplus
from voiceveil.evaluation.evaluate import Evaluation, namespace_of, usual_attackers
from voiceveil.models.emotion.functionals import Functionals
from voiceveil.run.cache import Cache, result_key
from voiceveil.run.extract import Evaluator
from voiceveil.run.ledger import changed_settings, finished_items
from voiceveil.systems.digests import digest_secret, source_digest
from voiceveil.systems.settings import make_settings

__all__ = ["Plan", "Step", "make_plan"]

#: Utterances of a set from which on a sample of them stands for all.
_MANY, _SAMPLE = 5000, 1000
#: Audio files of a set whose headers are read; the others' lengths follow from the sizes of the files.
_HEADERS = 40
#: Processor seconds for a second of audio, where no earlier run has left a better figure: `benchmarks/pace.py`.
_PACES = {
    "b2": 0.008,
    "b2-2020": 0.008,
    "b2-2022": 0.008,
    "d1": 0.008,
    "identity": 0.004,
    "CamPlusPlusTrunk": 0.033,
    "InvertingEncoder": 0.05,
    "Moonshine": 0.038,
    "PocketSphinx": 0.3,
    "Cues": 0.005,
    "Functionals": 0.033,
    "Autocorrelation": 0.02,
}


@dataclass(frozen=True)
class Step:
    """A model on audio: ``utterances`` of which ``cached`` are known; ``audio``: seconds that are left to do.

    ``again``: why what is there does not count any more, in words.
    """

    name: str
    utterances: int
    cached: int
    audio: float
    pace: float | None
    again: str = ""

    @property
    def left(self) -> int:
        """Utterances to do."""
        return self.utterances - self.cached

    @property
    def seconds(self) -> float | None:
        """Processor time to come; None if nobody has measured the pace."""
        return None if self.pace is None and self.left else self.audio * (self.pace or 0.0)


@dataclass(frozen=True)
class Plan:
    """All steps, the disk that the anonymized speech will take and what is free (bytes), and how sure that is."""

    steps: tuple[Step, ...]
    disk: float
    free: float
    sampled: bool

    def seconds(self, jobs: int) -> float:
        """Wall-clock time, without the steps whose pace is unknown."""
        return sum(step.seconds or 0.0 for step in self.steps) / jobs

    @property
    def unknown(self) -> tuple[str, ...]:
        """Steps that nobody has timed."""
        return tuple(step.name for step in self.steps if step.seconds is None)


def make_plan(
    evaluation: Evaluation,
    *,
    attackers: Sequence[str] | None = None,
    recogniser: str,
    seed: int | None = None,
    key_file: str | Path | None = None,
    key_namespace: str | None = None,
    cache_file: Path | None = None,
) -> Plan:
    """Look at the data, the ledgers and the cache; takes the options of :func:`voiceveil.evaluation.evaluate`."""
    wanted = usual_attackers(evaluation) if attackers is None else tuple(attackers)
    store = Cache(evaluation.out / "cache.sqlite" if cache_file is None else cache_file, readonly=True)
    try:
        looked = _Look(evaluation, store, seed, key_file, namespace_of(evaluation, key_file, key_namespace))
        steps = [looked.anonymization()] if evaluation.system is not None else []
        for name, evaluator, parts in _work(evaluation, wanted, recogniser, store):
            steps.append(looked.at(name, evaluator, parts))
    finally:
        store.close()
    rate = evaluation.system.rate if evaluation.system else 0
    out = evaluation.out.absolute()
    folder = next(parent for parent in (out, *out.parents) if parent.exists())
    disk = 2.0 * rate * steps[0].audio if steps and evaluation.system else 0.0  # 16 bits a sample
    return Plan(tuple(steps), disk, float(shutil.disk_usage(folder).free), looked.sampled)


def _work(
    evaluation: Evaluation, attackers: Sequence[str], recogniser: str, store: Cache
) -> Iterator[tuple[str, Evaluator[Any], list[SpeechPart]]]:
    """Which model looks at what: name, model, parts. The same model appears once."""
    inventory, wanted = evaluation.inventory, set(evaluation.inventory.protocol.metrics)
    found: dict[str, tuple[list[str], Evaluator[Any], list[SpeechPart]]] = {}

    def add(name: str, evaluator: Evaluator[Any], parts: Iterable[SpeechPart]) -> None:
        names, _, known = found.setdefault(evaluator.fingerprint(), ([], evaluator, []))
        names += [name] if name not in names else []
        known += parts

    if inventory.verification:
        sets = find_sets(evaluation.data, names=inventory.enrollment_of, opened=inventory.corpora)
        training = {name: [u.id for u in inventory.corpora[name]] for name in inventory.training}
        for attacker in make_attackers(usable_attackers(attackers, inventory)):
            for work in attacker.work(sets, training, store):
                add(*work)
    if "wer" in wanted and inventory.recognition:
        names = [name for one in inventory.recognition for name in one.sets]
        add(recogniser, utility.recogniser(recogniser), _both(inventory.corpora, names))
    for emotional in inventory.emotion if "uar" in wanted else ():
        used = list(utility.emotion_folds(inventory.corpora[emotional.set]).fold)
        add("emotion features", Functionals(), [SpeechPart(emotional.set, side, used) for side in SIDES])
    # The report wants the pitch of all trials and, where CAM++ attacks, how alike the voices are.
    trial_sets = list(dict.fromkeys(trials.set for one in inventory.verification for trials in one.trials))
    if trial_sets:
        add("pitch", utility.tracker(), _both(inventory.corpora, trial_sets))
    if trial_sets and ("gvd" in wanted or uses_campplus(usable_attackers(attackers, inventory))):
        add("campplus", audio_model(encoder("campplus")), _both(inventory.corpora, trial_sets))
    for names, evaluator, parts in found.values():
        yield ", ".join(names), evaluator, parts


def _both(corpora: dict[str, Corpus], names: Iterable[str]) -> Iterator[SpeechPart]:
    for name in names:
        for side in SIDES:
            yield SpeechPart(name, side, [u.id for u in corpora[name]])


@dataclass
class _Look:
    """Looks things up, each once."""

    evaluation: Evaluation
    cache: Cache
    seed: int | None
    key_file: str | Path | None
    key_namespace: str | None
    sampled: bool = False
    made: dict[str, dict[str, str]] = field(default_factory=dict)  # set -> id -> sha256 of what is anonymized already
    digests: dict[Path, str] = field(default_factory=dict)
    sizes: dict[Path, int] = field(default_factory=dict)
    seconds_a_byte: dict[str, float] = field(default_factory=dict)  # of a set

    def sample(self, ids: Sequence[str]) -> Sequence[str]:
        """All, or some that stand for all."""
        if len(ids) <= _MANY:
            return ids
        self.sampled = True
        return random.Random(0).sample(ids, _SAMPLE)  # not every hundredth: corpora have their rhythms

    def anonymization(self) -> Step:
        """What the ledgers have of the sets; keeps the hashes of what is there."""
        evaluation, system = self.evaluation, self.evaluation.system
        assert system is not None  # noqa: S101 -- asked by make_plan
        counts, audio, again = [0.0, 0.0], 0.0, ""
        for name, corpus in evaluation.inventory.corpora.items():
            settings = make_settings(
                system,
                level="speaker" if evaluation.inventory.level(name) == "speaker" else "utterance",
                draws="keyed",
                seed=self.seed,
                key_file=self.key_file,
                key_namespace=self.key_namespace,
                rate=None,
                format="wav",
                encoding="int16",
            )
            ledger = evaluation.out / "data" / f"{name}{evaluation.suffix}" / ".voiceveil" / "ledger.jsonl"
            again = again or changed_settings(ledger, settings.record())
            secret = digest_secret(settings, ledger, make=False)
            items = finished_items(ledger, settings.record())
            ids = self.sample([u.id for u in corpus])
            there = {}
            for utterance in (corpus[id] for id in ids if id in items):
                item = items[utterance.id]
                content = self.digest(utterance.path)
                if item.source == source_digest(secret, content, utterance) and (ledger.parent / item.file).is_file():
                    there[utterance.id] = item.sha256
            self.made[name] = there
            scale = len(corpus) / max(len(ids), 1)
            counts[0] += len(corpus)
            counts[1] += len(there) * scale
            audio += scale * sum(self.length(name, corpus[id]) for id in ids if id not in there)
        pace = self.cache.pace(f"system {system.name}") or _PACES.get(system.name)
        return Step("anonymize", round(counts[0]), round(counts[1]), audio, pace, again)

    def at(self, name: str, evaluator: Evaluator[Any], parts: Iterable[SpeechPart]) -> Step:
        """How much of the parts a model has in the cache."""
        fingerprint = evaluator.fingerprint()
        nothing = self.cache.empty()  # then no recording need be read
        total, cached, audio = 0.0, 0.0, 0.0
        wanted: dict[tuple[str, Side], dict[str, None]] = {}
        for set_name, side, ids in parts:
            wanted.setdefault((set_name, side), {}).update(dict.fromkeys(ids))
        for (set_name, side), all_ids in wanted.items():
            corpus = self.evaluation.inventory.corpora[set_name]
            ids = self.sample(list(all_ids))
            scale = len(all_ids) / max(len(ids), 1)
            for id in ids:
                key = None if nothing else self.key(fingerprint, set_name, side, corpus[id])
                if key is not None and self.cache.has(key):
                    cached += scale
                else:
                    audio += scale * self.length(set_name, corpus[id])
            total += len(all_ids)
        pace = self.cache.pace(fingerprint) or _PACES.get(type(evaluator).__name__)
        return Step(name, round(total), round(cached), audio, pace)

    def key(self, fingerprint: str, name: str, side: str, utterance: Utterance) -> bytes | None:
        """Under which key the cache has the result; None if the audio is still to be made."""
        if side == "o":
            return result_key(fingerprint, self.digest(utterance.path), utterance.start, utterance.duration)
        given = self.evaluation.given.get(name)
        made = self.made.get(name, {})
        sha256 = made.get(utterance.id) if given is None else self.digest(given[utterance.id].path)
        return None if sha256 is None else result_key(fingerprint, sha256, 0.0, None)

    def digest(self, path: Path) -> str:
        """The sha256 of a file."""
        if path not in self.digests:
            self.digests[path] = self.cache.digest(path)
        return self.digests[path]

    def length(self, name: str, utterance: Utterance) -> float:
        """Seconds: as the corpus says, or by the size of the file and what the files of its set have on average."""
        if utterance.length is not None:
            return utterance.length
        if name not in self.seconds_a_byte:
            paths = [u.path for u in self.evaluation.inventory.corpora[name]]
            some = paths[:: max(1, len(paths) // _HEADERS)]
            total = sum(info(path).duration for path in some)
            self.seconds_a_byte[name] = total / max(1, sum(path.stat().st_size for path in some))
        if utterance.path not in self.sizes:
            self.sizes[utterance.path] = utterance.path.stat().st_size
        return self.seconds_a_byte[name] * self.sizes[utterance.path]
