"""Training of emotion recognizers: SER_eval of the 2024 challenge, one model for each fold.

A fold of IEMOCAP is a conversation of two actors. Its model learns from the eight speakers of the other four
conversations (evaluation plan of 2024, Table 2); of its own two speakers, that of the development set chooses the
learning rates and the epoch, as in SpeechBrain's recipe, and that of the evaluation set has no influence at all.

``train_ser`` writes ``fold_<fold>`` for each, and ``record.json``; finished folds are not trained again, and a killed
one resumes from its last checkpoint, on the CPU to the same weights.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voiceveil.core.errors import InputError
from voiceveil.core.locking import exclusive_lock
from voiceveil.corpus import Corpus, Utterance
from voiceveil.models.asr.recognition import checked_durations
from voiceveil.models.emotion.folds import emotion_folds
from voiceveil.training.asv_data import digest
from voiceveil.training.training_run import TrainingRun, check_run, finished_training, write_record

if TYPE_CHECKING:
    from voiceveil.training.official_ser import FoldData

__all__ = ["SerSettings", "split_folds", "train_ser"]

_FOLDER_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_FEWEST = 400  # samples that make one row of wav2vec 2.0
RECORD_KIND = "training record of emotion recognizers"


@dataclass(frozen=True)
class SerSettings:
    """Settings that the weights depend on, besides the speech; None is the recipe's value.

    Parameters
    ----------
    model : str
        wav2vec 2.0 to begin with: its folder, or its hub id if it is on this machine.
    epochs, batch_size : int, optional
        Passes over the speech, and utterances in a batch.
    seed : int
        Of the output layer, dropout and noise.
    """

    model: str
    epochs: int | None = None
    batch_size: int | None = None
    seed: int = 0


def train_ser(
    corpora: Sequence[Corpus], out: Path, settings: SerSettings, run: TrainingRun | None = None
) -> dict[str, Any]:
    """Train an emotion recognizer for each fold; return the record, which is also in ``out``.

    Parameters
    ----------
    corpora
        Speech with emotions, speakers and folds. The first one is the development set, see :func:`split_folds`.
    out
        Folder for ``fold_<fold>``, which ``speechbrain:FOLDER`` reads.
    settings
        Model to begin with, and changes of the recipe.
    run
        Device, processes and files (default: those of :class:`TrainingRun`).

    Raises
    ------
    InputError
        If a setting, the model or the speech cannot be used, or another training is in the folder.
    """
    run = check_run(run or TrainingRun())
    from voiceveil.training.official_ser import CHECKPOINT_KIND, FoldTrainer, SerRecipe
    from voiceveil.training.official_ser_files import SourceModel

    changes = {"epochs": settings.epochs, "batch_size": settings.batch_size}
    recipe = SerRecipe(**{name: value for name, value in changes.items() if value is not None})
    source = SourceModel(settings.model)
    folds = split_folds(corpora)
    utterances = list({u.id: u for data in folds for u in (*data.train, *data.validation)}.values())
    checked_durations(utterances, _FEWEST / 16000)
    recorded = {
        "model": source.digest(),
        "recipe": asdict(recipe),
        "data_sha256": digest(utterances),
        "seed": settings.seed,
    }
    with exclusive_lock(out, "another training"):
        finished = finished_training(out, recorded, CHECKPOINT_KIND, overwrite=run.overwrite)
        if finished is not None:
            return finished
        records = {}
        for data in folds:
            folder, own = out / f"fold_{data.fold}", {**recorded, "split_sha256": _digest(data)}
            record = finished_training(folder, own, CHECKPOINT_KIND, overwrite=False)
            if record is None:
                record = FoldTrainer(data, source, recipe, own, run).train(folder)
                write_record(folder, record)
                (folder / "checkpoint.safetensors").unlink(missing_ok=True)
            records[data.fold] = record
        summary = {
            "kind": RECORD_KIND,
            "emotion_model": "speechbrain",
            "corpora": [{"name": corpus.name, "utterances": len(corpus)} for corpus in corpora],
            "folds": records,
            "settings": recorded,
        }
        write_record(out, summary)
    return summary


def split_folds(corpora: Sequence[Corpus]) -> list[FoldData]:
    """Return the utterances of each fold, sorted by their ids.

    The training utterances of a fold are those of all other folds, in all corpora. Its validation utterances are its
    own ones in the first corpus; where the corpus says of utterances which subset they are in, those of ``dev``.

    Raises
    ------
    InputError
        If labels or folds do not allow it, or a fold has no validation utterances.
    """
    from voiceveil.training.official_ser import FoldData

    utterances: dict[str, Utterance] = {}
    for corpus in corpora:
        if not any(u.emotion for u in corpus):
            fix = "give IEMOCAP_dev and IEMOCAP_test of `voiceveil corpus prepare`, sets with utt2emo, or iemocap:PATH"
            raise InputError("the corpus has no emotion labels", where=corpus.root, fix=fix)
        if twice := next((u.id for u in corpus if u.id in utterances), None):
            raise InputError(f"utterance {twice} is in two corpora", where=corpus.root, fix="name each corpus once")
        utterances.update({u.id: u for u in corpus})
    merged = replace(corpora[0], utterances=tuple(utterances[id] for id in sorted(utterances)), trials=None)
    folds = emotion_folds(merged)
    development = {u.id for u in corpora[0] if u.subset in (None, "dev")}
    split = []
    for fold in folds.names:
        if not _FOLDER_NAME.fullmatch(fold):
            fix = "name folds with letters and digits, e.g. 1 to 5"
            raise InputError(f"fold {fold!r} cannot be the name of a folder", where=merged.root, fix=fix)
        train = [utterances[id] for id, other in folds.fold.items() if other != fold]
        validation = [utterances[id] for id, own in folds.fold.items() if own == fold and id in development]
        if not validation:
            fix = "name the development set first: --data data/IEMOCAP_dev data/IEMOCAP_test"
            raise InputError(f"fold {fold} has no development speaker", where=corpora[0].root, fix=fix)
        labels = list(dict.fromkeys(str(u.emotion) for u in train))
        split.append(FoldData(fold, train, validation, labels))
    return split


def _digest(data: FoldData) -> str:
    """Return a hash of who is trained and validated on, and of the emotions."""

    def rows(utterances: Sequence[Utterance]) -> list[str]:
        return [f"{u.id} {u.emotion}" for u in utterances]

    text = "\n".join([data.fold, *rows(data.train), "", *rows(data.validation)])
    return hashlib.sha256(text.encode()).hexdigest()
