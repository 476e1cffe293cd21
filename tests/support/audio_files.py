"""Signals to write to files, and Python processes without permissions to read or write them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform


def tone(frequency: float, seconds: float = 1.0, rate: int = 16000, level: float = 0.5) -> Waveform:
    """Return a sine wave; ``frequency`` in Hz, ``level`` its peak."""
    time = np.arange(round(seconds * rate)) / rate
    return Waveform((level * np.sin(2 * np.pi * frequency * time)).astype(np.float32), rate)


def noise(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Return ``count`` samples drawn uniformly from full scale."""
    return np.random.default_rng(seed).uniform(-1, 1, count).astype(np.float32)


def run_python(code: str, *args: object) -> str:
    """Run code in another process and return its output."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


# As root there is no permission that could be missing: become nobody.
AS_NOBODY = "import os, sys\nif os.geteuid() == 0: os.setgid(65534), os.setuid(65534)\n"
