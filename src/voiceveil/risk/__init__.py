"""The legally validated risk assessment: Singling Out, Linkability and inference, with a report for those who decide.

``assess`` measures attackers (:class:`~voiceveil.risk.sets.Attack`) under a :class:`~voiceveil.risk.protocol.Plan` and
gives an :class:`~voiceveil.risk.assessment.Assessment`. Attackers come from embeddings
(:func:`~voiceveil.risk.sets.attack_from_tables`) or from audio (:func:`~voiceveil.risk.audio.attacks_from_audio`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from voiceveil.core.lazy import lazy_exports

if TYPE_CHECKING:
    from voiceveil.risk.assessment import Assessment, Limits, assess
    from voiceveil.risk.embeddings import Table, read_table
    from voiceveil.risk.protocol import Plan
    from voiceveil.risk.sets import Attack, Part, attack_from_tables, read_split

__all__ = [
    "Assessment",
    "Attack",
    "Limits",
    "Part",
    "Plan",
    "Table",
    "assess",
    "attack_from_tables",
    "read_split",
    "read_table",
]

_HOME = {
    "Assessment": "voiceveil.risk.assessment",
    "Attack": "voiceveil.risk.sets",
    "Limits": "voiceveil.risk.assessment",
    "Part": "voiceveil.risk.sets",
    "Plan": "voiceveil.risk.protocol",
    "Table": "voiceveil.risk.embeddings",
    "assess": "voiceveil.risk.assessment",
    "attack_from_tables": "voiceveil.risk.sets",
    "read_split": "voiceveil.risk.sets",
    "read_table": "voiceveil.risk.embeddings",
}

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
