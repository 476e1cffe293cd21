"""Diarization: who speaks when in a recording of several people."""
