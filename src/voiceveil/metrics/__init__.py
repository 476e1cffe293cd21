"""The metrics: pure functions, arrays in, floats or frozen dataclasses out; rates are fractions in [0, 1].

Each name is imported when it is first used; each module opens with its conventions and its list. (No module here has
the name of a function: importing it would hide the function.)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voiceveil.metrics.calibration import cllr, min_cllr, pav_llr
    from voiceveil.metrics.disclosure import Zebra, zebra
    from voiceveil.metrics.linkage import d_sys
    from voiceveil.metrics.verification import DetCurve, act_dcf, det_curve, eer, min_dcf

__all__ = [
    "DetCurve",
    "Zebra",
    "act_dcf",
    "cllr",
    "d_sys",
    "det_curve",
    "eer",
    "min_cllr",
    "min_dcf",
    "pav_llr",
    "zebra",
]

_HOME = {
    "DetCurve": "voiceveil.metrics.verification",
    "Zebra": "voiceveil.metrics.disclosure",
    "act_dcf": "voiceveil.metrics.verification",
    "cllr": "voiceveil.metrics.calibration",
    "d_sys": "voiceveil.metrics.linkage",
    "det_curve": "voiceveil.metrics.verification",
    "eer": "voiceveil.metrics.verification",
    "min_cllr": "voiceveil.metrics.calibration",
    "min_dcf": "voiceveil.metrics.verification",
    "pav_llr": "voiceveil.metrics.calibration",
    "zebra": "voiceveil.metrics.disclosure",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'voiceveil.metrics' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
