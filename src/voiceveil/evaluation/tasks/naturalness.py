"""Naturalness: DNSMOS, a prediction of listeners' ratings from 1 to 5, of original and anonymized speech."""

from __future__ import annotations

from collections.abc import Iterator

from voiceveil import models
from voiceveil.attack.attacker import ModelWork
from voiceveil.evaluation.details import Column
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.tasks.contract import (
    CONDITIONS,
    Cell,
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
from voiceveil.metrics.catalog import MetricInfo
from voiceveil.run.cache import Cache

__all__ = ["NaturalnessTask"]


@tasks.register("naturalness")
class NaturalnessTask(Task):
    """DNSMOS of each recognition set. It takes about half a second for each second beyond nine of an utterance."""

    metrics = ("dnsmos",)
    own_metrics = (MetricInfo("dnsmos", "DNSMOS, overall", "", "higher", "recognition"),)
    order = 60
    columns = (Column("dnsmos_original", low=0.0, high=6.0), Column("dnsmos_anonymized", low=0.0, high=6.0))

    def available(self, setup: TaskSetup) -> bool:
        """Return True if the protocol asks for it and there are recognition sets."""
        return setup.requests(self.metrics) and bool(setup.inventory.recognition)

    def check(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if the packages that hold the model are not installed."""
        models.DNSMOS()

    def progress(self, setup: TaskSetup) -> str:
        """Return the line for the user."""
        return "rating naturalness: DNSMOS"

    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        """Yield DNSMOS, on all recognition sets."""
        yield ModelWork("dnsmos", models.DNSMOS(), recognition_parts(setup.inventory))

    def run(self, context: TaskContext) -> TaskResult:
        """Rate both sides of each set."""
        figures = []
        columns: dict[str, dict[str, dict[str, float]]] = {}
        for entry in context.inventory.recognition:
            for condition, side in CONDITIONS.items():
                speech = context.recognition_speech(entry, condition)
                utterances = [u for listed in speech.values() for u in listed]
                result = models.evaluate_naturalness(utterances, context.run)
                place = {"dataset": entry.dataset, "split": entry.split, "condition": condition, "model": "dnsmos"}
                detail = {"signal": result.sig.value, "background": result.bak.value}
                figures.append(figure("dnsmos", result.ovr, place, detail))
                for name, listed in speech.items():
                    rows = columns.setdefault(name, {})
                    for utterance in listed:
                        rows.setdefault(utterance.id, {})[f"dnsmos_{side}"] = result.by_utterance[utterance.id]["ovr"]
        return TaskResult(figures, columns=columns)

    def section(self, results: Results) -> Section | None:
        """Return the table of ratings; None without any, as they are optional."""
        rows: list[tuple[Cell, ...]] = []
        for rating in results.find("dnsmos"):
            parts = [f"{rating.detail[key]:.2f}" if key in rating.detail else "–" for key in ("signal", "background")]
            rows.append((rating.dataset, CONDITIONS.get(rating.condition, ""), rating, *parts))
        if not rows:
            return None
        return Section(
            "naturalness",
            "Naturalness",
            SectionTable(("set", "speech", "DNSMOS, overall [95%]", "speech signal", "absence of noise"), tuple(rows)),
            note="DNSMOS predicts listeners' ratings, 1 (bad) to 5 (excellent). It was trained on noise suppression, "
            "not on anonymized voices: it compares systems, and does not replace listeners.",
        )
