"""Simulated rooms: the image-source model equals a slow twin, and decays as its reverberation time says."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from voiceveil.dsp.rooms import SOUND, Room, high_pass, room_response

RATE = 8000


def slow_response(room: Room, rate: int, seconds: float) -> np.ndarray:
    """Every image by itself: the room is mirrored ``l``, ``m``, ``n`` times, with or without the source flipped."""
    response = np.zeros(math.ceil(seconds * rate))
    beta = math.sqrt(1 - room.absorption)
    most = 8
    for flips in itertools.product((0, 1), repeat=3):
        for turns in itertools.product(range(-most, most + 1), repeat=3):
            place = [
                (1 - 2 * flip) * source + 2 * turn * side
                for flip, source, turn, side in zip(flips, room.source, turns, room.size, strict=True)
            ]
            walls = sum(abs(turn - flip) + abs(turn) for flip, turn in zip(flips, turns, strict=True))
            distance = math.dist(place, room.microphone)
            sample = round(distance / SOUND * rate)
            if sample < len(response) and distance <= len(response) / rate * SOUND:
                response[sample] += beta**walls / (4 * math.pi * distance)
    return response


@pytest.mark.parametrize("absorption", [0.2, 0.7])
def test_response_equals_the_slow_twin(absorption: float) -> None:
    room = Room((3.1, 4.2, 2.5), absorption, (1.0, 1.3, 1.2), (2.2, 3.0, 1.7))
    expected = slow_response(room, RATE, 0.08)
    np.testing.assert_allclose(room_response(room, RATE, 0.08), expected, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(expected) > 100


def test_direct_sound_comes_first_with_the_inverse_distance() -> None:
    room = Room((6.0, 5.0, 3.1), 0.5, (1.0, 2.0, 1.2), (4.0, 2.0, 1.2))
    response = room_response(room, 16000)
    first = int(np.flatnonzero(response)[0])
    assert first == round(3.0 / SOUND * 16000)
    assert response[first] == pytest.approx(1 / (4 * math.pi * 3.0))
    assert first == int(np.argmax(response))


def test_energy_decays_within_the_reverberation_time() -> None:
    """Schroeder's integral, -5 to -25 dB, in a nearly cubic room: the slope agrees with Eyring's formula."""
    room = Room((4.1, 3.9, 3.8), 0.3, (1.0, 2.1, 1.5), (2.5, 1.0, 2.1))
    response = high_pass(room_response(room, 16000, 2 * room.reverberation_time), 16000)
    energy = np.cumsum(response[::-1] ** 2)[::-1]
    decay = 10 * np.log10(energy / energy[0])
    begin, end = (int(np.argmax(decay < level)) for level in (-5, -25))
    measured = 3 * (end - begin) / 16000
    assert measured == pytest.approx(room.reverberation_time, rel=0.1)
    assert room.reverberation_time == pytest.approx(0.161 * 60.762 / (-92.78 * math.log(0.7)), rel=0.01)
