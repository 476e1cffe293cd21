"""Word lists, texts and pipelines from strangers: one sentence each, no word repeated, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

import voiceveil as vv
from tests.support.tone_words import RATE, speak
from voiceveil.audio import Waveform, save
from voiceveil.core.errors import InputError

SECRET = "Zanzibar"
LISTS = {
    "empty": b"",
    "binary": bytes(range(256)) * 64,
    "zero bytes": SECRET.encode() + b"\0\n",
    "escape sequences": f"\x1b]0;{SECRET}\x07\n".encode(),
    "one huge line": SECRET.encode() * 100_000,
    "huge": (SECRET.encode() + b"\n") * 400_000,
    "too many": "\n".join(f"{SECRET}{n}" for n in range(6000)).encode(),
    "UTF-16": SECRET.encode("utf-16"),
    "another alphabet": "東京\n".encode(),
    "right-to-left marks": f"\u202e{SECRET}\n".encode(),
}


@pytest.mark.parametrize("kind", LISTS)
def test_a_hostile_list_of_words_is_refused_and_not_repeated(tmp_path: Path, kind: str) -> None:
    save(tmp_path / "a.wav", Waveform(speak("hello"), RATE))
    (tmp_path / "words.txt").write_bytes(LISTS[kind])
    options = {"redact": "words", "words": tmp_path / "words.txt", "recognizer": "tones"}
    with pytest.raises(InputError) as caught:
        vv.anonymize(tmp_path / "a.wav", tmp_path / "out.wav", system="b2", **options)  # type: ignore[arg-type]
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert not (tmp_path / "out.wav").exists()


@pytest.mark.parametrize("text", [b"", b"\xff\xff", b"x" * (17 << 20)], ids=["empty", "bytes", "huge"])
def test_a_hostile_text_is_refused(tmp_path: Path, text: bytes) -> None:
    save(tmp_path / "a.wav", Waveform(speak("hello"), RATE))
    (tmp_path / "text.txt").write_bytes(text)
    with pytest.raises(InputError, match=r"no text|UTF-8|larger than"):
        vv.anonymize(tmp_path / "a.wav", tmp_path / "out.wav", system="b2", redact="words", words=[SECRET],
                     recognizer="tones", text=tmp_path / "text.txt")  # fmt: skip


def test_a_recording_that_cannot_be_read_fails_alone(tmp_path: Path) -> None:
    save(tmp_path / "in" / "good.wav", Waveform(speak("hello", "Mary"), RATE))
    (tmp_path / "in" / "bad.wav").write_bytes(b"RIFF nonsense")
    summary = vv.anonymize(tmp_path / "in", tmp_path / "out", system="b2", redact="words", words=["Mary"],
                           recognizer="tones", transcript="srt")  # fmt: skip
    assert (summary.done, len(summary.failures)) == (1, 1)
    assert (tmp_path / "out" / "good.srt").is_file()


def test_a_word_list_that_is_a_folder_or_missing(tmp_path: Path) -> None:
    save(tmp_path / "a.wav", Waveform(speak("hello"), RATE))
    for words in (tmp_path, tmp_path / "missing.txt", Path("/dev/zero")):
        with pytest.raises(InputError):
            vv.anonymize(tmp_path / "a.wav", tmp_path / "out.wav", system="b2", redact="words", words=words,
                         recognizer="tones")  # fmt: skip
