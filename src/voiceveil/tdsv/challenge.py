"""A challenge as a folder (evaluation plan, section 2.5): its lists, and checks of its recordings.

    docs/{dev,eval}_model_enrollment.txt  docs/{dev,eval}_trials.txt  docs/{dev,eval}_keys.txt  docs/train_labels.txt
    wav/enrollment/*.wav  wav/evaluation/*.wav  wav/train/*.wav

A subset is "dev" or "eval", with or without keys. :func:`open_challenge` raises the first fault; :func:`check` returns
all faults and opens every recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from voiceveil.audio import info
from voiceveil.core.errors import InputError
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.tdsv.lists import Label, TdsvKey, TdsvModel, Trial, read_keys, read_labels, read_models, read_trials

__all__ = ["SUBSETS", "AudioFolder", "Challenge", "Subset", "audio_faults", "check", "open_challenge"]

SUBSETS = ("dev", "eval")
AudioFolder = Literal["enrollment", "evaluation", "train"]
_RATE = 16000


@dataclass(frozen=True)
class Subset:
    """The models and trials of a subset, in the order of their lists, and the keys if there are any."""

    name: str
    models: Mapping[str, TdsvModel]
    trials: tuple[Trial, ...]
    keys: tuple[TdsvKey, ...] | None = None


@dataclass(frozen=True)
class Challenge:
    """A task (1 or 2) with its training labels and subsets."""

    root: Path
    task: int
    labels: tuple[Label, ...]
    subsets: Mapping[str, Subset] = field(default_factory=dict)

    def path(self, part: AudioFolder, file: str) -> Path:
        """Return the path of a recording."""
        return self.root / "wav" / part / f"{file}.wav"

    def subset(self, name: str) -> Subset:
        """Return the subset of a name; raise an ``InputError`` if it is not there."""
        if name not in self.subsets:
            present = ", ".join(self.subsets) or "none"
            raise InputError(f"no subset {name!r} (there: {present})", where=self.root / "docs")
        return self.subsets[name]

    def with_trials(self, name: str, trials: Iterable[Trial]) -> Challenge:
        """Return the challenge with other trials of a subset, without keys; models and files stay."""
        subset = replace(self.subset(name), trials=tuple(trials), keys=None)
        return replace(self, subsets={**self.subsets, name: subset})

    def training(self) -> tuple[Utterance, ...]:
        """Return the training files with speaker and phrase."""
        return tuple(
            Utterance(
                label.file, self.path("train", label.file), speaker=label.speaker, phrase=label.phrase, role="train"
            )
            for label in self.labels
        )

    def enrollment(self, subset: str) -> tuple[Utterance, ...]:
        """Return the enrollment files of a subset, each once, without speakers."""
        files = dict.fromkeys(file for model in self.subset(subset).models.values() for file in model.files)
        return tuple(Utterance(f, self.path("enrollment", f), role="enroll", subset=subset) for f in files)

    def tests(self, subset: str) -> tuple[Utterance, ...]:
        """Return the evaluation files of a subset, each once."""
        files = dict.fromkeys(trial.test for trial in self.subset(subset).trials)
        return tuple(Utterance(f, self.path("evaluation", f), role="trial", subset=subset) for f in files)

    def test_corpus(self, subset: str) -> Corpus:
        """Return the evaluation files of a subset as a corpus, for their anonymization."""
        return Corpus("evaluation", self.tests(subset), kind="folder", root=self.root / "wav" / "evaluation")


def open_challenge(root: str | Path, report: Report = strict) -> Challenge:
    """Read the lists of a challenge; every recording must exist, but none is opened.

    Parameters
    ----------
    root : path
        Folder that holds ``docs`` and ``wav``.
    report : callable
        Gets each fault; by default the first one is raised.

    Raises
    ------
    InputError
        If the folder is no challenge.
    """
    root = Path(root)
    docs = root / "docs"
    if not docs.is_dir():
        raise InputError("no challenge: it has no folder docs", where=root, fix="give the folder that holds docs, wav")
    files = _Files(root, report)
    labels: tuple[Label, ...] = ()
    if (docs / "train_labels.txt").is_file():
        labels = read_labels(docs / "train_labels.txt", report)
        for label in labels:
            files.need("train", label.file, docs / "train_labels.txt", label.line)
    tasks: dict[int, Path] = {}
    subsets: dict[str, Subset] = {}
    for name in SUBSETS:
        path = docs / f"{name}_model_enrollment.txt"
        if path.is_file():
            task, models = read_models(path, report)
            tasks.setdefault(task, path)
            subsets[name] = _subset(docs, name, models, files, report)
    if len(tasks) > 1:
        report(Fault(tasks[2], 1, f"a list of task 2, but {tasks[1].name} is one of task 1", fix="keep them apart"))
    if not subsets and not labels:
        raise InputError("no list of the challenge", where=docs, fix="see section 2.5 of the evaluation plan")
    return Challenge(root, min(tasks, default=0), labels, subsets)


def _subset(docs: Path, name: str, models: dict[str, TdsvModel], files: _Files, report: Report) -> Subset:
    """Return the trials and keys of a subset, checked against its models."""
    listed = docs / f"{name}_model_enrollment.txt"
    for model in models.values():
        for file in model.files:
            files.need("enrollment", file, listed, model.line)
    path = docs / f"{name}_trials.txt"
    trials = read_trials(path, report)
    for trial in trials:
        if trial.model not in models:
            report(Fault(path, trial.line, f"unknown model {trial.model}", fix=f"it is not in {listed.name}"))
        files.need("evaluation", trial.test, path, trial.line)
    truth = docs / f"{name}_keys.txt"
    keys = read_keys(truth, report) if truth.is_file() else None
    if keys is not None:
        _compare(trials, keys, path, truth, report)
    return Subset(name, models, trials, keys)


def _compare(trials: tuple[Trial, ...], keys: tuple[TdsvKey, ...], path: Path, truth: Path, report: Report) -> None:
    """Report keys that are not those of the trials, in the same order."""
    for trial, key in zip(trials, keys, strict=False):
        if (trial.model, trial.test) != (key.model, key.test):
            fault = f"the key of {key.model} {key.test}, where {path.name}:{trial.line} has {trial.model} {trial.test}"
            report(Fault(truth, key.line, fault, fix="bring the keys into the order of the trials"))
            return
    if len(trials) != len(keys):
        report(Fault(truth, None, f"{len(keys)} keys for {len(trials)} trials", fix="give one key per trial"))


class _Files:
    """The recordings of each folder, in which those that lists name must exist."""

    def __init__(self, root: Path, report: Report) -> None:
        self._root, self._report = root, report
        self._present: dict[str, set[str]] = {}

    def need(self, part: AudioFolder, file: str, where: Path, line: int) -> None:
        """Report a file that a list names and that is missing."""
        if part not in self._present:
            folder = self._root / "wav" / part
            self._present[part] = _listed(folder)
        if f"{file}.wav" not in self._present[part]:
            fault = f"unknown file {file}: there is no wav/{part}/{file}.wav"
            self._report(Fault(where, line, fault, fix="correct the id, or copy the recording"))


def check(root: str | Path, *, audio: bool = True) -> tuple[Challenge, Iterator[Fault]]:
    """Return the challenge as far as it can be read, and all faults: those of the lists, then of the recordings."""
    list_faults: list[Fault] = []
    challenge = open_challenge(root, list_faults.append)

    def faults() -> Iterator[Fault]:
        yield from list_faults
        if audio:
            yield from audio_faults(challenge)

    return challenge, faults()


def audio_faults(challenge: Challenge) -> Iterator[Fault]:
    """Yield the faults of recordings, each at the first line that names it; unused recordings give a note."""
    named: dict[str, set[str]] = {"train": set(), "enrollment": set(), "evaluation": set()}
    for part, file, where, line in _mentions(challenge):
        if file in named[part]:
            continue
        named[part].add(file)
        path = challenge.path(part, file)
        fault, is_note = _audio_fault(path) if path.is_file() else ("", False)
        if fault:
            yield Fault(where, line, f"wav/{part}/{file}.wav: {fault}", note=is_note)
    for name, known in named.items():
        folder = challenge.root / "wav" / name
        extra = sorted({file[:-4] for file in _listed(folder) if file.endswith(".wav")} - known)
        if extra:
            yield Fault(folder, None, f"{len(extra)} recordings that no list names, e.g. {extra[0]}.wav", note=True)


def _listed(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def _mentions(challenge: Challenge) -> Iterator[tuple[AudioFolder, str, Path, int]]:
    docs = challenge.root / "docs"
    for label in challenge.labels:
        yield "train", label.file, docs / "train_labels.txt", label.line
    for name, subset in challenge.subsets.items():
        for model in subset.models.values():
            for file in model.files:
                yield "enrollment", file, docs / f"{name}_model_enrollment.txt", model.line
        for trial in subset.trials:
            yield "evaluation", trial.test, docs / f"{name}_trials.txt", trial.line


def _audio_fault(path: Path) -> tuple[str, bool]:
    """Return the fault of a recording ("" if there is none), and whether it is only a note."""
    try:
        header = info(path)
    except InputError as error:
        return ("an empty recording" if error.what == "the file is empty" else error.what), False
    if header.frames == 0:
        return "an empty recording", False
    if header.rate != _RATE or header.channels != 1:
        return f"{header.channels} channel(s) at {header.rate} Hz; the challenge has one at {_RATE} Hz", True
    return "", False
