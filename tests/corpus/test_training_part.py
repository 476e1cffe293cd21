"""What models may be trained on: training files, and neither enrollment nor trials nor their speakers."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from voiceveil import InputError
from voiceveil.cli.train_options import opened_utterances
from voiceveil.corpus import Corpus, Utterance, open_corpus
from voiceveil.corpus.training_part import open_training_corpus, training_part

LABELS = "train-file-id speaker-id phrase-id\n"
MODELS = "model-id phrase-id gender enroll-file-id1 enroll-file-id2 enroll-file-id3\n"


def deepmine(root: Path, *, keys: bool = False) -> Path:
    """Four training speakers, of whom the keys name the third; a model and two trials."""
    docs = root / "docs"
    docs.mkdir(parents=True)
    (docs / "train_labels.txt").write_text(
        LABELS + "".join(f"trn_{s}{k} spk_{s} 0{k}\n" for s in (1, 2, 3, 4) for k in (1, 2, 3))
    )
    (docs / "eval_model_enrollment.txt").write_text(MODELS + "model_1 05 m enr_1 enr_2 enr_3\n")
    (docs / "eval_trials.txt").write_text("model-id evaluation-file-id\nmodel_1 evl_1\nmodel_1 evl_2\n")
    if keys:
        (docs / "eval_keys.txt").write_text(
            "model-id evaluation-file-id trial-type speaker-id test-speaker-id\n"
            "model_1 evl_1 TC spk_3 spk_3\nmodel_1 evl_2 IC spk_3 -\n"
        )
    return root


def ids(corpus: Corpus) -> set[str]:
    return {utterance.id for utterance in corpus}


def test_enrollment_and_trials_are_not_trained_on(tmp_path: Path) -> None:
    corpus = open_corpus(f"deepmine:{deepmine(tmp_path)}")
    assert {u.role for u in corpus} == {"train", "enroll", "trial"}
    part = training_part(corpus)
    assert {u.role for u in part} == {"train"}
    assert {u.speaker for u in part} <= {"spk_1", "spk_2", "spk_3", "spk_4"}  # no model is taken for a speaker
    assert not ids(part) & {"enr_1", "enr_2", "evl_1"}


def test_speakers_of_the_keys_are_not_trained_on(tmp_path: Path) -> None:
    root = deepmine(tmp_path, keys=True)
    corpus = open_corpus(f"deepmine:{root}")
    assert {u.speaker for u in training_part(corpus)} == {"spk_1", "spk_2", "spk_4"}
    lines = (root / "docs/eval_keys.txt").read_text().splitlines()
    everybody = [f"model_1 evl_{s} IC spk_{s} spk_{s}" for s in (1, 2, 3, 4)]
    (root / "docs/eval_keys.txt").write_text("\n".join([lines[0], *everybody]) + "\n")
    with pytest.raises(InputError, match="all training files are of enrollment, trials or their speakers"):
        training_part(corpus)


def test_training_files_that_lists_name_are_an_error(tmp_path: Path) -> None:
    root = deepmine(tmp_path)
    (root / "docs/eval_trials.txt").write_text("model-id evaluation-file-id\nmodel_1 trn_22\n")
    with pytest.raises(InputError, match="trn_22"):
        open_training_corpus(f"deepmine:{root}")


def test_a_challenge_without_training_files_is_refused(tmp_path: Path) -> None:
    root = deepmine(tmp_path)
    (root / "docs/train_labels.txt").write_text(LABELS)
    with pytest.raises(InputError, match="no training files"):
        training_part(open_corpus(f"deepmine:{root}"))


def test_other_corpora_stay_as_they_are() -> None:
    corpus = Corpus("x", tuple(Utterance(id, Path(f"/n/{id}.wav"), speaker="s") for id in "abc"))
    assert training_part(corpus) is corpus


def test_trainings_open_the_training_part(tmp_path: Path) -> None:
    spec = f"deepmine:{deepmine(tmp_path)}"
    expected = {f"trn_{s}{k}" for s in (1, 2, 3, 4) for k in (1, 2, 3)}
    assert ids(open_training_corpus(spec)) == expected
    assert {u.id for u in opened_utterances(argparse.Namespace(data=[spec]))} == expected
