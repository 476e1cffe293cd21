"""Impulse responses of simulated rooms: the image-source model of Allen and Berkley (1979).

Conventions: a shoebox room with a corner at the origin; lengths in meters, times in seconds, responses at ``rate`` Hz
from the time when the source emits. All walls absorb the same share ``absorption`` of the energy, at all frequencies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SOUND", "Room", "high_pass", "room_response"]

#: Speed of sound, m/s.
SOUND = 343.0

Point = tuple[float, float, float]


@dataclass(frozen=True)
class Room:
    """A room: its size, the absorption of its walls (0 to 1), and the places of source and microphone."""

    size: Point
    absorption: float
    source: Point
    microphone: Point

    @property
    def reverberation_time(self) -> float:
        """Seconds in which the energy falls by 60 dB (Eyring)."""
        x, y, z = self.size
        surface = 2.0 * (x * y + y * z + z * x)
        return 24.0 * math.log(10.0) / SOUND * x * y * z / (-surface * math.log(1.0 - self.absorption))


def room_response(room: Room, rate: int, seconds: float | None = None) -> NDArray[np.float64]:
    """Return the impulse response (samples,) from the source to the microphone of a room.

    An image whose sound was reflected ``k`` times and travels the distance ``d`` adds ``beta^k / (4 pi d)`` to the
    sample nearest to the time ``d / c`` (Allen and Berkley 1979), where ``beta`` is the square root of the share of the
    energy that a wall reflects.

    Parameters
    ----------
    room
        The room.
    rate
        Sampling rate in Hz.
    seconds
        Length of the response (default: the reverberation time of the room).
    """
    length = max(1, math.ceil((room.reverberation_time if seconds is None else seconds) * rate))
    farthest = length / rate * SOUND
    beta = math.sqrt(1.0 - room.absorption)
    offsets, bounces = zip(
        *(_images(size, source, place, farthest)
          for size, source, place in zip(room.size, room.source, room.microphone, strict=True)),
        strict=True,
    )  # fmt: skip
    response = np.zeros(length)
    flat = np.add.outer(offsets[1] ** 2, offsets[2] ** 2)
    flat_bounces = np.add.outer(bounces[1], bounces[2])
    for offset, bounce in zip(offsets[0], bounces[0], strict=True):  # one slice of the images at a time
        near = flat <= farthest**2 - offset**2
        distance = np.sqrt(flat[near] + offset**2)
        sample = np.rint(distance / SOUND * rate).astype(np.int64)
        strength = beta ** (flat_bounces[near] + bounce) / (4.0 * math.pi * np.maximum(distance, 1e-3))
        inside = sample < length
        np.add.at(response, sample[inside], strength[inside])
    return response


def high_pass(response: NDArray[np.float64], rate: int) -> NDArray[np.float64]:
    """Return a response (samples,) without frequencies below 100 Hz.

    All images add with the same sign, so that low frequencies decay too slowly: Allen and Berkley remove them as well.
    """
    from scipy.signal import butter, sosfilt

    filtered: NDArray[np.float64] = sosfilt(butter(2, 100.0, "highpass", fs=rate, output="sos"), response)
    return filtered


def _images(size: float, source: float, place: float, farthest: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the distances along one axis of all images that are near enough, and how often each was reflected."""
    most = math.ceil(farthest / (2.0 * size)) + 1
    turns = np.arange(-most, most + 1)
    same = source + 2.0 * size * turns - place
    mirrored = -source + 2.0 * size * turns - place
    offsets = np.concatenate([same, mirrored])
    bounces = np.concatenate([np.abs(2 * turns), np.abs(2 * turns - 1)])
    near = np.abs(offsets) <= farthest
    return offsets[near], bounces[near]
