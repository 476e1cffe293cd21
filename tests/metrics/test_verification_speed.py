"""How fast, in processor time and after compilation, and that what is not asked for is not imported."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest

from voiceveil import metrics
from voiceveil.testing.scores import ScoreWorld


def processor_seconds(function: Callable[[], object], repeats: int) -> float:
    """The best of several runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize(("trials", "limit"), [(21_650, 0.005), (3_500_000, 3.0)])
def test_eer_of_many_trials_is_fast(trials: int, limit: float) -> None:
    rng = np.random.default_rng(0)
    target, nontarget = rng.normal(2, 1, trials // 20), rng.normal(0, 1, trials - trials // 20)
    metrics.eer(target[:9], nontarget[:9])
    assert processor_seconds(lambda: metrics.eer(target, nontarget), 2 if trials > 1e6 else 10) < limit


def test_thousand_speaker_bootstraps_are_fast() -> None:
    trials = ScoreWorld(speakers=29, utterances=24).draw(np.random.default_rng(0))
    assert len(trials.score) > 20_000
    metrics.estimate(trials, "eer", resamples=2)
    again = trials.with_scores(trials.score)  # sorted anew
    assert processor_seconds(lambda: metrics.estimate(again, "eer", resamples=1000), 2) < 1.0


@pytest.mark.parametrize("package", ["voiceveil.metrics", "voiceveil.stats"])
def test_importing_packages_loads_no_heavy_modules(package: str) -> None:
    code = f"import sys, {package}; print(sorted({{'numba', 'scipy', 'torch'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
