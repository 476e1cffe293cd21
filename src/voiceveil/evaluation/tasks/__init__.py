"""Everything that an evaluation measures, one module for each task; see :mod:`voiceveil.evaluation.tasks.contract`."""

from __future__ import annotations

from voiceveil.attack.attacker import ModelWork
from voiceveil.evaluation.tasks.contract import (
    Section,
    SectionTable,
    Task,
    TaskContext,
    TaskOptions,
    TaskResult,
    TaskSetup,
    all_tasks,
    available_tasks,
    figure,
    recognition_parts,
    tasks,
)

__all__ = [
    "ModelWork",
    "Section",
    "SectionTable",
    "Task",
    "TaskContext",
    "TaskOptions",
    "TaskResult",
    "TaskSetup",
    "all_tasks",
    "available_tasks",
    "figure",
    "recognition_parts",
    "tasks",
]
