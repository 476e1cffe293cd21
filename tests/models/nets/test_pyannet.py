"""PyanNet with the weights of segmentation-3.0 against outputs of its published code."""

from __future__ import annotations

import numpy as np
import torch

from voiceveil.models.diarization.segmentation import FRAME_CENTER, FRAME_STEP, _network
from voiceveil.models.nets.pyannet import LOCAL_SPEAKERS, POWERSET

#: Every 20th frame of what pyannote.audio's code (with asteroid-filterbanks 0.4.0) makes of a second of noise.
OFFICIAL = [
    [-1.48110, -2.83218, -1.44460, -1.20519, -3.38303, -3.15325, -2.28674],
    [-1.44437, -3.07118, -1.15899, -1.40902, -3.44793, -3.54731, -2.31323],
    [-1.19163, -2.87919, -1.23699, -1.44054, -3.69513, -3.86568, -2.69940],
]


def test_outputs_equal_those_of_the_published_code() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 16000).astype(np.float32)
    with torch.inference_mode():
        output = _network()[0](torch.from_numpy(noise)[None])[0]
    np.testing.assert_allclose(output[::20].numpy(), OFFICIAL, atol=2e-4)


def test_sets_are_those_of_at_most_two_of_three_speakers() -> None:
    assert sorted(map(len, POWERSET)) == [0, 1, 1, 1, 2, 2, 2]
    assert {speaker for members in POWERSET for speaker in members} == set(range(LOCAL_SPEAKERS))
    assert _network()[1].sum(axis=1).tolist() == list(map(len, POWERSET))


def test_frames_are_where_the_constants_say() -> None:
    """An impulse moves the features of the frames whose centers are nearest to it."""
    network = _network()[0]
    samples = torch.zeros(1, 1, 16000)
    place = FRAME_CENTER + 20 * FRAME_STEP
    samples[0, 0, place] = 1.0
    with torch.inference_mode():
        features = network.sincnet.conv1d[0](samples).abs().sum(dim=1)[0]  # one output every ten samples
    assert abs(float(features.argmax()) * 10 + 125 - place) <= 130
    with torch.inference_mode():
        assert network(samples[0]).shape[1] == (16000 - 991) // FRAME_STEP + 1
