"""Sets that somebody else has anonymized: found, checked, and given the metadata of the original.

Conventions: the layout is the challenges', ``data/<set><suffix>/wav/<utterance>.wav``. All that is known of an
utterance (speaker, text, trials) comes from the original set: an anonymized directory need only have the audio. A
``wav.scp`` that is missing, holds shell commands, or names files that are not there is made anew from the ``.wav``
files below the directory, by their names, as the scripts of 2024 do. Nothing is executed, and nothing is written here.
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
_GO_ON = "its anonymization has not finished: run the same command again to its end"


def find_anonymized(originals: Mapping[str, Corpus], home: Path, suffix: str) -> dict[str, Corpus]:
    """Set -> its anonymized speech in ``home/<set><suffix>``; every fault is found before any work begins."""
    if not suffix:
        raise InputError("an empty suffix", fix="give the end of the anonymized directories' names, e.g. _b2")
    found = {}
    for name, original in originals.items():
        directory = home / f"{name}{suffix}"
        if not directory.is_dir():
            raise InputError("no anonymized set", where=directory, fix="anonymize it: `voiceveil anonymize`")
        audio = _audio(directory)
        _compare(name, audio, originals, directory)
        _check_headers(audio, directory)
        spoken = tuple(replace(u, path=audio[u.id].resolve(), start=0.0, duration=None, seconds=None) for u in original)
        found[name] = Corpus(directory.name, spoken, original.trials, "kaldi", directory)
    return found


def _audio(directory: Path) -> dict[str, Path]:
    """Utterance -> file: by ``wav.scp`` if it can be used, else by the names of the files."""
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
            what = f"utterance {path.stem} is there twice: {audio[path.stem].relative_to(directory)}"
            raise InputError(what, where=path, fix="remove one of them")
    if not audio:
        real = [fault for fault in faults if not fault.note]
        raise (
            real[0].error()
            if real
            else InputError("no audio", where=directory, fix=f"expected {directory.name}/wav/<utterance>.wav")
        )
    return audio


def _compare(name: str, audio: Mapping[str, Path], originals: Mapping[str, Corpus], directory: Path) -> None:
    """Every utterance once, and no other."""
    original = originals[name]
    lost = [u.id for u in original if u.id not in audio]
    strange = [key for key in audio if key not in original]
    home = next((other for other, corpus in originals.items() if strange and strange[0] in corpus), None)
    if home is not None:
        what = f"{len(strange)} utterances are of {home}, not of {name}, e.g. {strange[0]}"
        raise InputError(what, where=directory, fix="are the two sets swapped?")
    if lost:
        begun = (directory / ".voiceveil").is_dir() or any(directory.rglob(f"{PART_PREFIX}*"))
        what = f"{len(lost)} of {len(original)} utterances are missing, e.g. {lost[0]}"
        raise InputError(what, where=directory, fix=_GO_ON if begun else "anonymize all of the original set")
    if strange:
        what = f"{len(strange)} utterances are not in the original {name}, e.g. {strange[0]}"
        raise InputError(what, where=directory, fix="remove them, or give the data they were made from")


def _check_headers(audio: Mapping[str, Path], directory: Path) -> None:
    """All files can be opened, are whole, not empty, and have the challenge's rate."""
    for key, path in audio.items():
        try:
            header = info(path)
        except InputError as error:
            raise InputError(f"utterance {key} of {directory.name}: {error.what}", where=path, fix=error.fix) from error
        if header.rate != RATE:
            what = f"utterance {key} of {directory.name} has {header.rate} Hz, not {RATE} Hz"
            raise InputError(what, where=path, fix=f"resample the set: `voiceveil anonymize --rate {RATE}`, or sox")
        if header.frames == 0:
            raise InputError(f"utterance {key} of {directory.name} is empty", where=path, fix="anonymize it again")
