"""ASR_eval of the 2024 challenge: logits, words and word errors agree with those of its code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.official_models import (
    CHECKOUT,
    NOISES,
    REFERENCE,
    golden,
    needs_reference,
    reference_waves,
    wave_of,
)
from voiceveil.audio import save
from voiceveil.corpus import Utterance
from voiceveil.metrics import word_errors
from voiceveil.models.asr.recognition import normalization_of, recognizer, transcribe, word_error_rate
from voiceveil.models.speechbrain.recognizer import SpeechBrainRecognizer
from voiceveil.models.speechbrain.wav2vec2 import _KNOWN, wav2vec2_configuration
from voiceveil.official.transcripts import text_of, wer_text
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext

FOLDER = CHECKOUT / "exp" / "asr"
LOGIT = 2e-4  # tolerance that the reference states


@pytest.mark.parametrize("name", NOISES)
def test_logits_and_text_of_one_utterance(name: str) -> None:
    arrays = golden()
    wave = wave_of(arrays[f"x_{name}"])
    model = SpeechBrainRecognizer(FOLDER)._model()
    assert np.abs(model.logits(wave.samples[None])[0].numpy() - arrays[f"logits_{name}"]).max() < LOGIT
    for mode in ("speechbrain", "speechbrain-correct"):
        assert recognizer(f"{mode}:{FOLDER}")(wave) == str(arrays[f"text_{name}"])


@pytest.mark.parametrize("name", NOISES)
def test_padding_is_heard_as_in_the_official_batches(name: str) -> None:
    arrays = golden()
    wave = wave_of(arrays[f"x_{name}"])
    row = np.zeros((1, 48000), np.float32)
    row[0, : len(wave)] = wave.samples
    logits = SpeechBrainRecognizer(FOLDER)._model().logits(row)[0].numpy()
    assert np.abs(logits - arrays[f"batch_logits_{name}"]).max() < LOGIT
    assert SpeechBrainRecognizer(FOLDER, padded=48000)(wave) == str(arrays[f"batch_text_{name}"])


def noises(tmp_path: Path) -> list[Utterance]:
    """Write the three noises, each three times under other ids; the shortest first."""
    utterances = []
    for number, name in enumerate(NOISES * 3):
        path = tmp_path / f"{number}.wav"
        save(path, wave_of(golden()[f"x_{name}"]))
        utterances.append(Utterance(f"u{number}", path, speaker="s", text="A B"))
    return utterances


def test_words_depend_on_the_set_only_in_the_official_mode(tmp_path: Path) -> None:
    utterances, arrays = noises(tmp_path), golden()
    texts = {name: str(arrays[f"text_{name}"]) for name in NOISES}
    correct = transcribe(utterances, recognizer(f"speechbrain-correct:{FOLDER}"))
    assert list(correct) == [u.id for u in utterances]
    assert [correct[f"u{number}"] for number in range(9)] == [texts[name] for name in NOISES * 3]
    official = transcribe(utterances, recognizer(f"speechbrain:{FOLDER}"))
    # eight in the batch with the longest noise, the ninth (the last of the shortest) by itself
    padded = {name: str(arrays[f"batch_text_{name}"]) for name in NOISES}
    assert [official[f"u{number}"] for number in range(9)] == [
        texts[name] if number == 6 else padded[name] for number, name in enumerate(NOISES * 3)
    ]


def test_cached_transcripts_belong_to_a_length_of_padding(tmp_path: Path) -> None:
    utterances = noises(tmp_path)
    context = RunContext(Cache(tmp_path / "cache"))
    official = recognizer(f"speechbrain:{FOLDER}")
    alone = transcribe(utterances[:1], official, context)
    together = transcribe(utterances, official, context)
    assert alone["u0"] != together["u0"]
    assert transcribe(utterances[:1], official, context) == alone


def test_double_spaces_are_inserted_words_in_the_official_count() -> None:
    official = word_errors(["A B C", "D"], ["A  B C", ""], separator=" ")
    assert (official.insertions, official.deletions, official.substitutions) == (1, 0, 1)
    plain = word_errors(["A B C", "D"], ["A  B C", ""])
    assert (plain.insertions, plain.deletions, plain.substitutions) == (0, 1, 0)
    assert text_of(word_errors({"u": "A B C"}, {"u": "A  B C"}, separator=" ")) == "u A  B C\n"


def test_two_sets_of_rules_for_word_errors() -> None:
    assert normalization_of(recognizer(f"speechbrain:{FOLDER}")) == "official"
    assert normalization_of(recognizer(f"speechbrain-correct:{FOLDER}")) == "plain"
    utterances = [Utterance("u", Path("u.wav"), speaker="s", text="'TIS  A")]
    assert word_error_rate(utterances, {"u": "TIS A"}).errors.edits == 0
    assert word_error_rate(utterances, {"u": "TIS A"}, normalization="official").errors.edits == 1


@needs_reference
def test_recordings_to_the_official_text_and_wer(tmp_path: Path) -> None:
    """Texts alone and in batches of eight, both WERs, and the files of the challenge."""
    expected = json.loads((REFERENCE / "asr" / "e2e.json").read_text())
    waves = reference_waves()
    utterances = []
    for key, text in sorted(expected["references"].items()):
        save(tmp_path / f"{key}.wav", waves[key])
        utterances.append(Utterance(key, tmp_path / f"{key}.wav", speaker=key.partition("-")[0], text=text))
    official, correct = (recognizer(f"{mode}:{FOLDER}") for mode in ("speechbrain", "speechbrain-correct"))
    assert transcribe(utterances, correct) == expected["hypotheses_single"]
    transcripts = transcribe(utterances, official)
    assert transcripts == expected["hypotheses_batch8"]
    first = word_error_rate(utterances, transcripts, normalization="official").errors
    assert 100 * first.wer == pytest.approx(expected["first_run"]["WER"])
    counts = [first.insertions, first.deletions, first.substitutions]
    assert counts == [expected["first_run"][key] for key in ("insertions", "deletions", "substitutions")]
    again = word_error_rate(utterances, transcripts).errors
    assert 100 * again.wer == pytest.approx(expected["second_run_from_cached_text"]["WER"])
    assert wer_text(first).splitlines()[:3] == expected["wer_file"]
    official_lines = (REFERENCE / "asr" / "exp" / "asr" / "libri_dev_asr" / "wer").read_text().splitlines()
    ours = [line.rstrip() for line in wer_text(first).splitlines()]
    assert ours[6:] == [line.rstrip() for line in official_lines[12:]]  # after the explanation of the format


@needs_reference
@pytest.mark.parametrize("name", ["speech_libri", "speech_digit"])
def test_recordings_to_logits(name: str) -> None:
    with np.load(REFERENCE / "asr" / "reference.npz") as arrays:
        wave = wave_of(arrays[f"x_{name}"])
        model = SpeechBrainRecognizer(FOLDER)._model()
        assert np.abs(model.logits(wave.samples[None])[0].numpy() - arrays[f"logits_{name}"]).max() < LOGIT
        assert SpeechBrainRecognizer(FOLDER)(wave) == str(arrays[f"text_{name}"])
        row = list(arrays["batch_order"]).index(name)
        assert SpeechBrainRecognizer(FOLDER, padded=48000)(wave) == str(arrays["batch_text"][row])


@pytest.mark.parametrize("evaluator", ["asr", "ser"])
def test_full_size_networks_have_the_official_names_and_shapes(evaluator: str) -> None:
    import torch
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    known = json.loads((CHECKOUT / "keys.json").read_text())[evaluator]
    settings = {"wav2vec2": {"source": known["hub"], "save_path": "model_checkpoints"}}
    configuration, normalize = wav2vec2_configuration(settings, Path("/nowhere/exp/asr/hyperparams.yaml"))
    assert normalize
    assert configuration == _KNOWN[known["hub"]]
    with torch.device("meta"):
        state = Wav2Vec2Model(Wav2Vec2Config(**configuration)).state_dict()
    norm = "encoder.pos_conv_embed.conv."
    names = {f"{norm}parametrizations.weight.original{i}": f"{norm}weight_{g}" for i, g in enumerate("gv")}
    shapes = {f"model.{names.get(name, name)}": list(tensor.shape) for name, tensor in state.items()}
    assert shapes == known["shapes"]


def test_configuration_in_the_cache_of_the_checkout(tmp_path: Path) -> None:
    snapshot = tmp_path / "model_checkpoints" / "models--owner--name" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    content = json.loads((CHECKOUT / "wav2vec2_tiny" / "config.json").read_text())
    (snapshot / "config.json").write_text(json.dumps({**content, "num_hidden_layers": 7}))
    (snapshot / "preprocessor_config.json").write_text('{"do_normalize": false}')
    settings = {"wav2vec2": {"source": "owner/name", "save_path": "model_checkpoints"}}
    file = tmp_path / "exp" / "asr" / "hyperparams.yaml"
    configuration, normalize = wav2vec2_configuration(settings, file)
    assert (configuration["num_hidden_layers"], normalize) == (7, False)
