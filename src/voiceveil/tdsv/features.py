"""Features of a recording: an embedding of the voice, and its content, a vector for about each twentieth of a second.

Conventions: an embedding has shape (d,), a content (frames, k) at about 21 frames per second, float16 in the cache.
:class:`RecordingFeatures` depend on one recording alone.
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
from voiceveil.models.content.features import ContentEncoder, content_encoder
from voiceveil.models.speaker.encoders import SpeakerEncoder
from voiceveil.run.context import RunContext

__all__ = ["CONTENT", "PassphraseContent", "RecordingFeatures", "extract_features"]

#: Default content features.
CONTENT = "moonshine:3"
Frames = NDArray[np.float16]


@dataclass(frozen=True, eq=False)
class RecordingFeatures:
    """Features of a recording: the embedding (d,) of its voice, and its content (frames, k), or None if not needed."""

    voice: NDArray[np.float64]
    content: Frames | None = None


@dataclass(frozen=True)
class PassphraseContent:
    """Content features at half their frame rate, means of two frames: the order of sounds identifies a passphrase."""

    spec: str = CONTENT

    preload: ClassVar[tuple[str, ...]] = ("voiceveil.models.content.features",)

    @property
    def _inner(self) -> ContentEncoder:
        return content_encoder(self.spec)

    @property
    def rate(self) -> int:
        """Sampling rate in Hz."""
        return self._inner.rate

    @property
    def minimum(self) -> float:
        """Shortest recording in seconds: two frames."""
        return self._inner.minimum + self._inner.hop / self._inner.rate

    def fingerprint(self) -> str:
        """Return the fingerprint of the content features."""
        return f"tdsv content 1 {self._inner.fingerprint()}"

    def __call__(self, wave: Waveform) -> Frames:
        """Return the content of one recording, shape (frames, k), float16."""
        frames: NDArray[Any] = self._inner(wave).astype(np.float32)
        pairs = frames[: len(frames) // 2 * 2].reshape(-1, 2, frames.shape[1])
        return np.asarray(pairs.mean(axis=1), dtype=np.float16)


def extract_features(
    utterances: Iterable[Utterance],
    encoder: SpeakerEncoder,
    content: str,
    *,
    voice_only: Iterable[str] = (),
    context: RunContext | None = None,
) -> Mapping[str, RecordingFeatures]:
    """Return utterance id -> features.

    Parameters
    ----------
    utterances : iterable of Utterance
        The recordings.
    encoder : SpeakerEncoder
        Computes embeddings.
    content : str
        Name of the content features.
    voice_only : iterable of str
        Ids of recordings, of free text, whose content is not needed.
    context : RunContext, optional
        Cache, processes and progress.
    """
    recordings = list(utterances)
    skip = set(voice_only)
    context = context or RunContext()
    voices = embed(recordings, encoder, context)
    contents = context.extract([u for u in recordings if u.id not in skip], PassphraseContent(content))
    return {u.id: RecordingFeatures(voices.vectors[voices.row[u.id]], contents.get(u.id)) for u in recordings}
