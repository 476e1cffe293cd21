"""The legally validated risk assessment: Singling Out, Linkability and inference (Vauquier et al. 2025).

``assess`` measures attacks (:class:`~voiceveil.risk.sets.RiskAttack`) under a
:class:`~voiceveil.risk.curves.RiskPlan` and returns an :class:`~voiceveil.risk.assessment.Assessment`. Attacks come
from embeddings (:func:`~voiceveil.risk.sets.attack_from_tables`) or from audio
(:func:`~voiceveil.risk.audio.attacks_from_audio`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voiceveil.core.lazy import lazy_exports

if TYPE_CHECKING:
    from voiceveil.risk.assessment import Assessment, RiskLimits, assess
    from voiceveil.risk.curves import RiskPlan
    from voiceveil.risk.embeddings import EmbeddingTable, read_table
    from voiceveil.risk.sets import AttackPart, RiskAttack, attack_from_tables, read_split

__all__ = [
    "Assessment",
    "AttackPart",
    "EmbeddingTable",
    "RiskAttack",
    "RiskLimits",
    "RiskPlan",
    "assess",
    "attack_from_tables",
    "read_split",
    "read_table",
]

_HOME = {
    "Assessment": "voiceveil.risk.assessment",
    "RiskAttack": "voiceveil.risk.sets",
    "RiskLimits": "voiceveil.risk.assessment",
    "AttackPart": "voiceveil.risk.sets",
    "RiskPlan": "voiceveil.risk.curves",
    "EmbeddingTable": "voiceveil.risk.embeddings",
    "assess": "voiceveil.risk.assessment",
    "attack_from_tables": "voiceveil.risk.sets",
    "read_split": "voiceveil.risk.sets",
    "read_table": "voiceveil.risk.embeddings",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
