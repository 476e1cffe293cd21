"""Common Voice (commonvoice.mozilla.org), e.g. 11.0, as it is distributed.

    en/validated.tsv       client_id path sentence up_votes down_votes age gender ...  (tabs between, with a header)
    en/clips/*.mp3
    en/clip_durations.tsv  clip, milliseconds; only later releases have it

The path is the folder of the language, or one of its ``.tsv`` files. The subsets A and B of the legal evaluation
framework for voice anonymization are drawn by :func:`draw_subsets`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from voiceveil.audio import info
from voiceveil.corpus.distributed import sorted_corpus
from voiceveil.corpus.faults import Fault, Report, strict
from voiceveil.corpus.lines import gender_of, read_lines
from voiceveil.corpus.model import Corpus, Utterance
from voiceveil.corpus.readers import corpora

__all__ = ["draw_subsets", "read_commonvoice"]


@corpora.register("commonvoice")
def read_commonvoice(path: Path, report: Report = strict) -> Corpus:
    """Read ``validated.tsv`` (or the ``.tsv`` file given); the subsets are drawn if all durations are stated."""
    table = path if path.is_file() else path / "validated.tsv"
    durations = _durations(table.with_name("clip_durations.tsv"), report)
    rows = list(_rows(table, report)) if table.is_file() else []
    genders = _genders(rows)
    utterances = (
        Utterance(
            Path(row["path"]).stem,
            table.parent / "clips" / row["path"],
            speaker=row["client_id"],
            gender=genders.get(row["client_id"]),
            text=row.get("sentence"),
            seconds=durations.get(row["path"]),
        )
        for row in rows
    )
    corpus = sorted_corpus("commonvoice", table.parent, utterances, "validated.tsv and clips/", report)
    return draw_subsets(corpus) if len(corpus) and all(u.seconds is not None for u in corpus) else corpus


def _rows(path: Path, report: Report) -> Iterator[dict[str, str]]:
    header: list[str] | None = None
    for number, line in read_lines(path, report):
        fields = line.split("\t")
        if header is None:
            header = fields
            if not {"client_id", "path"} <= set(header):
                report(Fault(path, number, "no columns client_id and path", fix="give a .tsv file of Common Voice"))
                return
            continue
        row = {key: value.strip() for key, value in zip(header, fields, strict=False) if value.strip()}
        if "client_id" not in row or "path" not in row or "/" in row["path"] or "\0" in row["path"]:
            report(Fault(path, number, "no client or clip", fix="restore the line"))
        else:
            yield row


def _genders(rows: list[dict[str, str]]) -> dict[str, str]:
    """Return client -> the gender stated most often; many clients state it with some of their clips only."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        gender = gender_of(row.get("gender", ""))
        if gender:
            counts.setdefault(row["client_id"], Counter())[gender] += 1
    return {client: count.most_common(1)[0][0] for client, count in counts.items()}


def _durations(path: Path, report: Report) -> dict[str, float]:
    """Return clip -> seconds; empty if there is no such file."""
    durations = {}
    for number, line in read_lines(path, report) if path.is_file() else ():
        clip, _, value = line.partition("\t")
        if value.strip().isascii() and value.strip().isdigit() and len(value) < 12:
            durations[clip] = int(value) / 1000
        elif number > 1:
            report(Fault(path, number, "no number of milliseconds", fix="write `<clip><tab><milliseconds>`"))
    return durations


def draw_subsets(corpus: Corpus, *, seed: int = 0, a: float = 120.0, b: float = 180.0) -> Corpus:
    """Draw the subsets A and B: ``a`` seconds or more of each speaker in A, and ``b`` or more in B.

    "Subset A includes speakers with at least 2 min of speech, and subset B includes speakers with at least 3 min of
    speech; ... each speaker in B appears in A with disjoint utterances" (legally validated evaluation framework,
    section 3.3). Speakers of known gender with ``a`` seconds are in A. The utterances of each are shuffled; where
    ``b`` seconds remain after the first ``a`` seconds, these go to A and the others to B; the other speakers are in
    A with all they have. The published Table 1 has 0.9 min a speaker in A on average, so its draw must have been
    another one, which is not described.

    The draw depends on ``seed`` and the speaker's id and utterances alone. Write it down by writing the corpus:
    ``subset`` is a column of every format. Lengths that the corpus does not state are read from the audio headers.
    """
    subsets: dict[str, str] = {}
    for speaker, utterances in corpus.by_speaker.items():
        ordered = sorted(utterances, key=lambda u: u.id)
        lengths = np.array([info(u.path).duration if u.length is None else u.length for u in ordered])
        if utterances[0].gender is None or lengths.sum() < a:
            continue
        digest = hashlib.sha256(f"{seed} {speaker}".encode()).digest()
        order = np.random.default_rng(int.from_bytes(digest[:8], "big")).permutation(len(ordered))
        filled = int(np.searchsorted(np.cumsum(lengths[order]), a)) + 1  # utterances that reach a seconds
        if lengths[order[filled:]].sum() < b:
            filled = len(order)
        for rank, index in enumerate(order.tolist()):
            subsets[ordered[index].id] = "A" if rank < filled else "B"
    return replace(corpus, utterances=tuple(replace(u, subset=subsets.get(u.id)) for u in corpus))
