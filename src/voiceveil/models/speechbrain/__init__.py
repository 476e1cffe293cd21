"""Evaluators of the VoicePrivacy 2024 Challenge, read as SpeechBrain 0.5.16 left them on a participant's disk.

``speechbrain:FOLDER`` names a speaker encoder (``exp/asv_orig``, ``exp/asv_anon*``), a speech recognizer (``exp/asr``)
or an emotion recognizer (``exp/ser``). It computes what the challenge's code computes, with its bugs;
``speechbrain-correct:FOLDER`` leaves them out:

=================== ===================================================== ============================================
evaluator           ``speechbrain``                                       ``speechbrain-correct``
=================== ===================================================== ============================================
speaker encoder     last epoch                                            epoch with the fewest development errors
speech recognizer   batches of eight, zero-padded, nothing masked: the    each utterance by itself
                    words depend on the other utterances of the set
word errors         two spaces in a row are one inserted word             white space separates words
emotion recognizer  random noise of 1e-5 to 9e-5 in the mean pooling      no noise
                    (here with a fixed seed)
UAR                 over the labels that were stated or recognized        over the labels that were stated
=================== ===================================================== ============================================

Neither SpeechBrain nor HyperPyYAML is used: weights are read with ``weights_only``, YAML tags are data, and code in a
folder is never run.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["Mode"]

#: ``official``: what the challenge's code computes. ``correct``: the same without its bugs.
Mode = Literal["official", "correct"]
