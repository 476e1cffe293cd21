"""Anonymize real speech that comes with a dependency, and show what to do next.

Needs the extra `demo` (pip install 'voiceveil[demo]'); nothing is downloaded at run time.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
from pathlib import Path

from voiceveil.anonymization import anonymize
from voiceveil.audio import info
from voiceveil.errors import InputError

EXAMPLES = """\
examples:
  voiceveil demo                    into the folder voiceveil-demo
  voiceveil demo out --system d1
"""

# Readings of Dickens and Beckett inside the wheel of moonshine-voice.
_RECORDINGS = ("two_cities.wav", "beckett.wav", "endgame_nagg_nell.wav")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("output", nargs="?", type=Path, default=Path("voiceveil-demo"), help="default: voiceveil-demo")
    parser.add_argument("--system", default="b2", help="see `voiceveil systems` (default: b2)")
    parser.add_argument("--overwrite", action="store_true", help="start again where another demo left its results")


def run(args: argparse.Namespace) -> int:
    """Copy the recordings, anonymize them, say where they are."""
    original, anonymized = args.output / "original", args.output / "anonymized"
    original.mkdir(parents=True, exist_ok=True)
    for recording in _recordings():
        shutil.copyfile(recording, original / recording.name)
    summary = anonymize(original, anonymized, system=args.system, overwrite=args.overwrite)
    print(f"Anonymized {summary.done} recordings with {args.system}: {summary.audio_seconds:.0f} s of speech")
    print(f"in {summary.seconds:.1f} s. Listen to the two versions of each:\n")
    for name in _RECORDINGS:
        print(f"  {original / name}   ({info(original / name).duration:.0f} s)\n  {anonymized / name}\n")
    print(
        "Each got a pseudo-speaker from a random key that was not stored: run the demo again, and they differ.\n\n"
        "Next:\n"
        "  voiceveil systems                            which systems there are, and their parameters\n"
        "  voiceveil anonymize YOUR_FOLDER OUT          your own recordings\n"
        "  voiceveil corpus check DATA                  is a corpus fit for an evaluation?\n"
        "  voiceveil check b2                           what a system must hold to"
    )
    return 0


def _recordings() -> list[Path]:
    spec = importlib.util.find_spec("moonshine_voice")  # found, not imported: its microphone code needs more libraries
    if spec is None or spec.origin is None:
        raise InputError("the demo's recordings are not installed", fix="pip install 'voiceveil[demo]'")
    return [Path(spec.origin).parent / "assets" / name for name in _RECORDINGS]
