"""Augmentation: SNRs, rooms, choices that depend on seed and samples alone, and trainings with copies."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.training.test_asv import SPEAKERS, speak
from voiceveil.api.tdsv import SystemSettings
from voiceveil.audio import Samples, Waveform, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.models.speaker.networks import MODELS, features
from voiceveil.testing import synthetic_voice
from voiceveil.training.asv import AsvSettings, train_asv
from voiceveil.training.augmentation import (
    KINDS,
    RATE,
    Augmentation,
    Augmenter,
    CopyKind,
    draw_room,
    mix,
    parse_kinds,
    reverberate,
)
from voiceveil.training.feature_store import CopyMaker, copy_of, open_store
from voiceveil.training.training_run import TrainingRun


@pytest.fixture(scope="module")
def musan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the layout of MUSAN: constant sounds, so that what was added can be told."""
    folder = tmp_path_factory.mktemp("musan")
    rng = np.random.default_rng(0)
    for name, seconds in (
        ("noise/free-sound/a", 0.3), ("noise/sound-bible/b", 0.5), ("music/fma/c", 5.0),
        ("speech/librivox/d", 4.0), ("speech/us-gov/e", 0.7),
    ):  # fmt: skip
        save(
            folder / f"{name}.wav", Waveform((0.1 * rng.standard_normal(int(seconds * RATE))).astype(np.float32), RATE)
        )
    (folder / "noise" / "README").write_text("no audio")
    return folder


@pytest.fixture(scope="module")
def rirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the layout of RIRS_NOISES; a large room, which recipes leave out, is a mere delay."""
    folder = tmp_path_factory.mktemp("rirs") / "simulated_rirs"
    for room in ("smallroom", "mediumroom", "largeroom"):
        response = np.zeros(800, dtype=np.float32)
        response[[40, 200, 500]] = (0.9, 0.3, 0.1) if room != "largeroom" else (0.9, 0.0, 0.0)
        save(folder / room / "Room001" / "Room001-00001.wav", Waveform(response, RATE))
    return folder.parent


@pytest.fixture(scope="module")
def speech() -> Samples:
    return synthetic_voice(3, 1, seconds=2.5).samples


def slow_mix(samples: Samples, added: list[tuple[int, Samples, float]]) -> list[float]:
    """Sample by sample."""
    mixed = [float(x) for x in samples]
    power = sum(float(x) ** 2 for x in samples) / len(samples)
    for place, sound, snr in added:
        own = sum(float(x) ** 2 for x in sound) / len(sound)
        factor = math.sqrt(power / (10 ** (snr / 10)) / own)
        for k, x in enumerate(sound):
            if place + k < len(mixed):
                mixed[place + k] += factor * float(x)
    return mixed


def test_mix_equals_the_slow_twin() -> None:
    rng = np.random.default_rng(1)
    speech = rng.standard_normal(300).astype(np.float32)
    added = [
        (0, rng.standard_normal(100).astype(np.float32), 5.0),
        (250, rng.standard_normal(90).astype(np.float32), 0.0),
    ]
    np.testing.assert_allclose(mix(speech, added), slow_mix(speech, added), rtol=1e-5, atol=1e-6)
    silent = np.zeros(300, dtype=np.float32)
    assert not mix(silent, added).any()
    assert np.array_equal(mix(speech, [(0, silent, 0.0)]), speech)


def test_reverberation_equals_direct_convolution(speech: Samples) -> None:
    """The delay of the direct sound is removed, and the power is kept."""
    response = np.zeros(60)
    response[[10, 30, 55]] = 0.8, -0.4, 0.2
    short = speech[4000:4400]
    wet = reverberate(short, response)
    slow = [
        sum(response[k] * float(short[n + 10 - k]) for k in range(60) if 0 <= n + 10 - k < len(short))
        for n in range(len(short))
    ]
    scale = math.sqrt(float(np.mean(np.square(short, dtype=np.float64))) / float(np.mean(np.square(slow))))
    np.testing.assert_allclose(wet, scale * np.array(slow), rtol=1e-4, atol=1e-6)
    delay = np.zeros(60)
    delay[20] = 0.5
    np.testing.assert_allclose(reverberate(short, delay), short, rtol=1e-4, atol=1e-6)
    assert not reverberate(np.zeros(50, dtype=np.float32), response).any()


@pytest.mark.parametrize("kind", ["music", "babble", "noise"])
def test_snrs_are_those_of_the_recipes(musan: Path, speech: Samples, kind: CopyKind) -> None:
    lists = {"music": (15, 10, 8, 5), "noise": (15, 10, 5, 0), "babble": (20, 17, 15, 13)}
    own = Augmenter(Augmentation((kind,), musan))
    seen = set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sounds = list(own._added(len(speech), kind, rng))
        seen |= {snr for _, _, snr in sounds}
        if kind == "babble":
            assert 3 <= len(sounds) <= 7
        if kind == "noise":
            places = [place for place, _, _ in sounds]
            ends = [place + len(sound) for place, sound, _ in sounds]
            assert [b - a for a, b in zip(ends, places[1:], strict=False)] == [RATE] * (len(places) - 1)
        else:
            assert all(len(sound) == len(speech) for _, sound, _ in sounds)
    assert seen == set(map(float, lists[kind]))
    like_speechbrain = Augmenter(Augmentation((kind,), musan, snrs="speechbrain"))
    uniform = [s for n in range(40) for _, _, s in like_speechbrain._added(len(speech), kind, np.random.default_rng(n))]
    assert 0 <= min(uniform) < 2
    assert 13 < max(uniform) <= 15


def test_music_has_its_snr_in_the_copy(musan: Path, speech: Samples) -> None:
    copy = Augmenter(Augmentation(("music",), musan))(speech, "music")
    noise = copy.astype(np.float64) - speech
    snr = 10 * math.log10(float(np.mean(np.square(speech, dtype=np.float64))) / float(np.mean(noise**2)))
    assert min(abs(snr - choice) for choice in (15, 10, 8, 5)) < 1e-3


def test_copies_depend_on_seed_and_samples_alone(musan: Path, rirs: Path, speech: Samples) -> None:
    settings = Augmentation(KINDS, musan, rirs)
    first, again, other = Augmenter(settings), Augmenter(settings), Augmenter(replace(settings, seed=1))
    second = synthetic_voice(4, 2, seconds=1.0).samples
    for kind in KINDS:
        copy = first(speech, kind)
        assert copy.dtype == np.float32
        assert copy.shape == speech.shape
        assert not np.array_equal(copy, speech)
        again(second, kind)  # the order does not matter
        assert np.array_equal(again(speech, kind), copy)
        assert first.fingerprint(kind) == again.fingerprint(kind) != other.fingerprint(kind)
    assert any(not np.array_equal(first(speech, kind), other(speech, kind)) for kind in KINDS)


def test_rooms_are_those_of_the_folder_or_simulated(rirs: Path, speech: Samples) -> None:
    from_folder = Augmenter(Augmentation(("reverb",), rirs=rirs))
    assert from_folder.record()["files"] == {"reverb": 2}  # no large room
    assert not np.allclose(from_folder(speech, "reverb"), speech, atol=1e-3)
    rng = np.random.default_rng(0)
    rooms = [draw_room(rng) for _ in range(200)]
    assert all(
        0 < p < side for r in rooms for point in (r.source, r.microphone) for p, side in zip(point, r.size, strict=True)
    )
    assert {round(max(r.size[:2])) > 10 for r in rooms} == {True, False}
    assert max(math.dist(r.source, r.microphone) for r in rooms) <= 5.0
    simulated = Augmenter(Augmentation(("reverb",)))
    assert not np.allclose(simulated(speech, "reverb"), speech, atol=1e-3)
    flat = Augmenter(Augmentation(("reverb",), rirs=rirs / "simulated_rirs" / "largeroom"))
    np.testing.assert_allclose(flat(speech, "reverb"), speech, rtol=1e-3, atol=1e-4)


def test_unusable_settings_are_explained(musan: Path, tmp_path: Path) -> None:
    for arguments, message in (
        ((("reverb", "reverb"),), "name each once"),
        ((("rain",),), "unknown kind 'rain'"),
        ((("music",),), "--augment music needs sounds"),
        ((("reverb",), musan), "--noise is not used"),
        ((("noise",), musan, tmp_path), "--rirs is not used"),
    ):
        with pytest.raises(InputError, match=message):
            Augmentation(*arguments)
    with pytest.raises(InputError, match="no sounds for --augment noise"):
        Augmenter(Augmentation(("noise",), tmp_path))
    with pytest.raises(InputError, match="no room responses"):
        Augmenter(Augmentation(("reverb",), rirs=tmp_path))
    assert parse_kinds("all") == KINDS
    with pytest.raises(InputError, match="does not allow"):
        SystemSettings("ecapa", augmentation=Augmentation(("babble",), musan))
    with pytest.raises(InputError, match="campplus is not trained"):
        SystemSettings(augmentation=Augmentation(("reverb",)))


def test_store_keeps_copies_apart(musan: Path, tmp_path: Path) -> None:
    """Features of a copy are those of the augmented samples, whatever the number of processes."""
    utterances = list(open_corpus(speak(tmp_path / "voices", utterances=1)))[:2]
    copies = CopyMaker(Augmenter(Augmentation(("music",), musan)), "music")
    model = MODELS["xvector"]
    copied = [copy_of(u, "music") for u in utterances]
    stores = [open_store(tmp_path / str(jobs), copied, model, copies=copies, jobs=jobs) for jobs in (1, 2)]
    from voiceveil.audio import load

    for utterance, copy in zip(utterances, copied, strict=True):
        frames = stores[0].read(copy)
        assert np.array_equal(frames, stores[1].read(copy))
        expected = features(copies.augmenter(load(utterance.path, rate=RATE).samples, "music"), model.feature)
        assert np.array_equal(frames, expected.astype(np.float16))


@pytest.mark.slow
def test_encoder_is_trained_on_copies_of_its_training_speech(
    musan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three times the utterances of the training speakers; validation stays as it is; the record says all of it."""
    voices = speak(tmp_path / "voices", utterances=3)
    small = ["--model", "xvector", "--channels", "8", "--epochs", "1", "--batch-size", "8", "--quiet", "--json"]
    command = ["train", "asv", "--data", str(voices), *small]
    assert main([*command, "--augment", "reverb,noise", "--noise", str(musan), "--out", str(tmp_path / "a")]) == 0
    record = json.loads(capsys.readouterr().out)
    plain = train_asv(
        [open_corpus(voices)],
        tmp_path / "plain",
        AsvSettings("xvector", channels=8, epochs=1, batch_size=8),
        TrainingRun(quiet=True),
    )
    assert record["utterances"] == 3 * plain["utterances"]
    assert record["validation_utterances"] == plain["validation_utterances"]
    assert record["speakers"] == plain["speakers"] < len(SPEAKERS)
    assert record["settings"]["augmentation"]["kinds"] == ["reverb", "noise"]
    assert "augmentation" not in plain["settings"]
    assert record["sha256"] != plain["sha256"]
    again = [*command, "--augment", "reverb,noise", "--noise", str(musan), "--out", str(tmp_path / "b"), "--jobs", "2"]
    assert main(again) == 0
    assert json.loads(capsys.readouterr().out)["sha256"] == record["sha256"]  # repeatable
    assert main([*command, "--noise", str(musan), "--out", str(tmp_path / "c")]) == 1
    assert "folders for --augment" in capsys.readouterr().err
    official = ["train", "asv", "--data", str(voices), "--recipe", "official", "--augment", "reverb"]
    assert main([*official, "--out", str(tmp_path / "d")]) == 1
    assert "trains without augmentation" in capsys.readouterr().err
