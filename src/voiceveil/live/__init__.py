"""Anonymization while somebody speaks: block by block, with one pseudo-speaker for each session.

* :mod:`voiceveil.live.session`: a system at work on endless speech, and what it costs
* :mod:`voiceveil.live.pipes`: raw PCM from stdin to stdout
* :mod:`voiceveil.live.devices`: from a microphone to a loudspeaker or a virtual device
* :mod:`voiceveil.live.app`: a websocket, and a page that speaks with it
"""

from voiceveil.live.session import Session, Timings, live_system

__all__ = ["Session", "Timings", "live_system"]
