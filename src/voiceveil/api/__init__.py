"""The functions behind ``import voiceveil as vv``; the command line is a shell over the same functions."""

from __future__ import annotations

from voiceveil.api.comparing import Comparison, compare
from voiceveil.api.recordings import save
from voiceveil.api.transcripts import Transcripts, transcribe

__all__ = ["Comparison", "Transcripts", "compare", "save", "transcribe"]
