"""Pitch: trackers of F0, contours on synthesis frames, the correlation of two contours."""
