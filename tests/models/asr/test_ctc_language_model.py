"""CTC recognizers with a language model: the same rows as in greedy decoding, all kinds of models, mistyped names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

from tests.models.asr.test_beam_search import ARPA
from tests.support.official_models import CHECKOUT
from tests.support.tiny_models import tiny_ctc, tiny_features
from voiceveil.audio import Waveform
from voiceveil.core.errors import InputError
from voiceveil.models.asr.beam_search import BeamDecoder
from voiceveil.models.asr.ctc import CTC
from voiceveil.models.asr.recognition import recognizer
from voiceveil.testing import synthetic_voice


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_ctc(folder / "waveforms")
    tiny_features(folder / "features")
    (folder / "tiny.arpa").write_text(ARPA)
    return folder


def voice(seconds: float) -> Waveform:
    return synthetic_voice(1, 1, seconds=seconds)


def test_rows_are_those_of_the_network_also_across_windows(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode with a decoder that takes the best token of each row: the result is that of greedy decoding."""
    rows_seen: list[Any] = []

    def greedy(self: BeamDecoder, rows: Any, tokens: list[str], blank: int) -> str:
        rows_seen.append(rows)
        np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=1e-4)
        best = rows.argmax(axis=1)
        kept = [t for n, t in enumerate(best) if (n == 0 or t != best[n - 1]) and t != blank]
        return " ".join("".join(tokens[token] for token in kept).split())

    monkeypatch.setattr(BeamDecoder, "decode", greedy)
    for seconds in (1.0, 4.0):
        plain = CTC(models / "waveforms", window=2.0, overlap=0.5)
        decoding = CTC(models / "waveforms", window=2.0, overlap=0.5, decoder=BeamDecoder(models / "tiny.arpa"))
        assert decoding(voice(seconds)) == " ".join(plain(voice(seconds)).split())
        assert len(rows_seen[-1]) == plain.convolutions.rows(len(voice(seconds)))


@pytest.mark.parametrize("spec", ["ctc:{models}/waveforms", "ctc:{models}/features", f"speechbrain:{CHECKOUT}/exp/asr"])
def test_the_language_model_changes_what_is_written(models: Path, spec: str) -> None:
    name = spec.format(models=models)
    wave = voice(1.0)
    many = recognizer(f"{name}+lm={models}/tiny.arpa+weight=0+bonus=30+beam=20")
    none = recognizer(f"{name}+lm={models}/tiny.arpa+weight=0+bonus=-30+beam=20")
    assert len(many(wave).split()) > len(none(wave).split())
    assert len(none(wave).split()) <= 1
    assert len({recognizer(name).fingerprint(), many.fingerprint(), none.fingerprint()}) == 3


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ctc:{models}/waveforms+lm={models}/none.arpa", "none.arpa: no such language model"),
        ("ctc:{models}/waveforms+lm={models}/tiny.arpa+beem=3", "'beem=3' is no setting of a language model"),
        ("counter+lm={models}/tiny.arpa", "the recognizer 'counter' cannot use a language model"),
        ("ctx:{models}/waveforms+lm={models}/tiny.arpa", "did you mean ctc"),
    ],
)
def test_mistyped_names_are_refused(models: Path, spec: str, message: str) -> None:
    import tests.support.small_challenge  # noqa: F401 -- registers the recognizer "counter"

    with pytest.raises(InputError, match=message):
        recognizer(spec.format(models=models))
