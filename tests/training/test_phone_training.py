"""Training of the phone encoder on real speech: alignments, labels, perturbed crops, a few steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra neural is not installed")
pytest.importorskip("pocketsphinx", reason="the extra sphinx is not installed")
pytest.importorskip("moonshine_voice", reason="the extra asr is not installed")

from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import load
from voiceveil.corpus import Utterance, read_kaldi
from voiceveil.models.asr.alignment import PHONES
from voiceveil.models.content.features import content_encoder
from voiceveil.models.nets.phone_encoder import CLASSES, HOP, OFFSET
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext
from voiceveil.training.duration_data import DurationData, relative_log_durations
from voiceveil.training.network_settings import NetworkSettings
from voiceveil.training.network_training import train_network
from voiceveil.training.phone_data import PhoneAligner, PhoneData, state_classes
from voiceveil.training.training_run import TrainingRun
from voiceveil.training.voice_perturbation import PerturbationSettings


@pytest.fixture(scope="module")
def utterances() -> list[Utterance]:
    """The shortest utterance of each of four speakers, with transcript."""
    speakers = read_kaldi(SPEECH / "demo_enrolls").by_speaker
    shortest = [min(group, key=lambda u: len(str(u.text))) for group in speakers.values()]
    return sorted(shortest, key=lambda u: len(str(u.text)))[:4]


@pytest.fixture(scope="module")
def data(utterances: list[Utterance]) -> PhoneData:
    return PhoneData(utterances, RunContext(Cache(None), 1, progress=False), seconds=1.0, seed=3)


def test_states_are_thirds_of_phones() -> None:
    """Against the definition, for every tenth of a frame."""
    phones = np.array([(0, 0, 4), (5, 4, 6), (39, 10, 1), (0, 11, 2)], dtype=np.int32)
    times = np.arange(-5, 145) / 10 + 0.05

    def slow(time: float) -> int:
        for number, start, count in phones:
            if start <= time < start + count:
                return 0 if number == 0 else 1 + 3 * (int(number) - 1) + int(3 * (time - start) / count)
        return -1

    assert state_classes(phones, times).tolist() == [slow(time) for time in times]
    assert state_classes(phones, times).max() == CLASSES - 1  # the end of the last phone


def test_aligned_phones_spell_the_transcript(utterances: list[Utterance]) -> None:
    evaluator = PhoneAligner().in_set(utterances)[utterances[0].id]
    rows = evaluator(load(utterances[0].path, rate=16000))
    assert rows.dtype == np.int32
    assert np.array_equal(rows[1:, 1], rows[:-1, 1] + rows[:-1, 2])
    names = [PHONES[number] for number in rows[:, 0]]
    assert len([name for name in names if name != "SIL"]) > 2 * len(str(utterances[0].text).split())
    assert len({PhoneAligner(u.text or "").fingerprint() for u in utterances}) == len(utterances)
    assert len(PhoneAligner("unrelated words " * 40)(load(utterances[0].path, rate=16000))) == 0


def test_crops_are_repeatable_and_labels_follow_the_speed(data: PhoneData, utterances: list[Utterance]) -> None:
    first, again, other = data.batch(0, 4), data.batch(0, 4), data.batch(1, 4)
    assert np.array_equal(first.samples, again.samples)
    assert np.array_equal(first.classes, again.classes)
    assert not np.array_equal(first.samples, other.samples)
    assert first.classes.shape[1] == 2 * ((first.samples.shape[1] - 895) // 384 + 1)
    # energy and labels agree: phones are louder than silence, at any speed
    for seed in range(3):
        fast = PhoneData(
            utterances,
            RunContext(Cache(None), 1, progress=False),
            seconds=2.0,
            seed=seed,
            perturbation=PerturbationSettings((1.25, 1.25), (0, 1, 1), (0, 0), 0, (0, 0, 0), (0, 0.1, 0.1)),
        )
        batch = fast.batch(0, 4)
        centers = OFFSET + HOP * np.arange(batch.classes.shape[1])
        power = np.array([[np.mean(row[c - 96 : c + 96] ** 2) for c in centers] for row in batch.samples])
        silent = batch.classes == 0
        assert silent.any()
        assert np.median(power[~silent]) > 5 * np.median(power[silent])


def test_speakers_of_validation_are_not_trained_on(data: PhoneData) -> None:
    trained = {u.speaker for u in data.training}
    assert data.validation
    assert not trained & {u.speaker for u in data.validation}


@pytest.mark.slow
def test_training_learns_and_its_posteriors_are_content(utterances: list[Utterance], tmp_path: Path) -> None:
    out = tmp_path / "phones"
    settings = NetworkSettings("phones", steps=8, batch_size=4, crop=1.0, learning_rate=5e-4)
    record = train_network(utterances, out, settings, TrainingRun(quiet=True))
    assert record["curve"][-1]["loss"] < record["curve"][0]["loss"]
    content = content_encoder(f"phones:{out}")
    posteriors = content(load(utterances[0].path, rate=16000))
    assert posteriors.shape[1] == CLASSES == content.dimension
    assert np.allclose(posteriors.astype(np.float32).sum(axis=1), 1.0, atol=0.02)


def test_durations_are_relative_to_the_pace() -> None:
    phones, frames = np.array([0, 3, 4, 5]), np.array([50, 4, 8, 16])
    relative = relative_log_durations(phones, frames)
    assert relative[1:].mean() == pytest.approx(0.0, abs=1e-6)
    assert np.allclose(np.diff(relative[1:]), np.log(2), atol=1e-6)
    assert np.allclose(relative_log_durations(phones, 3 * frames), relative, atol=1e-6)


def test_batches_of_durations_are_repeatable(utterances: list[Utterance]) -> None:
    data = DurationData(utterances, RunContext(Cache(None), 1, progress=False), seed=1)
    first, again = data.batch(0, 4), data.batch(0, 4)
    for name in first._fields:
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert (first.log_durations[first.weights == 0] == 0).all()
    assert first.phones.shape == (4, 80)
    assert {u.speaker for u in data.training}.isdisjoint({u.speaker for u in data.validation})


@pytest.mark.slow
def test_durations_are_learned(utterances: list[Utterance], tmp_path: Path) -> None:
    settings = NetworkSettings("durations", steps=60, batch_size=8)
    record = train_network(utterances, tmp_path, settings, TrainingRun(quiet=True))
    assert record["curve"][-1]["loss"] < 0.8 * record["curve"][0]["loss"]
