"""Imported for its effect: loads the compiled B2, so that workers that are forked afterwards have it already."""

from __future__ import annotations

import numpy as np

from voiceveil.dsp.mcadams import McAdams

for _double in (False, True):
    McAdams(0.8, double=_double)(np.zeros(320, dtype=np.float32))
