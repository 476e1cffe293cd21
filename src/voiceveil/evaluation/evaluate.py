"""A whole protocol: anonymize, attack, recognise, measure, write the results.

Straight on, without a scheduler: each long step keeps its own results (the ledger of the anonymization, the cache of
the evaluators), so that a second run does only what is new and a killed one goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from voiceveil.attack.checks import check_audio
from voiceveil.attack.sets import find_sets
from voiceveil.core.atomic_files import remove_parts
from voiceveil.core.checks import Check, merged
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, open_corpus, write_kaldi
from voiceveil.evaluation import measurement as measuring
from voiceveil.evaluation.attackers import usable_attackers, why_unusable
from voiceveil.evaluation.details import write_details
from voiceveil.evaluation.details_collection import collect
from voiceveil.evaluation.external_anonymization import find_anonymized
from voiceveil.evaluation.inventory import Inventory, take_inventory
from voiceveil.evaluation.measurement import Tools
from voiceveil.evaluation.protocol import Protocol, load_protocol
from voiceveil.evaluation.provenance import circumstances, started
from voiceveil.evaluation.result_files import recorded_evaluation
from voiceveil.evaluation.results import Figure, Results
from voiceveil.metrics import WordErrors
from voiceveil.models import emotion_folds
from voiceveil.models import recogniser as make_recogniser
from voiceveil.models.asr.recognition import references
from voiceveil.official.tree import write_tree
from voiceveil.run.cache import Cache
from voiceveil.run.executor import Jobs, executor_of
from voiceveil.run.outputs import refuse_corpora
from voiceveil.systems import Anonymizer, anonymize
from voiceveil.systems.keys import Key

__all__ = ["USUAL_ATTACKERS", "Evaluation", "evaluate", "prepare", "usual_attackers"]

#: Attackers that can attack any system.
USUAL_ATTACKERS = ("campplus", "campplus-adapted", "free")

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
    given: Mapping[str, Corpus] = field(default_factory=dict)  # set -> what somebody else has anonymized
    overwrite: bool = False  # start again, and replace files in the output that the program did not write

    @property
    def name(self) -> str:
        """What is evaluated: the system, or the suffix of the data."""
        return self.system.name if self.system else self.suffix.strip("_")


def prepare(
    data: str | Path,
    out: str | Path,
    *,
    protocol: str | Path | Protocol = "vpc2024",
    system: Anonymizer | None = None,
    anon: str | None = None,
    train: Sequence[str] = (),
    emotion: Sequence[str] = (),
    overwrite: bool = False,
) -> Evaluation:
    """Find and check the data; nothing is written. Give a ``system``, or the suffix ``anon`` of anonymized sets.

    An output that is, holds or lies in the data is refused. ``overwrite``: start again where another evaluation left
    its results, and replace files that are in the way.
    """
    if (system is None) == (anon is None):
        raise InputError(
            "one of a system and the suffix of anonymized data is needed", fix="--system b2, or --anon _b2"
        )
    if system is not None and not system.name:
        what = f"the system {type(system).__name__} has no name"
        raise InputError(what, fix='write @register("name") above its class')
    declared = protocol if isinstance(protocol, Protocol) else load_protocol(protocol)
    inventory = take_inventory(declared, Path(data), train=train, emotion=emotion)
    _check_originals(inventory, Path(data))
    given: Mapping[str, Corpus] = {}
    if system is None:
        given = find_anonymized(inventory.corpora, Path(data), anon or "")
    suffix, anon_data = (anon or "", Path(data)) if system is None else (f"_{system.name}", Path(out) / "data")
    refuse_corpora(Path(out), [*inventory.corpora.values(), *given.values()])
    evaluation = Evaluation(inventory, Path(data), Path(out), system, suffix, anon_data, given, overwrite)
    if not overwrite:
        _check_output(evaluation)
    return evaluation


def _check_originals(inventory: Inventory, data: Path) -> None:
    """What is wrong with labels, transcripts and trial lists, before the work begins."""
    for emotion in inventory.emotion:
        emotion_folds(inventory.corpora[emotion.set])
    if inventory.verification:
        find_sets(data, names=inventory.enrollment_of, opened=inventory.corpora)
    if "wer" in inventory.protocol.metrics:
        for recognition in inventory.recognition:
            references(u for name in recognition.sets for u in inventory.corpora[name])


def _check_output(evaluation: Evaluation) -> None:
    """The output is new, or of the same system under the same protocol."""
    path = evaluation.out / "results.json"
    if not path.exists():
        return
    before = Results.load(path)
    now = (evaluation.name, evaluation.inventory.protocol.name)
    if (before.system, before.protocol) != now:
        what = f"holds the results of {before.system} under {before.protocol}, not of {now[0]} under {now[1]}"
        raise InputError(what, where=evaluation.out, fix="give another folder for the results, or --overwrite")


def evaluate(
    evaluation: Evaluation,
    *,
    attackers: Sequence[str] | None = None,
    recogniser: str = "moonshine",
    jobs: Jobs = 1,
    seed: int | None = None,
    key_file: str | Path | None = None,
    key_namespace: str | None = None,
    cache_file: Path | None = None,
    details: bool = True,
    quiet: bool = True,
    say: Say = lambda line: None,
) -> Results:
    """Run all that the protocol asks for and the data allow; writes ``results.json``, the score files, and ``exp``.

    ``exp`` holds the result files of the challenge's own scripts, see :mod:`voiceveil.official.tree`.

    ``attackers``: see ``voiceveil attack`` (None: :func:`usual_attackers`); those that learn are left out when there is
    no training set.
    ``cache_file``: where results are kept (default: ``cache.sqlite`` in the output); several systems may share one.
    ``details``: keep what a report needs, see :mod:`voiceveil.evaluation.details`.
    """
    inventory = evaluation.inventory
    notes = [f"missing: {name}" for name in inventory.missing] + [*inventory.remarks, *inventory.differences]
    wanted = usual_attackers(evaluation) if attackers is None else tuple(attackers)
    chosen = usable_attackers(wanted, inventory)
    notes += [f"attacker {name} left out: {why_unusable(name, inventory)}" for name in wanted if name not in chosen]
    if "wer" in inventory.protocol.metrics and inventory.recognition:
        make_recogniser(recogniser)
    with _alone_with_cache(evaluation, cache_file) as cache:
        time = started(evaluation.out)
        namespace = namespace_of(evaluation, key_file, key_namespace)
        # Without a seed and a key file, one fresh key for all sets.
        key = {"seed": seed, "key_file": key_file, "key_namespace": namespace, "key": Key.fresh()}
        anonymized = _anonymize(evaluation, cache, key, jobs=jobs, quiet=quiet, say=say)
        tools = Tools(chosen, recogniser, cache, jobs, quiet)
        measured = _measure(evaluation, anonymized, tools, say)
        if details:
            say("collecting details for the report")
            write_details(collect(inventory, anonymized, tools), evaluation.out)
        info = {
            "notes": notes + measured.notes,
            **measured.health,
            **circumstances(inventory, anonymized, tools, seed=seed, keyed=key_file is not None),
            "parameters": {} if evaluation.system is None else evaluation.system.parameters(),
            "suffix": evaluation.suffix,
            "given": evaluation.system is None,
            "time": time.isoformat(),
        }
        checks = merged([*measured.checks, *_check_other_sets(inventory, anonymized, cache)])
        results = Results(evaluation.name, inventory.protocol.name, tuple(measured.figures), info, checks)
        trials = {name: corpus.trials for name, corpus in inventory.corpora.items() if corpus.trials is not None}
        results = write_tree(
            results, evaluation.out, suffix=evaluation.suffix, heard=measured.heard, trials=trials, time=time
        )
        results.save(evaluation.out / "results.json", overwrite=True)  # the folder's record decides
    return results


def _check_other_sets(inventory: Inventory, anonymized: Mapping[str, Corpus], cache: Cache) -> Iterator[Check]:
    """Yield the failed checks of the audio of sets that are in no attack: to learn from, with emotions, with words."""
    attacked = {name for one in inventory.verification for name in (one.enroll, *(trials.set for trials in one.trials))}
    for name, corpus in anonymized.items():
        if name not in attacked:
            originals = {u.id: u for u in inventory.corpora[name]}
            yield from check_audio({u.id: u for u in corpus}, originals, cache, where=name)


@contextmanager
def _alone_with_cache(evaluation: Evaluation, cache_file: Path | None) -> Iterator[Cache]:
    """Be the only evaluation at work in the output, which replaces no files but its own; give its cache."""
    out = evaluation.out
    with recorded_evaluation(evaluation):
        remove_parts([out])
        remove_parts([out / name for name in ("scores", "details", "exp")], below=True)
        cache = Cache(out / "cache.sqlite" if cache_file is None else cache_file)
        try:
            yield cache
        finally:
            cache.close()


def usual_attackers(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the attackers of an evaluation for which none are named: those of any system, and those made for it."""
    return (*USUAL_ATTACKERS, *(() if evaluation.system is None else evaluation.system.attackers))


def namespace_of(evaluation: Evaluation, key_file: str | Path | None, given: str | None) -> str | None:
    """Return the one key namespace of all sets: a speaker of several sets is one pseudo-speaker in each role.

    It is the name of the data folder unless it is ``given``, and None where there is no key file.
    """
    return evaluation.data.resolve().name if key_file is not None and given is None else given


def _anonymize(
    evaluation: Evaluation,
    cache: Cache,
    key: dict[str, Any],
    *,
    jobs: Jobs,
    quiet: bool,
    say: Say,
) -> dict[str, Corpus]:
    """Set -> anonymized corpus, all of them in ``out/data``; audio of others stays where it is."""
    inventory, system = evaluation.inventory, evaluation.system
    home = evaluation.out / "data"
    for name, corpus in evaluation.given.items():
        write_kaldi(corpus, home / f"{name}{evaluation.suffix}", {u.id: u.path for u in corpus})
    for name in inventory.corpora if system is not None else ():
        say(f"anonymizing {name}")
        summary = anonymize(
            evaluation.data / name,
            home,
            system=system or "",
            level="speaker" if inventory.level(name) == "speaker" else "utterance",
            jobs=jobs,
            **key,
            suffix=evaluation.suffix,
            overwrite=evaluation.overwrite or "changed",
            quiet=quiet,
        )
        seconds = summary.seconds * executor_of(jobs).workers
        cache.note_pace(f"system {evaluation.name}", summary.audio_seconds, seconds)
        if summary.failures:
            first = summary.failures[0]
            raise InputError(f"{len(summary.failures)} utterances of {name} could not be anonymized: {first.error}")
    return {name: open_corpus(home / f"{name}{evaluation.suffix}") for name in inventory.corpora}


@dataclass
class _Measured:
    """All that was found."""

    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    health: dict[str, Any] = field(default_factory=dict)
    heard: dict[str, WordErrors] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()


def _measure(evaluation: Evaluation, anonymized: dict[str, Corpus], tools: Tools, say: Say) -> _Measured:
    inventory = evaluation.inventory
    wanted = set(inventory.protocol.metrics)
    measured = _Measured()
    if inventory.verification:
        say(f"attacking: {', '.join(tools.attackers)}")
        measured.figures, measured.health, measured.notes, measured.checks = measuring.verification(
            inventory, evaluation.data, evaluation.out / "data", evaluation.suffix, evaluation.out, tools
        )
    if "wer" in wanted and inventory.recognition:
        say(f"recognising words: {tools.recogniser}")
        found, measured.heard = measuring.words(inventory, anonymized, tools)
        measured.figures += found
    steps = {
        "uar": (inventory.emotion, measuring.emotions, "recognising emotions"),
        "pitch_correlation": (inventory.verification, measuring.pitch, "correlating pitch"),
        "gvd": (inventory.verification, measuring.distinctiveness, "comparing voices"),
    }
    for metric, (sets, step, line) in steps.items():
        if metric in wanted and sets:
            say(line)
            measured.figures += step(inventory, anonymized, tools)
    return measured
