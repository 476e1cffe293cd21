"""ASV_eval of the 2024 challenge: features, network and embeddings agree with SpeechBrain's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.official_models import (
    CHECKOUT,
    NOISES,
    REFERENCE,
    copy_checkout,
    golden,
    needs_reference,
    reference_waves,
    wave_of,
)
from voiceveil.attack import pipeline
from voiceveil.audio import save
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.metrics import eer
from voiceveil.models.nets.ecapa import EcapaTdnn
from voiceveil.models.speaker.encoders import encoder
from voiceveil.models.speechbrain.ecapa import build, to_speechbrain
from voiceveil.models.speechbrain.fbank import fbank, filters, subtract_sentence_mean
from voiceveil.models.speechbrain.files import read_tensors
from voiceveil.models.speechbrain.speaker import SpeechBrainEncoder
from voiceveil.run.context import RunContext

FOLDER = CHECKOUT / "exp" / "asv_anon_x"
FBANK_DB, EMBEDDING, SCORE = 2e-3, 1e-3, 1e-5  # tolerances that the reference states


def tensor_of(samples: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(samples / np.float32(32768))


def network() -> EcapaTdnn:
    return build(read_tensors(FOLDER / "CKPT+10" / "embedding_model.ckpt"))


def padded_batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the three noises, the longest first, and their relative lengths."""
    arrays = golden()
    batch = torch.zeros(3, 48000)
    for row, name in zip(batch, NOISES[::-1], strict=True):
        samples = tensor_of(arrays[f"x_{name}"])
        row[: len(samples)] = samples
    return batch, torch.from_numpy(arrays["batch_lens"])


@pytest.mark.parametrize("name", [*NOISES, "gap", "short_320"])
def test_filterbank(name: str) -> None:
    arrays = golden()
    features = fbank(tensor_of(arrays[f"x_{name}"])[None])[0]
    assert np.abs(features.numpy() - arrays[f"fbank_{name}"]).max() < FBANK_DB


def test_filters_and_sentence_mean() -> None:
    arrays = golden()
    assert np.abs(filters().numpy() - arrays["filter_matrix"]).max() < 1e-6
    alone = subtract_sentence_mean(fbank(tensor_of(arrays["x_noise_odd"])[None]))[0]
    assert np.abs(alone.numpy() - arrays["norm_noise_odd"]).max() < FBANK_DB
    batch, lengths = padded_batch()
    shortest = subtract_sentence_mean(fbank(batch), lengths)[2]
    assert np.abs(shortest.numpy() - arrays["batch_norm_short"]).max() < FBANK_DB


@torch.inference_mode()
def test_every_stage_of_the_network() -> None:
    arrays = golden()
    ecapa = network()
    outputs: dict[str, torch.Tensor] = {}
    stages = {"blocks.0": ecapa.first, "mfa": ecapa.aggregate, "asp": ecapa.pool, "asp_bn": ecapa.pool_norm}
    stages |= {f"blocks.{number}": block for number, block in enumerate(ecapa.blocks, 1)}
    for name, module in stages.items():
        module.register_forward_hook(lambda _, __, output, name=name: outputs.update({name: output}))
    outputs["fc"] = ecapa(subtract_sentence_mean(fbank(tensor_of(arrays["x_noise_0p7s"])[None])))
    for name, output in outputs.items():
        expected = arrays[f"layer_noise_0p7s_{name}"]
        assert np.abs(output[0].reshape(expected.shape).numpy() - expected).max() < EMBEDDING, name


@torch.inference_mode()
def test_padded_batches() -> None:
    arrays, ecapa = golden(), network()
    batch, lengths = padded_batch()
    masked = ecapa(subtract_sentence_mean(fbank(batch), lengths), lengths).numpy()
    assert np.abs(masked - arrays["batch_emb_with_lens"]).max() < EMBEDDING
    plain = ecapa(subtract_sentence_mean(fbank(batch))).numpy()
    assert np.abs(plain - arrays["batch_emb_no_lens"]).max() < EMBEDDING
    assert np.abs(masked[2] - plain[2]).max() > 1  # the padding matters


@pytest.mark.parametrize("name", [*NOISES, "zeros_around"])
def test_embeddings_of_the_official_pipeline(name: str) -> None:
    arrays = golden()
    embedding = encoder(f"speechbrain:{FOLDER}")(wave_of(arrays[f"x_{name}"]))
    expected = arrays[f"official_emb_{name}"]
    assert embedding.dtype == np.float32
    assert np.abs(embedding - expected).max() < EMBEDDING
    assert 1 - embedding @ expected / np.linalg.norm(embedding) / np.linalg.norm(expected) < SCORE


def test_full_size_weights_have_the_official_names_and_shapes() -> None:
    shapes = json.loads((CHECKOUT / "keys.json").read_text())["embedding_model"]
    state = to_speechbrain(EcapaTdnn())
    assert {name: list(tensor.shape) for name, tensor in state.items()} == shapes
    assert list(state) == list(shapes)
    assert sum(tensor.numel() for tensor in EcapaTdnn().parameters()) == 6_194_048


def test_weights_are_the_same_there_and_back() -> None:
    state = read_tensors(FOLDER / "CKPT+10" / "embedding_model.ckpt")
    back = to_speechbrain(build(state))
    assert list(back) == list(state)
    assert all(torch.equal(back[name], tensor) for name, tensor in state.items())


def test_training_record_of_a_folder() -> None:
    model = encoder(f"speechbrain:{FOLDER}")
    assert (model.name, model.family, model.dimension) == (f"speechbrain:{FOLDER}", "speechbrain", 192)
    record = model.training()
    assert (record.data, record.speakers) == ("anonymized", 8)
    assert record.accuracy == pytest.approx(1 - 0.2195121943950653)
    assert "1898" in record.speaker_ids
    assert encoder(f"speechbrain:{FOLDER / 'CKPT+10'}").training() == record


def test_official_takes_the_last_epoch_and_correct_the_best_one(tmp_path: Path) -> None:
    folder = copy_checkout(tmp_path) / "exp" / "asv_anon_x"
    shutil.copyfile(folder / "CKPT+10" / "embedding_model.ckpt", folder / "CKPT+3" / "embedding_model.ckpt")
    (folder / "CKPT+2026-11-18+10-00-00+00").mkdir()  # of a crash
    official, correct = (SpeechBrainEncoder(folder, mode) for mode in ("official", "correct"))
    assert (official.folder.name, correct.folder.name) == ("CKPT+10", "CKPT+3")
    assert correct.training().accuracy == pytest.approx(1 - 0.12195122241973877)
    assert encoder(f"speechbrain-correct:{folder}").name == f"speechbrain-correct:{folder}"
    correct.check()  # its settings are in the last checkpoint


def test_folder_that_is_called_otherwise_was_trained_on_original_speech(tmp_path: Path) -> None:
    folder = copy_checkout(tmp_path) / "exp" / "asv_anon_x"
    assert SpeechBrainEncoder(folder.rename(folder.parent / "asv_orig")).training().data == "original"


@needs_reference
def test_recordings_to_scores_and_eer(tmp_path: Path) -> None:
    """Enrollment, means, cosines and EER of 24 recordings are those that the challenge's code wrote."""
    waves = reference_waves()
    for name in ("libri_dev_enrolls", "libri_dev_trials_f"):
        source = read_reference(name, tmp_path / "wav")
        for utterance in source:
            save(utterance.path, waves[utterance.id])
        write_kaldi(source, tmp_path / name)
    folder = REFERENCE / "ecapa" / "exp" / "asv_anon_x"
    for suffix in ("libri_dev_enrolls", "libri_dev_trials_f"):
        shutil.copytree(tmp_path / suffix, tmp_path / f"{suffix}_x")
    request = pipeline.AttackRequest(tmp_path, "_x", [f"speechbrain:{folder}"])
    result = pipeline.run(request, RunContext(), tmp_path / "out")
    row = next(row for row in result.rows if row.condition == "aa")
    assert row.knowledge == "semi-informed"
    official = folder / "libri_dev_enrolls-libri_dev_trials_f"
    expected = {tuple(line.split()[:2]): float(line.split()[2]) for line in (official / "scores").open()}
    assert row.scores is not None
    scores = {tuple(line.split()[:2]): float(line.split()[2]) for line in row.scores.open()}
    assert scores.keys() == expected.keys()
    assert max(abs(scores[key] - value) for key, value in expected.items()) < SCORE
    assert eer(*row.scored.classes(), method="speechbrain") == pytest.approx(float((official / "EER").read_text()))


def read_reference(name: str, audio: Path) -> Corpus:
    """Read a Kaldi directory of the reference, whose audio files do not exist."""
    folder = REFERENCE / "ecapa" / "data" / name
    speakers = dict(line.split() for line in (folder / "utt2spk").open())
    genders = dict(line.split() for line in (folder / "spk2gender").open())
    trials = None
    if (folder / "trials").exists():
        rows = [line.split() for line in (folder / "trials").open()]
        trials = Trials(
            *(np.array(column) for column in zip(*((e, u, t == "target") for e, u, t in rows), strict=True))
        )
    utterances = tuple(
        Utterance(key, audio / f"{key}.wav", speaker=speaker, gender=genders[speaker])
        for key, speaker in speakers.items()
    )
    return Corpus(name, utterances, trials)


@needs_reference
@pytest.mark.parametrize("name", ["speech_libri", "speech_digit"])
def test_recordings_to_features_and_embeddings(name: str) -> None:
    with np.load(REFERENCE / "fbank.npz") as arrays:
        features = fbank(tensor_of(arrays[f"x_{name}"])[None])
        assert np.abs(features[0].numpy() - arrays[f"fbank_{name}"]).max() < FBANK_DB
        means = subtract_sentence_mean(features)[0].numpy()
        assert np.abs(means - arrays[f"norm_{name}"]).max() < FBANK_DB
    with np.load(REFERENCE / "ecapa" / "eval.npz") as arrays:
        embedding = encoder(f"speechbrain:{FOLDER}")(wave_of(arrays[f"x_{name}"]))
        assert np.abs(embedding - arrays[f"official_emb_{name}"]).max() < EMBEDDING


def test_eers_of_the_official_code() -> None:
    for name, case in json.loads((CHECKOUT / "training.json").read_text())["eer"].items():
        assert eer(case["positive"], case["negative"], method="speechbrain") == pytest.approx(case["eer"], abs=1e-7), (
            name
        )
