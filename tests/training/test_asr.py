"""Fine-tuning of CTC recognizers, end to end: a tiny model learns a tiny corpus by heart."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.tiny_models import tiny_ctc
from voiceveil.audio import Waveform, load, save
from voiceveil.cli import train_asr
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, write_kaldi
from voiceveil.models.asr.ctc import CTC
from voiceveil.models.asr.recognition import transcribe, word_error_rate
from voiceveil.testing import synthetic_voice
from voiceveil.training import asr as asr_training
from voiceveil.training.asr import CtcRecipe, Example, batch_ids, train_ctc

pytest.importorskip("torch")
pytest.importorskip("transformers")

TEXTS = ("RED", "A BLUE DOG", "IT'S COLD", "OPEN SEA")
QUICK = CtcRecipe(epochs=3, learning_rate=1e-3, batch_seconds=3.0, checkpoint_every=2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CTC:
    return CTC(tiny_ctc(tmp_path_factory.mktemp("model") / "ctc"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("corpus"))


def make_corpus(folder: Path, texts: Sequence[str | None] = TEXTS) -> Corpus:
    utterances = []
    for i, text in enumerate(texts):
        save(folder / f"{i}.wav", synthetic_voice(i, i, seconds=1.0 + 0.2 * i))
        utterances.append(Utterance(f"u{i}", folder / f"{i}.wav", speaker=f"s{i % 2}", text=text))
    return Corpus("toy", tuple(utterances))


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_tiny_model_learns_a_tiny_corpus(model: CTC, corpus: Corpus, tmp_path: Path) -> None:
    """Through the command line, with a Kaldi directory; the result is an ordinary model."""
    write_kaldi(corpus, tmp_path / "data")
    before = word_error_rate(corpus, transcribe(corpus, model)).wer.value
    status, summary = run_command(
        model,
        tmp_path / "data",
        tmp_path / "out",
        "--epochs",
        "60",
        "--learning-rate",
        "5e-3",
        "--dev",
        str(tmp_path / "data"),
    )
    assert status == 0
    assert summary["loss"] < 0.1
    assert summary["wer"]["value"] == 0.0
    assert before >= 1.0
    learned = CTC(tmp_path / "out")
    assert transcribe(corpus, learned) == {u.id: u.text for u in corpus}
    # the words in the middle of a recording that is read through overlapping windows
    second, fourth = (load(corpus.utterances[i].path).samples for i in (1, 3))
    long = Waveform(np.concatenate([second, np.zeros(9600, dtype=np.float32), fourth] * 3), 16000)
    text = replace(learned, window=3.0, overlap=0.4)(long)
    assert sum(text.count(word) for word in ("BLUE", "DOG", "SEA", "OPEN")) >= 6, text
    assert (tmp_path / "out" / "training.json").exists()
    assert not list((tmp_path / "out").glob("checkpoint*"))


def run_command(model: CTC, data: Path, out: Path, *more: str) -> tuple[int, dict[str, Any]]:
    parser = argparse.ArgumentParser()
    train_asr.add_arguments(parser)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        arguments = ["--model", str(model.folder), "--data", str(data), "--out", str(out), "--quiet", "--json", *more]
        status = train_asr.run(parser.parse_args(arguments))
    return status, json.loads(printed.getvalue())


class Killed(BaseException):
    """Stands for the end of the process: no handler of exceptions catches it."""


def test_killed_training_resumes_to_the_same_weights(
    model: CTC, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train_ctc(model, corpus, tmp_path / "whole", QUICK)
    real, calls = asr_training._step, iter(range(100))

    def fragile(*arguments: object) -> float:
        if next(calls) == 3:
            raise Killed
        return real(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(asr_training, "_step", fragile)
        with pytest.raises(Killed):
            train_ctc(model, corpus, tmp_path / "killed", QUICK)
    assert (tmp_path / "killed" / "checkpoint.safetensors").exists()
    resumed = train_ctc(model, corpus, tmp_path / "killed", QUICK)
    assert next(calls) == 4  # the first try did three steps, of which two are in the checkpoint
    assert resumed.losses == whole.losses
    assert weights(resumed.folder) == weights(whole.folder)
    assert train_ctc(model, corpus, tmp_path / "killed", QUICK) == resumed  # nothing left to do


def test_training_depends_on_the_seed(model: CTC, corpus: Corpus, tmp_path: Path) -> None:
    first, same, other = (
        train_ctc(model, corpus, tmp_path / name, replace(QUICK, epochs=1, seed=seed))
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert weights(first.folder) == weights(same.folder) != weights(other.folder)


def test_front_end_is_frozen_by_default(model: CTC, corpus: Corpus, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    name = "wav2vec2.feature_extractor.conv_layers.0.conv.weight"
    before = load_file(model.folder / "model.safetensors")
    for freeze in (True, False):
        recipe = replace(QUICK, epochs=1, freeze_front=freeze)
        after = load_file(train_ctc(model, corpus, tmp_path / str(freeze), recipe).folder / "model.safetensors")
        assert np.array_equal(before[name], after[name]) is freeze
        assert not np.array_equal(before["lm_head.weight"], after["lm_head.weight"])


def test_training_does_not_change_the_original_model(model: CTC, corpus: Corpus, tmp_path: Path) -> None:
    before = transcribe(corpus, model)
    train_ctc(model, corpus, tmp_path / "out", replace(QUICK, epochs=1, learning_rate=0.1))
    assert transcribe(corpus, model) == before


def test_each_epoch_has_every_utterance_once() -> None:
    rng = np.random.default_rng(0)
    examples = {
        f"u{i}": Example(f"u{i}", Path("x"), 0.0, None, float(s), (5,))
        for i, s in enumerate(rng.uniform(1.0, 20.0, 50))
    }
    plan = list(batch_ids(examples, CtcRecipe(epochs=2, batch_seconds=40.0)))
    assert all(len(group) == 1 or max(examples[n].seconds for n in group) * len(group) <= 40.0 for group in plan)
    names = [name for group in plan for name in group]
    assert sorted(names[:50]) == sorted(names[50:]) == sorted(examples)
    assert names[:50] != names[50:]
    assert plan == list(batch_ids(examples, CtcRecipe(epochs=2, batch_seconds=40.0)))


def test_utterances_too_short_for_their_words_are_left_out(model: CTC, tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path, ["A", "ONE LETTER " * 10, "...", "LL" * 20])
    # one second has 49 rows; 1.6 s have 79, and 40 equal letters need 79
    assert train_ctc(model, corpus, tmp_path / "out", replace(QUICK, epochs=1)).left_out == ("u1", "u2")
    with pytest.raises(InputError, match="none of the 1 utterances"):
        train_ctc(model, make_corpus(tmp_path / "b", ["A WORD " * 30]), tmp_path / "out2", QUICK)


def test_invalid_input_is_found_before_training(model: CTC, corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 of 2 utterances have no text"):
        train_ctc(model, make_corpus(tmp_path / "a", ["A", None]), tmp_path / "out", QUICK)
    with pytest.raises(InputError, match=r"text of u1 has '1', 'É', which the model does not know"):
        train_ctc(model, make_corpus(tmp_path / "b", ["A", "1 é"]), tmp_path / "out", QUICK)
    gone = Corpus("gone", (Utterance("u", tmp_path / "gone.wav", text="A"),))
    with pytest.raises(InputError, match="no such audio file"):
        train_ctc(model, gone, tmp_path / "out", QUICK)
    assert not (tmp_path / "out").exists()
    for bad in ({"epochs": 0}, {"learning_rate": float("nan")}, {"batch_seconds": -1.0}, {"seed": -1}):
        with pytest.raises(InputError, match="give"):
            replace(QUICK, **bad)


def test_another_training_is_not_overwritten(model: CTC, corpus: Corpus, tmp_path: Path) -> None:
    recipe = replace(QUICK, epochs=1)
    train_ctc(model, corpus, tmp_path / "out", recipe)
    with pytest.raises(InputError, match="holds another training: seed differ"):
        train_ctc(model, corpus, tmp_path / "out", replace(recipe, seed=5))
    train_ctc(model, corpus, tmp_path / "out", replace(recipe, seed=5), overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="not empty"):
        train_ctc(model, corpus, tmp_path / "mine", recipe)


def test_command_checks_the_development_corpus_before_training(model: CTC, corpus: Corpus, tmp_path: Path) -> None:
    write_kaldi(corpus, tmp_path / "data")
    with pytest.raises(InputError, match="no text"):
        run_command(model, tmp_path / "data", tmp_path / "out", "--dev", str(corpus.utterances[0].path.parent))
    assert not (tmp_path / "out").exists()
