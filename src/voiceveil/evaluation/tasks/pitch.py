"""Pitch: the correlation of the F0 contours of original and anonymized speech."""

from __future__ import annotations

from collections.abc import Iterator

from voiceveil import models
from voiceveil.attack.attacker import ModelWork
from voiceveil.evaluation.details import Column
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.tasks.contract import (
    Section,
    SectionTable,
    Task,
    TaskContext,
    TaskResult,
    TaskSetup,
    both_sides,
    figure,
    place,
    tasks,
)
from voiceveil.run.cache import Cache

__all__ = ["PitchTask"]


@tasks.register("pitch")
class PitchTask(Task):
    """Pitch correlation of each trial set. Details: mean F0 of both sides and the correlation of each utterance."""

    metrics = ("pitch_correlation",)
    order = 40
    columns = (
        Column("f0_original", low=0.0),
        Column("f0_anonymized", low=0.0),
        Column("pitch_correlation", low=-1.0, high=1.0),
    )

    def available(self, setup: TaskSetup) -> bool:
        """Return True if there are trial sets, and the protocol or a report asks for pitch."""
        return bool(setup.inventory.verification) and (setup.requests(self.metrics) or setup.options.details)

    def check(self, setup: TaskSetup) -> None:
        """Raise an ``InputError`` if the tracker is not known, or its package is not installed."""
        models.tracker(setup.options.models.pitch_tracker)

    def progress(self, setup: TaskSetup) -> str:
        """Return the line for the user."""
        return "comparing pitch"

    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        """Yield the pitch tracker, on all trial sets."""
        names = [trials.set for _, trials in setup.inventory.trial_sets()]
        tracker = setup.options.models.pitch_tracker
        yield ModelWork(tracker, models.tracker(tracker), list(both_sides(setup.inventory.corpora, names)))

    def run(self, context: TaskContext) -> TaskResult:
        """Track both sides of each set."""
        figures, columns, tracker = [], {}, context.setup.options.models.pitch_tracker
        for entry, trials in context.inventory.trial_sets():
            pair = context.inventory.corpora[trials.set], context.anonymized[trials.set]
            result = models.evaluate_pitch(*pair, context.run, tracker=tracker)
            where = place(entry, trials.gender, condition="oa", model=tracker)
            figures.append(figure("pitch_correlation", result.rho, where, {"std": result.std, "set": trials.set}))
            columns[trials.set] = {
                id: {
                    "f0_original": result.mean_f0[id][0],
                    "f0_anonymized": result.mean_f0[id][1],
                    "pitch_correlation": rho,
                }
                for id, rho in result.by_utterance.items()
            }
        return TaskResult(figures if context.setup.requests(self.metrics) else (), columns=columns)

    def section(self, results: Results) -> Section:
        """Return the table of pitch correlations."""
        rows = [
            (" ".join(filter(None, [rho.dataset, rho.subset, rho.gender])), rho.model, rho)
            for rho in results.find("pitch_correlation")
        ]
        columns = ("set", "tracker", "pitch correlation [95%]")
        return Section(
            "pitch", "Pitch", SectionTable(columns, tuple(rows)), missing="" if rows else "No pitch was tracked."
        )
