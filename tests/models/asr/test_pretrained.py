"""CTC and Whisper models of transformers, end to end with tiny models saved to disk; rejected models."""

from __future__ import annotations

import itertools
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tests.support.tiny_models import tiny_ctc, tiny_features, tiny_whisper
from voiceveil.audio import Waveform, save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Utterance
from voiceveil.models.asr.ctc import CTC, Convolutions, collapse, load_model, windows
from voiceveil.models.asr.ctc_features import FeatureCTC
from voiceveil.models.asr.recognition import recognizer, transcribe
from voiceveil.models.asr.segmentation import cut_at_pauses
from voiceveil.models.asr.whisper import Whisper
from voiceveil.models.pretrained import digest, find_model, model_kind
from voiceveil.testing import synthetic_voice

pytest.importorskip("torch")
pytest.importorskip("transformers")

WAV2VEC2 = Convolutions((10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_ctc(folder / "layer")
    tiny_ctc(folder / "group", norm="group")
    tiny_ctc(folder / "bin", weights="bin")
    tiny_features(folder / "features")
    tiny_whisper(folder / "whisper")
    return folder


def voice(seconds: float, number: int = 0) -> Waveform:
    return synthetic_voice(number, number, seconds=seconds)


# -- the parts -------------------------------------------------------------------------------------------------------


@given(arrays(np.int64, st.integers(0, 40), elements=st.integers(0, 3)))
def test_collapse_equals_its_plain_twin(best: NDArray[np.int64]) -> None:
    expected = [token for token, _ in itertools.groupby(best.tolist()) if token != 0]
    assert collapse(best, 0).tolist() == expected


@given(st.integers(400, 200_000))
def test_number_of_frames_of_wav2vec2(samples: int) -> None:
    """A row needs 400 samples, and each further row 320, as published."""
    assert WAV2VEC2.stride == 320
    assert WAV2VEC2.min_samples == 400
    assert WAV2VEC2.rows(samples) == (samples - 400) // 320 + 1
    assert WAV2VEC2.rows(399) == 0


@given(st.integers(400, 500_000), st.integers(20_000, 100_000), st.integers(400, 8_000))
def test_windows_keep_each_frame_once(samples: int, longest: int, overlap: int) -> None:
    kept: list[int] = []
    for window in windows(samples, WAV2VEC2, longest, overlap):
        assert 0 <= window.start < window.stop <= samples
        assert window.stop - window.start <= longest
        first = window.start // 320
        assert window.start % 320 == 0  # on the grid of rows
        assert first + WAV2VEC2.rows(window.stop - window.start) >= window.last  # it has the rows that are kept
        assert window.start == 0 or window.first * 320 - window.start >= overlap  # context before
        assert window.stop == samples or window.stop - window.last * 320 >= overlap  # and after
        kept.extend(range(window.first, window.last))
    assert kept == list(range(WAV2VEC2.rows(samples)))


def test_windows_without_a_middle_are_rejected(models: Path) -> None:
    with pytest.raises(InputError, match="windows of 64000 samples"):
        CTC(models / "layer", window=4.0, overlap=2.0)


# -- CTC -------------------------------------------------------------------------------------------------------------


def slow_transcript(folder: Path, wave: Waveform) -> str:
    """A plain implementation: the processor and the model of transformers, a loop over rows, a dictionary."""
    import torch
    from transformers import AutoFeatureExtractor, AutoModelForCTC

    extractor: Any = AutoFeatureExtractor
    values = extractor.from_pretrained(folder)(wave.samples, sampling_rate=16000, return_tensors="pt")
    with torch.no_grad():
        logits = AutoModelForCTC.from_pretrained(folder).eval()(values.input_values).logits[0]
    names = {number: token for token, number in json.loads((folder / "vocab.json").read_text()).items()}
    text, before = "", None
    for row in logits:
        token = max(range(len(row)), key=lambda i: float(row[i]))
        if token != before and names[token] not in ("<pad>", "<s>", "</s>", "<unk>"):
            text += names[token]
        before = token
    return " ".join(text.replace("|", " ").split())


@pytest.mark.parametrize("name", ["layer", "group"])
def test_ctc_equals_its_plain_twin(models: Path, name: str) -> None:
    wave = voice(2.0)
    text = CTC(models / name)(wave)
    assert " ".join(text.split()) == slow_transcript(models / name, wave)
    assert len(text) > 10


def test_bin_weights_give_the_same_transcripts(models: Path) -> None:
    assert CTC(models / "bin")(voice(1.0)) == CTC(models / "layer")(voice(1.0))


@pytest.mark.parametrize("name", ["layer", "group"])
def test_batching_does_not_change_transcripts(models: Path, name: str) -> None:
    """Padding is masked if the model supports it, and avoided otherwise."""
    alone = CTC(models / name, window=3.0, overlap=0.5)
    together = replace(alone, batch_seconds=30.0)
    waves = [voice(seconds, i) for i, seconds in enumerate((1.0, 7.0, 0.03, 1.0, 2.5))]
    assert together.batch(waves) == [alone(wave) for wave in waves]
    assert together.fingerprint() == alone.fingerprint()


def test_long_audio_is_processed_in_bounded_pieces(models: Path) -> None:
    """The input of the network is bounded, and transcripts hardly change at the borders of windows."""
    short, whole = CTC(models / "layer", window=6.0, overlap=1.0), CTC(models / "layer", window=60.0)
    seen: list[int] = []
    network = load_model(short.folder, "cpu").network
    hook = network.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0].numel()))
    try:
        text = short(voice(40.0))
        assert max(seen) <= 6 * 16000
        assert len(seen) == 10
        assert len(replace(short, batch_seconds=12.0).batch([voice(40.0)])[0]) == len(text)
        assert max(seen) <= 12 * 16000
    finally:
        hook.remove()
    from rapidfuzz.distance import Levenshtein

    assert Levenshtein.normalized_distance(text, whole(voice(40.0))) < 0.25


def test_short_and_silent_audio(models: Path) -> None:
    ctc = CTC(models / "layer")
    assert (ctc.rate, ctc.minimum) == (16000, 0.025)
    assert isinstance(ctc(Waveform(np.ones(400, dtype=np.float32), 16000)), str)
    assert isinstance(ctc(Waveform(np.zeros(4000, dtype=np.float32), 16000)), str)
    with pytest.raises(InputError, match="399 samples of audio, but a frame needs 400"):
        ctc(Waveform(np.ones(399, dtype=np.float32), 16000))
    with pytest.raises(InputError, match="0 samples"):
        ctc(Waveform(np.zeros(0, dtype=np.float32), 16000))


def test_ctc_transcribes_a_corpus(models: Path, tmp_path: Path) -> None:
    corpus = []
    for i in range(3):
        save(tmp_path / f"{i}.wav", voice(1.0, i))
        corpus.append(Utterance(f"u{i}", tmp_path / f"{i}.wav", speaker="s", text="A"))
    ctc = recognizer(str(models / "layer"))
    assert isinstance(ctc, CTC)
    transcripts = transcribe(corpus, ctc)
    assert pickle.loads(pickle.dumps(ctc)) == ctc  # as it goes to another process: the model stays behind
    assert len(set(transcripts.values())) == 3


# -- CTC on spectrograms ---------------------------------------------------------------------------------------------


def test_spectrogram_model_is_supported(models: Path) -> None:
    """Compare with transformers alone: features, logits, and the tokenizer, which merges repetitions."""
    import torch

    model = recognizer(f"ctc:{models / 'features'}")
    assert isinstance(model, FeatureCTC)
    hf: Any = pytest.importorskip("transformers")
    network = hf.AutoModelForCTC.from_pretrained(model.folder).eval()
    extractor = hf.AutoFeatureExtractor.from_pretrained(model.folder)
    tokenizer = hf.AutoTokenizer.from_pretrained(model.folder)

    def slow(wave: Waveform) -> str:
        with torch.no_grad():
            logits = network(**extractor(wave.samples, sampling_rate=16000, return_tensors="pt")).logits
        # not skip_special_tokens: it drops the blanks first and then merges the two L of HELLO
        return re.sub("<s>|</s>|<unk>", "", str(tokenizer.decode(logits[0].argmax(dim=-1))))

    wave = voice(8.0)
    assert model(wave).split() == slow(wave).split()
    halves = [Waveform(wave.samples[a:b], 16000) for a, b in cut_at_pauses(wave.samples, 16000, 5.0)]
    assert len(halves) == 2
    assert replace(model, max_seconds=5.0)(wave).split() == [word for half in halves for word in slow(half).split()]
    assert isinstance(model(voice(0.1)), str)
    with pytest.raises(InputError, match="1599 samples"):
        model(Waveform(np.ones(1599, dtype=np.float32), 16000))


# -- Whisper ---------------------------------------------------------------------------------------------------------


def test_whisper_language_is_named_behind_the_model(models: Path) -> None:
    """Any language's recognizer by name, e.g. for track 2 of the 2026 challenge."""
    english, german = (recognizer(f"whisper:{models / 'whisper'}{tail}") for tail in ("", ":de"))
    assert isinstance(german, Whisper)
    assert isinstance(english, Whisper)
    assert (english.language, german.language, german.folder) == ("en", "de", english.folder)
    assert english.fingerprint() != german.fingerprint()
    with pytest.raises(InputError, match="no Whisper model is named"):
        recognizer("whisper:")


def test_whisper_end_to_end(models: Path) -> None:
    whisper = recognizer(str(models / "whisper"))
    assert isinstance(whisper, Whisper)
    waves = [voice(seconds, i) for i, seconds in enumerate((0.025, 1.0, 33.0))]
    alone = [whisper(wave) for wave in waves]
    assert replace(whisper, batch_seconds=90.0).batch(waves) == alone
    assert len(alone[1]) <= 8  # eight tokens a second, each a byte
    assert replace(whisper, tokens_per_second=4.0)(waves[1]) == whisper_prefix(whisper, waves[1], 4)
    with pytest.raises(InputError, match="a frame needs 400"):
        whisper(Waveform(np.ones(399, dtype=np.float32), 16000))


def whisper_prefix(whisper: Whisper, wave: Waveform, count: int) -> str:
    """Decode token by token, computing the whole prefix again each time."""
    import torch
    from transformers import WhisperForConditionalGeneration, WhisperProcessor

    network: Any = WhisperForConditionalGeneration.from_pretrained(whisper.folder)
    processor = WhisperProcessor.from_pretrained(whisper.folder)
    features = processor.feature_extractor(wave.samples, sampling_rate=16000, return_tensors="pt").input_features
    prompt = [network.config.decoder_start_token_id, network.generation_config.no_timestamps_token_id]
    tokens = list(prompt)
    forbidden = network.generation_config.suppress_tokens
    with torch.no_grad():
        while len(tokens) < len(prompt) + count and tokens[-1] != network.config.eos_token_id:
            logits = network(features, decoder_input_ids=torch.tensor([tokens])).logits[0, -1]
            logits[forbidden] = -torch.inf
            tokens.append(int(logits.argmax()))
    return str(processor.tokenizer.decode(tokens[2:], skip_special_tokens=True)).strip()


# -- what is refused -------------------------------------------------------------------------------------------------


def test_hub_id_while_offline_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    for spec in ("vpc2024", "ctc:nobody/nothing", "whisper:nobody/nothing", "nobody/nothing"):
        with pytest.raises(InputError, match=r"neither a folder nor on this machine .*hf download"):
            recognizer(spec)


def test_cached_hub_model_is_used(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout of the hub's cache: refs/main names a snapshot."""
    cache = tmp_path / "models--me--tiny"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text("0" * 40)
    (cache / "snapshots").mkdir()
    (cache / "snapshots" / ("0" * 40)).symlink_to(models / "layer")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert recognizer("me/tiny")(voice(1.0)) == CTC(models / "layer")(voice(1.0))


def test_paths_without_models_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        find_model("./models/nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="a file, not the folder"):
        find_model(tmp_path / "file")
    with pytest.raises(InputError, match="not a model of transformers"):
        model_kind(tmp_path)
    for content in ("[]", "{", '"x"'):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(InputError, match=r"not (a )?JSON"):
            model_kind(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    with pytest.raises(InputError, match="kind BertModel, not a recognizer"):
        recognizer(str(tmp_path))


def copy(source: Path, target: Path, without: str = "") -> Path:
    target.mkdir()
    for path in source.iterdir():
        if path.name != without:
            (target / path.name).write_bytes(path.read_bytes())
    return target


def test_models_of_the_wrong_kind_are_rejected(models: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a whisper model, not a ctc model .*use it as whisper:"):
        recognizer(f"ctc:{models / 'whisper'}")
    with pytest.raises(InputError, match="a ctc model, not a whisper model"):
        recognizer(f"whisper:{models / 'layer'}")
    with pytest.raises(InputError, match="wav2vec2-bert does not take waveforms"):
        CTC(models / "features")


def test_incomplete_models_are_rejected(models: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no weights"):
        CTC(copy(models / "layer", tmp_path / "a", without="model.safetensors"))
    with pytest.raises(InputError, match="no vocabulary"):
        CTC(copy(models / "layer", tmp_path / "b", without="vocab.json"))
    damaged = copy(models / "layer", tmp_path / "c")
    (damaged / "model.safetensors").write_bytes(b"x" * 1000)
    with pytest.raises(InputError, match="the model cannot be loaded"):
        CTC(damaged)(voice(1.0))


def drop_head(tensors: dict[str, Any]) -> None:
    del tensors["lm_head.weight"]


def drop_mask(tensors: dict[str, Any]) -> None:
    tensors.pop("wav2vec2.masked_spec_embed", None)


@pytest.mark.parametrize(("change", "refused"), [(drop_head, True), (drop_mask, False)])
def test_missing_weights_are_not_initialized_randomly(
    models: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], refused: bool
) -> None:
    from safetensors.torch import load_file, save_file

    folder = copy(models / "layer", tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if refused:
        with pytest.raises(InputError, match=r"weights are missing .*lm_head\.weight"):
            CTC(folder)(voice(1.0))
    else:
        assert CTC(folder)(voice(1.0)) == CTC(models / "layer")(voice(1.0))


class Evil:
    """An object whose pickle runs code when it is loaded."""

    def __reduce__(self) -> tuple[object, ...]:
        return (Path("pwned").touch, ())


def test_weights_are_never_unpickled(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    folder = copy(models / "bin", tmp_path / "model")
    torch.save({"lm_head.weight": Evil()}, folder / "pytorch_model.bin")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="cannot be loaded"):
        CTC(folder)(voice(1.0))
    assert not (tmp_path / "pwned").exists()


def test_missing_device_is_rejected(models: Path) -> None:
    for device in ("cuda:77", "gpu"):
        with pytest.raises(InputError, match=f"the device '{device}' cannot be used"):
            load_model(models / "layer", device)


def test_digest_depends_on_the_content(models: Path, tmp_path: Path) -> None:
    same = copy(models / "layer", tmp_path / "same")
    assert digest(same) == digest(models / "layer") != digest(models / "group")
    vocabulary = json.loads((same / "vocab.json").read_text())
    vocabulary["E"], vocabulary["T"] = vocabulary["T"], vocabulary["E"]
    (same / "vocab.json").write_text(json.dumps(vocabulary))
    assert digest(same) != digest(models / "layer")


def test_failed_download_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(InputError, match="nobody/nothing cannot be downloaded"):
        find_model("nobody/nothing", online=True)
