"""Imported for its effect: compiles McAdams' transformation once, before worker processes are forked."""

from __future__ import annotations

import numpy as np

from voiceveil.dsp.mcadams import McAdams

for _double in (False, True):
    McAdams(0.8, double=_double)(np.zeros(320, dtype=np.float32))
