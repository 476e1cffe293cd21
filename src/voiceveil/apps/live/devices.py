"""From a microphone to a loudspeaker, or to a virtual device that a conference hears (PortAudio, by sounddevice).

Conventions: 16 kHz, mono, float32. A block is handed over and fetched at once; when the machine was too slow for that
the driver says so, and such blocks are counted as dropped.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

from voiceveil.apps.live.session import Session
from voiceveil.audio import Samples
from voiceveil.core.errors import InputError

__all__ = ["Callback", "list_devices", "run_devices"]


class Callback:
    """Convert blocks of audio; the driver calls it in a thread of its own."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.dropped = 0
        self.error: Exception | None = None
        self.ended = threading.Event()

    def __call__(self, indata: Samples, outdata: Samples, frames: int, when: object, status: Any) -> None:
        """Convert a block: arrays of shape (frames, 1)."""
        self.dropped += bool(status)
        try:
            outdata[:, 0] = self._session.exchange(indata[:, 0].copy())
        except Exception as error:  # it would vanish in the driver's thread
            outdata.fill(0)
            self.error = error
            self.ended.set()


def run_devices(session: Session, source: str | None, sink: str | None, *, block: int) -> int:
    """Convert from a microphone to a loudspeaker until Ctrl-C.

    Parameters
    ----------
    session
        The session that converts.
    source, sink
        Number of a device or a part of its name; None for the default device.
    block
        Block size in samples.

    Returns
    -------
    int
        The number of blocks that were dropped because the machine was too slow.
    """
    sounddevice = _sounddevice()
    callback = Callback(session)
    devices = [int(name) if name is not None and name.isdigit() else name for name in (source, sink)]
    try:
        stream = sounddevice.Stream(
            samplerate=session.rate,
            blocksize=block,
            device=devices,
            channels=1,
            dtype="float32",
            latency="low",
            callback=callback,
        )
        with stream:
            callback.ended.wait()
    except (ValueError, sounddevice.PortAudioError) as error:
        raise InputError(f"cannot use the devices: {error}", fix="see `voiceveil live --devices`") from error
    except KeyboardInterrupt:  # the usual end
        pass
    if callback.error is not None:
        raise callback.error
    return callback.dropped


def list_devices() -> str:
    """Return a table of the audio devices of this machine."""
    return str(_sounddevice().query_devices()) or "no audio devices"


def _sounddevice() -> Any:
    # PortAudio may abort the process that loads it, as where ALSA's own files are missing: another one tries first.
    if subprocess.run([sys.executable, "-P", "-c", "import sounddevice"], capture_output=True).returncode < 0:
        raise InputError("the sound system of this machine does not start", fix="apt install libasound2-data")
    try:
        import sounddevice
    except ImportError as error:
        raise InputError("sounddevice is not installed", fix="pip install 'voiceveil[live]'") from error
    except OSError as error:
        fix = "install it: apt install libportaudio2"
        raise InputError(f"no sound system: {error}", fix=fix) from error
    return sounddevice
