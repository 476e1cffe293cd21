"""McAdams' coefficient can be seen in the audio and undone: estimate, inversion, and the attacker who does both."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import voiceveil as vv
import voiceveil.attack as attack
from tests.support.evaluations import settings_for
from tests.support.pitch_bumps import make_corpus
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.attack.inversion import ALPHAS, AngleCounts, AngleModel, count_angles, invert
from voiceveil.audio import Waveform, load, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import open_corpus
from voiceveil.dsp.lpc import ORDER, pole_angles
from voiceveil.dsp.mcadams import McAdams, analysis_window
from voiceveil.evaluation.evaluate import prepare
from voiceveil.models.speaker.encoders import TrainingRecord, encoders
from voiceveil.testing import synthetic_voice

pytestmark = pytest.mark.slow  # for its fixtures


@dataclass(frozen=True)
class Angles:
    """A small honest encoder of the spectral envelope, which McAdams' coefficient moves: how often poles are where."""

    name: str = "angles"
    family: str = "angles"
    rate, minimum, dimension = 16000, 0.05, 104

    def fingerprint(self) -> str:
        return "angles 1"

    def training(self) -> TrainingRecord:
        return TrainingRecord()

    def check(self) -> None:
        pass

    def __call__(self, wave: Waveform) -> NDArray[np.float32]:
        counts = count_angles(wave.samples)
        smooth = np.sqrt(np.convolve(counts / counts.sum(), np.hanning(7) / 3, "same"))
        return np.asarray(smooth - smooth.mean(), dtype=np.float32)


@encoders.register("angles")
def _make(argument: str | None) -> Angles:
    return Angles()


def voice(speaker: int, number: int) -> NDArray[np.float32]:
    return synthetic_voice(speaker, number, seconds=2.0).samples


@pytest.fixture(scope="module")
def model() -> AngleModel:
    """Learned from speakers 30 to 39."""
    counts = AngleCounts()
    return AngleModel.learn(counts(Waveform(voice(s, 1), 16000)) for s in range(30, 40))


def test_pole_angles_of_a_resonance() -> None:
    """Noise through two poles at 1 kHz has poles there in every frame."""
    from scipy.signal import lfilter

    angle = 2 * np.pi * 1000 / 16000
    noise = np.random.default_rng(0).standard_normal(16000)
    samples = lfilter([1.0], [1.0, -2 * 0.98 * np.cos(angle), 0.98**2], noise).astype(np.float32)
    angles, power = np.empty((99, ORDER)), np.empty(99)
    pole_angles(samples, analysis_window(16000), angles, power)
    nearest = np.abs(angles - angle).min(axis=1)
    assert np.median(nearest) < 0.02
    assert (angles >= 0).all()
    assert (angles <= np.pi).all()
    window = analysis_window(16000)
    assert power[3] == pytest.approx(np.mean((samples[480:800] * window) ** 2), rel=1e-3)


@pytest.mark.parametrize("alpha", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_coefficient_of_unseen_speakers_is_estimated(model: AngleModel, alpha: float) -> None:
    anonymized = [McAdams(alpha)(voice(speaker, 2)).astype(np.float32) for speaker in range(6)]
    errors = np.array([model.estimate(samples) for samples in anonymized]) - alpha
    assert np.abs(errors).max() < 0.08
    assert abs(errors.mean()) < 0.04


def test_original_speech_is_estimated_as_original(model: AngleModel) -> None:
    assert [model.estimate(voice(speaker, 2)) for speaker in range(4)] == pytest.approx([1.0] * 4, abs=0.06)


def test_estimates_stay_within_the_grid_for_any_audio(model: AngleModel) -> None:
    rng = np.random.default_rng(0)
    for samples in (np.zeros(0), np.zeros(100), np.zeros(16000), rng.standard_normal(16000), np.ones(320)):
        alpha = model.estimate(samples.astype(np.float32))
        assert ALPHAS[0] <= alpha <= ALPHAS[-1]
        assert np.isfinite(invert(samples.astype(np.float32), alpha)).all()
        assert count_angles(samples.astype(np.float32)).shape == (104,)


def correlation(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return float(np.dot(one, other) / np.sqrt(np.dot(one, one) * np.dot(other, other)))


@pytest.mark.parametrize(("alpha", "least"), [(0.7, 0.6), (0.8, 0.65), (0.9, 0.7)])
def test_inverted_speech_resembles_the_original(alpha: float, least: float) -> None:
    pairs = [(voice(s, 3), McAdams(alpha)(voice(s, 3)).astype(np.float32)) for s in range(5)]
    before = np.mean([abs(correlation(source, hidden)) for source, hidden in pairs])
    after = np.mean([correlation(source, invert(hidden, alpha)) for source, hidden in pairs])
    assert after > least
    assert after > before + 0.15


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve people by B2 and by D1."""
    folder = tmp_path_factory.mktemp("data")
    make_corpus(folder, "toy_enrolls", range(12), range(4), "enroll")
    make_corpus(folder, "toy_trials_x", range(12), range(10, 13), "trial")
    for name in ("toy_enrolls", "toy_trials_x"):
        for utterance in open_corpus(folder / name):
            speaker, number = utterance.id[1:].split("-")
            save(utterance.path, synthetic_voice(int(speaker), int(number), seconds=2.0))
    for name in ("toy_enrolls", "toy_trials_x"):
        for system in ("b2", "d1"):
            assert not vv.anonymize(folder / name, folder, system=system, seed=1).failures
    return folder


@pytest.mark.parametrize("system", ["b2", "d1"])
def test_inversion_beats_the_ignorant_attacker(data: Path, system: str) -> None:
    names = ["angles", "mcadams-inversion:angles"]
    result = attack.attack(data, anon=f"_{system}", attackers=names, options=attack.AttackOptions(resamples=20))
    ignorant, inverting = result.mean("angles", "oa").value, result.mean("mcadams-inversion:angles", "oa").value
    assert inverting < ignorant - 0.1
    row = next(row for row in result.rows if row.attacker.startswith("mcadams"))
    assert (row.knowledge, row.condition, row.backend) == ("inverting", "oa", "cosine")
    health = result.health[1]
    assert health.original_eer == result.health[0].original_eer


def test_attack_command_uses_the_cache(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["attack", "--data", str(data), "--anon", "_b2", "--attackers", "mcadams-inversion:angles", "--json"]
    options += ["--resamples", "20", "--cache", str(tmp_path / "cache.sqlite")]
    assert main([*options, "--jobs", "2"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(options) == 0
    again = json.loads(capsys.readouterr().out)
    assert first["rows"] == again["rows"]
    assert first["strongest"]["attacker"] == "mcadams-inversion:angles"
    assert main([*options[:3], "--attackers", "mcadams-inversion:angles"]) == 1
    assert "needs anonymized speech" in capsys.readouterr().err
    with pytest.raises(InputError, match="unknown encoder"):
        attack.make_attackers(["mcadams-inversion:nobody"])
    with pytest.raises(InputError, match=r"unknown attacker 'mcadams-inversoin'.*did you mean mcadams-inversion"):
        attack.make_attackers(["mcadams-inversoin"])


def test_inversion_is_a_default_attacker_of_mcadams_systems(tmp_path: Path) -> None:
    from tests.support.small_challenge import make_challenge

    made = make_challenge(tmp_path / "data", only=("dev",))

    def default_attackers(name: str) -> tuple[str, ...]:
        return prepare(settings_for(made, tmp_path / name), system=vv.system(name)).attackers

    for name in ("b2", "b2-2022", "b2-2020", "d1"):
        assert default_attackers(name)[-1] == "mcadams-inversion"
    for name in ("i1", "identity"):
        assert "mcadams-inversion" not in default_attackers(name)


def test_coefficient_of_real_speech_is_estimated() -> None:
    enrolled = list(open_corpus(SPEECH / "demo_enrolls"))[::5]
    tried = [u for gender in "fm" for u in list(open_corpus(SPEECH / f"demo_trials_{gender}"))[::7]]
    counts = AngleCounts()
    learned = AngleModel.learn(counts(load(u.path, rate=16000)) for u in enrolled)
    rng = np.random.default_rng(4)
    errors = []
    for utterance in tried:
        alpha = float(rng.uniform(0.5, 0.9))
        hidden = McAdams(alpha)(load(utterance.path, rate=16000).samples).astype(np.float32)
        errors.append(learned.estimate(hidden) - alpha)
    assert np.sqrt(np.mean(np.square(errors))) < 0.03


def test_plan_accounts_for_the_cache(tmp_path: Path) -> None:
    from tests.support.small_challenge import make_challenge
    from voiceveil.evaluation.evaluate import evaluate
    from voiceveil.evaluation.plan import make_plan

    made = make_challenge(tmp_path / "data", only=("dev",))
    settings = settings_for(
        made, tmp_path / "out", attackers=["mcadams-inversion:bumps"], seed=1, recognizers=["counter"], report=False
    )
    evaluation = prepare(settings, system=vv.system("b2"))
    before = [step for step in make_plan(evaluation).steps if "inversion" in step.name]
    assert sum(step.left for step in before) == 24
    results = evaluate(evaluation)
    assert {figure.evaluator for figure in results.find("eer")} == {"mcadams-inversion:bumps (inverting)"}
    after = [step for step in make_plan(evaluation).steps if "inversion" in step.name]
    assert [(step.utterances, step.left) for step in after] == [(12, 0), (12, 0)]
