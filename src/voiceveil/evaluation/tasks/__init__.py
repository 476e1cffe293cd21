"""Everything that an evaluation measures, one module for each task; see :mod:`voiceveil.evaluation.tasks.contract`."""

from __future__ import annotations

from voiceveil.evaluation.tasks.contract import (
    Section,
    Table,
    Task,
    TaskContext,
    TaskOptions,
    TaskResult,
    TaskSetup,
    all_tasks,
    available_tasks,
    tasks,
)

__all__ = [
    "Section",
    "Table",
    "Task",
    "TaskContext",
    "TaskOptions",
    "TaskResult",
    "TaskSetup",
    "all_tasks",
    "available_tasks",
    "tasks",
]
