"""Kaldi data directories, as the VoicePrivacy Challenges use them.

    wav.scp     <utterance or recording> <path>      the path is all that follows the first blank
    segments    <utterance> <recording> <start> <end>  seconds; an end of -1 is the end of the file
    utt2spk  spk2utt  spk2gender (f|m)  text  utt2dur  utt2emo  utt2phrase  utt2subset  spk2fold
    enrolls     <utterance>                          these have the role "enroll"
    trials      <speaker> <utterance> target|nontarget   the other utterances then have the role "trial"

A ``wav.scp`` line that ends in ``|`` is a shell command, which is never run: the two commands of the challenges that do
nothing but decode a file are read as its path (:func:`.paths.decoded_path`), others are refused. A relative path starts
from the directory itself, from one of the three folders above it (the official layout is ``data/<set>/wav``, written
from the folder that holds ``data``), or from the working directory; a path that is two different files is refused
(:mod:`.paths`). Keys are written sorted as ``LC_ALL=C sort`` does; trials keep their order.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from voiceveil.core.atomic_files import RECORDS, clear_path
from voiceveil.core.errors import InputError
from voiceveil.core.files import LONGEST_LINE
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.ids import id_lines, id_map, safe_id, with_safe_ids
from voiceveil.corpus.lines import LineTable, gender_of, is_id, read_lines, read_table, write_lines, write_table
from voiceveil.corpus.model import Corpus, Trials, Utterance, paused_collector
from voiceveil.corpus.paths import PathFinder, decoded_path, relative_below
from voiceveil.corpus.readers import corpora

__all__ = ["Segment", "Tables", "assemble", "kaldi_files", "read_kaldi", "read_tables", "read_trials", "write_kaldi"]

UTTERANCE_TABLES = {"text": "text", "utt2emo": "emotion", "utt2phrase": "phrase", "utt2subset": "subset"}
FILES = ("wav.scp", "segments", "utt2spk", "spk2utt", "spk2gender", "spk2fold", "utt2dur", *UTTERANCE_TABLES, "enrolls")
_LONGEST_SPK2UTT = 1 << 24  # bytes: a line of it holds all utterances of a speaker
_FOLDERS_ABOVE = 3  # data/<language>/<set>, and the folder that holds data
TRIALS = "trials"
PIPE_FIX = "data is never code: convert to plain audio files and write their plain paths"


@dataclass(frozen=True)
class Segment:
    """A part of a recording, in seconds; ``duration`` None: to its end."""

    recording: str
    start: float
    duration: float | None


@dataclass
class Tables:
    """The parsed files of a Kaldi directory; lines that cannot be parsed were reported and left out."""

    directory: Path
    files: dict[str, LineTable] = field(default_factory=dict)
    segments: dict[str, Segment] | None = None
    trials: Trials | None = None
    trial_lines: list[int] = field(default_factory=list)

    def get(self, name: str) -> dict[str, str]:
        """Return the values of a file by key; empty if there is no such file."""
        return self.files[name].values if name in self.files else {}


@corpora.register("kaldi")
def read_kaldi(directory: Path, report: Report = strict) -> Corpus:
    """Read a Kaldi data directory."""
    with paused_collector():
        return assemble(read_tables(directory, report), report)


def read_tables(directory: Path, report: Report) -> Tables:
    """Read and parse every file of the directory that is there."""
    tables = Tables(directory)
    if not os.path.lexists(directory / "wav.scp"):
        report(Fault(directory, None, "no wav.scp here", fix="write one line `<utterance> <path>` per utterance"))
    for name in FILES:
        if os.path.lexists(directory / name):  # a link that leads nowhere is a fault, not a file that is missing
            longest = _LONGEST_SPK2UTT if name == "spk2utt" else LONGEST_LINE
            empty = name in ("text", "enrolls")
            tables.files[name] = read_table(directory / name, report, empty_values=empty, longest=longest)
    _drop_bad_values(tables, report)
    if "segments" in tables.files:
        tables.segments = _segments(tables.files["segments"], report)
    if os.path.lexists(directory / "trials"):
        tables.trials, tables.trial_lines = read_trials(directory / "trials", report)
    return tables


def _drop_bad_values(tables: Tables, report: Report) -> None:
    """Report and remove every value that its file must not hold."""

    def drop(name: str, is_bad: Callable[[str], bool], problem: str, fix: str) -> None:
        values = tables.get(name)
        bad = {value for value in set(values.values()) if is_bad(value)}
        for key in [key for key, value in values.items() if value in bad] if bad else ():
            report(Fault(tables.files[name].path, tables.files[name].lines[key], problem.format(key, values[key]), fix))
            del values[key]

    files = tables.get("wav.scp")
    for key, value in files.items():
        files[key] = (decoded_path(value) or value) if value[-1] == "|" else value
    drop("wav.scp", lambda value: "|" in (value[0], value[-1]), "{} is a shell command, which is never run", PIPE_FIX)
    drop("wav.scp", lambda value: "\0" in value, "{} has a path with a zero byte", "write its path")
    for name in ("utt2spk", "spk2fold", "utt2emo", "utt2phrase", "utt2subset"):
        drop(name, lambda value: not is_id(value), "{} has more than one value: {!r}", "write one, without blanks")
    drop("spk2gender", lambda value: gender_of(value) is None, "{} has the gender {!r}", "write f or m")
    drop("utt2dur", lambda value: _seconds(value) is None, "{} has the duration {!r}", "write seconds")


def _seconds(text: str) -> float | None:
    """Return a number of seconds, or None for any other text, ``nan``, ``inf`` and ``1_0`` included."""
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _segments(table: LineTable, report: Report) -> dict[str, Segment]:
    segments = {}
    for key, value in table.values.items():
        fields = value.split()
        start, end = (_seconds(fields[1]), _seconds(fields[2])) if len(fields) == 3 else (None, None)
        to_end = len(fields) == 3 and fields[2] in ("-1", "-1.0")
        if start is None or (end is None and not to_end) or (end is not None and end <= start):
            fix = "write `<utterance> <recording> <start> <end>`, in seconds, with end after start"
            report(Fault(table.path, table.lines[key], f"{key} is no segment: {value!r}", fix))
            continue
        # Nanoseconds: 1.3 - 1.1 is 0.2, not 0.19999999999999996.
        segments[key] = Segment(fields[0], start, None if end is None else round(end - start, 9))
    return segments


def read_trials(path: Path, report: Report) -> tuple[Trials, list[int]]:
    """Return the trials of a file, and the number of the line of each."""
    enroll, utterance, target, lines = [], [], [], []
    for number, line in read_lines(path, report):
        fields = line.split()
        if len(fields) != 3 or fields[2] not in ("target", "nontarget") or not (is_id(fields[0]) and is_id(fields[1])):
            fix = "write `<enrollment speaker> <trial utterance> target|nontarget`"
            report(Fault(path, number, f"not a trial: {line[:80]!r}", fix))
            continue
        enroll.append(fields[0])
        utterance.append(fields[1])
        target.append(fields[2] == "target")
        lines.append(number)
    return Trials(enroll, utterance, target), lines  # type: ignore[arg-type]  # lists become arrays


def assemble(tables: Tables, report: Report) -> Corpus:
    """Return the corpus of the parsed files: one utterance for each line of ``segments``, or else of ``wav.scp``."""
    texts, emotions, phrases, subsets = (tables.get(name) for name in UTTERANCE_TABLES)
    speakers, folds = tables.get("utt2spk"), tables.get("spk2fold")
    genders = {speaker: gender_of(value) for speaker, value in tables.get("spk2gender").items()}
    if "utt2spk" not in tables.files:
        speakers = {key: spk for spk, keys in tables.get("spk2utt").items() for key in keys.split()}
    stated, enrolls = tables.get("utt2dur"), tables.get("enrolls")
    role = "" if tables.trials is None else "trial"
    utterances: list[Utterance] = []
    for key, (path, segment) in _audio(tables, report).items():
        speaker = speakers.get(key)
        utterances.append(
            Utterance(
                key,
                path,
                speaker=speaker,
                gender=genders.get(speaker) if speaker else None,
                text=texts.get(key),
                emotion=emotions.get(key),
                role="enroll" if key in enrolls else role,
                fold=folds.get(speaker) if speaker else None,
                phrase=phrases.get(key),
                subset=subsets.get(key),
                start=segment.start if segment else 0.0,
                duration=segment.duration if segment else None,
                seconds=_seconds(stated[key]) if key in stated else None,
            )
        )
    return Corpus(tables.directory.resolve().name, tuple(utterances), tables.trials, "kaldi", tables.directory)


def _audio(tables: Tables, report: Report) -> dict[str, tuple[Path, Segment | None]]:
    """Return utterance -> its file, and the segment of the file if there are segments."""
    find = PathFinder([tables.directory, *tables.directory.resolve().parents[:_FOLDERS_ABOVE], Path()])
    paths: dict[str, Path] = {}
    for key, path in tables.get("wav.scp").items():
        try:
            paths[key] = find(path)
        except InputError as error:
            table = tables.files["wav.scp"]
            report(Fault(table.path, table.lines[key], error.what, error.fix))
    if tables.segments is None:
        return {key: (path, None) for key, path in paths.items()}
    audio: dict[str, tuple[Path, Segment | None]] = {}
    for key, segment in tables.segments.items():
        if segment.recording in paths:
            audio[key] = (paths[segment.recording], segment)
        else:
            table = tables.files["segments"]
            problem = f"{key} is a segment of {segment.recording}, which has no audio"
            report(Fault(table.path, table.lines[key], problem, "add the recording to wav.scp"))
    return audio


def kaldi_files(directory: Path) -> tuple[Path, ...]:
    """Return the files that :func:`write_kaldi` writes, or leaves out when there is nothing to write into them."""
    return tuple(directory / name for name in (*FILES, TRIALS))


def write_kaldi(corpus: Corpus, directory: Path, audio: Mapping[str, Path] | None = None) -> None:
    """Write the metadata of a corpus as a Kaldi directory; each file appears when it is complete.

    Paths below the directory are written relative to it, others absolute. Ids that these files cannot hold are replaced
    (:mod:`.ids`); ``.voiceveil/ids.tsv`` maps them to the original ones.

    Parameters
    ----------
    corpus
        The corpus.
    directory
        Created if missing. Its files that the corpus has no data for are removed if the program has recorded them as
        its own (:mod:`voiceveil.core.atomic_files`).
    audio
        Utterance id -> a file with its audio alone; other utterances are left out. By default the corpus's own files
        and segments are used.

    Raises
    ------
    InputError
        If a file of the user is in the way, before anything is written.
    """
    directory = Path(directory)
    renamed = id_map(corpus)
    if audio is not None:
        audio = {safe_id(key): path for key, path in audio.items()}
    corpus = with_safe_ids(corpus)
    utterances = corpus.utterances if audio is None else tuple(u for u in corpus if u.id in audio)
    tables: dict[str, dict[str, str]] = {name: {} for name in FILES}
    tables["text"] = {u.id: " ".join(u.text.split()) for u in utterances if u.text is not None}
    for name, attribute in {"utt2spk": "speaker", **UTTERANCE_TABLES}.items():
        if name != "text":
            tables[name] = {u.id: getattr(u, attribute) for u in utterances if getattr(u, attribute) is not None}
    tables["spk2gender"] = _of_speakers(utterances, "gender")
    tables["spk2fold"] = _of_speakers(utterances, "fold")
    tables["utt2dur"] = {u.id: repr(u.seconds) for u in utterances if u.seconds is not None}
    tables["enrolls"] = {u.id: "" for u in utterances if u.role == "enroll"}
    groups: dict[str, list[str]] = {}
    for utterance in sorted(utterances, key=lambda u: u.id):
        if utterance.speaker is not None:
            groups.setdefault(utterance.speaker, []).append(utterance.id)
    tables["spk2utt"] = {speaker: " ".join(keys) for speaker, keys in groups.items()}
    _add_audio(tables, utterances, directory, audio)
    for name in ("utt2spk", "spk2fold", "utt2emo", "utt2phrase", "utt2subset"):
        for key, value in tables[name].items():
            if not is_id(value):
                raise InputError(f"{value!r} of {key} cannot stand in {name}", fix="use values without blanks")
    _write_all(directory, tables, corpus.trials)
    if renamed:
        write_lines(directory / RECORDS / "ids.tsv", id_lines(renamed))


def _write_all(directory: Path, tables: dict[str, dict[str, str]], trials: Trials | None) -> None:
    """Write the files that hold something, wav.scp last: a directory is one when it has a wav.scp."""
    empty = [name for name in tables if not tables[name] and name != "wav.scp"] + [TRIALS] * (trials is None)
    for name in empty:
        if not clear_path(directory / name):
            problem = f"the corpus has no data for {name}, and this file would be taken for its {name}"
            raise InputError(problem, where=directory / name, fix="remove it, or name another directory")
    for name in sorted(tables, key=lambda name: name == "wav.scp"):
        if name not in empty:
            write_table(directory / name, tables[name])
    if trials is None:
        return
    labels = ("nontarget", "target")
    columns = zip(trials.enroll.tolist(), trials.utterance.tolist(), trials.target.tolist(), strict=True)
    write_lines(directory / TRIALS, [f"{spk} {utt} {labels[target]}" for spk, utt, target in columns])


def _of_speakers(utterances: tuple[Utterance, ...], attribute: str) -> dict[str, str]:
    """Return speaker -> gender or fold; a Kaldi directory has one for each speaker."""
    values: dict[str, str] = {}
    for utterance in utterances:
        value = getattr(utterance, attribute)
        if value is None:
            continue
        if utterance.speaker is None:
            raise InputError(
                f"{utterance.id} has a {attribute} but no speaker", fix="a Kaldi directory holds it by speaker"
            )
        if values.setdefault(utterance.speaker, value) != value:
            raise InputError(f"speaker {utterance.speaker} has more than one {attribute}", fix="give each speaker one")
    return values


def _add_audio(
    tables: dict[str, dict[str, str]],
    utterances: tuple[Utterance, ...],
    directory: Path,
    audio: Mapping[str, Path] | None,
) -> None:
    """Add the lines of ``wav.scp`` and, if an utterance is a part of a file, of ``segments``."""
    if audio is not None or not any(u.is_segment for u in utterances):
        paths = {u.id: u.path if audio is None else audio[u.id] for u in utterances}
        tables["wav.scp"] = {key: _written(path, directory) for key, path in paths.items()}
        return
    recordings: dict[Path, str] = {}  # a recording is called after its first utterance
    for utterance in sorted(utterances, key=lambda u: u.id):
        recording = recordings.setdefault(utterance.path, utterance.id)
        start, duration = utterance.start, utterance.duration
        end = "-1" if duration is None else repr(round(start + duration, 9))
        tables["segments"][utterance.id] = f"{recording} {start!r} {end}"
    tables["wav.scp"] = {key: _written(path, directory) for path, key in recordings.items()}


def _written(path: Path, directory: Path) -> str:
    """Return the path as ``wav.scp`` states it: relative if it is below the directory."""
    text = relative_below(path, directory)
    if text != text.strip() or "\n" in text or "\r" in text or "|" in (text[0], text[-1]):
        raise InputError("this path cannot stand in a wav.scp", where=path, fix="rename the file")
    return text
