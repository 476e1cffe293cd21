"""Settings of evaluations, for tests that call the evaluation without the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.settings import EvaluationOptions, EvaluationSettings

__all__ = ["settings_for"]


def settings_for(
    data: Path,
    out: Path,
    protocol: str | Path = "vpc2024",
    *,
    attackers: Sequence[str] | None = None,
    seed: int | None = None,
    **options: Any,
) -> EvaluationSettings:
    """Return settings; ``options`` are fields of :class:`EvaluationOptions`."""
    return EvaluationSettings(data, load_protocol(protocol), out, attackers, seed, options=EvaluationOptions(**options))
