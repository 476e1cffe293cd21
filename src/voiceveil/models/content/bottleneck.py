"""Bottleneck features of a TDNN-F: the content of B1 in the challenges.

``bottleneck:FOLDER`` names what `voiceveil train tdnnf` wrote; nothing ships. Where the challenge's network has
i-vectors, ours has the embedding of CAM++, as in its training.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.recognition import check_audio
from voiceveil.models.content.features import FRAME, Content, contents
from voiceveil.models.speaker.encoders import encoder, l2_normalized
from voiceveil.run.ledger import sha256_file

__all__ = ["BottleneckContent"]

KIND = "TDNN-F"


@dataclass(frozen=True)
class BottleneckContent:
    """Layer ``prefinal-l`` of the TDNN-F in ``file``, a vector every 10 ms; ``speaker`` embeds the utterance."""

    file: Path
    speaker: str = "campplus"

    rate: ClassVar[int] = 16000
    hop: ClassVar[float] = float(FRAME)
    offset: ClassVar[float] = FRAME / 2
    minimum: ClassVar[float] = 0.1

    def __post_init__(self) -> None:
        theirs, ours = str(self._loaded[1]["parts"].get("speaker")), encoder(self.speaker).fingerprint()
        if theirs != ours:
            raise InputError(f"trained with another speaker encoder: {theirs!r}, not {ours!r}", where=self.file)

    @property
    def dimension(self) -> int:
        """256 in the challenges."""
        return int(self._loaded[1]["size"]["bottleneck"])

    def fingerprint(self) -> str:
        """Return the hash of the weights, and the encoder."""
        return f"content bottleneck {sha256_file(self.file)} 1 {encoder(self.speaker).fingerprint()}"

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the layer (frames, dimension)."""
        import torch

        from voiceveil.dsp.kaldi import hires_mfcc

        check_audio(wave, self.rate, round(self.minimum * self.rate))
        inputs = (hires_mfcc(wave.samples), l2_normalized(encoder(self.speaker)(wave)))
        with torch.inference_mode():
            hidden = self._loaded[0].bottleneck(*(torch.from_numpy(x[None]) for x in inputs))[0]
        return np.asarray(hidden.numpy(), dtype=np.float16)

    @property
    def _loaded(self) -> tuple[Any, dict[str, Any]]:
        return _load(self.file, self.file.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _load(file: Path, stamp: int) -> tuple[Any, dict[str, Any]]:
    from voiceveil.models.checkpoint import load_network
    from voiceveil.models.nets.tdnnf import Tdnnf

    return load_network(
        file, KIND, lambda record: Tdnnf(**{**record["size"], "strides": tuple(record["size"]["strides"])})
    )


@contents.register("bottleneck")
def _bottleneck(folder: str) -> Content:
    file = Path(folder) / "model.safetensors" if Path(folder).is_dir() else Path(folder)
    if not folder or not file.is_file():
        what = "no trained TDNN-F here" if folder else "content features bottleneck have no default weights"
        fix = "write bottleneck:FOLDER, as `voiceveil train tdnnf` wrote it"
        raise InputError(what, where=folder or None, fix=fix)
    return BottleneckContent(file)
