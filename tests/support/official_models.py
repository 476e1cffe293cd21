"""Tiny models in the formats of the 2024 challenge, and what its code computed with them."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.paths import GOLDEN, SHARED
from voiceveil.audio import Waveform

#: A checkout of the challenge with tiny models: exp/asv_anon_x, exp/asr, exp/ser, and configurations beside exp.
CHECKOUT = GOLDEN / "speechbrain"
#: Inputs that have a golden output at every stage.
NOISES = ("noise_0p7s", "noise_odd", "noise_3s")
#: The same models with recordings that may not be redistributed.
REFERENCE = SHARED / "reference" / "speechbrain"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference recordings are not here")


@cache
def golden() -> dict[str, NDArray[Any]]:
    """Return the inputs and outputs."""
    with np.load(CHECKOUT / "reference.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def wave_of(samples: NDArray[np.int16]) -> Waveform:
    """Return a waveform of 16-bit samples at 16 kHz."""
    return Waveform(samples.astype(np.float32) / np.float32(32768), 16000)


def reference_waves() -> dict[str, Waveform]:
    """Return the 24 utterances of the reference, by id."""
    with np.load(REFERENCE / "ecapa" / "waveforms.npz", allow_pickle=False) as arrays:
        return {name: wave_of(arrays[name]) for name in arrays}


def copy_checkout(place: Path) -> Path:
    """Copy the checkout, to be changed by a test."""
    return Path(shutil.copytree(CHECKOUT, place / "checkout"))
