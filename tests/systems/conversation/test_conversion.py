"""Conversations from file to file: what is copied is copied, what is hidden is hidden, and all of it in its place."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

import voiceveil as vv
from tests.support.conversations import ANNA, BEN, demo_conversation
from tests.support.media_files import make_media, packets
from voiceveil.audio import Samples
from voiceveil.core.errors import InputError
from voiceveil.corpus.turns import Turn, read_turns, write_rttm
from voiceveil.models.speaker.campplus import CamPlusPlus
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.conversation import voices
from voiceveil.systems.conversation.spans import FADE

MARGIN = 0.25


@dataclass(frozen=True)
class Negative(Anonymizer):
    """Changes the sign: the result tells what was converted, where, and at which level."""

    name = "negative"

    def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
        """Return the negative."""
        return -samples


@pytest.fixture(autouse=True)
def _without_encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw voices without measuring how similar they are, but for tests that are about it."""
    if "similar" not in request.node.name:
        monkeypatch.setattr(voices, "_encoder", lambda: None)


def noise(seconds: float, rate: int, channels: int = 1, seed: int = 0) -> NDArray[np.int16]:
    """16-bit noise, (n, channels)."""
    return np.random.default_rng(seed).integers(-8000, 8000, (round(seconds * rate), channels)).astype(np.int16)


def write(path: Path, frames: NDArray[np.int16], rate: int) -> Path:
    soundfile.write(path, frames, rate, subtype="PCM_16")
    return path


def read(path: Path) -> NDArray[np.int16]:
    return np.asarray(soundfile.read(path, dtype="int16", always_2d=True)[0])


TURNS = [("anna", 0.5, 4.0), ("ben", 4.2, 7.0), ("anna", 7.5, 9.0), ("ben", 8.5, 12.0), ("cleo", 13.0, 15.0)]


@pytest.mark.parametrize(("rate", "channels"), [(16000, 1), (44100, 2)])
def test_kept_speech_is_copied_bit_for_bit_and_hidden_speech_never(tmp_path: Path, rate: int, channels: int) -> None:
    original = noise(16.0, rate, channels)
    source = write(tmp_path / "talk.wav", original, rate)
    vv.anonymize(source, tmp_path / "out.wav", system=Negative(), turns=TURNS, hide="anna")
    result = read(tmp_path / "out.wav")
    assert result.shape == original.shape
    time = (np.arange(len(result)) + 0.5) / rate
    copied = np.zeros(len(result), dtype=bool)
    for start, end in ((4.2 + 0.05, 7.0), (9.0 + MARGIN, 12.0), (13.0, 15.0)):
        copied |= (time > start + FADE) & (time < end - FADE)
    np.testing.assert_array_equal(result[copied], original[copied])
    secret = np.zeros(len(result), dtype=bool)
    for name, start, end in TURNS:
        secret |= (time > start - MARGIN) & (time < end + MARGIN) if name == "anna" else False
    mixed = original.mean(axis=1)
    for column in result.T.astype(float):
        assert np.corrcoef(column[secret], mixed[secret])[0, 1] < (-0.999 if rate == 16000 else -0.5)
    pause = (time > 12.1) & (time < 12.9)  # nobody was found to speak: not copied
    assert np.corrcoef(result[pause, 0], mixed[pause])[0, 1] < (-0.999 if rate == 16000 else -0.5)


def test_everything_stays_in_its_place(tmp_path: Path) -> None:
    """The identity in all voices, cut, packed, crossfaded and mixed, gives the recording back."""
    original = noise(100.0, 16000)
    source = write(tmp_path / "talk.wav", original, 16000)
    turns = [("anna", 0.0, 70.0), *TURNS[1:2], ("ben", 71.0, 71.1), ("cleo", 71.1, 99.0)]
    vv.anonymize(source, tmp_path / "out.wav", system="identity", turns=turns)
    assert np.abs(read(tmp_path / "out.wav").astype(int) - original).max() <= 1


def test_turns_are_written_with_neutral_names(tmp_path: Path) -> None:
    source = write(tmp_path / "talk.wav", noise(16.0, 16000), 16000)
    summary = vv.anonymize(source, tmp_path / "out.wav", system=Negative(), turns=TURNS, keep=["ben", "cleo"])
    assert summary.turns == tmp_path / "out.rttm"
    text = summary.turns.read_text()
    assert text.count(" hidden speaker-1 ") == 2
    assert text.count(" kept speaker-2 ") == 2
    assert "anna" not in text
    assert [turn[1:] for turn in read_turns(summary.turns)] == [turn[1:] for turn in TURNS]
    totals = summary.conversations
    assert (totals.speakers, totals.hidden) == (3, 1)
    assert totals.overlap == pytest.approx(0.5)
    assert totals.copied == pytest.approx(2.75 + 2.75 + 2.0)
    assert "3 speaker(s), 1 hidden, 2 kept: 7.5 s copied" in str(summary)
    assert "overlapping speech: 0.5 s (4% of the speech)" in str(summary)


def test_voices_of_a_speaker_stay_and_those_of_two_differ(tmp_path: Path) -> None:
    """The draws of all pieces of a speaker are the same; a seed repeats the run."""
    drawn: list[float] = []

    @dataclass(frozen=True)
    class Recorder(Negative):
        """Remembers what it draws."""

        def transform(self, samples: Samples, rng: np.random.Generator) -> Samples:
            drawn.append(float(rng.random()))
            return -samples

    source = write(tmp_path / "talk.wav", noise(150.0, 16000), 16000)
    turns = [("anna", 0.0, 70.0), ("ben", 70.0, 80.0), ("anna", 80.0, 150.0)]
    for name in ("one", "two"):
        vv.anonymize(source, tmp_path / f"{name}.wav", system=Recorder(), turns=turns, seed=1)
    first, second = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
    assert first == second
    assert len(first) > 3
    assert len(set(first)) == 2


def test_channels_are_hidden_or_copied_each(tmp_path: Path) -> None:
    original = noise(12.0, 22050, 2)
    source = write(tmp_path / "call.wav", original, 22050)
    summary = vv.anonymize(source, tmp_path / "out.wav", system=Negative(), channels="separate", hide=["channel-1"])
    result = read(tmp_path / "out.wav")
    np.testing.assert_array_equal(result[:, 1], original[:, 1])
    assert np.corrcoef(result[:, 0], original[:, 0])[0, 1] < -0.8  # without what is above 8 kHz
    assert abs(np.corrcoef(result[:, 0], original[:, 1])[0, 1]) < 0.05
    assert [line.split()[2] for line in (tmp_path / "out.rttm").read_text().splitlines()] == ["1", "2"]
    assert "mixed down" not in str(summary)


def test_video_keeps_its_picture_and_its_time(tmp_path: Path) -> None:
    source = make_media(tmp_path / "interview.mp4", seconds=6.0)
    turns = [("anna", 0.0, 2.0), ("ben", 2.5, 6.0)]
    summary = vv.anonymize(source, tmp_path / "out.mp4", system="identity", turns=turns, hide="anna")
    assert summary.keeps_length
    assert packets(tmp_path / "out.mp4") == packets(source)
    with pytest.warns(UserWarning, match="mixed down"):
        before, after = (vv.load(path, rate=16000).samples for path in (source, tmp_path / "out.mp4"))
    lag = np.correlate(after[: 16000 * 5], before[800 : 16000 * 5 - 800], mode="valid").argmax() - 800
    assert abs(lag) <= 32  # 2 ms


def test_a_folder_is_resumed_and_foreign_turns_stay(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        write(tmp_path / "in" / f"{name}.wav", noise(5.0, 16000, seed=ord(name)), 16000)
    turns = tmp_path / "turns.rttm"
    turns.write_text("".join(f"SPEAKER {name} 1 1 2 <NA> <NA> anna <NA> <NA>\n" for name in ("a", "b")))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "b.rttm").write_text("of the user")
    summary = vv.anonymize(tmp_path / "in", tmp_path / "out", system="b2", turns=turns, seed=1)
    assert [failure.id for failure in summary.failures] == ["b"]
    assert "exists" in summary.failures[0].error
    assert (tmp_path / "out" / "b.rttm").read_text() == "of the user"
    (tmp_path / "out" / "b.rttm").unlink()
    (tmp_path / "out" / "a.rttm").touch()
    again = vv.anonymize(tmp_path / "in", tmp_path / "out", system="b2", turns=turns, seed=1)
    assert (again.done, again.already_done) == (1, 1)
    assert (tmp_path / "out" / "b.rttm").is_file()
    with pytest.raises(InputError, match="conversation"):  # another margin is another run
        vv.anonymize(tmp_path / "in", tmp_path / "out", system="b2", turns=turns, seed=1, margin=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"turns": TURNS, "hide": "ana"}, r"no speaker 'ana'.*ben \(0:00:06, from 0:00:04 on\).*did you mean anna"),
        ({"turns": TURNS, "keep": ["anna", "ben", "cleo"]}, "nobody is to be hidden"),
        ({"turns": [("anna", 0.0, 100.0)]}, "are these the turns of this recording"),
        ({"turns": [("anna", -1.0, 2.0)]}, "not a turn"),
        ({"turns": [("anna", 0.0, float("nan"))]}, "not a turn"),
        ({"turns": []}, "list of turns is empty"),
        ({"turns": "none.rttm"}, r"none\.rttm"),
        ({"turns": TURNS, "speakers": 2}, "both say who speaks when"),
        ({"turns": TURNS, "hide": "anna", "keep": "ben"}, "--hide or --keep"),
        ({"turns": TURNS, "margin": -1.0}, "margin"),
        ({"turns": TURNS, "margin": float("nan")}, "margin"),
        ({"margin": 1.0}, "for conversations"),
        ({"turns": TURNS, "keep_timing": False}, "keep their timing"),
        ({"turns": TURNS, "draws": "official"}, "official draws"),
        ({"speakers": "many"}, "give auto, or a number"),
        ({"speakers": 0}, "give auto, or a number"),
        ({"speakers": 2, "hide": "Anna"}, "they are called speaker-1"),
        ({"speakers": 2, "hide": "speaker-3"}, "they are called speaker-1"),
        ({"channels": "separate"}, "one channel only"),
        ({"channels": "separate", "hide": "speaker-1"}, "they are called channel-1"),
        ({"channels": "stereo"}, "unknown channels"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, object], message: str) -> None:
    source = write(tmp_path / "talk.wav", noise(16.0, 16000), 16000)
    with pytest.raises(InputError, match=message):
        vv.anonymize(source, tmp_path / "out.wav", system=Negative(), **options)  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["talk.wav"]


def test_turns_that_are_given_are_never_replaced(tmp_path: Path) -> None:
    source = write(tmp_path / "talk.wav", noise(16.0, 16000), 16000)
    write_rttm(tmp_path / "out.rttm", [Turn(*turn) for turn in TURNS], "talk")
    before = (tmp_path / "out.rttm").read_bytes()
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"out\.rttm"):
            vv.anonymize(
                source, tmp_path / "out.wav", system=Negative(), turns=tmp_path / "out.rttm", overwrite=overwrite
            )
        assert (tmp_path / "out.rttm").read_bytes() == before


def test_silence_has_no_speakers(tmp_path: Path) -> None:
    source = write(tmp_path / "talk.wav", np.zeros((48000, 1), dtype=np.int16), 16000)
    with pytest.raises(InputError, match="no speech was found"):
        vv.anonymize(source, tmp_path / "out.wav", system=Negative(), speakers="auto")


def test_voices_of_real_speakers_are_not_similar(tmp_path: Path) -> None:
    """In the default system: a woman and a man, found and hidden, are as different as before."""
    conversation = demo_conversation()
    vv.save(tmp_path / "talk.wav", conversation.wave)
    summary = vv.anonymize(tmp_path / "talk.wav", tmp_path / "out.wav", system="veil", speakers="auto", seed=1)
    assert summary.conversations.speakers == 2
    result = vv.load(tmp_path / "out.wav").samples
    encoder = CamPlusPlus()
    embeddings = {}
    for name in (ANNA, BEN):
        spans = [(round(t.start * 16000), round(t.end * 16000)) for t in conversation.turns if t.speaker == name]
        for kind, samples in (("before", conversation.wave.samples), ("after", result)):
            speech = np.concatenate([samples[a:b] for a, b in spans])
            embeddings[kind, name] = voices._embedding(encoder, speech)
    assert embeddings["before", ANNA] @ embeddings["before", BEN] < 0.4
    assert embeddings["after", ANNA] @ embeddings["after", BEN] < 0.6
    for name in (ANNA, BEN):
        assert embeddings["before", name] @ embeddings["after", name] < 0.5


@pytest.mark.slow
def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    """An hour takes no more than 30 MB more than ten minutes."""
    peaks = []
    for minutes in (10, 60):
        path = tmp_path / f"{minutes}.wav"
        block = noise(60.0, 16000)
        with soundfile.SoundFile(path, "w", samplerate=16000, channels=1) as file:
            for _ in range(minutes):
                file.write(block)
        turns = [Turn("ab"[i % 2], 10.0 * i, 10.0 * i + 9) for i in range(6 * minutes)]
        write_rttm(tmp_path / f"{minutes}.rttm", turns, path.stem)
        code = (
            "import sys, voiceveil as vv\n"
            "from voiceveil.testing.memory import peak_memory\n"
            "from voiceveil.systems.conversation import voices\n"
            "voices._encoder = lambda: None\n"
            "vv.anonymize(sys.argv[1], sys.argv[2], system='identity', turns=sys.argv[3], hide='a')\n"
            "print(peak_memory())\n"
        )
        files = (path, tmp_path / f"{minutes}-out.wav", tmp_path / f"{minutes}.rttm")
        command = [sys.executable, "-c", code, *map(str, files)]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert peaks[1] - peaks[0] < 30, peaks
    assert peaks[1] < 1500
