"""Bottleneck features: equal to those of the network, at synthesis frames; rejected networks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from voiceveil.core.errors import InputError
from voiceveil.models.content.features import content_encoder
from voiceveil.models.speaker.encoders import encoder, l2_normalized
from voiceveil.testing import synthetic_voice


def write_tdnnf(folder: Path, speaker: str) -> Path:
    import torch

    from voiceveil.models.checkpoint import save_tensors
    from voiceveil.models.nets.tdnnf import Tdnnf, TdnnfSize

    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Tdnnf(TdnnfSize(5, 40, 192, dim=16, factor=8, bottleneck=12, strides=(1, 0, 3)))
    folder.mkdir(exist_ok=True)
    record = {"kind": "TDNN-F", "size": asdict(network.size), "parts": {"speaker": speaker}}
    save_tensors(folder / "model.safetensors", network.state_dict(), record)
    return folder


def test_features_equal_those_of_the_network(tmp_path: Path) -> None:
    import torch

    from voiceveil.dsp.kaldi import hires_mfcc
    from voiceveil.models.checkpoint import load_tensors
    from voiceveil.models.nets.tdnnf import Tdnnf, TdnnfSize

    embed = encoder("campplus")
    folder = write_tdnnf(tmp_path / "tdnnf", embed.fingerprint())
    part = content_encoder(f"bottleneck:{folder}")
    wave = synthetic_voice(seconds=0.5)
    content = part(wave)
    assert content.shape == (50, 12) == (50, part.dimension)
    assert (part.hop, part.offset) == (160.0, 80.0)
    tensors, record = load_tensors(folder / "model.safetensors", "TDNN-F")
    network = Tdnnf(TdnnfSize(**record["size"])).eval()
    network.load_state_dict(tensors)
    with torch.inference_mode():
        features, voice = (
            torch.from_numpy(hires_mfcc(wave.samples)[None]),
            torch.from_numpy(l2_normalized(embed(wave))[None]),
        )
        expected = network.bottleneck(features, voice)[0].numpy()
    np.testing.assert_allclose(content.astype(np.float32), expected, rtol=2e-3, atol=1e-3)


def test_invalid_networks_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        content_encoder("bottleneck")
    assert str(caught.value) == (
        "content encoder bottleneck has no default weights "
        "(write bottleneck:FOLDER, with a folder that `voiceveil train tdnnf` wrote)"
    )
    with pytest.raises(InputError, match="no trained TDNN-F here"):
        content_encoder(f"bottleneck:{tmp_path}")
    folder = write_tdnnf(tmp_path / "other", "another encoder")
    with pytest.raises(InputError, match="trained with another speaker encoder: 'another encoder', not 'campplus 1"):
        content_encoder(f"bottleneck:{folder}")
