"""Sets that were anonymized by other programs: find them, check them, and add the metadata of the original.

Conventions: the layout is that of the challenges, ``data/<set><suffix>/wav/<utterance>.wav``. The metadata of an
utterance (speaker, text, trials) come from the original set: an anonymized directory needs only the audio. If its
``wav.scp`` is missing, holds shell commands or names missing files, the ``.wav`` files below the directory are used by
their names, as by the scripts of 2024. Nothing is executed or written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from voiceveil.audio import info
from voiceveil.core.atomic_files import PART_PREFIX
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Fault
from voiceveil.corpus.folder import walk_files
from voiceveil.corpus.kaldi import assemble, read_tables

__all__ = ["RATE", "find_anonymized"]

RATE = 16000  # Hz, of all speech in the challenges
_RESUME = "its anonymization has not finished: run the same command again to its end"


def find_anonymized(originals: Mapping[str, Corpus], home: Path, suffix: str) -> dict[str, Corpus]:
    """Return set -> its anonymized speech, with the metadata of the original set.

    Parameters
    ----------
    originals
        Set -> its original speech.
    home
        Folder of the anonymized directories ``<set><suffix>``.
    suffix
        End of their names, not empty.

    Raises
    ------
    InputError
        If a set, an utterance or a header of an audio file is missing or wrong.
    """
    if not suffix:
        raise InputError("the suffix is empty", fix="give the end of the anonymized directories' names, e.g. _b2")
    anonymized = {}
    for name, original in originals.items():
        directory = home / f"{name}{suffix}"
        if not directory.is_dir():
            raise InputError("no anonymized set", where=directory, fix=_how_to_get(name, home))
        audio = _audio(directory)
        _compare(name, audio, originals, directory)
        _check_headers(audio, directory)
        spoken = tuple(replace(u, path=audio[u.id].resolve(), start=0.0, duration=None, seconds=None) for u in original)
        anonymized[name] = Corpus(directory.name, spoken, original.trials, "kaldi", directory)
    return anonymized


def _how_to_get(name: str, home: Path) -> str:
    """Return what to do about a set that is not there: other suffixes that are, or to anonymize it."""
    there = sorted(path.name.removeprefix(name) for path in home.glob(f"{name}_*") if path.is_dir())
    others = f"; with other suffixes there is {', '.join(there[:5])}" if there else ""
    return f"anonymize it: `voiceveil anonymize`{others}"


def _audio(directory: Path) -> dict[str, Path]:
    """Return utterance id -> file: by ``wav.scp`` if it can be used, else by the names of the files."""
    faults: list[Fault] = []
    if (directory / "wav.scp").exists():
        listed = assemble(read_tables(directory, faults.append), faults.append)
        if not faults and all(u.path.is_file() and not u.is_segment for u in listed):
            return {u.id: u.path for u in listed}
    audio: dict[str, Path] = {}
    for path in sorted(walk_files(directory, {".wav"})):
        if path.name.startswith(PART_PREFIX):
            continue
        if audio.setdefault(path.stem, path) is not path:
            problem = f"utterance {path.stem} is there twice: {audio[path.stem].relative_to(directory)}"
            raise InputError(problem, where=path, fix="remove one of them")
    if not audio:
        real = [fault for fault in faults if not fault.note]
        raise (
            real[0].error()
            if real
            else InputError("no audio", where=directory, fix=f"expected {directory.name}/wav/<utterance>.wav")
        )
    return audio


def _compare(name: str, audio: Mapping[str, Path], originals: Mapping[str, Corpus], directory: Path) -> None:
    """Raise an ``InputError`` unless the audio is that of exactly the utterances of the original set."""
    original = originals[name]
    lost = [u.id for u in original if u.id not in audio]
    strange = [key for key in audio if key not in original]
    home = next((other for other, corpus in originals.items() if strange and strange[0] in corpus), None)
    if home is not None:
        problem = f"{len(strange)} utterances are of {home}, not of {name}, e.g. {strange[0]}"
        raise InputError(problem, where=directory, fix="are the two sets swapped?")
    if lost:
        begun = (directory / ".voiceveil").is_dir() or any(directory.rglob(f"{PART_PREFIX}*"))
        problem = f"{len(lost)} of {len(original)} utterances are missing, e.g. {lost[0]}"
        raise InputError(problem, where=directory, fix=_RESUME if begun else "anonymize all of the original set")
    if strange:
        problem = f"{len(strange)} utterances are not in the original {name}, e.g. {strange[0]}"
        raise InputError(problem, where=directory, fix="remove them, or give the data they were made from")


def _check_headers(audio: Mapping[str, Path], directory: Path) -> None:
    """Raise an ``InputError`` unless all files are readable, complete, not empty, and have the challenge's rate."""
    for key, path in audio.items():
        try:
            header = info(path)
        except InputError as error:
            raise InputError(f"utterance {key} of {directory.name}: {error.what}", where=path, fix=error.fix) from error
        if header.rate != RATE:
            problem = f"utterance {key} of {directory.name} has {header.rate} Hz, not {RATE} Hz"
            raise InputError(problem, where=path, fix=f"resample the set: `voiceveil anonymize --rate {RATE}`, or sox")
        if header.frames == 0:
            raise InputError(f"utterance {key} of {directory.name} is empty", where=path, fix="anonymize it again")
