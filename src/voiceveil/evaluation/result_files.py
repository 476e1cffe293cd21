"""The files of an evaluation: only its own are replaced.

The folder of the results has a ledger (:mod:`voiceveil.run.ledger`) of every file that is written there. The anonymized
sets in its ``data`` have ledgers of their own.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from voiceveil.core.locking import exclusive_lock
from voiceveil.corpus.kaldi import kaldi_files
from voiceveil.run.outputs import ledger_of, recorded, refuse_before_start
from voiceveil.run.records import read_records

if TYPE_CHECKING:
    from voiceveil.evaluation.evaluate import Evaluation

__all__ = ["recorded_evaluation"]

#: What an evaluation writes beside the anonymized sets; ``exp`` is that of the challenges' own scripts.
_PATTERNS = (
    "results.json", "report.html", "details/*.tsv", "details/*.similarity.json", "scores/*/*.scores",
    "exp/results_summary/**", "exp/asv_orig/**", "exp/asv_anon{suffix}/**", "exp/asr/**", "exp/ser/**",
)  # fmt: skip


@contextmanager
def recorded_evaluation(evaluation: Evaluation) -> Iterator[None]:
    """Lock the output against other evaluations; files in the way stop it before anything is written."""
    settings = {
        "system": evaluation.name,
        "protocol": evaluation.inventory.protocol.name,
        "given": evaluation.system is None,
    }
    is_ours = _known_sets(evaluation)
    overwrite = evaluation.settings.options.overwrite
    if not overwrite:
        refuse_before_start(evaluation.out, _targets(evaluation), is_ours)
    with (
        exclusive_lock(evaluation.out, "another evaluation"),
        recorded(evaluation.out, settings, lambda: _targets(evaluation), overwrite=overwrite, is_ours=is_ours),
    ):
        yield


def _targets(evaluation: Evaluation) -> Iterator[Path]:
    """Yield files that the evaluation may replace: its own, others' in their places, and those of the sets."""
    for path in read_records(ledger_of(evaluation.out)).files():
        yield Path(os.path.normpath(path))
    for pattern in _PATTERNS:
        for path in sorted(evaluation.out.glob(pattern.format(suffix=glob.escape(evaluation.suffix)))):
            if not path.is_dir():
                yield path
    for name, corpus in evaluation.inventory.corpora.items():
        folder = _folder(evaluation, name)
        if folder.exists():
            yield from kaldi_files(folder)
            if evaluation.system is not None:
                yield from (folder / "wav" / f"{utterance.id}.wav" for utterance in corpus)


def _folder(evaluation: Evaluation, name: str) -> Path:
    """Return the folder of an anonymized set."""
    return evaluation.out / "data" / f"{name}{evaluation.suffix}"


def _known_sets(evaluation: Evaluation) -> Callable[[Path], bool]:
    """Return a function that tells whether a file is in the ledger of an anonymized set, which checks its hash."""
    folders = [_folder(evaluation, name) for name in evaluation.inventory.corpora] if evaluation.system else []
    sets = {folder: read_records(ledger_of(folder)) for folder in folders}

    def is_ours(path: Path) -> bool:
        records = next((records for folder, records in sets.items() if path.is_relative_to(folder)), None)
        return records is not None and records.lists(path)

    return is_ours
