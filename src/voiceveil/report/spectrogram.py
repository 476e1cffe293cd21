"""Spectrograms as PNG images, for pages: dark where there is much energy, up to 8 kHz, 70 dB deep.

Conventions: samples at 16 kHz; frames of 25 ms every 10 ms, joined to at most ``width`` columns; low frequencies at the
bottom. The level is relative to the loudest frame, so that two recordings of different levels look alike.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from voiceveil.audio import Samples

__all__ = ["png", "spectrogram", "spectrogram_address"]

_RATE, _FRAME, _HOP = 16000, 400, 160
_ROWS = 128
_DEPTH = 70.0  # dB


def spectrogram(samples: Samples, width: int = 640) -> NDArray[np.uint8]:
    """Return gray values, 255 (silence) to 0, of shape (128, columns) with at most ``width`` columns."""
    padded = np.pad(samples, (0, max(0, _FRAME - len(samples))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FRAME)[::_HOP]
    power = np.abs(np.fft.rfft(frames * np.hanning(_FRAME), n=512)) ** 2  # (frames, 257)
    bands = power[:, 1:].reshape(len(power), _ROWS, -1).mean(axis=2)
    columns = np.array([part.mean(axis=0) for part in np.array_split(bands, min(width, len(bands)))])
    level = 10 * np.log10(columns + 1e-12)
    depth = np.clip((level.max() - level) / _DEPTH, 0.0, 1.0)
    gray: NDArray[np.uint8] = np.round(255 * depth).astype(np.uint8).T[::-1]
    return gray


def png(gray: NDArray[np.uint8]) -> bytes:
    """Return an image (height, width) of gray values as a PNG file (ISO/IEC 15948), 8 bits a pixel."""
    height, width = gray.shape
    rows = b"".join(b"\x00" + row.tobytes() for row in gray)  # filter type 0: none

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def spectrogram_address(samples: Samples) -> str:
    """Return the spectrogram of samples at 16 kHz as a ``data:`` address."""
    return f"data:image/png;base64,{base64.b64encode(png(spectrogram(samples))).decode()}"
