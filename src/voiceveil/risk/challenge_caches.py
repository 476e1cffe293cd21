"""Embeddings that the VoicePrivacy Challenges' own evaluation leaves on disk, for a risk assessment without any audio.

    exp/asv_*/cosine_out/emb_xvect/<set>/utt-level/
        speaker_vectors.pt    a tensor (utterances, dimension), as ``torch.save`` writes it; read as data alone
        id2idx                <utterance> <row>
        idx2spk               <row> <speaker>, in any order (the 2024 code reads it back in the order of strings)
        spk2gender            <speaker> <f or m>

Sets are called ``<base>_enrolls<suffix>`` and ``<base>_trials_<part><suffix>``; the suffix names the system, and is
empty for original speech. The enrollment is set A and all trials of the same base and *exactly* the same suffix are set
B: ``libri_dev_enrolls_b2`` goes with ``libri_dev_trials_f_b2``, not with ``libri_dev_trials_f`` or ``..._f_b2_new``.
Speakers of trials who are not enrolled, the impostors of the challenges, are left out. Embeddings are averaged as they
are, as the challenges do.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voiceveil.core.errors import InputError
from voiceveil.corpus.faults import strict
from voiceveil.corpus.lines import read_table
from voiceveil.risk.embeddings import EmbeddingTable, check_table

__all__ = ["is_cache", "read_cache"]

_VECTORS = "speaker_vectors.pt"
_ENROLLS = "_enrolls"
#: Parts of the trials in all editions.
_PARTS = ("f", "f_common", "f_all", "m", "m_common", "m_all", "all", "mixed", "pooled")


def is_cache(path: Path) -> bool:
    """Return whether a folder is one set of a cache, its ``utt-level``, or holds ``emb_xvect``."""
    places = (path, path / "utt-level", path / "spk-level")
    return any((place / _VECTORS).is_file() for place in places) or _root(path) is not None


def read_cache(path: Path, *, original: bool = False) -> EmbeddingTable:
    """Read embeddings of a cache.

    Parameters
    ----------
    path : Path
        A set of enrollment, whose trials lie beside it: the table has the sets A and B. Or any other set, or its
        ``utt-level``: the table has no sets. Or a folder with ``emb_xvect`` that has one set of enrollment.
    original : bool
        In a folder with several sets of enrollment, take that of original speech, without a suffix.

    Raises
    ------
    InputError
        If a file is missing or wrong, or it is not clear which sets are meant.
    """
    root = _root(path)
    if root is not None:
        path = _only_enrollment(root, original=original)
    if path.name == "utt-level" or _ENROLLS not in path.name:
        return check_table(_read_set(path), "raw")
    base, _, suffix = path.name.rpartition(_ENROLLS)
    trials = [path.parent / f"{base}_trials_{part}{suffix}" for part in _PARTS]
    tables = [_read_set(folder) for folder in trials if folder.is_dir()]
    if not tables:
        fix = f"{trials[0].name}, {trials[1].name} or the like must lie beside it; or give two folders, A's and B's"
        raise InputError(f"no trials with the suffix {suffix!r} beside it", where=path, fix=fix)
    enrolled = _read_set(path)
    known, seen = set(enrolled.speaker.tolist()), set(enrolled.utterance.tolist())
    parts = [enrolled]
    for table in tables:  # trials_all holds those of the others once more
        rows = [u not in seen and s in known for u, s in zip(table.utterance, table.speaker, strict=True)]
        parts.append(table.rows(np.array(rows, dtype=bool)))
        seen.update(table.utterance.tolist())
    lengths = [len(enrolled.utterance), sum(len(part.utterance) for part in parts[1:])]
    if not lengths[1]:
        raise InputError("no speaker of the trials is enrolled", where=path, fix="give sets that belong together")
    joined = EmbeddingTable(
        np.concatenate([part.utterance for part in parts]),
        np.concatenate([part.speaker for part in parts]),
        _stacked(parts),
        np.repeat(["A", "B"], lengths),
        {"gender": np.concatenate([part.attributes["gender"] for part in parts])},
        path,
        tuple(file for part in parts for file in part.files),
    )
    return check_table(joined, "raw")


def _root(path: Path) -> Path | None:
    """Return the folder ``emb_xvect`` that is ``path`` or lies in it or in its ``cosine_out``."""
    places = (path if path.name == "emb_xvect" else None, path / "emb_xvect", path / "cosine_out" / "emb_xvect")
    return next((place for place in places if place is not None and place.is_dir()), None)


def _only_enrollment(root: Path, *, original: bool) -> Path:
    sets = sorted(folder.name for folder in root.iterdir() if _ENROLLS in folder.name and folder.is_dir())
    fitting = [name for name in sets if name.endswith(_ENROLLS) == original]
    if len(fitting) != 1:
        speech = "original" if original else "anonymized"
        problem = f"{len(fitting)} sets of enrollment with {speech} speech" + (
            f": {', '.join(fitting)}" * bool(fitting)
        )
        raise InputError(problem, where=root, fix=f"name one, e.g. {root / (sets or ['libri_dev_enrolls_b2'])[-1]}")
    return root / fitting[0]


def _stacked(parts: list[EmbeddingTable]) -> NDArray[np.float32]:
    """Return all vectors together; an ``InputError`` if their dimensions differ."""
    for part in parts[1:]:
        if part.vector.shape[1] != parts[0].vector.shape[1]:
            problem = f"{part.vector.shape[1]} dimensions, but {parts[0].vector.shape[1]} in {parts[0].where}"
            raise InputError(problem, where=part.where, fix="give sets that one encoder has embedded")
    return np.concatenate([part.vector for part in parts])


def _read_set(folder: Path) -> EmbeddingTable:
    """Return the embeddings of the utterances of one set."""
    level = folder if folder.name == "utt-level" else folder / "utt-level"
    if not (level / _VECTORS).is_file():
        fix = "give a set of emb_xvect that has utt-level/speaker_vectors.pt; means of speakers alone are not enough"
        raise InputError("no embeddings of utterances", where=folder, fix=fix)
    vector = _read_tensor(level / _VECTORS)
    places, speakers = (_mapping(level / name) for name in ("id2idx", "idx2spk"))
    gender = _mapping(level / "spk2gender") if (level / "spk2gender").is_file() else {}
    rows = []
    for line, (utterance, row) in enumerate(places.items(), 1):
        if not row.isdecimal() or int(row) >= len(vector) or row not in speakers:
            problem = f"utterance {utterance} has the row {row[:20]}, which has no vector or no speaker"
            raise InputError(problem, where=level / "id2idx", line=line, fix="let the challenge's code write it again")
        rows.append(int(row))
    if len(set(rows)) < len(rows):
        raise InputError("two utterances have the same row", where=level / "id2idx")
    names = np.array([speakers[str(row)] for row in rows])
    return EmbeddingTable(
        np.array(list(places)),
        names,
        vector[rows],
        None,
        {"gender": np.array([gender.get(name, "") for name in names.tolist()])},
        level,
        (level / _VECTORS,),
    )


def _mapping(path: Path) -> dict[str, str]:
    return dict(read_table(path, strict).values)


def _read_tensor(path: Path) -> NDArray[np.float32]:
    """Return the matrix of a file of ``torch.save``, read as data alone."""
    import torch

    from voiceveil.models.checkpoint import check_torch_file

    check_torch_file(path)
    fix = "let the challenge's code write it again"
    try:
        tensor = torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251 -- data alone
    except Exception as error:  # damaged pickles lead to exceptions of every kind
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"cannot be read as data: {reason}", where=path, fix=fix) from error
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.ndim != 2:
        raise InputError("not one tensor of two dimensions", where=path, fix=fix)
    if tensor.numel() * tensor.element_size() > path.stat().st_size:
        raise InputError("the tensor claims more values than the file has", where=path, fix=fix)
    return np.asarray(tensor.to(torch.float32).numpy())
