"""Attackers: who wants to know who speaks, and how far they get.

``run`` attacks the sets of a folder and gives an :class:`AttackResult`; ``encoders`` is the registry of speaker
encoders. Nothing here imports torch before an encoder is used.
"""

from __future__ import annotations

from voiceveil.attack.engine import run
from voiceveil.attack.result import AttackResult, Health, Row
from voiceveil.models.speaker.encoders import SpeakerEncoder, TrainingRecord, encoder, encoders

__all__ = [
    "AttackResult",
    "Health",
    "Row",
    "SpeakerEncoder",
    "TrainingRecord",
    "encoder",
    "encoders",
    "run",
]
