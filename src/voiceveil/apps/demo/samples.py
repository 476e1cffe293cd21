"""Recordings of the demo corpus to listen to, before and after anonymization."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.core.atomic_files import atomic_path
from voiceveil.corpus import open_corpus
from voiceveil.run.outputs import recorded
from voiceveil.systems import anonymize

__all__ = ["write_samples"]

_SPEAKERS = 2  # of each gender


def write_samples(output: Path, systems: Sequence[str], *, overwrite: bool = False) -> list[tuple[Path, ...]]:
    """Copy recordings of two women and two men, and anonymize them with each system.

    Parameters
    ----------
    output
        Folder; the originals go into ``original``, the others into a folder named after their system, as WAV.
    systems
        Names of systems.
    overwrite
        Replace files that exist, and draw other pseudo-speakers.

    Returns
    -------
    list of tuple of Path
        For each recording the original, then its version by each system.
    """
    original = output / "original"
    copies = {original / path.name: path for path in _recordings()}
    with recorded(output, None, lambda: copies, overwrite=overwrite):
        for copy, recording in copies.items():
            if overwrite or not copy.exists():
                with atomic_path(copy) as part:
                    shutil.copyfile(recording, part)
    for name in systems:
        anonymize(original, output / name, system=name, format="wav", overwrite=overwrite)
    return [(copy, *(output / name / f"{copy.stem}.wav" for name in systems)) for copy in copies]


def _recordings() -> list[Path]:
    """Return one recording of each speaker."""
    files = []
    for gender in "fm":
        by_speaker = {u.speaker: u.path for u in open_corpus(SPEECH / f"demo_trials_{gender}")}
        files += list(by_speaker.values())[:_SPEAKERS]
    return files
