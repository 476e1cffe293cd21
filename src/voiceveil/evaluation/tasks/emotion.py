"""Emotions: the unweighted average recall (UAR) of original and anonymized speech, by one or several recognizers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from voiceveil import models
from voiceveil.attack.attacker import ModelWork, SpeechPart
from voiceveil.corpus import Corpus
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.tasks.contract import (
    CONDITIONS,
    Section,
    Table,
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
from voiceveil.run.extract import Evaluator

__all__ = ["FUNCTIONALS", "Emotion"]

#: The recognizer that ships: linear, on functionals of acoustic features, trained on the original speech.
FUNCTIONALS = "functionals"


@tasks.register("emotion")
class Emotion(Task):
    """UAR of each emotion set of the protocol, by recognizers that have learned from original speech."""

    metrics = ("uar",)
    order = 30

    def available(self, setup: TaskSetup) -> bool:
        """Return True if the protocol asks for UARs and there is speech with emotion labels."""
        return setup.requests(self.metrics) and bool(setup.inventory.emotion)

    def check(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if a model cannot be used."""
        for spec in setup.options.emotion_models:
            _evaluator(spec)

    def check_data(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if labels are missing."""
        for entry in setup.inventory.emotion:
            models.emotion_folds(setup.inventory.corpora[entry.set])

    def progress(self, setup: TaskSetup) -> str:
        """Return the line for the user."""
        return f"recognizing emotions: {', '.join(setup.options.emotion_models)}"

    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        """Yield each model, on the labeled utterances."""
        for spec in setup.options.emotion_models:
            parts: list[SpeechPart] = []
            for entry in setup.inventory.emotion:
                labeled = list(models.emotion_folds(setup.inventory.corpora[entry.set]).fold)
                parts += [SpeechPart(entry.set, "o", labeled), SpeechPart(entry.set, "a", labeled)]
            yield ModelWork(spec, _evaluator(spec), parts)

    def run(self, context: TaskContext) -> TaskResult:
        """Recognize the emotions of both sides of each set."""
        figures = []
        for spec in context.setup.options.emotion_models:
            for entry in context.inventory.emotion:
                original = context.inventory.corpora[entry.set]
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
        return Section("emotions", "Emotions", Table(columns, tuple(rows)), note=note, missing=missing)


def _evaluator(spec: str) -> Evaluator[Any]:
    """Return the model that processes the audio."""
    return models.Functionals() if spec == FUNCTIONALS else models.EmotionModel(spec)


def _recognizer(spec: str, original: Corpus, folds: EmotionFolds, context: TaskContext) -> EmotionRecognizer:
    """Return a recognizer: one trained on the original speech of the other folds, or a pretrained one."""
    if spec == FUNCTIONALS:
        return models.train_emotion_recognizer(original, folds, context.run)
    return models.PretrainedRecognizer(models.EmotionModel(spec))
