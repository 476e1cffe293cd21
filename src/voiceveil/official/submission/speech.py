"""Checks of the audio of a submission, file by file: completeness, format and length.

Conventions: lengths in seconds. The plan asks for wav files of 16 kHz with the names of the corpus, and recommends
16-bit PCM, which the evaluation uses; other formats are faults here. Anonymization may change the length, by default
by a quarter or 0.2 s. No file is kept in memory or written.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from voiceveil.audio import info
from voiceveil.core.errors import InputError
from voiceveil.core.safe_archive import Member
from voiceveil.corpus import Corpus, Utterance
from voiceveil.evaluation.external_anonymization import RATE

__all__ = ["Speech", "WavForm", "read_wav"]

_PCM, _EXTENSIBLE = 1, 0xFFFE
_LONGEST_CHUNK = 1 << 20  # before the samples


@dataclass(frozen=True)
class WavForm:
    """Properties of a wav file: rate in Hz, channels, bits, seconds, hash of the file, and whether it is silent."""

    rate: int
    channels: int
    bits: int
    seconds: float
    sha256: str
    silent: bool

    def fault(self) -> str:
        """Return the fault of the format, or ""."""
        if self.rate != RATE:
            return f"{self.rate} Hz instead of {RATE} Hz"
        if self.bits != 16:
            return f"{self.bits} bits instead of 16"
        if self.channels != 1:
            return f"{self.channels} channels instead of one"
        return "empty" if not self.seconds else "silent" if self.silent else ""


def read_wav(member: Member) -> WavForm:
    """Read a wav file to its end; an ``InputError`` if it is none, or is cut off."""
    digest = hashlib.sha256()

    def take(size: int) -> bytes:
        data = member.read(size)
        digest.update(data)
        return data

    head = take(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        raise InputError("not a wav file")
    form: tuple[int, int, int, int] | None = None
    while True:
        chunk = take(8)
        if len(chunk) < 8:
            raise InputError("a wav file without samples")
        name, size = chunk[:4], int.from_bytes(chunk[4:], "little")
        if name == b"data":
            break
        if size > _LONGEST_CHUNK:
            raise InputError(f"a wav file with {size} bytes before its samples")
        body = take(size + size % 2)
        if name == b"fmt ":
            form = _form(body)
    if form is None:
        raise InputError("a wav file without a format header")
    rate, channels, bits, frame = form
    silent, left = True, size
    while left and (data := take(min(left, 1 << 16))):
        left -= len(data)
        silent = silent and not data.strip(b"\0")
    if left:
        raise InputError(f"truncated: {left} of {size} bytes are missing")
    for rest in iter(lambda: take(1 << 16), b""):
        del rest  # tags behind the samples
    return WavForm(rate, channels, bits, size // frame / rate, digest.hexdigest(), silent)


def _form(body: bytes) -> tuple[int, int, int, int]:
    """Return rate, channels, bits, and bytes per frame."""
    if len(body) < 16:
        raise InputError("a wav file with a truncated header")
    tag, channels, rate, _, frame, bits = struct.unpack("<HHIIHH", body[:16])
    if tag == _EXTENSIBLE and len(body) >= 26:
        tag = int.from_bytes(body[24:26], "little")
    if tag != _PCM:
        raise InputError("a wav file whose samples are not PCM")
    if not (rate and channels and bits and frame == channels * ((bits + 7) // 8)):
        raise InputError("a wav file with an invalid header")
    return rate, channels, bits, frame


@dataclass
class Speech:
    """The audio of one anonymized set, and its faults (member, reason)."""

    name: str
    original: Corpus
    tolerance: float
    formats: dict[str, WavForm] = field(default_factory=dict)
    member_of: dict[str, str] = field(default_factory=dict)  # utterance -> member
    faults: list[tuple[str, str]] = field(default_factory=list)

    def add(self, member: Member, utterance: str) -> None:
        """Read and check one more file."""
        if utterance not in self.original:
            self.faults.append((member.name, f"{utterance} is no utterance of {self.name}"))
            return
        if utterance in self.member_of:
            self.faults.append((member.name, f"{utterance} is there twice, also as {self.member_of[utterance]}"))
            return
        self.member_of[utterance] = member.name
        try:
            form = read_wav(member)
        except InputError as error:
            if error.where is not None:  # it is the archive that is wrong, not this file
                raise
            self.faults.append((member.name, error.what))
            return
        self.formats[utterance] = form
        fault = form.fault() or self._length_fault(self.original[utterance], form)
        if fault:
            self.faults.append((member.name, fault))

    def _length_fault(self, original: Utterance, form: WavForm) -> str:
        seconds = original.length or info(original.path).duration - original.start
        if abs(form.seconds - seconds) <= max(0.2, self.tolerance * seconds):
            return ""
        return f"{form.seconds:.2f} s long, the original has {seconds:.2f} s"

    @property
    def missing(self) -> list[str]:
        """Utterances without a file."""
        return [u.id for u in self.original if u.id not in self.member_of]

    @property
    def seconds(self) -> float:
        """Duration of all files in seconds."""
        return sum(form.seconds for form in self.formats.values())

    def compare(self, listed: Mapping[str, str]) -> None:
        """Compare with the hashes of the evaluated audio (member -> sha256), and add faults for swapped audio."""
        owner = {sha256: member for member, sha256 in listed.items()}
        for utterance, form in self.formats.items():
            member = self.member_of[utterance]
            if member not in listed:
                self.faults.append((member, "not listed among the audio that was evaluated"))
            elif form.sha256 != listed[member]:
                other = owner.get(form.sha256)
                fault = f"holds the audio of {other}" if other else "is not the audio that was evaluated"
                self.faults.append((member, fault))

    def repeated(self) -> None:
        """Add a fault for each utterance with the same audio as another."""
        first: dict[str, str] = {}
        for utterance, form in self.formats.items():
            other = first.setdefault(form.sha256, utterance)
            if other != utterance and not form.silent:
                self.faults.append((self.member_of[utterance], f"the same audio as {self.member_of[other]}"))
