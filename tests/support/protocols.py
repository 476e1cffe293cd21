"""Protocols in miniature, for tests of evaluations."""

#: One dataset with enrollment and trials of women, for two metrics.
SMALL_PROTOCOL = """\
name = "small"
title = "A small protocol"
metrics = ["eer", "pitch_correlation"]
levels = { enroll = "utterance", trial = "utterance", train = "utterance" }
conditions = ["oo", "aa"]
scoring = "cosine"

[[verification]]
dataset = "libri_dev"
split = "dev"
enroll = "libri_dev_enrolls"
trials = [{ set = "libri_dev_trials_f", gender = "f" }]
"""
