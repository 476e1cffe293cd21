"""``corpus check`` finds every planted fault, with file and line, and nothing on sound data."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.support.official_lists import write_official_sets
from voiceveil.apps.demo.corpus import SPEECH
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance, check, open_corpus, write_kaldi, write_manifest

RATE = 16000


def tone(path: Path, samples: int = 800, rate: int = RATE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, 0.1 * np.sin(np.arange(samples) / 5), rate)


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """A directory without fault: two speakers, one enrollment and one trial utterance each, four trials."""
    directory = tmp_path / "set"
    for key in ("s1-a", "s1-b", "s2-a", "s2-b"):
        tone(directory / "wav" / f"{key}.wav")
    files = {
        "wav.scp": [f"{key} wav/{key}.wav" for key in ("s1-a", "s1-b", "s2-a", "s2-b")],
        "utt2spk": ["s1-a s1", "s1-b s1", "s2-a s2", "s2-b s2"],
        "spk2utt": ["s1 s1-a s1-b", "s2 s2-a s2-b"],
        "spk2gender": ["s1 f", "s2 m"],
        "text": ["s1-a ONE", "s1-b TWO", "s2-a ONE", "s2-b TWO"],
        "enrolls": ["s1-a", "s2-a"],
        "trials": ["s1 s1-b target", "s1 s2-b nontarget", "s2 s1-b nontarget", "s2 s2-b target"],
    }
    for name, lines in files.items():
        (directory / name).write_text("".join(f"{line}\n" for line in lines))
    return directory


def edit(name: str, line: int, new: str | None) -> Callable[[Path], object]:
    """Replace a line (from 1), add one after the last, or remove one (None)."""

    def change(directory: Path) -> None:
        lines = (directory / name).read_text().splitlines()
        lines[line - 1 : line] = [] if new is None else [new]
        (directory / name).write_text("".join(f"{text}\n" for text in lines))

    return change


def found(directory: Path) -> list[tuple[str, int | None, str, bool]]:
    faults = check(directory, rate=RATE)
    return [(f.file.name if f.file else "", f.line, f.what, f.note) for f in faults]


def test_sound_data_has_no_faults(sound: Path) -> None:
    assert found(sound) == []


PLANTED: list[tuple[Callable[[Path], object], list[tuple[str, int | None, str]]]] = [
    (lambda d: (d / "wav/s1-b.wav").unlink(), [("wav.scp", 2, "s1-b: no such audio file")]),
    (lambda d: tone(d / "wav/s2-a.wav", rate=8000), [("wav.scp", 3, "s2-a: 8000 Hz instead of 16000 Hz")]),
    (lambda d: tone(d / "wav/s2-a.wav", samples=0), [("wav.scp", 3, "s2-a: no samples")]),
    (lambda d: (d / "wav/s2-a.wav").write_bytes(b"RIFF"), [("wav.scp", 3, "s2-a: not readable as audio")]),
    (
        lambda d: soundfile.write(d / "wav/s2-a.wav", np.array([0.0, np.nan]), RATE, subtype="FLOAT"),
        [("wav.scp", 3, "s2-a: samples that are not numbers")],
    ),
    (edit("wav.scp", 5, "s2-b wav/s2-a.wav"), [("wav.scp", 5, "s2-b occurs twice, first on line 4")]),
    (edit("wav.scp", 5, " wav/s2-a.wav"), [("wav.scp", 5, "the line starts with a blank: its id is empty")]),
    (edit("wav.scp", 5, "s3 cat x |"), [("wav.scp", 5, "s3 is a shell command, which is never run")]),
    (edit("spk2gender", 1, "s1 w"), [("spk2gender", 1, "s1 has the gender 'w'")]),
    (edit("trials", 2, "s1 s9-b nontarget"), [("trials", 2, "no utterance s9-b")]),
    (edit("trials", 2, "s3 s2-b nontarget"), [("trials", 2, "speaker s3 has no enrollment utterance")]),
    (edit("trials", 2, "s1 s2-a nontarget"), [("trials", 2, "s2-a is an enrollment utterance and a trial")]),
    (edit("trials", 2, "s1 s2-b target"), [("trials", 2, "s2-b of speaker s2 is a target trial of speaker s1")]),
    (edit("trials", 1, "s1 s1-b nontarget"), [("trials", 1, "s1-b of speaker s1 is a nontarget trial of speaker s1")]),
    (edit("trials", 2, "s1 s2-b impostor"), [("trials", 2, "not a trial")]),
    (edit("trials", 5, "s2 s2-b target"), [("trials", 5, "the trial s2 s2-b occurs twice")]),
    (edit("text", 5, "s9-z HELLO"), [("text", 5, "s9-z has no audio")]),
    (edit("enrolls", 3, "s9-z"), [("enrolls", 3, "s9-z has no audio")]),
    (
        edit("utt2spk", 5, "s9-z s2"),
        [("utt2spk", 5, "s9-z has no audio"), ("utt2spk", 5, "s9-z is not in spk2utt")],
    ),
    (
        edit("spk2utt", 1, "s1 s1-a s2-b"),
        [
            ("spk2utt", 1, "s2-b is listed for speaker s1, but utt2spk gives it to s2"),
            ("utt2spk", 2, "s1-b is not in spk2utt"),
        ],
    ),
]


@pytest.mark.parametrize(("plant", "expected"), PLANTED, ids=[expected[0][2] for _, expected in PLANTED])
def test_planted_fault_is_found(
    sound: Path, plant: Callable[[Path], object], expected: list[tuple[str, int | None, str]]
) -> None:
    plant(sound)
    faults = [row for row in found(sound) if not row[3]]
    assert [(file, line) for file, line, _, _ in faults] == [(file, line) for file, line, _ in expected]
    for (_, _, what, _), (_, _, beginning) in zip(faults, expected, strict=True):
        assert what.startswith(beginning)


def test_several_faults_are_all_found(sound: Path) -> None:
    """Every fault is listed, not only the first; in the order of the files."""
    edit("wav.scp", 5, "s3 cat x |")(sound)
    edit("spk2gender", 1, None)(sound)
    edit("trials", 2, "s1 s9-b nontarget")(sound)
    (sound / "wav/s1-a.wav").unlink()
    places = [(file, line) for file, line, _, _ in found(sound)]
    assert places == [("trials", 2), ("utt2spk", 1), ("wav.scp", 5), ("wav.scp", 1)]  # audio files come last
    with pytest.raises(InputError):
        open_corpus(sound)


def test_missing_gender_is_a_note(sound: Path) -> None:
    """Some speakers of Common Voice, for example, do not state one."""
    edit("spk2gender", 1, None)(sound)
    assert found(sound) == [("utt2spk", 1, "speaker s1 has no gender", True)]


def test_ids_that_kaldi_cannot_hold_are_a_note(tmp_path: Path) -> None:
    (tmp_path / "in" / "Anna Schmidt").mkdir(parents=True)
    tone(tmp_path / "in" / "Anna Schmidt" / "my recording 1.wav")
    ((_, _, what, note),) = found(tmp_path / "in")
    assert note
    assert what == "2 id(s) cannot stand in a Kaldi file, e.g. the utterance 'Anna Schmidt/my recording 1'"


def test_unsorted_table_is_a_note(sound: Path) -> None:
    edit("text", 1, None)(sound)
    edit("text", 4, "s1-a ONE")(sound)
    assert found(sound) == [("text", 4, "not sorted", True)]
    assert main(["corpus", "check", str(sound)]) == 0


def test_segment_beyond_its_file_is_a_fault(tmp_path: Path) -> None:
    tone(tmp_path / "r.wav", samples=RATE)
    (tmp_path / "wav.scp").write_text("r r.wav\n")
    (tmp_path / "segments").write_text("u r 0.25 1\nv r 0.5 1.5\n")
    (tmp_path / "utt2spk").write_text("u s\nv s\n")
    assert [(row[:2], row[2][:15]) for row in found(tmp_path)] == [(("segments", 2), "v: ends at 1.5 ")]


def test_enrollment_in_its_own_directory_is_checked(sound: Path, tmp_path: Path) -> None:
    (sound / "enrolls").unlink()
    assert check(sound) == []  # who is enrolled is not known, and not guessed
    enroll = Corpus("e", (Utterance("s1-x", Path("x.wav"), "s1"), Utterance("s2-b", Path("y.wav"), "s3")))
    write_kaldi(enroll, tmp_path / "enroll")
    assert [f.what for f in check(sound, enroll=tmp_path / "enroll")] == [
        "s2-b is an enrollment utterance and a trial",
        "speaker s2 has no enrollment utterance",
        "s2-b is an enrollment utterance and a trial",
    ]


def test_manifests_and_folders_are_checked(tmp_path: Path) -> None:
    tone(tmp_path / "in/ann/a.wav")
    corpus = open_corpus(tmp_path / "in")
    assert check(corpus) == check(tmp_path / "in") == []
    write_manifest(corpus, tmp_path / "m.csv")
    with (tmp_path / "m.csv").open("a") as file:
        file.write("b,in/b.wav,bob\nb,in/b.wav,bob\n")
    assert [(f.line, f.what.split(":")[0]) for f in check(tmp_path / "m.csv")] == [
        (4, "b occurs twice, first on line 3"),
        (3, "b"),
    ]


@pytest.mark.slow
def test_real_sets_have_no_faults() -> None:
    sets = [path.parent for path in sorted(SPEECH.glob("*/wav.scp"))]
    assert len(sets) == 4
    for directory in sets:
        enroll = SPEECH / "demo_enrolls" if "trials" in directory.name else None
        assert check(directory, rate=RATE, enroll=enroll) == []


def test_metadata_of_a_real_set_is_checked_within_a_second(tmp_path: Path) -> None:
    write_official_sets(tmp_path)
    begin = time.process_time()
    check(tmp_path / "libri_dev_trials_f", enroll=tmp_path / "libri_dev_enrolls", audio=False)
    assert time.process_time() - begin < 1


def test_check_command_prints_the_faults(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpus", "check", str(sound), "--rate", "16000"]) == 0
    assert capsys.readouterr().out == f"{sound}: 4 utterances, 0 faults, 0 notes\n"
    edit("trials", 2, "s1 s9-b nontarget")(sound)
    assert main(["corpus", "check", str(sound), "--no-audio"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(f"{sound}/trials:2: no utterance s9-b (")
    assert main(["corpus", "check", str(sound), "--json"]) == 1
    (fault,) = json.loads(capsys.readouterr().out)["faults"]
    assert (fault["file"], fault["line"], fault["note"]) == (f"{sound}/trials", 2, False)


def test_info_command_prints_the_summary(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpus", "info", str(sound), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert (info["utterances"], info["speakers"], info["roles"]) == (4, {"f": 1, "m": 1}, {"enroll": 2, "trial": 2})
    assert info["hours"] == pytest.approx(4 * 800 / RATE / 3600)
    row = {"enroll_speakers": 2, "utterances": 1, "target": 1, "nontarget": 1}
    assert info["trials"] == [{"gender": "f", **row}, {"gender": "m", **row}]
    assert main(["corpus", "info", str(sound), "--no-audio"]) == 0
    out = capsys.readouterr().out
    assert "speakers    2 (1 female, 1 male)" in out
    assert "hours       unknown" in out


@pytest.mark.parametrize(("to", "out", "spec"), [
    ("kaldi", "k", "k"),
    ("csv", "c.csv", "c.csv"),
    ("jsonl", "j.jsonl", "j.jsonl"),
    ("lhotse", "l", "l/supervisions.jsonl.gz"),
])  # fmt: skip
def test_convert_command_writes_the_other_format(sound: Path, tmp_path: Path, to: str, out: str, spec: str) -> None:
    if to == "lhotse":
        pytest.importorskip("lhotse")
    assert main(["corpus", "convert", str(sound), str(tmp_path / out), "--to", to]) == 0
    before, after = open_corpus(sound), open_corpus(tmp_path / spec)
    fields = ("id", "path", "speaker", "gender", "text", "role", "start", "duration")
    assert [[getattr(u, name) for name in fields] for u in after] == [
        [getattr(u, name) for name in fields] for u in before
    ]
    assert after.trials == before.trials


def test_convert_command_rejects_invalid_requests(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["corpus", "convert", str(sound), str(sound), "--to", "kaldi"]) == 1
    assert main(["corpus", "convert", str(sound), str(tmp_path / "x.txt"), "--to", "csv"]) == 1
    assert "name the file x.csv" in capsys.readouterr().err


def test_import_is_light() -> None:
    code = "import sys, voiceveil.corpus; print(*{'torch', 'scipy', 'numba', 'lhotse', 'soundfile'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
