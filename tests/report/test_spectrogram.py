"""Spectrograms: the tone is where it belongs, and the PNG is what the standard says."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from voiceveil.report.spectrogram import png, spectrogram


def test_tone_is_a_dark_line_at_its_frequency() -> None:
    tone = np.sin(2 * np.pi * 2000 * np.arange(16000) / 16000).astype(np.float32)
    gray = spectrogram(tone, width=50)
    assert gray.shape == (128, 50)
    darkest = gray.mean(axis=1).argmin()
    assert abs((128 - darkest) * 8000 / 128 - 2000) < 100  # the lowest row is the lowest frequency


def test_short_and_silent_recordings_have_a_picture() -> None:
    assert spectrogram(np.zeros(10, dtype=np.float32)).shape == (128, 1)


def test_png_decodes_to_the_same_pixels() -> None:
    gray = np.arange(12, dtype=np.uint8).reshape(3, 4)
    data = png(gray)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    position, chunks = 8, {}
    while position < len(data):
        (length,) = struct.unpack(">I", data[position : position + 4])
        kind, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        assert struct.unpack(">I", data[position + 8 + length : position + 12 + length]) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        position += 12 + length
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (4, 3, 8, 0, 0, 0, 0)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(3, 5)
    assert (rows[:, 0] == 0).all()
    assert (rows[:, 1:] == gray).all()
