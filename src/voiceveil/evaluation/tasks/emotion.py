"""Emotions: the unweighted average recall (UAR) of original and anonymized speech, by one or several recognizers.

The sets of one corpus (``IEMOCAP_dev`` and ``IEMOCAP_test``) share their folds: each fold has a model that has heard
none of its speakers (evaluation plan of 2024, Table 2). The embedded recognizer of a fold learns from the original
speech of all speakers of the other folds in all sets of the corpus: of eight speakers in the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from voiceveil import models
from voiceveil.attack.attacker import ModelWork, SpeechPart
from voiceveil.attack.sets import SIDES
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus
from voiceveil.evaluation.protocol import Emotion as EmotionSet
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.tasks.contract import (
    CONDITIONS,
    Section,
    SectionTable,
    Task,
    TaskContext,
    TaskResult,
    TaskSetup,
    figure,
    tasks,
)
from voiceveil.models.emotion.evaluation import EmotionRecognizer
from voiceveil.models.emotion.folds import EmotionFolds
from voiceveil.run.cache import Cache

__all__ = ["FUNCTIONALS", "EmotionTask"]

#: The recognizer that ships: linear, on functionals of acoustic features, trained on the original speech.
FUNCTIONALS = "functionals"


@tasks.register("emotion")
class EmotionTask(Task):
    """UAR of each emotion set of the protocol, by recognizers that have learned from original speech."""

    metrics = ("uar",)
    order = 30

    def available(self, setup: TaskSetup) -> bool:
        """Return True if the protocol asks for UARs and there is speech with emotion labels."""
        return setup.requests(self.metrics) and bool(setup.inventory.emotion)

    def check(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if a model cannot be used."""
        for _ in self.work(setup, Cache(None)):
            pass

    def check_data(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if labels are missing."""
        for entry in setup.inventory.emotion:
            _labeled(entry, setup)

    def progress(self, setup: TaskSetup) -> str:
        """Return the line for the user."""
        return f"recognizing emotions: {', '.join(setup.options.models.emotion_models)}"

    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        """Yield each model, on the labeled utterances that it judges or learns from."""
        for spec in setup.options.models.emotion_models:
            recognizer = None if spec == FUNCTIONALS else models.pretrained_recognizer(spec)
            work: dict[str, ModelWork] = {}
            for entry in setup.inventory.emotion:
                folds = models.emotion_folds(_corpus(entry, setup))
                for fold, ids in _by_fold(_labeled(entry, setup), folds).items():
                    model = models.Functionals() if recognizer is None else recognizer.model(fold, folds)
                    title = spec if recognizer is None or not recognizer.by_fold else f"{spec} fold {fold}"
                    parts = work.setdefault(title, ModelWork(title, model, [])).parts
                    work[title] = ModelWork(
                        title, model, [*parts, *(SpeechPart(entry.set, side, ids) for side in SIDES)]
                    )
            yield from work.values()

    def run(self, context: TaskContext) -> TaskResult:
        """Recognize the emotions of both sides of each set."""
        figures = []
        for spec in context.setup.options.models.emotion_models:
            for entry in context.inventory.emotion:
                original = _corpus(entry, context.setup)
                folds = models.emotion_folds(original)
                recognizer = _recognizer(spec, original, folds, context)
                for condition in CONDITIONS:
                    corpus = context.speech(condition)[entry.set]
                    result = models.evaluate_emotion(corpus, folds, recognizer, context.run)
                    place = {"dataset": entry.dataset, "split": entry.split, "condition": condition, "model": spec}
                    by_fold = {
                        name: {"uar": fold.value, "recalls": dict(fold.recalls)}
                        for name, fold in result.folds.folds.items()
                    }
                    detail = {"recalls": dict(result.folds.recalls), "folds": by_fold}
                    figures.append(figure("uar", result.uar, place, detail))
        return TaskResult(figures)

    def section(self, results: Results) -> Section:
        """Return the table of UARs with the recall of each emotion."""
        rows = []
        for uar in results.find("uar"):
            recalls = uar.detail.get("recalls") or {}
            shown = ", ".join(f"{name} {100 * recall:.1f}%" for name, recall in recalls.items())
            rows.append((uar.dataset, CONDITIONS.get(uar.condition, ""), uar.evaluator, uar, shown))
        columns = ("set", "speech", "recognizer", "UAR [95%]", "recall of each emotion")
        missing = "" if rows else "No speech with emotion labels was evaluated."
        note = "UAR: the mean of the recalls."
        return Section("emotions", "Emotions", SectionTable(columns, tuple(rows)), note=note, missing=missing)


def _corpus(entry: EmotionSet, setup: TaskSetup) -> Corpus:
    """Return the original speech of all sets of the corpus that a set is of: of all splits."""
    sets = [e.set for e in setup.inventory.emotion if _corpus_name(e) == _corpus_name(entry)]
    utterances = {u.id: u for name in sets for u in setup.inventory.corpora[name]}
    return replace(setup.inventory.corpora[entry.set], utterances=tuple(utterances.values()), trials=None)


def _corpus_name(entry: EmotionSet) -> str:
    """Return the name of a dataset without its split: ``IEMOCAP`` of ``IEMOCAP_dev``."""
    return entry.dataset.removesuffix(f"_{entry.split}") if entry.split else entry.dataset


def _labeled(entry: EmotionSet, setup: TaskSetup) -> list[str]:
    """Return the ids of the utterances of a set that have one of the emotions."""
    folds = models.emotion_folds(_corpus(entry, setup))
    corpus = setup.inventory.corpora[entry.set]
    ids = [u.id for u in corpus if u.id in folds.fold]
    if not ids:
        raise InputError("the corpus has no emotion labels", where=corpus.root, fix="write utt2emo")
    return ids


def _by_fold(ids: list[str], folds: EmotionFolds) -> dict[str, list[str]]:
    """Return fold -> utterance ids."""
    groups: dict[str, list[str]] = {}
    for id in ids:
        groups.setdefault(folds.fold[id], []).append(id)
    return groups


def _recognizer(spec: str, original: Corpus, folds: EmotionFolds, context: TaskContext) -> EmotionRecognizer:
    """Return a recognizer: one trained on the original speech of the other folds, or a pretrained one."""
    if spec == FUNCTIONALS:
        return models.train_emotion_recognizer(original, folds, context.run)
    return models.pretrained_recognizer(spec)
