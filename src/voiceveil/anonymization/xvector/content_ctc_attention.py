"""The encoder of a CTC/attention recogniser as content: M1 and M1c1 of VoicePrivacy 2020.

``ctc-attention:FOLDER`` names what `voiceveil train ctc-attention` (or ``ctc-attention-masked``) wrote; nothing ships.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.anonymization.xvector.content import FRAME, Content, contents
from voiceveil.audio import Waveform
from voiceveil.errors import InputError
from voiceveil.run.ledger import sha256_file
from voiceveil.utility.asr import check_audio

__all__ = ["CtcAttentionContent"]

KIND = "CTC/attention recogniser"


@dataclass(frozen=True)
class CtcAttentionContent:
    """The last layer of the encoder in ``file``, a vector every 40 ms."""

    file: Path

    rate: ClassVar[int] = 16000
    hop: ClassVar[float] = 4.0 * FRAME
    offset: ClassVar[float] = 2.0 * FRAME
    minimum: ClassVar[float] = 0.1

    def __post_init__(self) -> None:
        _ = self.dimension

    @property
    def dimension(self) -> int:
        """1,024 in the published size."""
        return int(self._loaded[1]["size"]["width"])

    def fingerprint(self) -> str:
        """The hash of the weights."""
        return f"content ctc-attention {sha256_file(self.file)} 1"

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """The layer (frames / 4, dimension)."""
        import torch

        from voiceveil.nn.recognition_data import hires_mfcc

        check_audio(wave, self.rate, round(self.minimum * self.rate))
        features = torch.from_numpy(hires_mfcc(wave.samples)[None])
        with torch.inference_mode():
            content = self._loaded[0].content(features, torch.tensor([features.shape[1]]))[0]
        return np.asarray(content.numpy(), dtype=np.float16)

    @property
    def _loaded(self) -> tuple[Any, dict[str, Any]]:
        return _load(self.file, self.file.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _load(file: Path, stamp: int) -> tuple[Any, dict[str, Any]]:
    from voiceveil.nn.checkpoint import load_network
    from voiceveil.nn.ctc_attention import CtcAttention

    return load_network(file, KIND, lambda record: CtcAttention(**record["size"]))


@contents.register("ctc-attention")
def _ctc_attention(folder: str) -> Content:
    file = Path(folder) / "model.safetensors" if Path(folder).is_dir() else Path(folder)
    if not folder or not file.is_file():
        what = "no trained recogniser here" if folder else "content features ctc-attention have no default weights"
        fix = "write ctc-attention:FOLDER, as `voiceveil train ctc-attention` wrote it"
        raise InputError(what, where=folder or None, fix=fix)
    return CtcAttentionContent(file)
