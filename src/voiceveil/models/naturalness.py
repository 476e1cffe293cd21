"""Does it sound natural? DNSMOS, a network that predicts listeners' ratings: C. K. A. Reddy, V. Gopal and R. Cutler,
"DNSMOS P.835: a non-intrusive perceptual objective speech quality metric to evaluate noise suppressors", ICASSP 2022.

Conventions: 16 kHz mono, nominally in [-1, 1]; ratings are mean opinion scores from 1 (bad) to 5 (excellent): ``sig``
of the speech itself, ``bak`` of the absence of noise, ``ovr`` overall. Good recordings of read speech get about 3.2 to
3.4 overall. The network was trained on noise suppressors, not on anonymized voices: it ranks systems, and does not
replace listeners.

The model comes inside the wheel of ``speechmos`` and runs in onnxruntime. Windows, repetition and the polynomials that
map the network's output to ratings are those of the official script; the level of a recording matters, as there. One
difference: the official script ends window k at sample ``int((k + 9.01) * 16000)``, which rounding makes one sample
short for k = 7 to 23, and skips short windows. ``published`` (default) rates all windows, ``official`` skips those;
what has less than 17 s, once it is repeated, is the same in both.
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
#: Samples that the network takes: 9.01 s.
WINDOW = 144160
#: Rating -> coefficients of the polynomial in the network's output, the highest power first.
RATINGS = {
    "sig": (-0.08397278, 1.22083953, 0.0052439),
    "bak": (-0.13166888, 1.60915514, -0.39604546),
    "ovr": (-0.06766283, 1.11546468, 0.04602535),
}
_INSTALL = "pip install 'voiceveil[naturalness]'"


@dataclass(frozen=True)
class DNSMOS:
    """DNSMOS P.835: ratings of one utterance, the mean over its windows; about 0.5 s of computing a window."""

    method: Method = "published"
    rate: ClassVar[int] = RATE
    minimum: ClassVar[float] = 0.25  # seconds; a shorter piece, repeated to nine seconds, is a buzz
    sha256: ClassVar[str] = "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd"

    def __post_init__(self) -> None:
        if self.method not in ("official", "published"):
            raise InputError(f"unknown method {self.method!r}", fix="use 'official' or 'published'")
        if importlib.util.find_spec("speechmos") is None or importlib.util.find_spec("onnxruntime") is None:
            raise InputError("the packages speechmos and onnxruntime are not installed", fix=_INSTALL)

    def fingerprint(self) -> str:
        """Return the model's hash; the 1 is the version of the windows."""
        return f"dnsmos {self.sha256[:16]} 1 {self.method}"

    def __call__(self, wave: Waveform) -> dict[str, float]:
        """``{"sig": ..., "bak": ..., "ovr": ...}``."""
        if wave.rate != RATE or wave.duration < self.minimum:
            what = f"{wave.duration:.3f} s at {wave.rate} Hz cannot be rated"
            raise InputError(what, fix=f"give at least {self.minimum} s at {RATE} Hz")
        if not np.isfinite(wave.samples).all():
            raise InputError("samples that are not finite cannot be rated", fix="repair the recording")
        pieces = windows(wave.samples, self.method)
        raw = np.array([_network().run(None, {"input_1": piece[None]})[0][0] for piece in pieces], dtype=np.float64)
        return {name: float(np.polyval(p, raw[:, k]).mean()) for k, (name, p) in enumerate(RATINGS.items())}


def windows(samples: Samples, method: Method = "published") -> Iterator[Samples]:
    """Windows of 9.01 s, one a second, each of shape (144160,).

    A short recording is doubled until it fills a window; then the script counts whole seconds, so that up to two
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

    spec = importlib.util.find_spec("speechmos")  # found and not imported: it would import librosa and more
    if spec is None or spec.origin is None:
        raise InputError("the package speechmos is not installed", fix=_INSTALL)
    path = Path(spec.origin).parent / "dnsmos_models" / "sig_bak_ovr.onnx"
    if not path.is_file() or sha256_file(path) != DNSMOS.sha256:
        what = "not the model of speechmos 0.0.1.1 that the figures hold for"
        raise InputError(what, where=path, fix=f"{_INSTALL} --force-reinstall")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@dataclass(frozen=True, eq=False)
class Naturalness:
    """Mean ratings of a corpus with intervals over speakers; ``of``: utterance id -> its ratings."""

    sig: Estimate
    bak: Estimate
    ovr: Estimate
    of: dict[str, dict[str, float]]


def evaluate_naturalness(
    utterances: Iterable[Utterance],
    context: RunContext | None = None,
    *,
    method: Method = "published",
) -> Naturalness:
    """DNSMOS of a corpus; intervals are over utterances if it does not say who speaks."""
    listed = list(utterances)
    if not listed:
        raise InputError("no utterances to rate")
    ratings = (context or RunContext()).extract(listed, DNSMOS(method))
    known = all(u.speaker is not None for u in listed)
    speakers = [(u.speaker or "") if known else u.id for u in listed]
    sig, bak, ovr = (mean([ratings[u.id][name] for u in listed], speakers) for name in RATINGS)
    if not known:
        sig, bak, ovr = (replace(rating, of="utterances") for rating in (sig, bak, ovr))
    return Naturalness(sig, bak, ovr, ratings)
