"""For those who write systems of their own, and for our own tests: conformance checks and synthetic voices."""

from __future__ import annotations

from voiceveil.testing.conformance import CheckResult, check_anonymizer
from voiceveil.testing.voices import synthetic_voice

__all__ = ["CheckResult", "check_anonymizer", "synthetic_voice"]
