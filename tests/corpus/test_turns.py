"""Files of turns: what is read, what is written, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from voiceveil import InputError
from voiceveil.corpus.turns import Turn, merge_turns, read_regions, read_turns, speakers_of, write_rttm

RTTM = """\
;; a comment
SPKR-INFO talk 1 <NA> <NA> <NA> unknown anna <NA> <NA>
SPEAKER talk 1 0.50 1.50 <NA> <NA> anna <NA> <NA>
SPEAKER talk 1 1.75 2.00 <NA> <NA> ben <NA> <NA>
SPEAKER talk 1 4.00 0.25 <NA> <NA> anna <NA>
"""
TURNS = [Turn("anna", 0.5, 2.0), Turn("ben", 1.75, 3.75), Turn("anna", 4.0, 4.25)]


def written(folder: Path, text: str, name: str = "turns.rttm") -> Path:
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


def test_rttm_and_csv_say_the_same(tmp_path: Path) -> None:
    assert read_turns(written(tmp_path, RTTM)) == TURNS
    table = "speaker,start,end\nanna,0.5,2\nben,0:01.75,00:03.75\n\nanna,4,4.25\n"
    assert read_turns(written(tmp_path, table, "turns.csv")) == TURNS
    german = "Start;Duration;Speaker\n4;0.25;anna\n0.5;1.5;anna\n1.75;2;ben\n"
    assert read_turns(written(tmp_path, german, "turns.CSV")) == TURNS


def test_written_turns_are_read_back(tmp_path: Path) -> None:
    write_rttm(tmp_path / "out.rttm", TURNS, "my talk", kinds={"anna": "hidden"}, channels={"ben": 2})
    assert read_turns(tmp_path / "out.rttm") == TURNS
    first, second, _ = (tmp_path / "out.rttm").read_text().splitlines()
    assert first == "SPEAKER my_talk 1 0.500 1.500 <NA> hidden anna <NA> <NA>"
    assert second == "SPEAKER my_talk 2 1.750 2.000 <NA> <NA> ben <NA> <NA>"


def test_one_file_may_list_several_recordings(tmp_path: Path) -> None:
    path = written(tmp_path, RTTM + "SPEAKER other 1 0 1 <NA> <NA> cleo <NA> <NA>\n")
    assert read_turns(path, "talk") == TURNS
    assert speakers_of(read_turns(path, "other")) == {"cleo": 1.0}
    with pytest.raises(InputError, match=r"no turns of 'tolk'.*did you mean talk"):
        read_turns(path, "tolk")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.rttm", "", "no turns"),
        ("a.txt", "SPEAKER", "rttm and .csv"),
        ("a.rttm", "SPEAKER talk 1 0.5 1.5 <NA>", "6 fields"),
        ("a.rttm", "speaker,start,end\nanna,0,1", "not a line of RTTM"),
        ("a.rttm", RTTM.replace("0.50", "-0.50"), r":3: '-0.50' is not a time"),
        ("a.rttm", RTTM.replace("0.50", "nan"), "not a time between"),
        ("a.rttm", RTTM.replace("0.50", "inf"), "not a time between"),
        ("a.rttm", RTTM.replace("0.50", "1e300"), "not a time between"),
        ("a.rttm", RTTM.replace("0.50", "zero"), "not a time in seconds"),
        ("a.rttm", RTTM.replace("1.50", "0"), "the end must come after the start"),
        ("a.rttm", RTTM.replace("1.50", "5"), r":5: anna speaks already, since line 3.*fifth field is the duration"),
        ("a.rttm", RTTM.replace("anna", "an\x1bna"), "not a name of a speaker"),
        ("a.rttm", "\udcff\udcfe", "not UTF-8"),
        ("a.csv", "speaker,begin,end\nanna,0,1", "unknown column 'begin'"),
        ("a.csv", "speaker,start\nanna,0", "columns are missing"),
        ("a.csv", "speaker,start,end,end\nanna,0,1,1", "twice"),
        ("a.csv", "speaker,start,end\nanna,0", "2 cells"),
        ("a.csv", "speaker,start,end\nanna,0,", "not a time"),
        ("a.csv", "speaker,start,end\nanna,1:2:3:4,9", "not a time"),
        ("a.csv", 'speaker,start,end\n"anna,0,1', "not CSV"),
        ("a.csv", "", "columns|column"),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_turns(written(tmp_path, text, name))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.rttm"):
        read_turns(tmp_path / "none.rttm")


def test_regions_are_those_of_the_recording(tmp_path: Path) -> None:
    path = written(tmp_path, "talk NA 0.000 30.000\nother 1 1 2\ntalk NA 40 50\n", "scored.uem")
    assert read_regions(path, "talk") == [(0.0, 30.0), (40.0, 50.0)]
    with pytest.raises(InputError, match="no annotated part"):
        read_regions(path, "third")
    with pytest.raises(InputError, match="3 fields"):
        read_regions(written(tmp_path, "talk 1 2", "bad.uem"), "talk")


def test_short_pauses_are_filled() -> None:
    turns = [Turn("a", 0, 1), Turn("b", 0.9, 2), Turn("a", 1.3, 2), Turn("a", 1.5, 1.7), Turn("a", 3, 4)]
    assert merge_turns(turns, 0.5) == [Turn("a", 0, 2), Turn("b", 0.9, 2), Turn("a", 3, 4)]
