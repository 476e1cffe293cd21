"""``train_ser``: folds of Table 2, resumed trainings, and folders that ``speechbrain:FOLDER`` evaluates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.tiny_models import tiny_wav2vec2
from voiceveil.audio import load, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, open_corpus, write_kaldi
from voiceveil.corpus.iemocap import DEVELOPMENT, TABLE_2
from voiceveil.models import emotion_folds, evaluate_emotion, pretrained_recognizer
from voiceveil.models.speechbrain.emotion import SpeechBrainEmotionModel
from voiceveil.models.speechbrain.files import checkpoints, read_tensors
from voiceveil.testing import synthetic_voice
from voiceveil.training import official_ser
from voiceveil.training.official_ser import FoldTrainer
from voiceveil.training.ser import SerSettings, split_folds, train_ser
from voiceveil.training.training_run import TrainingRun

EMOTIONS = ("neu", "ang", "hap", "sad")
FOLDS = ("1", "2", "3")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wav2vec 2.0, and two sets with one speaker of each of three folds, four emotions each, 0.3 to 0.5 s long."""
    root = tmp_path_factory.mktemp("ser")
    tiny_wav2vec2(root / "wav2vec2-tiny")
    for number, name in enumerate(("IEMOCAP_dev", "IEMOCAP_test")):
        utterances = []
        for fold in FOLDS:
            for index, emotion in enumerate(EMOTIONS):
                speaker = f"Ses0{fold}{'FM'[number]}"
                path = root / "audio" / f"{speaker}_{index}.wav"
                save(path, synthetic_voice(10 * number + int(fold), index, seconds=0.3 + 0.05 * index))
                utterances.append(Utterance(path.stem, path, speaker=speaker, gender="f", emotion=emotion, fold=fold))
        write_kaldi(Corpus(name, tuple(utterances)), root / "data" / name)
    return root


@pytest.fixture(scope="module")
def corpora(world: Path) -> list[Corpus]:
    return [open_corpus(world / "data" / name) for name in ("IEMOCAP_dev", "IEMOCAP_test")]


@pytest.fixture(scope="module")
def settings(world: Path) -> SerSettings:
    return SerSettings(str(world / "wav2vec2-tiny"), epochs=2, batch_size=4)


@pytest.fixture(scope="module")
def trained(corpora: list[Corpus], settings: SerSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "ser"
    train_ser(corpora, out, settings)
    return out


def iemocap() -> Corpus:
    """Return IEMOCAP at its full size, as its reader does, without files."""
    utterances = [
        Utterance(
            f"Ses0{session}{gender.upper()}_impro01_{number:03d}",
            Path("a.wav"),
            speaker=f"Ses0{session}{gender.upper()}",
            emotion=EMOTIONS[number % 4],
            fold=session,
            subset="dev" if DEVELOPMENT[session] == gender else "eval",
        )
        for (session, gender), count in TABLE_2.items()
        for number in range(count)
    ]
    return Corpus("iemocap", tuple(utterances))


def test_a_fold_learns_from_the_eight_speakers_of_the_other_conversations() -> None:
    whole = iemocap()
    sets = [
        replace(whole, utterances=tuple(replace(u, subset=None) for u in whole if u.subset == subset))
        for subset in ("dev", "eval")
    ]
    for corpora in ([whole], sets):
        split = split_folds(corpora)
        assert [data.fold for data in split] == ["1", "2", "3", "4", "5"]
        for data in split:
            own = {f"Ses0{data.fold}F", f"Ses0{data.fold}M"}
            speakers = {u.speaker for u in data.train}
            assert len(speakers) == 8
            assert not speakers & own
            assert len(data.train) == 5531 - TABLE_2[data.fold, "f"] - TABLE_2[data.fold, "m"]
            assert {u.speaker for u in data.validation} == {f"Ses0{data.fold}{DEVELOPMENT[data.fold].upper()}"}
            assert data.labels == ["neu", "ang", "hap", "sad"]


def test_folds_without_a_development_speaker_or_a_plain_name_are_refused(corpora: list[Corpus]) -> None:
    part = corpora[0].filter(lambda u: u.fold != "2")
    with pytest.raises(InputError, match=r"fold 2 has no development speaker.*--data data/IEMOCAP_dev"):
        split_folds([part, corpora[1]])
    named = [replace(c, utterances=tuple(replace(u, fold=f"../{u.fold}") for u in c)) for c in corpora]
    with pytest.raises(InputError, match=r"fold '\.\./1' cannot be the name of a folder"):
        split_folds(named)


def test_trained_folder_is_evaluated(
    trained: Path, corpora: list[Corpus], world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = json.loads((trained / "record.json").read_text())
    monkeypatch.chdir(tmp_path)
    (world / "wav2vec2-tiny").rename(world / "elsewhere")  # the folder needs nothing of it
    try:
        for fold in FOLDS:
            (folder,) = checkpoints(trained / f"fold_{fold}")
            assert folder.name == f"CKPT+{record['folds'][fold]['best_epoch']}"
            model = SpeechBrainEmotionModel(trained / f"fold_{fold}", "correct")
            assert model.labels == EMOTIONS
        corpus = replace(corpora[0], utterances=(*corpora[0], *corpora[1]))
        recognizer = pretrained_recognizer(f"speechbrain:{trained}")
        result = evaluate_emotion(corpora[1], emotion_folds(corpus), recognizer)
        assert 0 <= result.uar.value <= 1
        assert set(result.hyps.values()) <= set(EMOTIONS)
    finally:
        (world / "elsewhere").rename(world / "wav2vec2-tiny")
    entry = record["folds"]["2"]
    assert entry["speakers"] == ["Ses01F", "Ses01M", "Ses03F", "Ses03M"]
    assert entry["validation_speakers"] == ["Ses02F"]
    assert (entry["utterances"], entry["validation_utterances"], entry["steps"]) == (16, 4, 8)


def test_probabilities_of_the_folder_are_those_of_the_training(trained: Path, corpora: list[Corpus]) -> None:
    """The validation error in the record, from utterances one by one: batches of equal length are not padded."""
    equal = [replace(c, utterances=tuple(replace(u, duration=0.3) for u in c)) for c in corpora]
    model = json.loads((trained / "record.json").read_text())["folds"]["1"]
    out = trained.parent / "equal"
    record = train_ser(equal, out, SerSettings(str(_source(trained)), epochs=1))["folds"]["1"]
    judge = SpeechBrainEmotionModel(out / "fold_1", "correct")
    wrong = 0
    for utterance in split_folds(equal)[0].validation:
        probabilities = judge(load(utterance.path, duration=0.3))
        wrong += max(probabilities, key=lambda label: probabilities[label]) != utterance.emotion
    assert record["error_rate"] == wrong / 4
    assert model["error_rate"] in (0, 0.25, 0.5, 0.75, 1)


def _source(trained: Path) -> Path:
    settings = (trained / "fold_1").glob("CKPT+*/hyperparams.yaml")
    line = next(line for line in next(settings).read_text().splitlines() if line.startswith("wav2vec2_hub: "))
    return Path(json.loads(line.partition(": ")[2]))


def test_best_epoch_is_kept_and_rates_fall_without_improvement(
    corpora: list[Corpus], settings: SerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter([0.5, 0.25, 0.25, 0.5] * 3)
    monkeypatch.setattr(FoldTrainer, "_errors", lambda self: (1.0, next(errors)))
    record = train_ser(corpora, tmp_path / "ser", replace(settings, epochs=4, batch_size=16))
    for fold in FOLDS:
        assert [path.name for path in checkpoints(tmp_path / "ser" / f"fold_{fold}")] == ["CKPT+3"]
        curve = record["folds"][fold]["curve"]
        assert [row["rates"] for row in curve] == [
            pytest.approx([1e-5, 1e-4]), pytest.approx([1e-5, 1e-4]), pytest.approx([1e-5, 1e-4]),
            pytest.approx([0.9e-5, 0.9e-4]),
        ]  # fmt: skip
    log = (tmp_path / "ser" / "fold_1" / "train_log.txt").read_text().splitlines()
    assert log[3].startswith("Epoch: 4, lr: 9.00e-05, wave2vec_lr: 9.00e-06 - train loss: ")
    assert log[3].endswith("valid loss: 1, valid error_rate: 5.00e-01")


def test_killed_training_resumes_with_the_same_result(
    trained: Path, corpora: list[Corpus], settings: SerSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the second fold, between two checkpoints; the first one is not trained again."""
    step, calls = official_ser.training_step, []

    def killed(*args: Any) -> float:
        calls.append(1)
        if len(calls) == 8 + 6:
            raise KeyboardInterrupt
        return step(*args)

    monkeypatch.setattr(official_ser, "training_step", killed)
    with pytest.raises(KeyboardInterrupt):
        train_ser(corpora, tmp_path / "ser", settings, TrainingRun(checkpoint_every=0.0))
    monkeypatch.undo()
    first = (tmp_path / "ser" / "fold_1" / "record.json").stat().st_mtime_ns
    assert (tmp_path / "ser" / "fold_2" / "checkpoint.safetensors").exists()
    with pytest.raises(InputError, match="fold_2: the training of the emotion model has not finished"):
        pretrained_recognizer(f"speechbrain:{tmp_path / 'ser'}")
    record = train_ser(corpora, tmp_path / "ser", settings)
    assert (tmp_path / "ser" / "fold_1" / "record.json").stat().st_mtime_ns == first
    assert not list(tmp_path.glob("ser/fold_*/checkpoint.safetensors"))
    for fold in FOLDS:
        paths = [checkpoints(folder / f"fold_{fold}")[0] for folder in (trained, tmp_path / "ser")]
        assert paths[0].name == paths[1].name
        for name in ("wav2vec2.ckpt", "model.ckpt"):
            states = [read_tensors(path / name) for path in paths]
            assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert train_ser(corpora, tmp_path / "ser", settings) == record  # finished: not trained again
    with pytest.raises(InputError, match="another training is here; it differs in seed"):
        train_ser(corpora, tmp_path / "ser", replace(settings, seed=1))


def command(world: Path, out: Path) -> list[str]:
    data = [str(world / "data" / name) for name in ("IEMOCAP_dev", "IEMOCAP_test")]
    model = str(world / "wav2vec2-tiny")
    return ["train", "ser", "--model", model, "--data", *data, "--out", str(out), "--epochs", "1"]


def test_command(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "exp" / "ser"
    assert main(command(world, out)) == 0
    printed = capsys.readouterr()
    assert "fold 1: trained on 16 utterances of 4 speakers; epoch 1 is kept: " in printed.out
    assert "of 4 utterances of Ses01F are recognized" in printed.out
    assert printed.out.splitlines()[-1] == f"emotion model: speechbrain:{out}"
    assert "fold 3: Epoch: 1" in printed.err
    assert main([*command(world, out), "--overwrite", "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["folds"]["3"]["best_epoch"] == 1
    (out / "fold_2" / "CKPT+1" / "model.ckpt").write_bytes(b"mine")
    assert main(command(world, out)) == 1
    assert "model.ckpt: this file exists, and the run did not write it" in capsys.readouterr().err


def test_mistakes_are_told_before_the_work(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = command(world, tmp_path / "ser")
    for wrong, right, message in (
        (f"{world}/wav2vec2-tiny", f"{world}/wav2vec2-tini", "no such folder"),
        (f"{world}/wav2vec2-tiny", f"{world}/data", "config.json is missing"),
        (f"{world}/data/IEMOCAP_test", f"{world}/data/IEMOCAP_tets", "IEMOCAP_tets"),
        (f"{world}/data/IEMOCAP_dev", f"{world}/audio", "the corpus has no emotion labels"),
        (f"{world}/data/IEMOCAP_dev", f"{world}/data/IEMOCAP_test", "utterance Ses01M_0 is in two corpora"),
        ("1", "0", "--epochs 0"),
    ):
        changed = [right if argument == wrong else argument for argument in arguments]
        assert main(changed) == 1
        assert message in capsys.readouterr().err, message
    assert not list(tmp_path.glob("ser/fold_*"))


def test_ctrl_c_says_how_to_go_on(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(official_ser, "training_step", interrupted)
    assert main(command(world, tmp_path / "ser")) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "voiceveil train: interrupted; the same command resumes the run"
    monkeypatch.undo()
    assert main(command(world, tmp_path / "ser")) == 0
