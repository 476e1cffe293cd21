"""Naturalness: DNSMOS, a network that predicts listeners' ratings.

C. K. A. Reddy, V. Gopal and R. Cutler, "DNSMOS P.835: a non-intrusive perceptual objective speech quality metric to
evaluate noise suppressors", ICASSP 2022.

Conventions: 16 kHz mono, nominally in [-1, 1]; ratings are mean opinion scores from 1 (bad) to 5 (excellent): ``sig``
for the speech signal, ``bak`` for the absence of noise, ``ovr`` overall. Good recordings of read speech get about 3.2
to 3.4 overall. The network was trained on noise suppressors, not on anonymized voices: it ranks systems, and does not
replace listeners.

The model comes inside the wheel of ``speechmos`` and runs in onnxruntime. Windows, repetition and the polynomials that
map the network's output to ratings are those of the official script; as there, the level of a recording matters. One
difference: the official script ends window k at sample ``int((k + 9.01) * 16000)``, which is one sample short for
k = 7 to 23 because of rounding, and skips short windows. ``published`` (default) rates all windows, ``official`` skips
those; recordings of less than 17 s, after repetition, get the same ratings from both.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from voiceveil.audio import Samples, Waveform
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.run.context import RunContext
from voiceveil.run.ledger import sha256_file
from voiceveil.stats.rates import mean
from voiceveil.stats.values import Estimate

__all__ = ["DNSMOS", "RATINGS", "Naturalness", "evaluate_naturalness", "windows"]

Method = Literal["official", "published"]

RATE = 16000
#: Input of the network in samples: 9.01 s.
WINDOW = 144160
#: Rating -> coefficients of the polynomial that maps the network's output to it, highest power first.
RATINGS = {
    "sig": (-0.08397278, 1.22083953, 0.0052439),
    "bak": (-0.13166888, 1.60915514, -0.39604546),
    "ovr": (-0.06766283, 1.11546468, 0.04602535),
}
_INSTALL = "pip install 'voiceveil[naturalness]'"


@dataclass(frozen=True)
class DNSMOS:
    """DNSMOS P.835: ratings of an utterance, averaged over its windows; a window takes about 0.5 s to compute."""

    method: Method = "published"
    rate: ClassVar[int] = RATE
    minimum: ClassVar[float] = 0.25  # seconds; repeated to 9 s, a shorter recording would be a buzz
    sha256: ClassVar[str] = "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd"

    def __post_init__(self) -> None:
        if self.method not in ("official", "published"):
            raise InputError(f"unknown method {self.method!r}", fix="use 'official' or 'published'")
        if importlib.util.find_spec("speechmos") is None or importlib.util.find_spec("onnxruntime") is None:
            raise InputError("the packages speechmos and onnxruntime are not installed", fix=_INSTALL)

    def fingerprint(self) -> str:
        """Return the model's hash, the version (1) of the windowing, and the method."""
        return f"dnsmos {self.sha256[:16]} 1 {self.method}"

    def __call__(self, wave: Waveform) -> dict[str, float]:
        """Return the ratings: ``{"sig": ..., "bak": ..., "ovr": ...}``."""
        if wave.rate != RATE or wave.duration < self.minimum:
            problem = f"{wave.duration:.3f} s of audio at {wave.rate} Hz cannot be rated"
            raise InputError(problem, fix=f"give at least {self.minimum} s at {RATE} Hz")
        if not np.isfinite(wave.samples).all():
            raise InputError("the audio has a sample that is not finite", fix="repair the recording")
        outputs = [
            _network().run(None, {"input_1": window[None]})[0][0] for window in windows(wave.samples, self.method)
        ]
        raw = np.array(outputs, dtype=np.float64)  # (windows, 3)
        return {name: float(np.polyval(p, raw[:, k]).mean()) for k, (name, p) in enumerate(RATINGS.items())}


def windows(samples: Samples, method: Method = "published") -> Iterator[Samples]:
    """Yield windows of 9.01 s, one per second, each of shape (144160,).

    A short recording is doubled until it fills a window. As the official script counts whole seconds, up to two
    seconds at the end of a recording are in no window.
    """
    while len(samples) < WINDOW:
        samples = np.concatenate([samples, samples])
    for k in range(max(len(samples) // RATE - WINDOW // RATE, 1)):  # = int(floor(seconds) - 9.01) + 1
        if method == "published" or int((k + 9.01) * RATE) == RATE * k + WINDOW:
            yield samples[RATE * k : RATE * k + WINDOW]


@lru_cache(maxsize=1)
def _network() -> Any:
    import onnxruntime

    spec = importlib.util.find_spec("speechmos")  # located, not imported: it would import librosa and more
    if spec is None or spec.origin is None:
        raise InputError("the package speechmos is not installed", fix=_INSTALL)
    path = Path(spec.origin).parent / "dnsmos_models" / "sig_bak_ovr.onnx"
    if not path.is_file() or sha256_file(path) != DNSMOS.sha256:
        problem = "the model is missing, or differs from that of speechmos 0.0.1.1"
        raise InputError(problem, where=path, fix=f"{_INSTALL} --force-reinstall")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@dataclass(frozen=True, eq=False)
class Naturalness:
    """Mean ratings of a corpus with intervals over speakers; ``by_utterance`` maps utterance id to its ratings."""

    sig: Estimate
    bak: Estimate
    ovr: Estimate
    by_utterance: dict[str, dict[str, float]]


def evaluate_naturalness(
    utterances: Iterable[Utterance],
    context: RunContext | None = None,
    *,
    method: Method = "published",
) -> Naturalness:
    """Return the mean DNSMOS ratings of utterances.

    Parameters
    ----------
    utterances
        At least one.
    context
        Cache, jobs and progress.
    method
        ``published`` or ``official``, see the module.

    Returns
    -------
    Naturalness
        With intervals over speakers, or over utterances if a speaker is unknown.
    """
    rated = list(utterances)
    if not rated:
        raise InputError("there are no utterances to rate", fix="give a corpus with at least one utterance")
    ratings = (context or RunContext()).extract(rated, DNSMOS(method))
    speakers_known = all(u.speaker is not None for u in rated)
    speakers = [(u.speaker or "") if speakers_known else u.id for u in rated]
    sig, bak, ovr = (mean([ratings[u.id][name] for u in rated], speakers) for name in RATINGS)
    if not speakers_known:
        sig, bak, ovr = (replace(rating, of="utterances") for rating in (sig, bak, ovr))
    return Naturalness(sig, bak, ovr, ratings)
