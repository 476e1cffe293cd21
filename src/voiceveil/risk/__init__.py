"""The legally validated risk assessment: Singling Out, Linkability and inference (Vauquier et al. 2025).

``assess`` measures attacks (:class:`~voiceveil.risk.sets.RiskAttack`) under a
:class:`~voiceveil.risk.curves.RiskPlan` and returns an :class:`~voiceveil.risk.assessment.Assessment`. Attacks come
from embeddings (:func:`~voiceveil.risk.sets.attack_from_tables`) or from audio
(:func:`~voiceveil.risk.audio.attacks_from_audio`).
"""

from __future__ import annotations

import lazy_loader

# The names are those of __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
