"""What lies behind the figures of an evaluation, utterance by utterance: small plain files for the report and for you.

Beside ``results.json`` and ``scores/`` (see :mod:`voiceveil.attack.engine`) an evaluation writes

    details/<set>.tsv               one row an utterance: who speaks, where the audio is, what was heard, its pitch
    details/<set>.similarity.json   the speakers of a set of trials and its three voice similarity matrices

Conventions: a table has a heading and tabs between its cells, as the module :mod:`csv` writes them ("excel-tab"); an
empty cell was not measured. ``f0_*`` is the mean of the voiced frames in Hz. Words are normalised as for the WER. Paths
are relative to the folder of the results if the audio lies within it. The tables hold names and words of the speakers:
they are as personal as the corpus.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from voiceveil import attack, metrics, utility
from voiceveil.attack.backends import length_norm
from voiceveil.attack.embedding import embed
from voiceveil.audio import atomic_path
from voiceveil.challenges.inventory import Inventory
from voiceveil.challenges.measuring import Tools
from voiceveil.corpus import Corpus, Utterance
from voiceveil.errors import InputError
from voiceveil.run.extract import extract
from voiceveil.utility.words import normaliser

__all__ = ["Details", "Heard", "Similarity", "collect", "read_details", "write_details"]


@dataclass(frozen=True)
class Heard:
    """One utterance; what was not measured is None."""

    utterance: str
    speaker: str = ""
    gender: str = ""
    original: str = ""  # path of the audio
    anonymized: str = ""
    start: float = 0.0  # of the utterance in the original audio, seconds
    duration: float | None = None  # None: to the end
    reference: str | None = None  # words
    heard_original: str | None = None
    heard_anonymized: str | None = None
    f0_original: float | None = None  # Hz
    f0_anonymized: float | None = None
    pitch_correlation: float | None = None


@dataclass(frozen=True)
class Similarity:
    """Voice similarity of the speakers of a set: matrices of shape (N, N), original then anonymized."""

    speakers: tuple[str, ...]
    oo: tuple[tuple[float, ...], ...]
    oa: tuple[tuple[float, ...], ...]
    aa: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Details:
    """Set -> its utterances; set -> its similarity matrices. Empty where an evaluation has kept none."""

    utterances: Mapping[str, tuple[Heard, ...]]
    similarity: Mapping[str, Similarity]


def collect(inventory: Inventory, anonymized: Mapping[str, Corpus], tools: Tools) -> Details:
    """Gather all that was heard, from the cache where it is known."""
    trial_sets = list(dict.fromkeys(t.set for one in inventory.verification for t in one.trials))
    spoken_sets = list(dict.fromkeys(name for one in inventory.recognition for name in one.sets))
    utterances: dict[str, tuple[Heard, ...]] = {}
    for name in dict.fromkeys([*trial_sets, *spoken_sets]):
        pairs = [(u, anonymized[name][u.id]) for u in inventory.corpora[name]]
        words = _words(pairs, tools) if name in spoken_sets and "wer" in inventory.protocol.metrics else {}
        pitch = _pitch(pairs, tools) if name in trial_sets else {}
        utterances[name] = tuple(_heard(o, a, {**words.get(o.id, {}), **pitch.get(o.id, {})}) for o, a in pairs)
    encoders = [one for one in tools.attackers if one.partition(":")[0] == "campplus"]
    similarity = {}
    for name in trial_sets if encoders else []:
        found = _similarity(inventory.corpora[name], anonymized[name], tools)
        if found is not None:
            similarity[name] = found
    return Details(utterances, similarity)


def _heard(original: Utterance, anonymized: Utterance, measured: Mapping[str, Any]) -> Heard:
    return Heard(
        original.id,
        original.speaker or "",
        original.gender or "",
        str(original.path),
        str(anonymized.path),
        original.start,
        original.duration,
        **measured,
    )


def _words(pairs: list[tuple[Utterance, Utterance]], tools: Tools) -> dict[str, dict[str, str]]:
    listener, plain = utility.recogniser(tools.recogniser), normaliser("plain")
    sides = [utility.transcribe([pair[k] for pair in pairs], listener, **tools.running()) for k in (0, 1)]
    return {
        u.id: {
            "reference": plain(u.text or ""),
            "heard_original": plain(sides[0][u.id]),
            "heard_anonymized": plain(sides[1][u.id]),
        }
        for u, _ in pairs
    }


def _pitch(pairs: list[tuple[Utterance, Utterance]], tools: Tools) -> dict[str, dict[str, float | None]]:
    tracker = utility.tracker("autocorrelation")
    before, after = (extract([pair[k] for pair in pairs], tracker, **tools.running()) for k in (0, 1))
    return {
        u.id: {
            "f0_original": _mean(before[u.id]),
            "f0_anonymized": _mean(after[u.id]),
            "pitch_correlation": metrics.pitch_correlation(before[u.id], after[u.id]),
        }
        for u, _ in pairs
    }


def _mean(track: Any) -> float | None:
    voiced = np.asarray(track)[np.asarray(track) > 0]
    return float(voiced.mean()) if len(voiced) else None


def _similarity(original: Corpus, anonymized: Corpus, tools: Tools) -> Similarity | None:
    """The matrices by CAM++, of speakers with two utterances at least; None if there are not two of them."""
    encoder = attack.encoder("campplus")
    enough = {name for name, spoken in original.by_speaker.items() if len(spoken) > 1}
    listed = sorted((u for u in original if u.speaker in enough), key=lambda u: u.id)
    if len(enough) < 2:
        return None
    sides = [listed, [anonymized[u.id] for u in listed]]
    o, a = (length_norm(embed(side, encoder, **tools.running()).vectors) for side in sides)
    speakers = [str(u.speaker) for u in listed]
    matrices = [metrics.similarity_matrix(x @ y.T, speakers) for x, y in ((o, o), (o, a), (a, a))]
    rows = [tuple(tuple(row) for row in matrix.values.round(4).tolist()) for matrix in matrices]
    return Similarity(tuple(matrices[0].speakers), *rows)


def write_details(details: Details, out: Path) -> None:
    """Write ``details/`` into the folder of the results."""
    folder = out / "details"
    folder.mkdir(parents=True, exist_ok=True)
    names = [field.name for field in fields(Heard)]
    for name, rows in details.utterances.items():
        with atomic_path(folder / f"{name}.tsv") as part, part.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, "excel-tab", lineterminator="\n")
            writer.writerow(names)
            writer.writerows([_cell(getattr(row, key), out) for key in names] for row in rows)
    for name, one in details.similarity.items():
        with atomic_path(folder / f"{name}.similarity.json") as part:
            part.write_text(json.dumps(vars(one)) + "\n")


def _cell(value: Any, out: Path) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    path = Path(value)
    return str(path.relative_to(out)) if path.is_absolute() and path.is_relative_to(out) else str(value)


def read_details(out: Path) -> Details:
    """Read ``details/`` of a folder of results; nothing is there if an evaluation has kept none."""
    folder = out / "details"
    tables = {path.name.removesuffix(".tsv"): _table(path) for path in sorted(folder.glob("*.tsv"))}
    similar = sorted(folder.glob("*.similarity.json"))
    return Details(tables, {path.name.removesuffix(".similarity.json"): _matrices(path) for path in similar})


def _table(path: Path) -> tuple[Heard, ...]:
    known = {field.name: str(field.type) for field in fields(Heard)}
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            reader = csv.reader(stream, "excel-tab", strict=True)
            heading = next(reader, [])
            strange = [name for name in heading if name not in known]
            if strange or "utterance" not in heading:
                raise InputError("not a table of utterances", where=path, line=1, fix="evaluate again")
            return tuple(_row(dict(zip(heading, cells, strict=True)), known) for cells in reader)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=path) from error
    except (ValueError, csv.Error) as error:
        raise InputError(f"a row is not of the right form: {error}", where=path, fix="evaluate again") from error


def _row(cells: Mapping[str, str], known: Mapping[str, str]) -> Heard:
    values: dict[str, Any] = {}
    for name, text in cells.items():
        if text or known[name] == "str":
            values[name] = float(text) if known[name].startswith("float") else text
    if values.get("reference") is not None:  # a recogniser that heard nothing: measured, and empty
        values.setdefault("heard_original", "")
        values.setdefault("heard_anonymized", "")
    return Heard(**values)


def _matrices(path: Path) -> Similarity:
    try:
        data = json.loads(path.read_text())
        speakers = tuple(str(name) for name in data["speakers"])
        sides = [_square(data[key], len(speakers)) for key in ("oo", "oa", "aa")]
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=path) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not similarity matrices: {error}", where=path, fix="evaluate again") from error
    return Similarity(speakers, *sides)


def _square(rows: Iterable[Iterable[Any]], size: int) -> tuple[tuple[float, ...], ...]:
    matrix = tuple(tuple(float(value) for value in row) for row in rows)
    if len(matrix) != size or any(len(row) != size for row in matrix):
        raise ValueError(f"a matrix is not of {size} rows and columns")
    return matrix
