"""An example task: the share of pauses that anonymization moves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform
from voiceveil.evaluation.results import Results
from voiceveil.evaluation.tasks import (
    ModelWork,
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
from voiceveil.metrics import MetricInfo
from voiceveil.run.cache import Cache
from voiceveil.stats import ratio


class PauseDetector:
    """Find pauses: frames of 20 ms that are 30 dB below the loudest one, shape (frames,)."""

    rate, minimum = 16000, 0.1  # Hz, seconds

    def fingerprint(self) -> str:
        """Return a text that changes whenever a result would: the cache keeps results by it."""
        return "pauses 1"

    def __call__(self, wave: Waveform) -> NDArray[np.uint8]:
        """Return 1 for a pause and 0 for speech."""
        frames = wave.samples[: len(wave) // 320 * 320].reshape(-1, 320).astype(np.float64)
        level = 10 * np.log10(np.square(frames).mean(axis=1) + 1e-10)
        return np.asarray(level < level.max() - 30, dtype=np.uint8)


@tasks.register("pauses")
class Pauses(Task):
    """Share of frames that are a pause in the original and not in the anonymized speech, or the other way round."""

    metrics = ("pauses_changed",)
    own_metrics = (MetricInfo("pauses_changed", "Pauses changed", "%", "lower", "recognition"),)

    def available(self, setup: TaskSetup) -> bool:
        """Return True if the protocol asks for it and the data have its sets."""
        return setup.requests(self.metrics) and bool(setup.inventory.recognition)

    def progress(self, setup: TaskSetup) -> str:
        """Return the line for the user."""
        return "comparing pauses"

    def work(self, setup: TaskSetup, cache: Cache) -> Iterator[ModelWork]:
        """Yield the models that ``run`` will run: `evaluate --plan` and the provenance list them."""
        yield ModelWork("pauses", PauseDetector(), recognition_parts(setup.inventory))

    def run(self, context: TaskContext) -> TaskResult:
        """Find the pauses of both sides, and compare."""
        figures = []
        for entry in context.inventory.recognition:
            sides = [context.recognition_speech(entry, side) for side in ("o", "a")]
            utterances = [[u for listed in side.values() for u in listed] for side in sides]
            original, anonymized = (context.run.extract(listed, PauseDetector()) for listed in utterances)
            changed = [count_changes(original[id], anonymized[id]) for id in original]
            share = ratio(changed, [len(original[id]) for id in original], [u.speaker or "" for u in utterances[0]])
            place = {"dataset": entry.dataset, "split": entry.split, "condition": "a", "model": "pauses"}
            figures.append(figure("pauses_changed", share, place))
        return TaskResult(figures)

    def section(self, results: Results) -> Section | None:
        """Return how a report shows the figures; None without any."""
        rows = tuple((changed.dataset, changed) for changed in results.find("pauses_changed"))
        return Section("pauses", "Pauses", SectionTable(("set", "pauses changed [95%]"), rows)) if rows else None


def count_changes(original: NDArray[np.uint8], anonymized: NDArray[np.uint8]) -> int:
    """Return the number of frames that differ; those that only the longer one has count too."""
    shorter = min(len(original), len(anonymized))
    return int(np.sum(original[:shorter] != anonymized[:shorter])) + abs(len(original) - len(anonymized))
