"""The official training of SER_eval: steps and learning rates agree with SpeechBrain's recipe for IEMOCAP."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import Wav2Vec2Config, Wav2Vec2Model

from tests.support.official_models import CHECKOUT, NOISES, golden, wave_of
from tests.support.tiny_models import tiny_wav2vec2
from voiceveil.core.errors import InputError
from voiceveil.models.speechbrain.files import read_labels, read_tensors
from voiceveil.models.speechbrain.hyperparams import read_hyperparams
from voiceveil.models.speechbrain.wav2vec2 import load_wav2vec2, wav2vec2_configuration
from voiceveil.training import official_ser
from voiceveil.training.official_ser import Model, SerRecipe, annealed, make_optimizer, pad, training_step
from voiceveil.training.official_ser_files import SourceModel, official_weights, write_emotion_model

REFERENCE: dict[str, Any] = json.loads((CHECKOUT / "ser_training.json").read_text())
FOLD = CHECKOUT / "exp" / "ser" / "fold_1" / "CKPT+1"


def reference_model() -> Model:
    """Return the model of the challenge's fold 1, without dropout."""
    settings = FOLD / "hyperparams.yaml"
    configuration = wav2vec2_configuration(read_hyperparams(settings), settings)
    network = load_wav2vec2(FOLD / "wav2vec2.ckpt", configuration, "cpu").network
    for name in ("attention_dropout", "hidden_dropout", "feat_proj_dropout", "activation_dropout", "layerdrop"):
        setattr(network.config, name, 0.0)
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name in ("dropout", "activation_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    model = Model(network, configuration[1], 4)
    model.output.weight.data = read_tensors(FOLD / "model.ckpt")["0.w.weight"].clone()
    return model


def noises() -> tuple[torch.Tensor, torch.Tensor]:
    return pad([torch.from_numpy(wave_of(golden()[f"x_{name}"]).samples) for name in NOISES])


def test_five_steps_agree_with_speechbrain() -> None:
    model, (samples, lengths) = reference_model(), noises()
    assert lengths.tolist() == REFERENCE["lens"]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer = make_optimizer(model, SerRecipe())
    batch = (samples, lengths, torch.tensor(REFERENCE["labels"]))
    losses = []
    for step in range(5):
        torch.manual_seed(step)
        losses.append(training_step(model, optimizer, batch, SerRecipe().largest_norm))
    assert losses == pytest.approx(REFERENCE["loss"], rel=1e-5)
    after = model.state_dict()
    for name, key in (
        ("output.weight", "output"),
        ("wav2vec2.feature_projection.projection.bias", "projection_bias"),
        ("wav2vec2.encoder.layers.1.final_layer_norm.weight", "last_norm"),
    ):
        assert np.abs(after[name].numpy() - np.array(REFERENCE[key])).max() < 1e-6, name
        assert not torch.equal(after[name], before[name])
    frozen = [name for name in after if name.startswith("wav2vec2.feature_extractor.")]
    assert frozen
    assert all(torch.equal(after[name], before[name]) for name in frozen)


def test_learning_rates_agree_with_speechbrain() -> None:
    rate, before = 1e-4, None
    for errors, expected in zip(REFERENCE["newbob"]["errors"], REFERENCE["newbob"]["rates"], strict=True):
        rate, before = annealed(rate, before, errors, SerRecipe()), errors
        assert rate == pytest.approx(expected, rel=1e-12)


def normalized(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values minus their mean, divided by the root of their variance plus 1e-5."""
    return np.asarray((values - values.mean()) / math.sqrt(values.var() + 1e-5))


def test_loss_of_a_padded_batch_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row by itself: normalize, network, normalize, mean of its own rows, products, log of a softmax."""
    monkeypatch.setattr(official_ser, "pooling_noise", torch.zeros_like)
    model, (samples, lengths), labels = reference_model().train(), noises(), torch.tensor([1, 3, 0])
    weights, losses = model.output.weight.detach().numpy().astype(np.float64), []
    for row, length, label in zip(samples, lengths.tolist(), labels.tolist(), strict=True):
        count = round(length * len(row))
        wave = torch.from_numpy(normalized(row.numpy().astype(np.float64))).float()
        with torch.no_grad():
            mask = torch.arange(len(row))[None] < count
            hidden = model.wav2vec2(wave[None], attention_mask=mask).last_hidden_state[0].numpy()
        hidden = normalized(hidden.astype(np.float64))
        mean = sum(hidden[: round(length * len(hidden))]) / round(length * len(hidden))
        logits = [sum(weight * value for weight, value in zip(row_of, mean, strict=True)) for row_of in weights]
        losses.append(-(logits[label] - math.log(sum(math.exp(logit) for logit in logits))))
    optimizer = make_optimizer(model, SerRecipe())
    assert training_step(model, optimizer, (samples, lengths, labels), 5.0) == pytest.approx(sum(losses) / 3, rel=1e-5)
    # The first step of Adam moves every weight by its learning rate, in the direction of the gradient's sign.
    moved = np.abs(model.output.weight.detach().numpy() - weights)
    assert np.abs(moved - 1e-4).max() < 1e-6


def test_noise_of_the_pooling_is_small_and_drawn_anew() -> None:
    model, (samples, lengths) = reference_model().eval(), noises()
    with torch.inference_mode():
        first, second = model(samples, lengths), model(samples, lengths)
    assert 0 < (first - second).abs().max() < 0.05


def test_loss_falls(tmp_path: Path) -> None:
    """Two noises of different color are told apart after some steps at higher rates."""
    torch.manual_seed(0)
    white = torch.randn(6, 8000)
    waves = [0.1 * (wave if number % 2 else wave.cumsum(0) / 30) for number, wave in enumerate(white)]
    model = Model(SourceModel(str(tiny_wav2vec2(tmp_path / "model"))).load("cpu"), True, 2)
    recipe = SerRecipe(output_rate=1e-2, network_rate=1e-3)
    optimizer = make_optimizer(model, recipe)
    batch = (*pad(waves), torch.tensor([0, 1] * 3))
    losses = [training_step(model, optimizer, batch, recipe.largest_norm) for _ in range(40)]
    assert np.mean(losses[:3]) > 0.5
    assert np.mean(losses[-3:]) < 0.25


def test_weights_have_the_official_names_and_shapes() -> None:
    keys = json.loads((CHECKOUT / "keys.json").read_text())["ser"]
    with torch.device("meta"):
        network = Wav2Vec2Model(Wav2Vec2Config())  # the sizes of facebook/wav2vec2-base
    weights = official_weights(network)
    assert {name: list(tensor.shape) for name, tensor in weights.items()} == keys["shapes"]
    assert set(official_weights(reference_model().wav2vec2)) | {"model.masked_spec_embed"} == set(
        read_tensors(FOLD / "wav2vec2.ckpt")
    )


def test_folder_has_the_challenge_s_files(tmp_path: Path) -> None:
    source = SourceModel(str(tiny_wav2vec2(tmp_path / "wav2vec2-tiny")))
    model = Model(source.load("cpu"), source.normalizes, 4)
    folder = write_emotion_model(tmp_path / "fold_1", 7, model, ["neu", "ang", "hap", "sad"], (source, {"loss": 1.5}))
    assert folder.name == "CKPT+7"
    ours, theirs = (read_hyperparams(place / "hyperparams.yaml") for place in (folder, FOLD))
    theirs["wav2vec2"]["source"] = theirs["wav2vec2_hub"] = source.name
    theirs["encoder_dim"] = theirs["output_mlp"]["input_size"] = 16
    for key in set(theirs) - {"pretrainer", "pretrained_path", "model", "modules"}:
        assert ours[key] == theirs[key], key
    assert ours["pretrainer"]["loadables"].keys() == theirs["pretrainer"]["loadables"].keys()
    assert list(read_tensors(folder / "model.ckpt")) == list(read_tensors(FOLD / "model.ckpt"))
    assert (folder / "label_encoder.txt").read_text() == (FOLD / "label_encoder.txt").read_text()
    assert read_labels(folder / "label_encoder.ckpt") == ["neu", "ang", "hap", "sad"]
    weights = read_tensors(folder / "wav2vec2.ckpt")
    assert all(torch.equal(weights[name], tensor) for name, tensor in official_weights(model.wav2vec2).items())


def test_models_of_other_kinds_are_refused(tmp_path: Path) -> None:
    folder = tiny_wav2vec2(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "hubert"}))
    with pytest.raises(InputError, match="a model of kind hubert, not wav2vec2"):
        SourceModel(str(folder))
    with pytest.raises(InputError, match="no such folder"):
        SourceModel(str(tmp_path / "wav2vec2-bas"))
