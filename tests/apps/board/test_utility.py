"""UAR and pitch correlation that the verification of a board computes from the audio."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.apps.board.test_board import figures
from tests.support.small_challenge import make_challenge
from voiceveil import models
from voiceveil.apps.board.contest import Contest
from voiceveil.apps.board.lists import audio_sets, emotion_sets, open_set
from voiceveil.apps.board.utility import check_emotion_model, emotion_figures, pitch_figures
from voiceveil.apps.board.verification import averages, compare, draw_sample, recompute
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.protocol_writer import protocol_text
from voiceveil.evaluation.results import Figure
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

pytestmark = pytest.mark.slow  # it analyzes speech


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_challenge(tmp_path_factory.mktemp("data"), only=("dev", "emotion"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cache]:
    opened = Cache(tmp_path_factory.mktemp("cache") / "cache.sqlite")
    yield opened
    opened.close()


def test_uar_equals_that_of_an_evaluation(data: Path, cache: Cache) -> None:
    """The model of each fold learns from the original speech of the other folds, of both splits."""
    contest = Contest("vpc2024", data, "dev", "t", verify="all")
    assert emotion_sets(contest) == ("IEMOCAP_dev",)
    assert "IEMOCAP_dev" in audio_sets(contest)
    check_emotion_model(contest)
    speech = open_set(data / "IEMOCAP_dev")
    (uar,) = emotion_figures(contest, {"IEMOCAP_dev": speech}, RunContext(cache))
    both = [*speech, *open_set(data / "IEMOCAP_test")]
    original = replace(speech, utterances=tuple(both))
    folds = models.emotion_folds(original)
    expected = models.evaluate_emotion(
        speech, folds, models.train_emotion_recognizer(original, folds, RunContext(cache)), RunContext(cache)
    ).uar
    assert (uar.value, uar.low, uar.high, uar.condition) == (expected.value, expected.low, expected.high, "a")
    with pytest.raises(InputError, match="nothing"):
        check_emotion_model(replace(contest, emotion_model="nothing:x"))


def test_verification_recomputes_eer_wer_and_uar(data: Path, cache: Cache) -> None:
    """Here the "anonymized" speech is the original, whose UAR is that of the test above."""
    contest = Contest("vpc2024", data, "dev", "t", verify="all", attackers=("bumps",), recognizer="counter")
    audio = {name: open_set(data / name) for name in audio_sets(contest)}
    sample = draw_sample(contest, lambda *parts: hashlib.sha256(repr(parts).encode()).digest(), "x")
    figures = recompute(contest, audio, sample, cache, lambda progress: None)
    assert sorted((f.metric, f.gender) for f in figures) == [("eer", "f"), ("eer", "m"), ("uar", ""), ("wer", "")]
    (expected,) = emotion_figures(contest, audio, RunContext(cache))
    assert expected in figures
    assert set(averages(contest, figures)) == {"eer", "uar", "wer"}


def test_emotions_are_not_verified_without_their_data(data: Path, tmp_path: Path) -> None:
    contest = Contest("vpc2024", tmp_path, "dev", "t", verify="all")
    assert emotion_sets(contest) == ()
    assert emotion_figures(contest, {}, RunContext()) == []


def test_pitch_is_that_of_the_sampled_utterances(data: Path, tmp_path: Path) -> None:
    """Speech that was not anonymized has a correlation of 1; another utterance under the same id has a lower one."""
    vpc2024 = load_protocol("vpc2024")
    assert vpc2024.ranking is not None
    own = replace(vpc2024, metrics=(*vpc2024.metrics, "pitch_correlation"),
                  ranking=replace(vpc2024.ranking, minimum_pitch_correlation=0.3))  # fmt: skip
    (tmp_path / "own.toml").write_text(protocol_text(own))
    contest = Contest(str(tmp_path / "own.toml"), data, "dev", "t", verify="all")
    names = ("libri_dev_trials_f", "libri_dev_trials_m")
    audio: dict[str, Corpus] = {name: open_set(data / name) for name in names}
    first, second = list(audio[names[0]])[:2]
    audio[names[0]] = replace(audio[names[0]], utterances=(replace(first, path=second.path), second))
    sample = {name: frozenset(u.id for u in corpus) for name, corpus in audio.items()}
    rates = {f.gender: f.value for f in pitch_figures(contest, audio, sample, RunContext())}
    assert rates["m"] == pytest.approx(1.0)
    assert rates["f"] < 0.99
    sample[names[0]] = frozenset({second.id})
    rates = {f.gender: f.value for f in pitch_figures(contest, audio, sample, RunContext())}
    assert rates["f"] == pytest.approx(1.0)
    assert pitch_figures(Contest("vpc2024", data, "dev", "t"), audio, sample, RunContext()) == []


def test_claims_of_a_better_uar_or_pitch_differ(data: Path) -> None:
    contest = Contest("vpc2024", data, "test", "t", verify="all")

    def of(uar: float, pitch: float) -> tuple[Figure, ...]:
        rates = [
            Figure("uar", uar, "IEMOCAP_test", uar - 0.05, uar + 0.05, "test", condition="a"),
            Figure("pitch_correlation", pitch, "libri_test", split="test", gender="f"),
        ]
        return (*figures(0.3, 0.1), *rates)

    assert compare(contest, of(0.50, 0.5), of(0.45, 0.49)).state == "verified"
    assert compare(contest, of(0.30, 0.2), of(0.45, 0.49)).state == "verified"  # worse than it is
    outcome = compare(contest, of(0.60, 0.7), of(0.45, 0.49))
    assert outcome.state == "differs"
    assert outcome.reason == "submitted UAR 60.0%, recomputed 45.0%; submitted pitch correlation 0.70, recomputed 0.49"
    assert compare(contest, figures(0.3, 0.1), of(0.45, 0.49)).state == "verified"  # nothing was claimed
    assert set(averages(contest, figures(0.3, 0.1))) == {"eer", "wer"}
