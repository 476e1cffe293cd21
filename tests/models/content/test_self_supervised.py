"""Content features of self-supervised networks: equal to those of the network, windows, rejected models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.tiny_models import tiny_ctc
from voiceveil.core.errors import InputError
from voiceveil.models.content.features import content_encoder
from voiceveil.models.content.self_supervised import SslContent
from voiceveil.testing import synthetic_voice

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_ctc(tmp_path_factory.mktemp("ssl") / "model")


def test_last_layer_equals_that_of_transformers(model: Path) -> None:
    import torch

    wave = synthetic_voice(seconds=1.0)
    part = content_encoder(f"ssl:{model}")
    network = transformers.AutoModel.from_pretrained(model).eval()
    normal = transformers.AutoFeatureExtractor.from_pretrained(model)(wave.samples, sampling_rate=16000)
    with torch.inference_mode():
        expected = network(torch.tensor(np.array(normal["input_values"]))).last_hidden_state[0].numpy()
    features = part(wave)
    assert features.shape == expected.shape == (49, part.dimension)
    np.testing.assert_allclose(features.astype(np.float32), expected, atol=4e-3)
    assert (part.hop, part.offset, part.minimum) == (320.0, 199.5, 0.025)


def test_windows_give_nearly_the_same_vectors(model: Path) -> None:
    wave = synthetic_voice(seconds=4.0)
    whole, parts = SslContent(model)(wave), SslContent(model, window=2.0, overlap=0.5)(wave)
    assert whole.shape == parts.shape
    assert np.corrcoef(whole.ravel().astype(float), parts.ravel().astype(float))[0, 1] > 0.9
    assert SslContent(model).fingerprint() != SslContent(model, window=2.0).fingerprint()


def test_missing_model_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        content_encoder("ssl")
    assert str(caught.value) == "content encoder ssl has no default model (write ssl:FOLDER or ssl:HUB_ID)"
    with pytest.raises(InputError, match="no such folder"):
        content_encoder(f"ssl:{tmp_path / 'nowhere'}")
