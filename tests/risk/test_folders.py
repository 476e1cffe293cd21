"""Two plain folders: sets A and B, lengths that the recordings allow, swapped folders, and the one command."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import voiceveil as vv
from tests.support.pitch_bumps import PitchBumps  # registers the encoder `pitch-bumps`
from voiceveil.audio import save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Utterance
from voiceveil.risk.folders import choose_lengths, design_sets, read_release, refuse_swapped, too_few_to_learn
from voiceveil.risk.sets import split_of_design
from voiceveil.testing import synthetic_voice

ENCODERS = [
    f"--encoder={name}={encoder}"
    for name, encoder in (
        ("original", PitchBumps().name),
        ("ignorant", PitchBumps().name),
        ("informed", f"{PitchBumps().name}-adapted"),
    )
]


def corpus(seconds: float, *counts: int) -> Corpus:
    """A corpus whose speakers have so many utterances; no file is read, as the lengths are stated."""
    utterances = [
        Utterance(f"s{speaker}-{number}", Path("none.wav"), speaker=f"s{speaker}", seconds=seconds)
        for speaker, count in enumerate(counts)
        for number in range(count)
    ]
    return Corpus("recordings", tuple(utterances))


def sizes(design: object) -> list[dict[str, int]]:
    return [dict(Counter(u.speaker or "" for u in part)) for part in design.sets.values()]  # type: ignore[attr-defined]


def test_long_recordings_are_divided_as_in_the_paper() -> None:
    a, b = sizes(design_sets(corpus(30.0, 12, 12, 12)))
    assert a == {"s0": 4, "s1": 4, "s2": 4}  # 2 minutes
    assert b == {"s0": 8, "s1": 8, "s2": 8}  # at least 3 minutes


def test_short_recordings_are_divided_by_utterances() -> None:
    a, b = sizes(design_sets(corpus(5.0, 9, 9, 9, 9, 3)))
    assert set(a) == {"s0", "s1", "s2", "s3"}  # the fifth has too few
    assert set(a.values()) == {6}
    assert set(b.values()) == {3}


def test_lengths_are_those_that_half_of_the_speakers_allow() -> None:
    few = corpus(5.0, 9, 9, 9, 9)
    split = split_of_design(design_sets(few))
    speaker = {u.id: u.speaker or "" for u in few}
    choice = choose_lengths(split, speaker)
    assert choice.lengths == (1, 3)
    assert choice.left_out == ("L = 30: 0 of 4 speakers have 60 utterances in A and 30 in B, which it needs",)
    assert choose_lengths(split, speaker, [2]).lengths == (2,)
    with pytest.raises(InputError, match=r"L = 5: 0 of 4 .*the recordings allow --lengths 1,3"):
        choose_lengths(split, speaker, [5])


def test_attackers_learn_from_enough_speakers_only() -> None:
    enough, few = corpus(5.0, *[4] * 8), corpus(5.0, *[4] * 7, 3)
    assert too_few_to_learn([enough], {}) == ""
    reason = too_few_to_learn([few], {})
    assert "it needs 8 speakers with 4 recordings each, and 7 have them" in reason
    nameless = Corpus("flat", tuple(replace(u, speaker=None) for u in enough))
    assert "0 have them" in too_few_to_learn([nameless], {})
    assert too_few_to_learn([nameless], enough.by_id) == ""


def test_too_few_recordings_or_unknown_speakers_are_refused() -> None:
    with pytest.raises(InputError, match=r"1 of 3 speaker\(s\) have three recordings or more"):
        design_sets(corpus(5.0, 9, 2, 1))
    nameless = Corpus("flat", (Utterance("a", Path("flat/a.wav"), seconds=1.0),))
    with pytest.raises(InputError, match="put the recordings of each speaker into a sub-folder"):
        design_sets(nameless)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Recordings of 12 people with blanks in all names, and their anonymized versions."""
    home = tmp_path_factory.mktemp("with blanks")
    for speaker in range(12):
        for take in range(6):
            voice = synthetic_voice(speaker, take, seconds=1.0 + 0.05 * (speaker % 4))
            save(home / "my recordings" / f"speaker {speaker}" / f"take {take}.wav", voice)
    vv.anonymize(home / "my recordings", home / "hidden ones", system="b2", seed=1)
    return home / "my recordings", home / "hidden ones"


def test_release_record_names_the_system(folders: tuple[Path, Path]) -> None:
    record = read_release(folders[1])
    assert record is not None
    assert record["system"] == "b2"
    assert read_release(folders[0]) is None


def test_swapped_or_equal_folders_are_refused(folders: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match="give the original folder first"):
        refuse_swapped(folders[1], folders[0])
    with pytest.raises(InputError, match="are the same"):
        refuse_swapped(folders[0], folders[0])
    refuse_swapped(*folders)


@pytest.mark.slow
def test_one_command_assesses_two_folders(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cache = folders[0].parent / "cache"
    command = ["risk", *map(str, folders), *ENCODERS, "--draws=1", f"--cache={cache}"]
    command += ["--max-linkability=5%", "--json-progress"]
    assert main(command) == 1
    output = capsys.readouterr()
    assert (
        "sets A: 12 speakers, 48 utterances; B: 12 speakers, 24 utterances; utterances in a conversation: 1"
        in output.err
    )
    assert "attacker learning, model 5 of 5" in output.err
    assert "The limit is below chance: among 12 people guessing alone succeeds in" in output.out
    assert "report: hidden ones.risk.html" in output.out
    page = (tmp_path / "hidden ones.risk.html").read_text(encoding="utf-8")
    top = page[page.index('id="verdict"') : page.index("<nav")]
    assert "System b2 (alpha = " in top
    assert "12 speakers, 1 utterance(s) in a conversation, assessed on 20" in top
    assert 'class="whisker' in page
    assert main(command) == 1  # before any work: the report exists
    assert "this file exists" in capsys.readouterr().err
    assert main([*command[:-2], "--max-linkability=100%", "--json", "--overwrite"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["outcome"] == "not found"
    assert result["limits"][0]["kept"] is True
    assert result["about"]["system"] == "b2"


def test_command_explains_wrong_folders(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    original, anonymized = map(str, folders)
    half = tmp_path / "half"
    shutil.copytree(anonymized, half)
    shutil.rmtree(half / "speaker 3")
    for arguments, code, message in (
        ([original], 2, "give ORIGINAL and ANONYMIZED"),
        ([original, anonymized, "--original", original], 2, "give ORIGINAL and ANONYMIZED"),
        ([anonymized, original], 1, "give the original folder first"),
        ([original, str(half)], 1, "utterance(s) of the protocol are not among the anonymized recordings"),
        ([original, f"{anonymized} not there"], 1, "no such file or folder"),
        ([original, anonymized, "--max-linkability", "5"], 1, "did you mean 5%?"),
        ([original, anonymized, "--lengths", "30"], 1, "the recordings allow --lengths 1"),
    ):
        assert main(["risk", *arguments, "--quiet"]) == code
        assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("*.html"))
