"""Embeddings of an attacker from any of the places they come from, and distractor speakers.

A file (.npz, .parquet: :mod:`voiceveil.risk.embeddings`), a cache of the challenges' evaluation
(:mod:`voiceveil.risk.challenge_caches`) or a Kaldi directory (:mod:`voiceveil.risk.kaldi_vectors`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from voiceveil.core.errors import InputError
from voiceveil.risk.challenge_caches import is_cache, read_cache
from voiceveil.risk.embeddings import EmbeddingTable, Norm, read_table
from voiceveil.risk.kaldi_vectors import is_kaldi_vectors, read_kaldi_vectors
from voiceveil.risk.labels import AttributeLabels
from voiceveil.risk.sets import ATTACKERS, RiskAttack, attack_from_tables, divide
from voiceveil.run.ledger import sha256_file

__all__ = ["EmbeddingSources", "add_distractors", "attack_from_embeddings", "read_embeddings"]


@dataclass(frozen=True)
class EmbeddingSources:
    """Where the embeddings of an attacker come from: one path with both sets, or A's and B's; and of distractors."""

    paths: Sequence[Path]
    distractors: Path | None = None
    norm: Norm = "check"


def attack_from_embeddings(
    attacker: str, sources: EmbeddingSources, split: Mapping[str, str] | None, labels: AttributeLabels | None
) -> RiskAttack:
    """Read the embeddings of an attacker.

    Parameters
    ----------
    attacker : str
        Its name.
    sources : EmbeddingSources
        Files or folders.
    split : mapping, optional
        Utterance -> "A" or "B", if there is one path that does not say so itself.
    labels : AttributeLabels, optional
        Attributes besides those of the files.

    Raises
    ------
    InputError
        If something cannot be read, or the sets are not A and B of the protocol.
    """
    if len(sources.paths) > 2:
        raise InputError(f"{len(sources.paths)} files for the attacker {attacker}", fix="give one, or A's and B's")
    tables = [read_embeddings(path, attacker, norm=sources.norm) for path in sources.paths]
    a, b = tables if len(tables) == 2 else divide(tables[0], split)
    if sources.distractors is not None:
        a = add_distractors(a, read_embeddings(sources.distractors, attacker, norm=sources.norm))
    columns = {} if labels is None else labels.columns(a.utterance.tolist(), a.speaker.tolist())
    a = replace(a, attributes={**a.attributes, **{key: np.array(column) for key, column in columns.items()}})
    files = dict.fromkeys((*a.files, *b.files))
    digests = {file.name if file.parent.name != "utt-level" else str(file): sha256_file(file) for file in files}
    return attack_from_tables(attacker, a, b, {"knows": ATTACKERS[attacker], "files": digests})


def read_embeddings(path: Path, attacker: str, *, norm: Norm = "check") -> EmbeddingTable:
    """Read and check embeddings.

    Parameters
    ----------
    path : Path
        A file, a cache of the challenges, or a Kaldi directory.
    attacker : str
        Who uses them; ``original`` takes sets of original speech from a cache.
    norm : {"check", "unit", "raw"}
        Treatment of the lengths of vectors; those of caches are averaged as they are, unless it is ``unit``.

    Raises
    ------
    InputError
        If they cannot be read.
    """
    if not path.exists():
        fix = "give a .npz or .parquet file, a set of emb_xvect, or a Kaldi directory"
        raise InputError("no such file or folder", where=path, fix=fix)
    if not path.is_dir():
        return read_table(path, norm=norm)
    if is_cache(path):
        table = read_cache(path, original=attacker == "original")
        lengths = np.linalg.norm(table.vector, axis=1, keepdims=True)
        return replace(table, vector=table.vector / lengths) if norm == "unit" else table
    if is_kaldi_vectors(path):
        return read_kaldi_vectors(path, norm=norm)
    fix = (
        "a cache has emb_xvect or utt-level/speaker_vectors.pt, a Kaldi directory spk2utt and xvector.h5 or xvector.scp"
    )
    raise InputError("a folder without embeddings", where=path, fix=fix)


def add_distractors(a: EmbeddingTable, distractors: EmbeddingTable) -> EmbeddingTable:
    """Return set A with more speakers, who are never the right answer.

    A challenge has some 40 speakers, a release thousands. Distractors are enrolled for Linkability and tested for
    Singling Out, as all speakers of A are who are not in B. Their speakers that are in A already are left out, and
    those with one utterance, who cannot calibrate. Their attributes are those that A has too.

    Raises
    ------
    InputError
        If none is left, or the embeddings have another dimension or the utterances of A.
    """
    if distractors.vector.shape[1] != a.vector.shape[1]:
        problem = f"distractors of {distractors.vector.shape[1]} dimensions for embeddings of {a.vector.shape[1]}"
        raise InputError(problem, where=distractors.where, fix="embed both with one encoder")
    names, counts = np.unique(distractors.speaker, return_counts=True)
    others = np.setdiff1d(names[counts > 1], a.speaker)
    extra = distractors.rows(np.isin(distractors.speaker, others))
    if not len(extra.utterance):
        problem = "no distractor is another speaker with two utterances or more"
        raise InputError(problem, where=distractors.where, fix="give speakers who are not in A")
    shared = np.intersect1d(a.utterance, extra.utterance)
    if len(shared):
        raise InputError(f"utterance {shared[0]} of A is that of a distractor too", where=distractors.where)
    unknown = np.full(len(extra.utterance), "")
    return EmbeddingTable(
        np.concatenate([a.utterance, extra.utterance]),
        np.concatenate([a.speaker, extra.speaker]),
        np.concatenate([a.vector, extra.vector]),
        None,
        {key: np.concatenate([column, extra.attributes.get(key, unknown)]) for key, column in a.attributes.items()},
        a.where,
        (*a.files, *distractors.files),
    )
