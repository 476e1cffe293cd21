"""Writer of a designed challenge: joined recordings, lists, keys.

Conventions: 16 kHz, one channel, 16 bits, peak at half of full scale, so that loudness tells nothing. Utterances are
joined without a gap, faded over 5 ms: single words have pauses of their own. The folder gets its name when it is
complete.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from voiceveil.audio import Samples, Waveform, load, save
from voiceveil.core.atomic_files import PART_PREFIX
from voiceveil.core.errors import InputError, OutputError
from voiceveil.corpus.lines import write_lines
from voiceveil.run.local import run_items
from voiceveil.run.progress import Progress
from voiceveil.tdsv.challenge_design import ChallengeDesign, PlannedRecording
from voiceveil.tdsv.lists import write_keys, write_labels, write_models, write_trials

__all__ = ["join", "write_challenge"]

RATE = 16000
_FADE = RATE // 200
_PEAK = 0.5
_README = """\
A challenge of text-dependent speaker verification, task {task}, in the layout of the TdSV Challenge 2024.
It was made by `voiceveil tdsv make` from {source}; it is not the data of that challenge.

docs/*_keys.txt has the truth about each trial; docs/phrases.txt has what the passphrases say.
"""


def join(parts: list[Samples]) -> Waveform:
    """Return one recording of several, at 16 kHz, with its peak at half of full scale."""
    ramp = np.linspace(0.0, 1.0, _FADE, dtype=np.float32)
    pieces = []
    for part in parts:
        piece = part.copy()
        if len(piece) >= 2 * _FADE:
            piece[:_FADE] *= ramp
            piece[-_FADE:] *= ramp[::-1]
        pieces.append(piece)
    samples = np.concatenate(pieces)
    highest = float(np.abs(samples).max(initial=0.0))
    if highest == 0.0:
        raise InputError("an empty or silent recording")
    return Waveform(samples * np.float32(_PEAK / highest), RATE)


def write_challenge(
    design: ChallengeDesign, out: str | Path, *, source: str = "a corpus", jobs: int = 1, quiet: bool = True
) -> Path:
    """Write a challenge, and return its folder.

    Parameters
    ----------
    design
        Lists and recordings.
    out
        A folder that is new or empty.
    source
        Name of the corpus, for the README.
    jobs, quiet
        Number of processes; show no progress.
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("the folder exists and is not empty", where=out, fix="remove it, or name another folder")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=PART_PREFIX, dir=out.parent))
        folder.chmod(0o755)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", where=out) from error
    try:
        _write_audio(design, folder, jobs, quiet)
        _write_lists(design, folder, source)
        if out.exists():
            out.rmdir()
        folder.replace(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return out


def _write_audio(design: ChallengeDesign, folder: Path, jobs: int, quiet: bool) -> None:
    """Write all recordings, speaker by speaker, so that each part is decoded about once."""
    by_speaker: dict[str, list[tuple[Path, PlannedRecording]]] = {}
    parts: dict[str, Mapping[str, PlannedRecording]] = {
        "train": design.train, "enrollment": design.enrollment, "evaluation": design.evaluation
    }  # fmt: skip
    for part, files in parts.items():
        for file, content in files.items():
            path = folder / "wav" / part / f"{file}.wav"
            by_speaker.setdefault(content.speaker, []).append((path, content))
    total = sum(map(len, by_speaker.values()))
    with Progress("writing recordings", total, quiet=quiet) as progress:
        for items, result in run_items(_write_speaker, list(by_speaker.values()), jobs=jobs):
            if isinstance(result, Exception):
                raise result
            for _ in items:
                progress.advance(audio=result / len(items))


def _write_speaker(items: list[tuple[Path, PlannedRecording]]) -> float:
    """Write the recordings of a speaker, and return their duration in seconds."""

    @cache  # of this speaker alone
    def samples(path: Path, start: float, duration: float | None) -> Samples:
        return load(path, rate=RATE, start=start, duration=duration).samples

    seconds = 0.0
    for path, content in items:
        try:
            wave = join([samples(u.path, u.start, u.duration) for u in content.parts])
        except InputError as error:
            raise InputError(error.what, where=error.where or content.parts[0].path, fix=error.fix) from error
        save(path, wave)
        seconds += wave.duration
    return seconds


def _write_lists(design: ChallengeDesign, folder: Path, source: str) -> None:
    docs = folder / "docs"
    write_labels(docs / "train_labels.txt", design.labels)
    for subset, models in design.models.items():
        write_models(docs / f"{subset}_model_enrollment.txt", models)
        write_trials(docs / f"{subset}_trials.txt", design.trials(subset))
        write_keys(docs / f"{subset}_keys.txt", design.keys[subset])
    rows = [f"{p.id} {design.plan.language or '-'} {p.text}" for p in design.passphrases]
    write_lines(docs / "phrases.txt", ["phrase-id language text", *rows])
    write_lines(folder / "README.txt", _README.format(task=design.plan.task, source=source).splitlines())
