"""Redaction from file to file: what was to go is gone, whatever goes wrong, and nothing tells what it was."""

from __future__ import annotations

import csv
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile

import voiceveil as vv
from tests.support.media_files import make_media, packets
from tests.support.tone_words import PAUSE, RATE, WORD, heard, speak, word_at
from voiceveil.audio import MixedDownWarning, Samples, load
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, open_corpus, write_kaldi
from voiceveil.dsp.tone import tone
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.conversation import voices
from voiceveil.systems.redaction.location import Silenced
from voiceveil.systems.redaction.options import GUARD

SENTENCE = ("hello", "Mary", "lives", "in", "Berlin", "today")


@dataclass(frozen=True)
class Negative(Anonymizer):
    """Changes the sign."""

    name = "negative"

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Return the negative."""
        return -samples


@dataclass(frozen=True)
class Echo(Anonymizer):
    """Says "Mary" at the end, if there is any sound in the first second."""

    name = "echo"

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Return the recording with a word that was not there."""
        added = samples.copy()
        word = speak("Mary")
        if np.abs(samples[: self.rate]).max() > 0.01:
            added[-len(word) :] += word
        return added


@pytest.fixture(autouse=True)
def _without_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voices, "_encoder", lambda: None)


def write(path: Path, samples: Samples, rate: int = RATE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, subtype="PCM_16")
    return path


def words_of(path: Path) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixedDownWarning)
        return [word for word, _, _ in heard(load(path, rate=RATE).samples)]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("rate", [16000, 44100])
def test_a_word_becomes_a_tone_of_the_same_length_and_the_rest_stays(tmp_path: Path, rate: int) -> None:
    source = write(tmp_path / "a.wav", speak(*SENTENCE, rate=rate), rate)
    summary = vv.anonymize(
        source, tmp_path / "out.wav", system=Negative(), redact="words", words=["Berlin"], recognizer="tones", guard=0.1
    )
    original, result = load(source).samples, load(tmp_path / "out.wav").samples
    assert len(original) == len(result)
    assert words_of(tmp_path / "out.wav") == ["hello", "Mary", "lives", "in", "today"]
    start, end = (round(time * rate) for time in word_at(4))
    np.testing.assert_allclose(result[start:end], tone(end - start, rate, start / rate), atol=1e-4)
    before, behind = round((word_at(4)[0] - 0.2) * rate), round((word_at(4)[1] + 0.2) * rate)
    if rate == 16000:
        np.testing.assert_allclose(result[:before], -original[:before], atol=1e-4)
        np.testing.assert_allclose(result[behind:], -original[behind:], atol=1e-4)
    assert (summary.redaction.words, summary.redaction.still_heard) == (1, 0)
    assert summary.redaction.seconds == pytest.approx(WORD + 0.2, abs=0.1)
    assert "1 word(s) of the list" in str(summary)


def test_silence_instead_of_a_tone(tmp_path: Path) -> None:
    source = write(tmp_path / "a.wav", speak(*SENTENCE))
    vv.anonymize(source, tmp_path / "out.wav", system=Negative(), redact="words", words=["Mary"], recognizer="tones",
                 redact_with="silence")  # fmt: skip
    start, end = (round(time * RATE) for time in word_at(1))
    assert not load(tmp_path / "out.wav").samples[start:end].any()


def test_the_anonymizer_never_gets_the_word(tmp_path: Path) -> None:
    given: list[Samples] = []

    @dataclass(frozen=True)
    class Listening(Anonymizer):
        name = "listening"

        def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
            given.append(samples)
            return samples

    source = write(tmp_path / "a.wav", speak(*SENTENCE))
    vv.anonymize(source, tmp_path / "out.wav", system=Listening(), redact="words", words=["Mary"], recognizer="tones")
    assert given
    assert all("Mary" not in [word for word, _, _ in heard(samples)] for samples in given)


def test_wrong_times_take_the_phrase_along_and_the_summary_says_so(tmp_path: Path) -> None:
    source = write(tmp_path / "a.wav", speak(*SENTENCE))
    listing = tmp_path / "list.csv"
    summary = vv.anonymize(source, tmp_path / "out.wav", system=Negative(), redact="words", words=["Mary"],
                           recognizer="tones:1.4", redactions=listing)  # fmt: skip
    assert "Mary" not in words_of(tmp_path / "out.wav")
    assert summary.redaction.still_heard > 0
    assert "still recognized" in str(summary)
    assert {row["reason"] for row in rows(listing)} == {"found", "still heard"}


def test_words_that_cannot_be_located_take_the_phrase_along(tmp_path: Path) -> None:
    source = write(tmp_path / "a.wav", speak(*SENTENCE, *SENTENCE[2:]))
    summary = vv.anonymize(source, tmp_path / "out.wav", system=Negative(), redact="words", words=["Mary"],
                           recognizer="tones:none")  # fmt: skip
    assert "Mary" not in words_of(tmp_path / "out.wav")
    assert summary.redaction.not_located > 0
    assert "could not be located" in str(summary)


def test_a_word_that_comes_back_in_the_result_goes_there_too(tmp_path: Path) -> None:
    source = write(tmp_path / "a.wav", speak(*SENTENCE, "hello"))
    summary = vv.anonymize(source, tmp_path / "out.wav", system=Echo(), redact="words", words=["Mary"],
                           recognizer="tones")  # fmt: skip
    assert "Mary" not in words_of(tmp_path / "out.wav")
    assert summary.redaction.still_heard > 0


def test_a_recording_fails_if_the_word_is_heard_whatever_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Silenced, "read", lambda self, start, stop: self.speech.read(start, stop))
    source = write(tmp_path / "a.wav", speak("Mary", "hello"))

    @dataclass(frozen=True)
    class Parrot(Anonymizer):
        name = "parrot"

        def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
            return speak("Mary", "hello")

    monkeypatch.setattr("voiceveil.systems.worker.replace_spans", lambda samples, *rest: samples)
    with pytest.raises(InputError, match="still recognized after"):
        vv.anonymize(source, tmp_path / "out.wav", system=Parrot(), redact="words", words=["Mary"], recognizer="tones")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.wav"]


def test_speakers_who_are_kept_are_redacted_as_well(tmp_path: Path) -> None:
    source = write(tmp_path / "a.wav", speak(*SENTENCE))
    half = word_at(2)[1] + PAUSE / 2
    turns = [("anna", 0.1, half), ("ben", half, word_at(5)[1])]
    summary = vv.anonymize(source, tmp_path / "out.wav", system=Negative(), turns=turns, keep="anna", margin=0.0,
                           redact="words", words=["Mary", "Berlin"], recognizer="tones", guard=0.1)  # fmt: skip
    assert words_of(tmp_path / "out.wav") == ["hello", "lives", "in", "today"]
    original, result = load(source).samples, load(tmp_path / "out.wav").samples
    start, end = (round(time * RATE) for time in word_at(2))
    np.testing.assert_allclose(result[start:end], original[start:end], atol=1e-4)  # "lives" is copied
    assert summary.conversations.hidden == 1


def test_what_is_said_in_one_channel_is_removed_from_all(tmp_path: Path) -> None:
    sides = np.stack([speak(*SENTENCE), speak("hello", "lives", "in", "in", "today", "Mary")], axis=1)
    source = write(tmp_path / "call.wav", sides)
    vv.anonymize(source, tmp_path / "out.wav", system=Negative(), channels="separate", redact="words", words=["Mary"],
                 recognizer="tones", guard=0.1)  # fmt: skip
    result = soundfile.read(tmp_path / "out.wav", dtype="float32")[0]
    assert result.shape == sides.shape
    for side, left in zip(result.T, (["hello", "lives", "in", "Berlin"], ["hello", "in", "in", "today"]), strict=True):
        assert [word for word, _, _ in heard(np.ascontiguousarray(side))] == left


def test_a_video_keeps_its_picture_and_its_length(tmp_path: Path) -> None:
    pytest.importorskip("av")
    samples = speak(*SENTENCE, rate=48000)
    source = make_media(tmp_path / "a.mp4", seconds=len(samples) / 48000, samples=samples)
    summary = vv.anonymize(source, tmp_path / "out.mp4", system=Negative(), redact="words", words=["Mary"],
                           recognizer="tones", guard=0.1)  # fmt: skip
    assert words_of(tmp_path / "out.mp4") == ["hello", "lives", "in", "Berlin", "today"]
    assert packets(source, "video") == packets(tmp_path / "out.mp4", "video")
    assert summary.videos == 1


def make_corpus(folder: Path) -> Path:
    utterances = []
    for number, said in enumerate((SENTENCE, ("hello", "today"), ("Berlin", "hello"))):
        path = write(folder / "audio" / f"u{number}.wav", speak(*said))
        utterances.append(Utterance(f"u{number}", path, speaker=f"s{number}", text=" ".join(said).upper()))
    write_kaldi(Corpus("set", tuple(utterances)), folder / "set")
    return folder / "set"


def all_bytes(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


OPTIONS = {"redact": "words", "words": ["Mary", "Berlin"], "recognizer": "tones", "system": Negative()}


def test_no_file_of_the_output_has_the_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_corpus(tmp_path / "in")
    summary = vv.anonymize(source, tmp_path / "out", **OPTIONS, transcript="txt", quiet=False)  # type: ignore[arg-type]
    assert summary.done == 3
    written = all_bytes(tmp_path / "out").lower()
    shown = (str(summary) + "".join(capsys.readouterr())).encode().lower()
    for word in (b"mary", b"berlin"):
        assert word not in written
        assert word not in shown
    texts = {u.id: u.text for u in open_corpus(tmp_path / "out" / "set_negative")}
    assert texts == {"u0": "Hello [redacted] lives in [redacted] today".lower(), "u1": "hello today",
                     "u2": "[redacted] hello"}  # fmt: skip


def test_texts_are_left_out_of_the_output_unless_transcripts_are_written(tmp_path: Path) -> None:
    source = make_corpus(tmp_path / "in")
    vv.anonymize(source, tmp_path / "out", **OPTIONS)  # type: ignore[arg-type]
    assert not (tmp_path / "out" / "set_negative" / "text").exists()
    assert b"hello" not in all_bytes(tmp_path / "out").lower()


def test_another_list_of_words_converts_everything_again_and_the_same_one_nothing(tmp_path: Path) -> None:
    source = make_corpus(tmp_path / "in")
    first = vv.anonymize(source, tmp_path / "out", **OPTIONS, seed=1)  # type: ignore[arg-type]
    same = vv.anonymize(source, tmp_path / "out", **OPTIONS, seed=1)  # type: ignore[arg-type]
    assert (first.done, same.done, same.already_done) == (3, 0, 3)
    other = vv.anonymize(source, tmp_path / "out", **{**OPTIONS, "words": ["Mary"]}, seed=1)  # type: ignore[arg-type]
    assert other.done == 3
    with pytest.raises(InputError, match="holds the results of another run"):
        vv.anonymize(source, tmp_path / "out", system=Negative(), seed=1)


def test_a_text_that_changes_is_redacted_again(tmp_path: Path) -> None:
    source = make_corpus(tmp_path / "in")
    vv.anonymize(source, tmp_path / "out", **OPTIONS, seed=1)  # type: ignore[arg-type]
    text = (source / "text").read_text()
    (source / "text").write_text(text.replace("u1 HELLO TODAY", "u1 HELLO BERLIN"))
    assert vv.anonymize(source, tmp_path / "out", **OPTIONS, seed=1).done == 1  # type: ignore[arg-type]


def test_a_known_text_finds_what_the_recognizer_mishears(tmp_path: Path) -> None:
    samples = speak("hello", "in", "today")  # "in" stands for a name that the recognizer does not know
    source = write(tmp_path / "a.wav", samples)
    (tmp_path / "text.txt").write_text("hello Inn today")
    vv.anonymize(source, tmp_path / "out.wav", system=Negative(), redact="words", words=["Inn"], recognizer="tones",
                 text=tmp_path / "text.txt", guard=GUARD)  # fmt: skip
    assert "in" not in words_of(tmp_path / "out.wav")


def test_subtitles_have_the_times_of_the_output(tmp_path: Path) -> None:
    source = write(tmp_path / "a.wav", speak(*SENTENCE))
    summary = vv.anonymize(source, tmp_path / "out.wav", system=Negative(), redact="words", words=["Mary"],
                           recognizer="tones", transcript=tmp_path / "rest.srt")  # fmt: skip
    assert summary.transcript == tmp_path / "rest.srt"
    text = (tmp_path / "rest.srt").read_text()
    assert text.startswith("1\n00:00:00,2")
    assert "hello [redacted] lives in Berlin today" in text.replace("\n", " ")


def test_files_of_the_user_are_not_replaced(tmp_path: Path) -> None:
    source = write(tmp_path / "a.wav", speak(*SENTENCE))
    words = tmp_path / "words.txt"
    words.write_text("Mary\n")
    common = {"system": Negative(), "redact": "words", "words": words, "recognizer": "tones", "overwrite": True}
    for option in ("transcript", "redactions"):
        with pytest.raises(InputError, match="would replace a file that is given"):
            vv.anonymize(source, tmp_path / "out.wav", **{**common, option: words})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="would replace a file that is given"):
        vv.anonymize(source, tmp_path / "words.wav", **common, transcript="txt")  # type: ignore[arg-type]
    assert words.read_text() == "Mary\n"
    (tmp_path / "rest.txt").write_text("mine")
    common["overwrite"] = False
    with pytest.raises(InputError, match="exists"):
        vv.anonymize(source, tmp_path / "out.wav", **common, transcript=tmp_path / "rest.txt")  # type: ignore[arg-type]
    assert (tmp_path / "rest.txt").read_text() == "mine"


def test_the_private_list_is_for_its_owner_alone(tmp_path: Path) -> None:
    source = write(tmp_path / "a.wav", speak(*SENTENCE))
    listing = tmp_path / "list.csv"
    vv.anonymize(source, tmp_path / "out.wav", system=Negative(), redact="words", words=["Mary"], recognizer="tones",
                 redactions=listing)  # fmt: skip
    assert listing.stat().st_mode & 0o077 == 0
    (row,) = rows(listing)
    assert (row["recording"], row["kind"], row["reason"], row["words"]) == ("a", "words", "found", "Mary")
    assert float(row["start"]) == pytest.approx(word_at(1)[0] - GUARD, abs=0.05)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"words": ["Mary"]}, "give --redact"),
        ({"transcript": "txt"}, "give --redact"),
        ({"redact": "interview.wav"}, "goes before --redact"),
        ({"redact": "name"}, "did you mean names"),
        ({"redact": "words"}, "give --words"),
        ({"redact": "numbers", "words": ["Mary"]}, "not among"),
        ({"redact": "numbers", "names_model": "x"}, "names are not removed"),
        ({"redact": "names", "names_model": "no_such_pipeline"}, "no spaCy pipeline"),
        ({"redact": "words", "words": []}, "empty"),
        ({"redact": "words", "words": ["a\x00b"]}, "control characters"),
        ({"redact": "numbers", "guard": -1}, "a guard of"),
        ({"redact": "numbers", "guard": float("nan")}, "a guard of"),
        ({"redact": "numbers", "redact_with": "noise"}, "cannot be replaced by"),
        ({"redact": "numbers", "transcript": "out.pdf"}, "transcript cannot be written"),
        ({"redact": "numbers", "recognizer": "moonshin"}, "unknown recognizer"),
        ({"redact": "numbers", "keep_timing": False}, "keeps the timing"),
        ({"redact": "numbers", "words": None, "text": "missing.txt"}, "no such file"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_any_work(
    tmp_path: Path, options: dict[str, object], problem: str
) -> None:
    source = write(tmp_path / "a.wav", speak("hello"))
    with pytest.raises(InputError, match=problem):
        vv.anonymize(source, tmp_path / "out.wav", system="b2", **options)  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.wav"]


def test_files_of_one_recording_are_refused_for_several(tmp_path: Path) -> None:
    source = make_corpus(tmp_path / "in")
    (tmp_path / "text.txt").write_text("hello")
    for option, value in (("transcript", tmp_path / "rest.txt"), ("text", tmp_path / "text.txt")):
        with pytest.raises(InputError, match="several"):
            vv.anonymize(source, tmp_path / "out", **OPTIONS, **{option: value})  # type: ignore[arg-type]
