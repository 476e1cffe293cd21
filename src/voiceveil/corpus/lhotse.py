"""Lhotse manifests: ``recordings.jsonl.gz`` with ``supervisions.jsonl.gz`` beside it, or ``cuts.jsonl.gz``.

An utterance is a supervision, or a recording where nothing supervises it. Role, emotion, fold, phrase and subset stand
in a supervision's ``custom`` fields. A source that is a shell command is refused and never run, as is one that would
have to be fetched. Trials, which Lhotse does not know, stand beside in ``trials.csv``.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from voiceveil.audio import info
from voiceveil.core.atomic_files import atomic_path, clear_path
from voiceveil.core.documents import parse_json
from voiceveil.core.errors import InputError
from voiceveil.core.files import bounded_lines, open_file
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.kaldi import PIPE_FIX
from voiceveil.corpus.lines import gender_of
from voiceveil.corpus.manifest import read_trials, write_trials
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.paths import PathFinder, relative_below
from voiceveil.corpus.readers import corpora

__all__ = ["read_lhotse", "write_lhotse"]

_LONGEST_LINE = 1 << 24  # bytes

#: File and line.
Place = tuple[Path, int | None]
CUSTOM = ("role", "emotion", "fold", "phrase", "subset")


def _lhotse() -> Any:
    try:
        import lhotse
    except ImportError as error:
        raise InputError("reading Lhotse manifests needs lhotse", fix="pip install 'voiceveil[lhotse]'") from error
    return lhotse


@corpora.register("lhotse")
def read_lhotse(path: Path, report: Report = strict) -> Corpus:
    """Read a manifest of recordings, supervisions or cuts; of the first two, the other one is looked for beside it."""
    lhotse = _lhotse()
    find = PathFinder([path.parent, Path()])
    recordings: dict[str, Any] = {}
    supervisions: list[tuple[Place, Any]] = []
    utterances: dict[str, Utterance] = {}

    def add(place: Place, trial_list: Callable[[], Iterator[Utterance]]) -> None:
        try:
            new = list(trial_list())
        except InputError as error:
            report(Fault(*place, error.what, error.fix))
            return
        except (TypeError, ValueError, AttributeError) as error:  # lhotse does not check the types of what it reads
            report(Fault(*place, f"not an item of a Lhotse manifest: {error}", "write it with lhotse"))
            return
        for utterance in new:
            if utterance.id in utterances:
                report(Fault(*place, f"{utterance.id} occurs twice", "give each utterance its own id"))
            utterances.setdefault(utterance.id, utterance)

    for place, item in (row for file in _both(path) for row in _items(file, lhotse, report)):
        if isinstance(item, lhotse.Recording):
            if _is_plain(item, place, report):
                recordings[item.id] = item
        elif isinstance(item, lhotse.SupervisionSegment):
            supervisions.append((place, item))
        elif isinstance(item, lhotse.MonoCut) and item.has_recording:
            if _is_plain(item.recording, place, report):
                add(place, partial(_of_cut, item, find))
        else:
            report(Fault(*place, f"a {type(item).__name__} without audio of its own", "use MonoCuts"))
    for place, item in supervisions:
        if item.recording_id in recordings:
            add(place, partial(_of_supervision, item, recordings[item.recording_id], find))
        else:
            report(Fault(*place, f"{item.id} names no known recording", "add the recording"))
    supervised = {item.recording_id for _, item in supervisions}
    for key in sorted(recordings.keys() - supervised):
        add((path, None), partial(_of_recording, recordings[key], find))
    trials = path.with_name("trials.csv")
    trial_list = read_trials(trials, report) if os.path.lexists(trials) else None
    ordered = tuple(utterances[key] for key in sorted(utterances))
    return Corpus(path.name.split(".")[0], ordered, trial_list, "lhotse", path.parent)


def _both(path: Path) -> list[Path]:
    """Return the recordings and the supervisions manifest, whichever of them was given."""
    for name, other in (("recordings", "supervisions"), ("supervisions", "recordings")):
        partner = path.with_name(path.name.replace(name, other))
        if name in path.name and partner.exists():
            return [path, partner]
    return [path]


def _items(path: Path, lhotse: Any, report: Report) -> Iterator[tuple[Place, Any]]:
    """Yield each object of a manifest, with its place."""
    from lhotse.serialization import deserialize_item

    for number, line in _lines(path, report):
        if not line.strip():
            continue
        try:
            item = deserialize_item(parse_json(line))
        except Exception as error:  # lhotse raises whatever its constructors meet
            report(Fault(path, number, f"not an item of a Lhotse manifest: {error}", "write it with lhotse"))
            continue
        yield (path, number), item


def _lines(path: Path, report: Report) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line; a compressed file is unpacked line by line."""
    try:
        with open_file(path) as file, gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file as stream:
            for number, line in enumerate(bounded_lines(stream, path, longest=_LONGEST_LINE), start=1):
                yield number, line.decode("utf-8")
    except InputError as error:
        report(Fault(path, error.line, error.what, error.fix))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        report(Fault(path, None, f"cannot read this manifest: {error}", "write it again"))


def _is_plain(recording: Any, place: Place, report: Report) -> bool:
    """Return whether the recording is one plain file."""
    if len(recording.sources) == 1 and recording.sources[0].type == "file":
        return True
    kinds = ", ".join(sorted({str(source.type) for source in recording.sources}))
    problem = f"{recording.id} has the source(s) {kinds}, which are never run or fetched"
    report(Fault(*place, problem, PIPE_FIX if "command" in kinds else "save it as one audio file"))
    return False


def _path(recording: Any, find: PathFinder) -> Path:
    return find(str(recording.sources[0].source))


def _of_cut(cut: Any, find: PathFinder) -> Iterator[Utterance]:
    """Yield one utterance for each supervision of a cut; one for the cut itself if it has none or one."""
    if len(cut.supervisions) > 1:
        for supervision in cut.supervisions:
            yield _utterance(
                supervision.id, supervision, cut.recording, cut.start + supervision.start, supervision.duration, find
            )
    else:
        supervision = cut.supervisions[0] if cut.supervisions else None
        yield _utterance(cut.id, supervision, cut.recording, cut.start, cut.duration, find)


def _of_supervision(supervision: Any, recording: Any, find: PathFinder) -> Iterator[Utterance]:
    yield _utterance(supervision.id, supervision, recording, supervision.start, supervision.duration, find)


def _of_recording(recording: Any, find: PathFinder) -> Iterator[Utterance]:
    yield _utterance(recording.id, None, recording, 0.0, recording.duration, find)


def _utterance(
    key: str, supervision: Any, recording: Any, start: float, duration: float, find: PathFinder
) -> Utterance:
    """Return an utterance; ``start`` and ``duration`` (seconds) that cover the whole recording are no segment."""
    if not isinstance(key, str) or not key:
        raise ValueError(f"the id is {key!r}")
    if not (start >= 0 and 0 < duration < float("inf")):
        raise ValueError(f"{key} starts at {start} s and lasts {duration} s")
    whole = start == 0 and abs(duration - recording.duration) * recording.sampling_rate < 1
    custom = (supervision.custom or {}) if supervision is not None else {}
    values: dict[str, Any] = {name: str(custom[name]) for name in CUSTOM if custom.get(name) is not None}
    if supervision is not None:
        gender = gender_of(str(supervision.gender)) if supervision.gender else None
        values.update({"speaker": supervision.speaker, "gender": gender, "text": supervision.text})
    return Utterance(
        key,
        _path(recording, find),
        start=0.0 if whole else start,
        duration=None if whole else duration,
        seconds=recording.duration if whole else None,
        **values,
    )


def lhotse_files(directory: Path) -> tuple[Path, ...]:
    """Return the files that :func:`write_lhotse` writes; the last, of trials, only if there are any."""
    return tuple(directory / name for name in ("recordings.jsonl.gz", "supervisions.jsonl.gz", "trials.csv"))


def write_lhotse(corpus: Corpus, directory: Path) -> list[Path]:
    """Write ``recordings.jsonl.gz`` and ``supervisions.jsonl.gz`` (and ``trials.csv``) into a directory, atomically.

    The headers of the audio files are read, since Lhotse states rate and length. Same corpus, same bytes.
    """
    lhotse = _lhotse()
    recordings: dict[Path, Any] = {}
    supervisions = []
    for utterance in sorted(corpus, key=lambda u: u.id):
        if utterance.path not in recordings:
            recordings[utterance.path] = _recording(lhotse, utterance, directory)
        recording = recordings[utterance.path]
        duration = utterance.duration
        custom = {name: getattr(utterance, name) for name in CUSTOM if getattr(utterance, name)}
        supervisions.append(
            lhotse.SupervisionSegment(
                id=utterance.id,
                recording_id=recording.id,
                start=utterance.start,
                duration=recording.duration - utterance.start if duration is None else duration,
                text=utterance.text,
                speaker=utterance.speaker,
                gender=utterance.gender,
                custom=custom or None,
            )
        )
    *written, trials = lhotse_files(directory)
    if corpus.trials is None and not clear_path(trials):
        problem = "the corpus has no trials, and this file would be taken for its trial list"
        raise InputError(problem, where=trials, fix="remove it, or name another directory")
    _write(written[0], (recording.to_dict() for recording in recordings.values()))
    _write(written[1], (supervision.to_dict() for supervision in supervisions))
    if corpus.trials is not None:
        write_trials(corpus.trials, trials)
        written.append(trials)
    return written


def _recording(lhotse: Any, utterance: Utterance, directory: Path) -> Any:
    """Return the recording of a file, with the id of its first utterance."""
    header = info(utterance.path)
    source = relative_below(utterance.path, directory)
    return lhotse.Recording(
        id=utterance.id,
        sources=[lhotse.AudioSource(type="file", channels=list(range(header.channels)), source=source)],
        sampling_rate=header.rate,
        num_samples=header.frames,
        duration=header.duration,
    )


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with atomic_path(path) as part:
        part.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
