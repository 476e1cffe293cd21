"""Words: the word error rate (WER) of original and anonymized speech, by one or several recognizers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from voiceveil import models
from voiceveil.attack.attacker import ModelWork
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
        for spec in setup.options.recognizers:
            models.recognizer(spec)

    def check_data(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if a transcript is missing."""
        for entry in setup.inventory.recognition:
            references(u for name in entry.sets for u in setup.inventory.corpora[name])

    def progress(self, setup: TaskSetup) -> str:
        """Return the line for the user."""
        return f"recognizing words: {', '.join(setup.options.recognizers)}"

    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        """Yield each recognizer, on all recognition sets."""
        for spec in setup.options.recognizers:
            yield ModelWork(spec, models.recognizer(spec), recognition_parts(setup.inventory))

    def run(self, context: TaskContext) -> TaskResult:
        """Transcribe both sides of each set, and compare with the references."""
        figures, word_errors = [], {}
        columns: dict[str, dict[str, dict[str, str]]] = {}
        for spec in context.setup.options.recognizers:
            recognizer = models.recognizer(spec)
            is_first = spec == context.setup.options.recognizers[0]
            for entry in context.inventory.recognition:
                for condition in CONDITIONS:
                    speech = context.recognition_speech(entry, condition)
                    utterances = [u for listed in speech.values() for u in listed]
                    transcripts = models.transcribe(utterances, recognizer, context.run)
                    result = models.word_error_rate(utterances, transcripts, normalization=normalization_of(recognizer))
                    place = {"dataset": entry.dataset, "split": entry.split, "condition": condition, "model": spec}
                    figures.append(figure("wer", result.wer, place, _counts(result.errors)))
                    if is_first:
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
