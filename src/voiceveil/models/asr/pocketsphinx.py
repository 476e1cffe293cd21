"""A second embedded recognizer: PocketSphinx (Huggins-Daines et al. 2006) with its English model, BSD licence.

It shares nothing with Moonshine: Gaussian mixtures on cepstra, a dictionary of 134,000 pronunciations and a trigram
language model, trained before speech recognition went neural. Its word error rate is several times as high. What it is
for is a second opinion: a system that is made from Moonshine's features may please Moonshine more than it should.

Model and decoder come inside the wheel of ``pocketsphinx``; nothing is fetched. Each utterance is decoded as if it were
the first: cepstra are normalized over the utterance, and the estimate of the noise, which the decoder would carry over
from one utterance to the next, is forgotten. So transcripts depend neither on the order nor on the number of processes.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from voiceveil.audio import Samples, Waveform, to_int16
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import Recognizer, check_audio, recognizers
from voiceveil.models.asr.segmentation import heard_in_pieces
from voiceveil.run.ledger import sha256_file

__all__ = ["PocketSphinx", "model_folder"]

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
#: Samples of one frame of cepstra: 25.625 ms.
_FEWEST = 410


@dataclass(frozen=True)
class PocketSphinx:
    """PocketSphinx with its English model: the three passes of the decoder (tree, flat, lattice).

    ``longest``: seconds of a piece; longer utterances are cut at pauses (the decoder ends the process, without an
    exception, on more than 327 s). ``hmms`` and ``words``: the most that stay in the search at a frame.
    """

    longest: float = 30.0
    hmms: int = 3000
    words: int = 20

    @property
    def rate(self) -> int:
        """16 kHz."""
        return 16000

    @property
    def minimum(self) -> float:
        """26 ms: one frame."""
        return _FEWEST / self.rate

    def fingerprint(self) -> str:
        """Return the decoder's version, the model's hash and the options; the 1 is the version of the decoding here."""
        model = hashlib.sha256("".join(FILES.values()).encode()).hexdigest()[:16]
        return f"pocketsphinx {_version()} {model} 1 {self.longest} {self.hmms} {self.words}"

    def __call__(self, wave: Waveform) -> str:
        """Return the transcript, in small letters without punctuation."""
        check_audio(wave, self.rate, _FEWEST)
        return heard_in_pieces(wave, self.longest, self._piece)

    def _piece(self, samples: Samples) -> str:
        pcm = to_int16(samples)
        if not pcm.any():  # nothing at all; asked about it, the decoder hears "mm"
            return ""
        decoder = _decoder(self.hmms, self.words)
        decoder.reinit_feat()  # a new front end: it has heard no noise yet
        decoder.start_utt()
        try:
            decoder.process_raw(pcm.astype("<i2").tobytes(), no_search=False, full_utt=True)
        finally:
            decoder.end_utt()
        best = decoder.hyp()
        return "" if best is None else str(best.hypstr)


@lru_cache(maxsize=2)
def _decoder(hmms: int, words: int) -> Any:
    import pocketsphinx

    home = model_folder()
    return pocketsphinx.Decoder(
        hmm=str(home / "en-us"),
        lm=str(home / "en-us.lm.bin"),
        dict=str(home / "cmudict-en-us.dict"),
        maxhmmpf=hmms,
        maxwpf=words,
        loglevel="FATAL",
    )


@lru_cache(maxsize=1)
def model_folder() -> Path:
    """Return the folder of the English model in the wheel, its files checked."""
    spec = importlib.util.find_spec("pocketsphinx")
    if spec is None or spec.origin is None:
        raise InputError("the package pocketsphinx is not installed", fix=_INSTALL)
    home = Path(spec.origin).parent / "model" / "en-us"
    for name, expected in FILES.items():
        path = home / name
        if not path.is_file() or sha256_file(path) != expected:
            fix = f"{_INSTALL} --force-reinstall"
            raise InputError("not the file of pocketsphinx 5.1.1 that the figures hold for", where=path, fix=fix)
    return home


def _version() -> str:
    try:
        return version("pocketsphinx")
    except PackageNotFoundError as error:
        raise InputError("the package pocketsphinx is not installed", fix=_INSTALL) from error


@recognizers.register("pocketsphinx")
def _pocketsphinx(model: str, *, online: bool = False) -> Recognizer:
    if model:
        raise InputError(f"pocketsphinx takes no model, but {model!r} is given", fix="use `pocketsphinx` alone")
    model_folder()  # now, and not after an hour in a worker
    return PocketSphinx()
