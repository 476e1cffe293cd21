"""The encoder of a CTC/attention recogniser as content: M1 and M1c1 of VoicePrivacy 2020.

``ctc-attention`` and ``ctc-attention-masked`` are those that ship; with ``:FOLDER``, what `voiceveil train` wrote.
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
from voiceveil.models.content.features import FRAME, Content, content_features, contents
from voiceveil.models.weights import store
from voiceveil.run.ledger import sha256_file

__all__ = ["CtcAttentionContent"]

KIND = "CTC/attention recogniser"


@dataclass(frozen=True)
class CtcAttentionContent:
    """The last layer of the encoder in ``file``: a vector every 40 ms, or for each of the features that it hears."""

    file: Path

    rate: ClassVar[int] = 16000

    def __post_init__(self) -> None:
        heard, theirs = self._heard, self._parts.get("heard")
        if heard is not None and heard.fingerprint() != theirs:
            what = f"trained on other content features: {theirs!r}, not {heard.fingerprint()!r}"
            raise InputError(what, where=self.file, fix="train it again")

    @property
    def dimension(self) -> int:
        """1,024 in the published size."""
        return int(self._loaded[1]["size"]["width"])

    @property
    def hop(self) -> float:
        """640 samples with MFCC."""
        return 4.0 * FRAME if self._heard is None else self._heard.hop

    @property
    def offset(self) -> float:
        """The middle of what the first vector is made of."""
        return 2.0 * FRAME if self._heard is None else self._heard.offset

    @property
    def minimum(self) -> float:
        """Seconds."""
        return 0.1 if self._heard is None else self._heard.minimum

    @property
    def imitates(self) -> str | None:
        """The fingerprint of its teacher, whose decoders know this content."""
        found = self._parts.get("teacher")
        return None if found is None else str(found)

    def fingerprint(self) -> str:
        """Return the hash of the weights, which hold the fingerprint of what they hear."""
        return f"content ctc-attention {sha256_file(self.file)} 1"

    def __call__(self, wave: Waveform) -> NDArray[np.float16]:
        """Return the layer (frames, dimension)."""
        import torch

        from voiceveil.dsp.kaldi import hires_mfcc

        check_audio(wave, self.rate, round(self.minimum * self.rate))
        heard = hires_mfcc(wave.samples) if self._heard is None else self._heard(wave).astype(np.float32)
        with torch.inference_mode():
            content = self._loaded[0].content(torch.from_numpy(heard[None]), torch.tensor([len(heard)]))[0]
        return np.asarray(content.numpy(), dtype=np.float16)

    @property
    def _heard(self) -> Content | None:
        """The content features that it stands on; None for MFCC."""
        name = self._parts.get("hears")
        return None if name is None else content_features(str(name))

    @property
    def _parts(self) -> dict[str, Any]:
        return dict(self._loaded[1]["parts"])

    @property
    def _loaded(self) -> tuple[Any, dict[str, Any]]:
        return _load(self.file, self.file.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _load(file: Path, stamp: int) -> tuple[Any, dict[str, Any]]:
    from voiceveil.models.checkpoint import load_network
    from voiceveil.models.nets.ctc_attention import CtcAttention

    return load_network(file, KIND, lambda record: CtcAttention(**record["size"]))


@contents.register("ctc-attention")
def _ctc_attention(folder: str) -> Content:
    return _in(folder) if folder else CtcAttentionContent(store.path("m1"))


@contents.register("ctc-attention-masked")
def _ctc_attention_masked(folder: str) -> Content:
    return _in(folder) if folder else CtcAttentionContent(store.path("m1c1"))


def _in(folder: str) -> Content:
    file = Path(folder) / "model.safetensors" if Path(folder).is_dir() else Path(folder)
    if not file.is_file():
        fix = "give the folder that `voiceveil train ctc-attention` wrote"
        raise InputError("no trained recognizer here", where=folder, fix=fix)
    return CtcAttentionContent(file)
