"""Anonymization while somebody speaks: block by block, with one pseudo-speaker for each session.

* :mod:`voiceveil.apps.live.session`: a system at work on endless speech, and what it costs
* :mod:`voiceveil.apps.live.pipes`: raw PCM from stdin to stdout
* :mod:`voiceveil.apps.live.devices`: from a microphone to a loudspeaker or a virtual device
* :mod:`voiceveil.apps.live.app`: a websocket, and a page that speaks with it
"""

from voiceveil.apps.live.session import Session, Timings, live_system

__all__ = ["Session", "Timings", "live_system"]
