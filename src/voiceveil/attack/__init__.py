"""Attackers: programs that try to recognize the speakers of anonymized recordings.

Calling the package attacks the sets of a folder: ``vv.attack("data", anon="_b2")``.

``run`` attacks the sets of a folder and returns an :class:`AttackResult`. ``attackers`` is the registry of attackers,
``encoders`` that of speaker encoders. Nothing here imports torch before an encoder is used.
"""

from __future__ import annotations

from voiceveil.attack.attacker import Attacker, Health, Knowledge, TrainingSpeech
from voiceveil.attack.outcome import AttackResult, AttackRow
from voiceveil.attack.pipeline import AttackOptions, AttackRequest, run
from voiceveil.attack.recorded_attack import attack
from voiceveil.attack.registry import AttackerOptions, attackers, make_attackers
from voiceveil.attack.sets import Condition, TrialSet
from voiceveil.core.callable_package import make_callable
from voiceveil.models.speaker.encoders import SpeakerEncoder, TrainingRecord, encoder, encoders

__all__ = [
    "AttackOptions",
    "AttackRequest",
    "AttackResult",
    "AttackRow",
    "Attacker",
    "AttackerOptions",
    "Condition",
    "Health",
    "Knowledge",
    "SpeakerEncoder",
    "TrainingRecord",
    "TrainingSpeech",
    "TrialSet",
    "attack",
    "attackers",
    "encoder",
    "encoders",
    "make_attackers",
    "run",
]

make_callable(__name__, attack)
