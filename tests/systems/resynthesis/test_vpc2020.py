"""Systems of VoicePrivacy 2020 that resynthesize: embeddings of each stage, and parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.tiny_decoder import write_decoder, write_two_stages
from voiceveil import metrics
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import Samples, Waveform, load
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance, open_corpus
from voiceveil.models.content.features import LEVEL
from voiceveil.models.speaker.encoders import encoder, l2_normalized
from voiceveil.systems import system
from voiceveil.systems.resynthesis import pipeline
from voiceveil.systems.resynthesis.base import Resynthesis
from voiceveil.systems.resynthesis.loader import load_pipeline
from voiceveil.systems.resynthesis.speaking_style import f0_statistics
from voiceveil.systems.resynthesis.strategies import PoolFarthest, SourceVoice, make_strategy
from voiceveil.systems.resynthesis.strategy_sampling import Sampled, SampledFar
from voiceveil.systems.resynthesis.strategy_singular_values import LeastSimilarCentroid
from voiceveil.systems.resynthesis.synthesis import LoadedStage
from voiceveil.testing import synthetic_voice

RATE = 16000


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("decoder"))


def resynthesis(name: str, **parameters: object) -> Resynthesis:
    anonymizer = system(name, **parameters)
    assert isinstance(anonymizer, Resynthesis)
    return anonymizer


# --- Strategies and their parameters ------------------------------------------------------------------------------


def test_parameters_of_a_system_include_those_of_its_strategy() -> None:
    assert resynthesis("a2", kept=0.9, clusters=5).chosen_strategy() == LeastSimilarCentroid("same", 0.9, 5)
    assert resynthesis("o1", variance=0.8, components=3, gender="other").chosen_strategy() == Sampled("other", 0.8, 3)
    assert resynthesis("o1c1", dissimilarity=1.0).chosen_strategy() == SampledFar(dissimilarity=1.0)
    assert resynthesis("m1c2").chosen_strategy() == SourceVoice()
    assert resynthesis("b1b", candidates=9, averaged=3).chosen_strategy() == PoolFarthest("plda", "same", 9, 3)


def test_every_system_takes_every_strategy_with_its_parameters() -> None:
    strategy = resynthesis("b1b", strategy="o1c1:dissimilarity=0.9,components=3", gender="f").chosen_strategy()
    assert strategy == SampledFar("f", components=3, dissimilarity=0.9)
    assert resynthesis("b1b", candidates=50, strategy="pool-farthest:averaged=7").chosen_strategy() == PoolFarthest(
        "plda", "same", 50, 7
    )
    assert resynthesis("o1", strategy="source").chosen_strategy() == SourceVoice()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("o2", "unknown pseudo-speaker strategy 'o2' (did you mean"),
        ("o1:varianse=0.5", "strategy o1 has no parameter 'varianse' (did you mean variance?)"),
        ("o1:variance=much", "variance = 'much' is not of the form float"),
        ("o1:variance", "--set variance has no value (write --set NAME=VALUE)"),
    ],
)
def test_misspelled_strategy_is_rejected(spec: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_strategy(spec, {})
    assert str(caught.value).startswith(message)


def test_unused_parameters_are_not_parameters_of_the_system(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "o1", "--set", "candidates=5"]) == 1
    assert "system o1 has no parameter 'candidates'" in capsys.readouterr().err


# --- Which embedding goes where -----------------------------------------------------------------------------------


class Listening:
    """A stage that records the embedding it gets."""

    def __init__(self) -> None:
        self.speakers: list[Samples] = []

    def __call__(self, content: Samples, f0: Samples, speaker: Samples, rng: np.random.Generator) -> Samples:
        self.speakers.append(speaker)
        return np.full(160 * len(f0), 0.1, dtype=np.float32)


def embeddings_of_stages(anonymizer: Resynthesis, samples: Samples) -> tuple[list[Samples], Samples, Samples]:
    """Return the embedding that each stage gets, and those of pseudo-speaker and source, computed separately."""
    loaded = load_pipeline(anonymizer)
    recorders = [Listening() for _ in loaded.stages]
    stages = tuple(
        LoadedStage(recorder, {}, uses_source=stage.uses_source)
        for recorder, stage in zip(recorders, loaded.stages, strict=True)
    )
    changed = replace(loaded, stages=stages)
    stream = pipeline.ResynthesisStream(changed, np.random.default_rng(3))
    stream.push(samples)
    stream.close()
    source = l2_normalized(
        loaded.extractors.speaker(Waveform(samples * np.float32(LEVEL / np.sqrt(np.mean(samples**2))), RATE))
    )
    statistics = f0_statistics(loaded.f0(samples))
    gender = loaded.pool.gender_of(source, None if statistics is None else statistics.mean)
    drawn = loaded.strategy.draw(source, gender, loaded.pool, np.random.default_rng(3))
    return [recorder.speakers[0] for recorder in recorders], l2_normalized(drawn.embedding), source


def test_team_m_variants_give_the_source_embedding_to_their_stages(tmp_path: Path) -> None:
    weights = str(write_two_stages(tmp_path))
    samples = synthetic_voice(seconds=0.6).samples
    for name, original in (("b1a", (False, False)), ("m1c3", (False, True)), ("m1c4", (True, False))):
        embeddings, pseudo, source = embeddings_of_stages(resynthesis(name, weights=weights), samples)
        assert abs(float(pseudo @ source)) < 0.9
        for vector, is_source in zip(embeddings, original, strict=True):
            np.testing.assert_allclose(vector, source if is_source else pseudo, atol=1e-4)


def test_copy_synthesis_uses_the_source_embedding(decoder: Path) -> None:
    samples = synthetic_voice(seconds=0.6).samples
    (embedding,), pseudo, source = embeddings_of_stages(resynthesis("m1c2", weights=str(decoder)), samples)
    np.testing.assert_allclose(embedding, source, atol=1e-4)
    np.testing.assert_array_equal(pseudo, source)


def test_source_embedding_is_computed_for_a_stage_that_needs_it(tmp_path: Path) -> None:
    anonymizer = resynthesis("m1c3", weights=str(write_two_stages(tmp_path)), strategy="pool-random", gender="f")
    assert not anonymizer.chosen_strategy().needs_source_embedding
    embeddings, pseudo, source = embeddings_of_stages(anonymizer, synthetic_voice(seconds=0.6).samples)
    np.testing.assert_allclose(embeddings[0], pseudo, atol=1e-6)
    np.testing.assert_allclose(embeddings[1], source, atol=1e-4)


# --- All of them --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a1", "a2", "k2", "m1", "m1c1", "m1c2", "m1c3", "m1c4", "o1", "o1c1", "s1", "s1c1", "s2", "s2c1"]
)
def test_every_system_converts_with_shipped_weights(name: str) -> None:
    wave = synthetic_voice(seconds=0.5)
    output = system(name).convert(wave, np.random.default_rng(0))
    assert len(output) == len(wave)
    level, own = float(np.mean(output.samples**2)), float(np.mean(wave.samples**2))
    at_full_scale = float(np.abs(output.samples).max()) == pytest.approx(0.999, abs=1e-3)  # then all is made quieter
    assert level == pytest.approx(own, rel=0.05) or (at_full_scale and 0.3 * own < level < own)


def test_copy_synthesis_lies_between_the_original_and_b1() -> None:
    """On real speech: the ignorant attacker's EER, and the similarity of a speaker's two utterances."""
    corpus, by = open_corpus(SPEECH / "demo_trials_f"), encoder("campplus")
    pairs = [spoken[:2] for _, spoken in sorted(corpus.by_speaker.items()) if len(spoken) > 1][:6]
    enrolled = np.array([l2_normalized(by(_four_seconds(first))) for first, _ in pairs])
    alike, rates = {}, {}
    for name in ("identity", "m1c2", "b1b"):
        trials = []
        for number, (_, second) in enumerate(pairs):
            output = system(name).convert(_four_seconds(second), np.random.default_rng(number))
            trials.append(l2_normalized(by(output)))
        scores = enrolled @ np.array(trials).T
        same = np.eye(len(pairs), dtype=bool)
        rates[name] = metrics.eer(scores[same], scores[~same])
        alike[name] = float(scores[same].mean() - scores[~same].mean())
    assert alike["identity"] > alike["m1c2"] > alike["b1b"]
    assert rates["identity"] <= rates["m1c2"] <= rates["b1b"]
    assert rates["identity"] < rates["b1b"]


def _four_seconds(utterance: Utterance) -> Waveform:
    return Waveform(load(utterance.path, rate=RATE).samples[: 4 * RATE], RATE)
