"""A second recognizer that needs no download: PocketSphinx (Huggins-Daines et al. 2006), English, BSD license.

It shares nothing with Moonshine: Gaussian mixtures on cepstra, a dictionary of 134,000 pronunciations and a trigram
language model, from before neural speech recognition. Its word error rate is several times as high. It serves as a
second opinion: a system that is built on Moonshine's features may get better word error rates from Moonshine than from
other recognizers.

Model and decoder come inside the wheel of ``pocketsphinx``; nothing is downloaded. Cepstra are normalized over each
utterance, and the decoder's noise estimate is reset before each, so that transcripts depend neither on the order of the
utterances nor on the number of processes.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

from voiceveil.audio import Samples, to_int16
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import Recognizer, recognizers
from voiceveil.models.asr.segmentation import PiecewiseRecognizer
from voiceveil.run.ledger import sha256_file

__all__ = ["MIN_SAMPLES", "PocketSphinx", "model_folder"]

#: The files of the model in pocketsphinx 5.1.1 and their hashes: language model, dictionary, acoustic model.
FILES = {
    "en-us.lm.bin": "db21d0642286677699e6dbc859d2e5395570222361999387ce60f6e1d01995d6",
    "cmudict-en-us.dict": "20b5c293e1f311fb375fe067e500ec5636f4fc7af5594967263696def9b23bfe",
    "en-us/feat.params": "c982c5f75e2a30c34d2c9ef1f6b129a5a00e67e3e927565076b58664cc2404c9",
    "en-us/mdef": "2360f9a86889c1cfee8bd618a0269387911e5fb2920a594f506b18b8c79683b0",
    "en-us/means": "832019e32cac12eb318964f96f469034acb12d0348eeddc3831831a100cb4dd4",
    "en-us/noisedict": "7295b07df2c204c4f87c6782b6be1a3859d7006d4e3864181c955d6dab105a33",
    "en-us/sendump": "8c9564c0d5bef69ca9d9bf1014abe162f071644cf02cf1fa8a483c3dc165a7a8",
    "en-us/transition_matrices": "c1f7f28ea43177be734be1f88bd7f1b9a853d0e660f8599c67c6eaeca8bb539a",
    "en-us/variances": "b00d696f85e96834fc10f8e5f06428d8c4db6bffdbe5845b6f69bf6efbc48fa5",
}
_INSTALL = "pip install 'voiceveil[sphinx]'"
#: Samples in a frame of cepstra: 25.625 ms.
MIN_SAMPLES = 410


@dataclass(frozen=True)
class PocketSphinx(PiecewiseRecognizer):
    """PocketSphinx with its English model and all three passes of the decoder (tree, flat, lattice).

    Utterances longer than ``max_seconds`` are cut at pauses; on more than 327 s the decoder would end the process
    without an exception. ``hmms`` and ``words`` limit how many stay in the search at a frame.
    """

    max_seconds: float = 30.0
    hmms: int = 3000
    words: int = 20

    min_samples: ClassVar[int] = MIN_SAMPLES

    def fingerprint(self) -> str:
        """Return the version of the package, the hash of the model, the version (1) of this module, and the options."""
        model = hashlib.sha256("".join(FILES.values()).encode()).hexdigest()[:16]
        return f"pocketsphinx {_version()} {model} 1 {self.max_seconds} {self.hmms} {self.words}"

    def transcribe_piece(self, samples: Samples) -> str:
        """Return the transcript of a piece (n,), in lower case without punctuation."""
        pcm = to_int16(samples)
        if not pcm.any():  # on digital silence the decoder would return "mm"
            return ""
        decoder = _decoder(self.hmms, self.words)
        decoder.reinit_feat()  # resets the noise estimate
        decoder.start_utt()
        try:
            decoder.process_raw(pcm.astype("<i2").tobytes(), no_search=False, full_utt=True)
        finally:
            decoder.end_utt()
        hypothesis = decoder.hyp()
        return "" if hypothesis is None else str(hypothesis.hypstr)


@lru_cache(maxsize=2)
def _decoder(hmms: int, words: int) -> Any:
    import pocketsphinx

    folder = model_folder()
    return pocketsphinx.Decoder(
        hmm=str(folder / "en-us"),
        lm=str(folder / "en-us.lm.bin"),
        dict=str(folder / "cmudict-en-us.dict"),
        maxhmmpf=hmms,
        maxwpf=words,
        loglevel="FATAL",
    )


@lru_cache(maxsize=1)
def model_folder() -> Path:
    """Return the folder of the English model in the wheel, after checking the hashes of its files."""
    spec = importlib.util.find_spec("pocketsphinx")
    if spec is None or spec.origin is None:
        raise InputError("the package pocketsphinx is not installed", fix=_INSTALL)
    folder = Path(spec.origin).parent / "model" / "en-us"
    for name, expected in FILES.items():
        path = folder / name
        if not path.is_file() or sha256_file(path) != expected:
            fix = f"{_INSTALL} --force-reinstall"
            problem = "the file is missing, or differs from that of pocketsphinx 5.1.1"
            raise InputError(problem, where=path, fix=fix)
    return folder


def _version() -> str:
    try:
        return version("pocketsphinx")
    except PackageNotFoundError as error:
        raise InputError("the package pocketsphinx is not installed", fix=_INSTALL) from error


@recognizers.register("pocketsphinx")
def _pocketsphinx(model: str, *, online: bool = False) -> Recognizer:
    if model:
        raise InputError(f"pocketsphinx takes no model, but {model!r} is given", fix="write `pocketsphinx`")
    model_folder()  # an error now is better than one in a worker an hour later
    return PocketSphinx()
