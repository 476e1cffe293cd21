"""What is measured in a recording: an embedding of the voice, and content, a vector for each twentieth of a second.

Conventions: an embedding has shape (d,), a content (frames, k) at about 21 frames a second, float16 where it is kept.
A :class:`Measured` is one recording and knows nothing of any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from voiceveil.attack.embedding import embed
from voiceveil.audio import Waveform
from voiceveil.corpus.model import Utterance
from voiceveil.models.content.features import Content, content_features
from voiceveil.models.speaker.encoders import SpeakerEncoder
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

__all__ = ["CONTENT", "Measured", "PassphraseContent", "measure"]

#: The content features that a system has unless told otherwise.
CONTENT = "moonshine:3"
Frames = NDArray[np.float16]


@dataclass(frozen=True, eq=False)
class Measured:
    """A recording: the embedding (d,) of its voice and its content (frames, k); None if only the voice is needed."""

    voice: NDArray[np.float64]
    content: Frames | None = None


@dataclass(frozen=True)
class PassphraseContent:
    """Content features at half their frame rate, the mean of two frames: a passphrase is told by its sounds' order."""

    spec: str = CONTENT

    preload: ClassVar[tuple[str, ...]] = ("voiceveil.models.content.features",)

    @property
    def _inner(self) -> Content:
        return content_features(self.spec)

    @property
    def rate(self) -> int:
        """Hz."""
        return self._inner.rate

    @property
    def minimum(self) -> float:
        """Seconds: two frames."""
        return self._inner.minimum + self._inner.hop / self._inner.rate

    def fingerprint(self) -> str:
        """That of the features."""
        return f"tdsv content 1 {self._inner.fingerprint()}"

    def __call__(self, wave: Waveform) -> Frames:
        """The content (frames, k) of one recording."""
        frames: NDArray[Any] = self._inner(wave).astype(np.float32)
        pairs = frames[: len(frames) // 2 * 2].reshape(-1, 2, frames.shape[1])
        return np.asarray(pairs.mean(axis=1), dtype=np.float16)


def measure(
    utterances: Iterable[Utterance],
    encoder: SpeakerEncoder,
    content: str,
    *,
    voice_only: Iterable[str] = (),
    cache: Cache | None = None,
    jobs: int = 1,
    quiet: bool = True,
) -> Mapping[str, Measured]:
    """Utterance id -> what is measured in it; of those in ``voice_only`` (free text) no content is needed."""
    listed = list(utterances)
    skip = set(voice_only)
    context = RunContext(Cache(None) if cache is None else cache, jobs, quiet)
    voices = embed(listed, encoder, context)
    heard = [u for u in listed if u.id not in skip]
    contents = context.extract(heard, PassphraseContent(content))
    return {u.id: Measured(voices.vectors[voices.row[u.id]], contents.get(u.id)) for u in listed}
