"""Training of speaker encoders: recipes, data, resuming, results."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from voiceveil.audio import Waveform, load, save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, open_corpus
from voiceveil.metrics import eer
from voiceveil.models.checkpoint import load_tensors, read_record, save_tensors
from voiceveil.models.speaker.encoders import encoder as named
from voiceveil.models.speaker.networks import MODELS, features, pair_scores, repeat_frames
from voiceveil.models.speaker.trained import TrainedEncoder
from voiceveil.testing import synthetic_voice
from voiceveil.training.asv import AsvSettings, train_asv
from voiceveil.training.asv_data import Batches, Division, TrainingSet, divide, usable_utterances
from voiceveil.training.asv_recipes import (
    RECIPES,
    AsvRecipe,
    Exponential,
    OneCycle,
    Triangular,
    reaches_peak,
    recipe_for,
)
from voiceveil.training.feature_store import FeatureStore, open_store
from voiceveil.training.training_run import TrainingRun

# Synthetic speakers whose pitch and vocal tract differ well.
SPEAKERS = (2, 3, 4, 7, 11, 15)


@pytest.fixture(scope="session")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six speakers in folders with five utterances each, of 0.6 to 2.2 s."""
    return speak(tmp_path_factory.mktemp("voices"), utterances=5)


def speak(folder: Path, utterances: int) -> Path:
    for speaker in SPEAKERS:
        for number in range(utterances):
            wave = synthetic_voice(speaker, number, seconds=0.6 + 0.4 * (number % 5))
            save(folder / f"s{speaker}" / f"s{speaker}-{number}.wav", wave)
    return folder


@pytest.fixture(scope="session")
def corpus(voices: Path) -> Corpus:
    return open_corpus(voices)


@pytest.fixture(scope="session")
def store(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return open_store(tmp_path_factory.mktemp("store"), corpus, MODELS["ecapa"])


# --- recipes


def test_official_schedule_equals_that_of_torch() -> None:
    schedule = Triangular(1e-8, 0.01, 50)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    twin = torch.optim.lr_scheduler.CyclicLR(optimizer, 1e-8, 0.01, step_size_up=50, cycle_momentum=False)
    for step in range(170):
        assert schedule.rate(step, 170) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-6)
        optimizer.step()
        twin.step()


def test_official_learning_rate_never_reaches_its_peak() -> None:
    """Ten epochs of about 345,000 chunks of train-clean-360 in batches of 256 reach a fifth of the peak."""
    reached, highest = reaches_peak(RECIPES["ecapa", "official"].schedule, 13_500)
    assert not reached
    assert highest == pytest.approx(0.0021, abs=5e-5)


@pytest.mark.parametrize("steps", [1, 2, 5, 100, 1001])
def test_default_learning_rate_peaks_once(steps: int) -> None:
    schedule = OneCycle(2e-3)
    rates = np.array([schedule.rate(step, steps) for step in range(steps)])
    assert rates.max() == schedule.peak
    assert (rates > 0).all()
    if steps >= 5:
        top = int(rates.argmax())
        assert (np.diff(rates[: top + 1]) > 0).all()
        assert (np.diff(rates[top:]) < 0).all()
        assert reaches_peak(schedule, steps)[0]
        assert rates[-1] < 0.2 * schedule.peak


def test_learning_rate_decays_exponentially() -> None:
    schedule = Exponential(0.01709, 0.001709)
    rates = [schedule.rate(step, 11) for step in range(11)]
    assert (rates[0], rates[-1]) == pytest.approx((0.01709, 0.001709))
    assert np.ptp(np.diff(np.log(rates))) < 1e-9


def test_official_recipe_has_the_published_hyperparameters() -> None:
    ecapa, xvector = recipe_for("ecapa", "official"), recipe_for("xvector", "official")
    assert (ecapa.epochs, ecapa.batch_size, ecapa.shortest, ecapa.longest) == (10, 256, 3.0, 3.0)
    assert ecapa.schedule == Triangular(1e-8, 0.01, 65_000)
    assert (ecapa.optimizer, ecapa.weight_decay) == ("adam", 2e-6)
    assert (xvector.epochs, xvector.batch_size, xvector.repeats) == (1, 64, 50)
    assert (xvector.shortest, xvector.longest, xvector.least_frames, xvector.least_utterances) == (2.0, 4.0, 400, 8)
    with pytest.raises(InputError, match="publish no recipe for resnet34"):
        recipe_for("resnet34", "official")


# --- features and batches


@pytest.mark.parametrize("name", ["ecapa", "xvector"])
def test_feature_store_holds_the_features(corpus: Corpus, tmp_path: Path, name: str) -> None:
    model = MODELS[name]
    opened = open_store(tmp_path, corpus, model, jobs=1)
    for utterance in corpus.utterances[:4]:
        expected = features(load(utterance.path, rate=16000).samples, model.feature)
        assert opened.read(utterance).shape == expected.shape
        np.testing.assert_allclose(opened.read(utterance), expected, atol=0.05, rtol=1e-3)


def test_truncated_store_is_repaired(corpus: Corpus, tmp_path: Path, store: FeatureStore) -> None:
    open_store(tmp_path, corpus, MODELS["ecapa"])
    data, index = (tmp_path / "fbank80" / name for name in ("features.f16", "index.jsonl"))
    before = data.read_bytes()
    lines = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(b"".join(lines[:-3]) + lines[-3][:20])  # the last three are lost, one of them in its middle
    os.truncate(data, len(before) - 1001)
    opened = open_store(tmp_path, corpus, MODELS["ecapa"])
    assert data.read_bytes() == before
    for utterance in corpus:
        np.testing.assert_array_equal(opened.read(utterance), store.read(utterance))


def test_changed_audio_is_detected(voices: Path, tmp_path: Path) -> None:
    copy = tmp_path / "voices"
    shutil.copytree(voices / "s2", copy / "s2")
    opened = open_store(tmp_path / "store", open_corpus(copy), MODELS["ecapa"])
    utterance = open_corpus(copy).utterances[0]
    assert opened.entry(utterance).frames == 58  # (0.6 s - 25 ms) / 10 ms
    save(utterance.path, synthetic_voice(9, 9, seconds=3.0))
    again = open_store(tmp_path / "store", open_corpus(copy), MODELS["ecapa"])
    assert again.entry(utterance).frames == 298


def test_short_features_are_repeated() -> None:
    frames = np.arange(3)[:, None]
    assert repeat_frames(frames, 7)[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert repeat_frames(frames, 2) is frames


def training_batches(utterances: list[Utterance], store: FeatureStore, recipe: AsvRecipe, seed: int = 0) -> Batches:
    data = TrainingSet(Division(utterances, []), store)
    return Batches(data, recipe, subtract_mean=True, seed=seed)


def test_validation_speakers_are_not_trained_on(corpus: Corpus) -> None:
    parts = divide(corpus.utterances, seed=3)
    new = {u.speaker for u in parts.validation}
    assert len(new) == 2
    assert not new & set(parts.speakers)
    assert len(parts.train) + len(parts.validation) == 30
    assert divide(corpus.utterances[::-1], seed=3) == parts
    assert divide(corpus.utterances, seed=4) != parts
    assert divide(corpus.utterances, 0, speakers=0).validation == []
    with pytest.raises(InputError, match="5 validation speakers of 6"):
        divide(corpus.utterances, 0, speakers=5)


def test_batches_do_not_depend_on_the_starting_step(corpus: Corpus, store: FeatureStore) -> None:
    plan = replace(recipe_for("xvector", "fixed"), batch_size=7, shortest=0.5, longest=1.0)
    own = list(corpus.utterances)
    batches = training_batches(own, store, plan, seed=1)
    whole = list(batches.epoch(2))
    for (x, y), (again, speakers) in zip(whole[3:], batches.epoch(2, start=3), strict=True):
        np.testing.assert_array_equal(x, again)
        np.testing.assert_array_equal(y, speakers)
    lengths = {x.shape[1] for x, _ in whole}
    assert len(lengths) > 1
    assert min(lengths) >= 50
    assert max(lengths) <= 100
    assert all(np.abs(x.mean(axis=1)).max() < 1e-4 for x, _ in whole)
    assert not np.array_equal(whole[0][1], next(batches.epoch(3))[1])


def test_epoch_has_a_row_for_each_chunk(corpus: Corpus, store: FeatureStore) -> None:
    own = list(corpus.utterances)
    plan = replace(recipe_for("ecapa", "fixed"), batch_size=4, shortest=1.0, longest=1.0)
    # 0.6, 1, 1.4, 1.8 and 2.2 s in whole seconds, rounded, each at least once
    assert np.bincount(training_batches(own, store, plan).order(0), minlength=30).tolist() == [1, 1, 1, 2, 2] * 6
    uneven = own[:5] + own[5:6]  # five utterances of one speaker, one of another
    balanced = training_batches(uneven, store, replace(plan, rows="balanced", repeats=20))
    counts = np.bincount(balanced.order(0), minlength=6)
    assert abs(counts[:5].sum() - counts[5]) <= 1
    assert balanced.chunks == np.ceil(20 * sum(store.entry(u).frames for u in uneven) / 100)


def test_short_utterances_and_rare_speakers_are_left_out(corpus: Corpus, store: FeatureStore) -> None:
    own = list(corpus.utterances)
    plan = replace(recipe_for("xvector", "official"), least_frames=100, least_utterances=3)
    assert len(usable_utterances(own, store, plan)) == 18  # of 1.4 s and more: 1 s alone has 98 frames
    with pytest.raises(InputError, match="leaves fewer than two speakers"):
        usable_utterances(own, store, recipe_for("xvector", "official"))


# --- training


@pytest.fixture(scope="module")
def more(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return open_corpus(speak(tmp_path_factory.mktemp("more"), utterances=15))


def new_utterances_eer(encoder: TrainedEncoder) -> float:
    """Return the EER on other utterances of the same synthetic speakers."""
    vectors = [encoder(synthetic_voice(s, 50 + number, seconds=2.0)) for s in SPEAKERS for number in range(4)]
    names = [str(s) for s in SPEAKERS for _ in range(4)]
    return eer(*pair_scores(np.stack(vectors), names, center=True))


def trained(corpora: list[Corpus], out: Path, **options: Any) -> dict[str, Any]:
    """Train with options that go to the settings or to the run, as their names say."""
    chosen = {name: value for name, value in options.items() if name in AsvSettings.__dataclass_fields__}
    run = {name: value for name, value in options.items() if name not in chosen}
    return train_asv(corpora, out, AsvSettings(**chosen), TrainingRun(**run))


@pytest.mark.parametrize(("model", "channels"), [("ecapa", 32), ("xvector", 64), ("resnet34", 4)])
def test_few_steps_separate_speakers(more: Corpus, tmp_path: Path, model: str, channels: int) -> None:
    record = trained(
        [more], tmp_path, model=model, channels=channels, epochs=4, batch_size=12, seconds_per_chunk=1.0,
        validation_speakers=0,
    )  # fmt: skip
    first, last = record["curve"][0], record["curve"][-1]
    assert last["loss"] < 0.75 * first["loss"]
    assert last["accuracy"] > max(2 / len(SPEAKERS), first["accuracy"])
    torch.manual_seed(0)
    kind = MODELS[model]
    untrained = {"kind": "speaker encoder", "model": model, "channels": channels}
    save_tensors(tmp_path / "untrained.safetensors", kind.network(channels).state_dict(), untrained)
    before = new_utterances_eer(TrainedEncoder(tmp_path / "untrained.safetensors"))
    assert new_utterances_eer(TrainedEncoder(tmp_path)) < 0.75 * before
    assert record["validation_eer"] is None
    assert record["best_epoch"] == 4
    assert record["peak_reached"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock", "model.safetensors", "record.json", "untrained.safetensors",
    ]  # fmt: skip


def test_training_record_is_complete(corpus: Corpus, tmp_path: Path) -> None:
    record = trained(
        [corpus], tmp_path, channels=8, epochs=2, batch_size=8, seconds_per_chunk=0.5, trained_on="anonymized", seed=5,
    )  # fmt: skip
    assert json.loads((tmp_path / "record.json").read_text()) == record
    assert (record["speakers"], record["validation_speakers"], record["utterances"]) == (4, 2, 20)
    assert len(record["speaker_ids"]) == 4
    assert set(record["speaker_ids"]) < set(corpus.speakers())
    assert record["peak_reached"]
    assert record["highest_learning_rate"] == pytest.approx(2e-3)
    assert len(record["curve"]) == 2
    rates = [row["validation_eer"] for row in record["curve"]]
    assert rates[record["best_epoch"] - 1] == min(rates)
    assert 0 <= record["validation_eer"] <= 0.5
    assert record["settings"]["seed"] == 5
    assert record["versions"]["torch"] == torch.__version__
    training = TrainedEncoder(tmp_path).training()
    assert (training.data, training.speakers, training.peak_reached) == ("anonymized", 4, True)
    assert training.validation_eer == record["validation_eer"]


def test_finished_training_is_not_repeated(corpus: Corpus, tmp_path: Path) -> None:
    def train(seed: int = 0, overwrite: bool = False) -> dict[str, object]:
        return trained(
            [corpus], tmp_path, channels=8, epochs=1, batch_size=16, seconds_per_chunk=0.5, seed=seed,
            features=tmp_path / "kept", overwrite=overwrite,
        )  # fmt: skip

    first = train()
    changed = (tmp_path / "model.safetensors").stat().st_mtime_ns
    assert train() == first
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == changed
    with pytest.raises(InputError, match="another training is here; it differs in seed"):
        train(seed=1)
    second = train(seed=1, overwrite=True)
    assert second["sha256"] != first["sha256"]
    again = train(seed=0, overwrite=True)
    assert again["sha256"] == first["sha256"]
    assert (tmp_path / "kept" / "fbank80" / "features.f16").exists()


def test_second_training_in_a_folder_is_rejected(corpus: Corpus, tmp_path: Path) -> None:
    import fcntl

    with (tmp_path / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another training is running here"):
            trained([corpus], tmp_path, channels=8)
    assert not (tmp_path / "model.safetensors").exists()


# --- bad input


def test_invalid_data_is_rejected(voices: Path, tmp_path: Path) -> None:
    single = open_corpus(voices).filter(lambda u: u.speaker == "s2")
    with pytest.raises(InputError, match="1 speaker in 5 utterances"):
        trained([single], tmp_path)
    unlabeled = replace(single, utterances=tuple(replace(u, speaker=None) for u in single))
    with pytest.raises(InputError, match=r"5 of 5 utterances of .* have no speaker"):
        trained([unlabeled], tmp_path)
    corpus = open_corpus(voices)
    missing = replace(corpus, utterances=(*corpus, Utterance("x", tmp_path / "gone.wav", "s9")))
    with pytest.raises(InputError, match="no such audio file"):
        trained([missing], tmp_path)
    save(tmp_path / "short" / "s9" / "a.wav", Waveform(np.zeros(100, np.float32), 16000))
    with pytest.raises(InputError, match="too short for one frame"):
        trained([corpus, open_corpus(tmp_path / "short")], tmp_path / "out", channels=8)


def test_invalid_settings_are_rejected(corpus: Corpus, tmp_path: Path) -> None:
    settings: dict[str, dict[str, Any]] = {
        "unknown speaker encoder 'ecappa'": {"model": "ecappa"},
        "unknown recipe 'offical' for ecapa": {"recipe": "offical"},
        "the device 'tpu' is not available here": {"device": "tpu"},
        "--epochs 0": {"epochs": 0},
        "--batch-size 1": {"batch_size": 1},
        "--seconds-per-chunk 0.01": {"seconds_per_chunk": 0.01},
        "ecapa cannot have 12 channels": {"channels": 12},
        "0 threads": {"threads": 0},
    }
    for match, options in settings.items():
        with pytest.raises(InputError, match=match):
            trained([corpus], tmp_path / "out", **options)
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="device 'cuda' is not available here"):
            trained([corpus], tmp_path / "out", device="cuda")


# --- the encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> TrainedEncoder:
    torch.manual_seed(1)
    path = tmp_path_factory.mktemp("encoder") / "model.safetensors"
    network = MODELS["ecapa"].network(16)
    save_tensors(path, network.state_dict(), {"kind": "speaker encoder", "model": "ecapa", "channels": 16})
    return TrainedEncoder(path)


def test_trained_encoder_gives_embeddings(encoder: TrainedEncoder) -> None:
    wave = synthetic_voice(0, 0, seconds=1.0)
    vector = encoder(wave)
    assert vector.shape == (encoder.dimension,) == (192,)
    assert vector.dtype == np.float32
    again = pickle.loads(pickle.dumps(encoder))
    assert again == encoder
    assert again.fingerprint() == encoder.fingerprint()
    silent = np.zeros(4000, np.float32)
    padded = Waveform(np.concatenate([silent, wave.samples, silent]), 16000)
    np.testing.assert_allclose(encoder(padded), vector, atol=1e-6)
    louder = Waveform(0.5 * wave.samples, 16000)
    np.testing.assert_allclose(encoder(louder), vector, atol=2e-3)
    assert np.isfinite(encoder(Waveform(np.zeros(1600, np.float32), 16000))).all()
    assert encoder.training().speakers is None


def test_trained_encoder_is_found_by_path(encoder: TrainedEncoder) -> None:
    assert named(f"trained:{encoder.path}") == encoder
    assert named(f"ecapa:{encoder.path}") == encoder
    assert named(encoder.name) == encoder
    with pytest.raises(InputError, match="the weights are not of xvector"):
        named(f"xvector:{encoder.path}")
    with pytest.raises(InputError, match="no default weights"):
        named("ecapa")


def test_fingerprint_depends_on_the_weights(encoder: TrainedEncoder, tmp_path: Path) -> None:
    tensors, record = load_tensors(encoder.file, "speaker encoder")
    save_tensors(tmp_path / "same.safetensors", tensors, record)
    assert TrainedEncoder(tmp_path / "same.safetensors").fingerprint() == encoder.fingerprint()
    wave = synthetic_voice(0, 0, seconds=0.5)
    changing = TrainedEncoder(tmp_path / "same.safetensors")
    before = changing(wave)
    tensors["embed.bias"][0] += 1e-3
    save_tensors(tmp_path / "same.safetensors", tensors, record)  # trained anew, while the old one is loaded
    assert changing.fingerprint() != encoder.fingerprint()
    assert not np.array_equal(changing(wave), before)


def test_a_file_can_be_read_while_it_is_replaced(tmp_path: Path) -> None:
    """Every version has another length; a reader always gets one complete version."""
    path = tmp_path / "x.safetensors"
    save_tensors(path, {"a": torch.zeros(1)}, {"kind": "x", "size": 1})
    stop = threading.Event()

    def replace_it() -> None:
        size = 1
        while not stop.is_set():
            size = size % 50 + 1
            save_tensors(path, {"a": torch.full((size,), float(size))}, {"kind": "x", "size": size})

    writer = threading.Thread(target=replace_it)
    writer.start()
    try:
        for _ in range(300):
            tensors, record = load_tensors(path, "x")
            assert len(tensors["a"]) == record["size"]
            assert read_record(path, "x")["kind"] == "x"
    finally:
        stop.set()
        writer.join()


def test_files_of_the_wrong_kind_are_rejected(encoder: TrainedEncoder, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    tensors, record = load_tensors(encoder.file, "speaker encoder")
    (tmp_path / "text.safetensors").write_text("not weights at all")
    save_file({"a": torch.zeros(2)}, tmp_path / "foreign.safetensors")
    save_tensors(tmp_path / "vocoder.safetensors", tensors, {**record, "kind": "vocoder"})
    save_tensors(tmp_path / "width.safetensors", tensors, {**record, "channels": 32})
    whole = encoder.file.read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[:-100])
    (tmp_path / "header.safetensors").write_bytes(whole[:200])
    (tmp_path / "empty.safetensors").write_bytes(b"")
    for name, match in {
        "absent": "no such file",
        "text": "not a safetensors file",
        "cut": "damaged or truncated",
        "header": "not a safetensors file, or a damaged one",
        "empty": "not a safetensors file, or a damaged one",
        "foreign": "the file contains 'weights of other software', not 'speaker encoder'",
        "vocoder": "the file contains 'vocoder', not 'speaker encoder'",
        "width": "weights do not match the record",
    }.items():
        with pytest.raises(InputError, match=match):
            TrainedEncoder(tmp_path / f"{name}.safetensors").check()
    with pytest.raises(InputError, match="no such file"):
        TrainedEncoder(tmp_path / "absent").fingerprint()
    assert read_record(encoder.file, "speaker encoder")["model"] == "ecapa"
