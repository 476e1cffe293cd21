"""Pitch: F0 trackers, F0 on the frames of synthesis, and the pitch correlation of two corpora."""
