"""Words: the word error rate (WER) of original and anonymized speech, by one or several recognizers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from voiceveil import models
from voiceveil.attack.attacker import ModelWork
from voiceveil.attack.sets import SIDES
from voiceveil.corpus import Utterance
from voiceveil.evaluation.details import Column
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
    recognition_parts,
    tasks,
)
from voiceveil.metrics import WordErrors
from voiceveil.models.asr.recognition import normalization_of, references
from voiceveil.models.asr.text_normalization import normalizer
from voiceveil.run.cache import Cache

__all__ = ["WordsTask"]

_COUNTS = ("words", "substitutions", "deletions", "insertions")


@tasks.register("words")
class WordsTask(Task):
    """WER of each recognition set of the protocol. Details: transcripts of the first recognizer."""

    metrics = ("wer",)
    order = 20
    columns = (Column("reference"), Column("heard_original"), Column("heard_anonymized"))

    def available(self, setup: TaskSetup) -> bool:
        """Return True if the protocol asks for WERs and there is speech with transcripts."""
        return setup.requests(self.metrics) and bool(setup.inventory.recognition)

    def check(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if a recognizer is not known."""
        for spec in setup.options.models.all_recognizers:
            models.recognizer(spec)

    def check_data(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if a transcript is missing."""
        for entry in setup.inventory.recognition:
            references(u for name in entry.sets for u in setup.inventory.corpora[name])

    def progress(self, setup: TaskSetup) -> str:
        """Return the line for the user."""
        return f"recognizing words: {', '.join(setup.options.models.all_recognizers)}"

    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        """Yield each recognizer, on the original or anonymized speech of all recognition sets that it is for."""
        chosen = setup.options.models
        for spec in chosen.all_recognizers:
            sides = [side for side in SIDES if spec in chosen.recognizers_of(side)]
            yield ModelWork(spec, models.recognizer(spec), recognition_parts(setup.inventory, sides))

    def run(self, context: TaskContext) -> TaskResult:
        """Transcribe both sides of each set, and compare with the references."""
        figures, word_errors = [], {}
        columns: dict[str, dict[str, dict[str, str]]] = {}
        by_condition = [context.setup.options.models.recognizers_of(condition) for condition in CONDITIONS]
        for rank, pair in enumerate(zip_longest(*by_condition)):
            for entry in context.inventory.recognition:
                for condition, spec in zip(CONDITIONS, pair, strict=True):
                    if spec is None:  # there are more recognizers of the other condition
                        continue
                    recognizer = models.recognizer(spec)
                    speech = context.recognition_speech(entry, condition)
                    utterances = [u for listed in speech.values() for u in listed]
                    transcripts = models.transcribe(utterances, recognizer, context.run)
                    result = models.word_error_rate(utterances, transcripts, normalization=normalization_of(recognizer))
                    place = {"dataset": entry.dataset, "split": entry.split, "condition": condition, "model": spec}
                    figures.append(figure("wer", result.wer, place, _counts(result.errors)))
                    if rank == 0:
                        word_errors[entry.dataset, condition] = result.errors
                        for name, listed in speech.items():
                            rows = columns.setdefault(name, {})
                            _add_transcripts(rows, listed, transcripts, condition)
        sampled = [entry for entry in context.inventory.recognition if entry.sample is not None]
        notes = [f"WER of {entry.dataset}: of at most {entry.sample} utterances of each set" for entry in sampled]
        return TaskResult(figures, notes, columns, word_errors=word_errors)

    def section(self, results: Results) -> Section:
        """Return the table of WERs."""
        rows = []
        for wer in results.find("wer"):
            recognizer = ", ".join(filter(None, [wer.evaluator, wer.detail.get("language_model")]))
            counts = [wer.detail.get(key, "–") for key in _COUNTS]
            rows.append((wer.dataset, CONDITIONS.get(wer.condition, ""), recognizer, wer, *counts))
        columns = ("set", "speech", "recognizer", "WER [95%]", "words", "substituted", "deleted", "inserted")
        missing = "" if rows else "No speech with transcripts was recognized."
        return Section("words", "Words", SectionTable(columns, tuple(rows)), missing=missing)


def _counts(errors: WordErrors) -> dict[str, Any]:
    return {
        "errors": errors.edits,
        "words": errors.substitutions + errors.deletions + errors.hits,
        "insertions": errors.insertions,
        "deletions": errors.deletions,
        "substitutions": errors.substitutions,
    }


def _add_transcripts(
    rows: dict[str, dict[str, str]], utterances: Sequence[Utterance], transcripts: Mapping[str, str], condition: str
) -> None:
    """Add normalized words to the rows of a set: the reference with the original, and the words recognized."""
    plain = normalizer("plain")
    for utterance in utterances:
        row = rows.setdefault(utterance.id, {})
        if condition == "o":
            row["reference"] = plain(utterance.text or "")
        row[f"heard_{CONDITIONS[condition]}"] = plain(transcripts[utterance.id])
