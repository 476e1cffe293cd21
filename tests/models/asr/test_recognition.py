"""Transcripts of corpora and word error rates, with the recognizers that need no torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from voiceveil.audio import Waveform, save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.models import recognizer, recognizers, transcribe, word_error_rate
from voiceveil.models.asr.recognition import (
    Recognizer,
    check_audio,
    compare_word_error_rates,
    references,
)
from voiceveil.run.cache import Cache
from voiceveil.run.context import RunContext


@dataclass(frozen=True)
class Loudness:
    """A recognizer whose transcript is the level of the recording, which shows the audio it was given."""

    log: Path | None = None
    rate: int = 16000
    minimum: float = 0.01

    def fingerprint(self) -> str:
        return "loudness 1"

    def __call__(self, wave: Waveform) -> str:
        return self.batch([wave])[0]

    def batch(self, waves: Sequence[Waveform]) -> list[str]:
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{len(waves)}\n")
        return [f"level {round(float(np.abs(wave.samples).max()) * 10)}" for wave in waves]


def make_corpus(folder: Path, lengths: Sequence[float] = (1.0, 0.5, 2.0, 0.5)) -> Corpus:
    utterances = []
    for i, length in enumerate(lengths):
        path = folder / f"{i}.wav"
        save(path, Waveform(np.full(int(length * 16000), (i + 1) / 10, dtype=np.float32), 16000))
        utterances.append(Utterance(f"u{i}", path, speaker=f"s{i % 2}", text=f"LEVEL {i + 1}"))
    return Corpus("toy", tuple(utterances))


def test_transcripts_come_from_the_cache(tmp_path: Path) -> None:
    corpus, log = make_corpus(tmp_path), tmp_path / "log"
    loudness = Loudness(log=log)
    cache = Cache(tmp_path / "cache")
    expected = {f"u{i}": f"level {i + 1}" for i in range(4)}
    assert transcribe(corpus, loudness, context=RunContext(cache)) == expected
    assert transcribe(corpus, loudness, context=RunContext(cache)) == expected
    assert log.read_text() == "1\n" * 4
    cache.close()


def test_word_error_rate_equals_hand_computation(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path)
    hyps = {"u0": "Level, 1!", "u1": "level too", "u2": "", "u3": "a level 4"}
    result = word_error_rate(corpus, hyps)
    # u1 one substitution, u2 two deletions, u3 one insertion; eight words
    assert result.wer.value == 4 / 8
    assert (result.errors.substitutions, result.errors.deletions, result.errors.insertions) == (1, 2, 1)
    assert result.wer.low <= 0.5 <= result.wer.high
    assert (result.wer.n, result.wer.of) == (2, "speakers")
    assert word_error_rate(corpus, hyps, normalization="none").wer.value == 8 / 8  # case and punctuation count
    spelled = {"u0": "level one", "u1": "level two", "u2": "level three", "u3": "level four"}
    assert word_error_rate(corpus, spelled, normalization="english").wer.value == 0.0


def test_without_speakers_the_interval_is_over_utterances(tmp_path: Path) -> None:
    nobody = tuple(Utterance(u.id, u.path, text=u.text) for u in make_corpus(tmp_path))
    result = word_error_rate(nobody, {u.id: "LEVEL 1" for u in nobody})
    assert (result.wer.n, result.wer.of) == (4, "utterances")


def test_difference_of_two_systems_is_paired(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path)
    right = word_error_rate(corpus, references(corpus))
    wrong = word_error_rate(corpus, {u.id: "LEVEL" for u in corpus})
    assert compare_word_error_rates(right, wrong).value == 0.5
    with pytest.raises(InputError, match="different utterances"):
        compare_word_error_rates(right, word_error_rate(corpus.utterances[:2], {"u0": "", "u1": ""}))
    other = [Utterance(u.id, u.path, text="ONE WORD MORE") for u in corpus]
    with pytest.raises(InputError, match="references differ"):
        compare_word_error_rates(right, word_error_rate(other, references(other)))


def test_corpus_without_text_is_rejected(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path)
    silent = (Utterance("v", corpus.utterances[0].path), *corpus)
    with pytest.raises(InputError, match="1 of 5 utterances have no text"):
        references(silent)
    with pytest.raises(InputError, match="no utterance"):
        references([])


def test_too_short_audio_is_found_before_the_work(tmp_path: Path) -> None:
    corpus, log = make_corpus(tmp_path, lengths=(1.0, 1.0, 0.005)), tmp_path / "log"
    with pytest.raises(InputError, match=r"u2 has 0\.005 s, but at least 0\.01 s"):
        transcribe(corpus, Loudness(log))
    assert not log.exists()


def test_invalid_audio_is_rejected() -> None:
    with pytest.raises(InputError, match="8000 Hz"):
        check_audio(Waveform(np.zeros(500, dtype=np.float32), 8000), 16000, 400)
    with pytest.raises(InputError, match="0 samples"):
        check_audio(Waveform(np.zeros(0, dtype=np.float32), 16000), 16000, 400)
    with pytest.raises(InputError, match="not finite"):
        check_audio(Waveform(np.full(500, np.nan, dtype=np.float32), 16000), 16000, 400)


def test_recognizers_are_registered() -> None:
    assert {"moonshine", "ctc", "whisper", "vpc2024"} <= set(recognizers)
    moonshine: Recognizer = recognizer("moonshine")
    assert moonshine.rate == 16000
    with pytest.raises(InputError, match="did you mean moonshine"):
        recognizer("moonshin")
    with pytest.raises(InputError, match=r"encoder_model\.onnx: no such model"):
        recognizer("moonshine:base")
    for name in ("ctc", "whisper"):
        with pytest.raises(InputError, match=f"write {name}:FOLDER"):
            recognizer(name)


def test_imports_are_light() -> None:
    code = (
        "import sys, voiceveil.models, voiceveil.models.asr.recognition as a; a.recognizer('moonshine').fingerprint(); "
        "print([m for m in ('torch', 'transformers', 'onnxruntime', 'huggingface_hub') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
