"""The official training of 2024: rows, order, loss and steps agree with the challenge's code."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.official_models import CHECKOUT, REFERENCE, needs_reference
from voiceveil.audio import Waveform, save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.models.speaker.encoders import encoder
from voiceveil.models.speechbrain.ecapa import build, to_speechbrain
from voiceveil.models.speechbrain.fbank import fbank, subtract_sentence_mean
from voiceveil.models.speechbrain.files import checkpoints, read_labels, read_tensors
from voiceveil.models.speechbrain.hyperparams import read_hyperparams
from voiceveil.run.context import RunContext
from voiceveil.testing import synthetic_voice
from voiceveil.training import official_asv
from voiceveil.training.asv import AsvSettings, train_asv
from voiceveil.training.asv_recipes import Triangular, recipe_for
from voiceveil.training.official_asv import Model, OfficialTrainer, aam_logits, make_optimizer, training_step
from voiceveil.training.official_asv_rows import LoudChunks, Row, csv_text, make_rows, read_chunk, row_order, split_rows
from voiceveil.training.training_run import TrainingRun

GOLDEN: dict[str, Any] = json.loads((CHECKOUT / "training.json").read_text())
TRAINED = CHECKOUT / "exp" / "asv_anon_x" / "CKPT+10"
SETTINGS = AsvSettings(
    recipe="official", channels=8, epochs=2, batch_size=8, seconds_per_chunk=0.5, trained_on="anonymized"
)


def test_learning_rates() -> None:
    schedule = recipe_for("ecapa", "official").schedule
    for step, rate in GOLDEN["lr_by_step"].items():
        assert schedule.rate(int(step), 13_580) == pytest.approx(rate, abs=1e-15)


@needs_reference
def test_learning_rates_in_the_log(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The challenge's tiny run had 19 batches an epoch, and a rise of 200 steps."""
    recipe = replace(recipe_for("ecapa", "official"), schedule=Triangular(1e-8, 0.01, 200), epochs=2, longest=0.5)
    split = split_rows(corpus.utterances, 0.5, 0, RunContext())
    trainer = OfficialTrainer(split, recipe, {"channels": 8, "seed": 0, "data": "original"}, TrainingRun())
    trainer.count = 19
    monkeypatch.setattr(trainer, "_epoch", lambda out, progress: None)
    trainer.train(tmp_path)
    expected = (REFERENCE / "ecapa" / "exp" / "asv_anon_x" / "train_log.txt").read_text().splitlines()[:2]
    logged = (tmp_path / "train_log.txt").read_text().splitlines()
    assert [line.partition(" - ")[0] for line in logged] == [line.partition(" - ")[0] for line in expected]


def test_order_of_rows() -> None:
    for epoch, order in GOLDEN["sampler"]["n20"].items():
        assert row_order(20, int(epoch)) == order
    for epoch, expected in GOLDEN["sampler"]["n1000"].items():
        order = row_order(1000, int(epoch))
        assert order[:10] == expected["first10"]
        assert hashlib.sha256(",".join(map(str, order)).encode()).hexdigest() == expected["sha256_of_comma_joined"]


@pytest.mark.parametrize("seconds", GOLDEN["chunk_rule"])
def test_rows_of_a_recording(seconds: str) -> None:
    samples = np.full(round(float(seconds) * 16000), 0.1, np.float32)
    kept = LoudChunks(3.0)(Waveform(samples, 16000))
    rows = [Row(Utterance("100-121669-0000", Path("a.wav")), kept[0], chunk, 3.0) for chunk in kept[1:]]
    assert [row.name for row in rows] == GOLDEN["chunk_rule"][seconds]


def test_silent_chunks_have_no_row_and_lists_are_those_of_the_challenge() -> None:
    samples = np.full(16000 * 9, 0.1, np.float32)
    samples[48000:96000] = 4e-4
    kept = LoudChunks(3.0)(Waveform(samples, 16000))
    assert kept == [144000, 0, 2]
    utterance = Utterance("1898-145715-0010", Path("data/x/wav/1898-145715-0010.wav"), speaker="1898")
    assert csv_text([Row(utterance, 176720, 1, 3.0)]).splitlines() == [
        "ID,duration,wav,start,stop,spk_id",
        "1898--145715--0010_3.0_6.0,11.045,data/x/wav/1898-145715-0010.wav,48000,96000,1898",
    ]


def test_logits_with_the_margin() -> None:
    example = GOLDEN["aam_example"]
    logits = aam_logits(torch.tensor(example["cosine"]), torch.tensor(example["labels"]))
    assert np.abs(logits.numpy() - np.array(example["logits"])).max() < 1e-5
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(example["labels"]))
    assert float(loss) == pytest.approx(example["loss"], rel=1e-6)


def trained_model() -> Model:
    """Return the tiny model that the challenge's code trained."""
    model = Model(64, 8)
    model.network = build(read_tensors(TRAINED / "embedding_model.ckpt"))
    model.classifier.data = read_tensors(TRAINED / "classifier.ckpt")["weight"]
    return model


@needs_reference
def test_first_step_in_training_mode() -> None:
    with np.load(REFERENCE / "ecapa" / "train.npz") as arrays:
        expected = dict(arrays)
    samples, labels = torch.from_numpy(expected["x"] / np.float32(32768)), torch.from_numpy(expected["labels"])
    model = trained_model().train()
    embeddings = model.network(subtract_sentence_mean(fbank(samples)))
    assert np.abs(embeddings.detach().numpy() - expected["train_emb"]).max() < 1e-3
    statistics = to_speechbrain(model.network)
    for name in (key.removeprefix("bn_after_one_forward_") for key in expected if key.startswith("bn_")):
        assert np.abs(statistics[name].numpy() - expected[f"bn_after_one_forward_{name}"]).max() < 1e-4, name
    cosine = torch.nn.functional.linear(*map(torch.nn.functional.normalize, (embeddings, model.classifier)))
    assert np.abs(cosine.detach().numpy() - expected["train_cos"]).max() < 1e-4
    logits = aam_logits(cosine, labels)
    assert np.abs(logits.detach().numpy() - expected["train_aam_logits"]).max() < 1e-3
    loss = torch.nn.functional.cross_entropy(logits, labels)
    assert float(loss.detach()) == pytest.approx(float(expected["train_loss"]), abs=1e-4)
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    assert float(norm) == pytest.approx(float(expected["first_step_total_grad_norm"]), rel=1e-4)
    assert model.classifier.grad is not None
    assert np.abs(model.classifier.grad.numpy() - expected["grad_classifier"]).max() < 1e-4


@needs_reference
def test_five_steps() -> None:
    with np.load(REFERENCE / "ecapa" / "train.npz") as arrays:
        expected = dict(arrays)
    samples, labels = torch.from_numpy(expected["x"] / np.float32(32768)), torch.from_numpy(expected["labels"])
    model, recipe = trained_model(), recipe_for("ecapa", "official")
    optimizer = make_optimizer(model, recipe.weight_decay)
    rates = [recipe.schedule.rate(6501 + step, 0) for step in range(5)]
    assert np.abs(rates - expected["steps_lr"]).max() < 1e-15
    losses = [training_step(model, optimizer, samples, labels, rate) for rate in rates]
    assert losses == pytest.approx(expected["steps_loss"].tolist(), rel=1e-2)
    with torch.inference_mode():
        after = model.eval().network(subtract_sentence_mean(fbank(samples))).numpy()
    scale = np.abs(expected["steps_emb_eval_after5"]).max()
    assert np.abs(after - expected["steps_emb_eval_after5"]).max() < 1e-3 * scale
    assert np.abs(model.classifier.detach().numpy() - expected["after5_classifier_weight"]).max() < 1e-5
    state = to_speechbrain(model.network)
    assert np.abs(state["fc.conv.bias"].numpy() - expected["after5_fc_bias"]).max() < 1e-4
    assert np.abs(state["blocks.0.norm.norm.weight"].numpy() - expected["after5_blocks0_norm_weight"]).max() < 1e-4


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Return 24 utterances of four synthetic voices, 0.4 to 1.8 s long."""
    folder = tmp_path_factory.mktemp("voices")
    utterances = []
    for speaker in range(4):
        for index in range(6):
            path = folder / f"{speaker}-1-{index:04d}.wav"
            save(path, synthetic_voice(speaker, index, seconds=0.4 + 0.28 * index))
            utterances.append(Utterance(path.stem, path, speaker=str(speaker)))
    return Corpus("voices", tuple(utterances))


def test_a_chunk_is_a_random_part_of_its_recording(corpus: Corpus) -> None:
    row = make_rows(corpus.utterances[5:6], 0.5, RunContext())[0]
    chunks = [read_chunk(row, key) for key in ("a", "a", "b")]
    assert all(chunk.shape == (8000,) for chunk in chunks)
    assert np.array_equal(chunks[0], chunks[1])
    assert not np.array_equal(chunks[0], chunks[2])


def test_parts_have_the_same_speakers(corpus: Corpus) -> None:
    split = split_rows(corpus.utterances, 0.5, 0, RunContext())
    train, dev = ({row.utterance.id for row in rows} for rows in (split.train, split.dev))
    assert not train & dev
    assert split.speakers == list(dict.fromkeys(row.speaker for row in split.train))
    assert {row.speaker for row in split.dev} <= set(split.speakers)
    assert split == split_rows(corpus.utterances[::-1], 0.5, 0, RunContext())
    assert split.train != split_rows(corpus.utterances, 0.5, 1, RunContext()).train
    with pytest.raises(InputError, match="gets 0 chunks of 60 s of 0 speakers"):
        split_rows(corpus.utterances, 60.0, 0, RunContext())


def test_training_writes_the_folder_of_the_challenge(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = train_asv([corpus], tmp_path, SETTINGS, TrainingRun(jobs=2, quiet=False))
    told = f"in {record['steps']} steps the learning rate reaches only {record['highest_learning_rate']:.3g} of 0.01"
    assert f"WARNING: {told}" in capsys.readouterr().err
    last = tmp_path / "CKPT+2"
    assert checkpoints(tmp_path)[0] == last
    state = read_tensors(last / "embedding_model.ckpt")
    reference = read_tensors(TRAINED / "embedding_model.ckpt")
    assert list(state) == list(reference)
    assert [tensor.dtype for tensor in state.values()] == [tensor.dtype for tensor in reference.values()]
    assert read_tensors(last / "classifier.ckpt")["weight"].shape == (4, 192)
    ours, theirs = (read_hyperparams(folder / "hyperparams.yaml") for folder in (last, TRAINED))
    theirs["embedding_model"]["channels"] = [8, 8, 8, 8, 24]
    theirs["classifier"]["out_neurons"] = 4
    for key in ("compute_features", "mean_var_norm", "embedding_model", "mean_var_norm_emb", "classifier"):
        assert ours[key] == theirs[key]
    assert ours["pretrainer"]["loadables"].keys() == theirs["pretrainer"]["loadables"].keys()
    assert read_labels(tmp_path / "label_encoder.txt") == list(dict.fromkeys(
        line.rpartition(",")[2] for line in (tmp_path / "train.csv").read_text().splitlines()[1:]
    ))  # fmt: skip
    assert len((tmp_path / "train_log.txt").read_text().splitlines()) == 2
    assert not (tmp_path / "checkpoint.safetensors").exists()
    model = encoder(f"speechbrain:{tmp_path}")
    assert model(synthetic_voice(1, seconds=1.0)).shape == (192,)
    training = model.training()
    assert (training.data, training.speakers, training.peak_reached) == ("anonymized", 4, False)
    assert training.accuracy == pytest.approx(record["accuracy"])
    assert train_asv([corpus], tmp_path, SETTINGS) == record  # finished: not trained again


def test_all_but_the_best_and_the_last_checkpoint_are_removed(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter([0.5, 0.2, 0.3, 0.2, 0.4])
    monkeypatch.setattr(official_asv.OfficialTrainer, "_errors", lambda self: (1.0, next(errors)))
    settings = AsvSettings(recipe="official", channels=8, epochs=5, batch_size=64, seconds_per_chunk=0.5)
    train_asv([corpus], tmp_path, settings)
    assert [path.name for path in checkpoints(tmp_path)] == ["CKPT+5", "CKPT+4"]
    assert encoder(f"speechbrain-correct:{tmp_path}").fingerprint() != encoder(f"speechbrain:{tmp_path}").fingerprint()


def test_killed_training_resumes_with_the_same_result(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_asv([corpus], tmp_path / "calm", SETTINGS)
    step, calls = official_asv.training_step, []

    def killed(*args: Any) -> float:
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return step(*args)

    monkeypatch.setattr(official_asv, "training_step", killed)
    with pytest.raises(KeyboardInterrupt):
        train_asv([corpus], tmp_path / "killed", SETTINGS, TrainingRun(checkpoint_every=0.0))
    monkeypatch.undo()
    with pytest.raises(InputError, match="killed: the training of the encoder has not finished"):
        encoder(f"speechbrain:{tmp_path / 'killed'}").check()  # a half-trained attacker would overstate privacy
    train_asv([corpus], tmp_path / "killed", SETTINGS)
    states = [read_tensors(tmp_path / name / "CKPT+2" / "embedding_model.ckpt") for name in ("calm", "killed")]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_another_training_is_refused_or_overwritten(corpus: Corpus, tmp_path: Path) -> None:
    train_asv([corpus], tmp_path, SETTINGS)
    other = AsvSettings(recipe="official", channels=16, epochs=1, batch_size=8, seconds_per_chunk=0.5)
    with pytest.raises(InputError, match="another training is here"):
        train_asv([corpus], tmp_path, other)
    train_asv([corpus], tmp_path, other, TrainingRun(overwrite=True))
    assert [path.name for path in checkpoints(tmp_path)] == ["CKPT+1"]
    with pytest.raises(InputError, match="trains on all speakers"):
        train_asv([corpus], tmp_path / "new", AsvSettings(recipe="official", validation_speakers=2))
    shutil.rmtree(tmp_path / "new")
