"""Protocols of one's own, from `voiceveil corpus protocol` to results, ranking and attack."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.small_challenge import ATTACKERS, WORDS
from voiceveil.audio import save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.evaluation.model_choice import ModelChoice
from voiceveil.evaluation.protocol import (
    Emotion,
    Legal,
    Official,
    Protocol,
    ProtocolTrialSet,
    RankingRules,
    Recognition,
    StandIns,
    Training,
    Verification,
    known_protocols,
    load_protocol,
)
from voiceveil.evaluation.protocol_writer import protocol_text
from voiceveil.evaluation.results import Results
from voiceveil.metrics import METRICS
from voiceveil.testing import synthetic_voice

FAST = ("--attackers", ",".join(ATTACKERS), "--recognizers", "counter", "--seed", "1", "--quiet")


def make_recordings(folder: Path, speakers: int = 3, count: int = 4) -> Path:
    """A folder for each speaker, with blanks in its names, as people have them."""
    for speaker in range(speakers):
        for take in range(count):
            path = folder / f"speaker {speaker}" / f"take {take}.wav"
            save(path, synthetic_voice(10 + speaker, take, seconds=0.5 + 0.05 * take))
    return folder


def make_manifest(folder: Path, *, genders: str = "fff", text: bool = True) -> Path:
    """A CSV manifest of recordings with speakers, genders and transcripts."""
    make_recordings(folder, len(genders))
    path = folder / "corpus.csv"
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["id", "path", "speaker", "gender", *(["text"] if text else [])])
        for speaker, gender in enumerate(genders):
            for take in range(4):
                words = " ".join(WORDS[(speaker + take + k) % 7] for k in range(4))
                row = [f"s{speaker}-{take}", f"speaker {speaker}/take {take}.wav", f"s{speaker}", gender]
                rows.writerow([*row, *([words] if text else [])])
    return path


def evaluate(data: Path, out: Path, *options: str) -> Results:
    command = ["evaluate", "--data", str(data), "--protocol", str(data / "protocol.toml"), "--out", str(out)]
    assert main([*command, "--system", "b2", *FAST, *options]) == 0
    return Results.load(out / "results.json")


def test_folder_without_genders_and_transcripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recordings, data, out = make_recordings(tmp_path / "recordings"), tmp_path / "data", tmp_path / "out"
    design = ["corpus", "protocol", str(recordings), str(data), "--name", "mine", "--enroll", "2"]
    assert main(design) == 1
    assert "--pooled" in capsys.readouterr().err
    assert main([*design, "--pooled"]) == 0
    protocol = load_protocol(data / "protocol.toml")
    assert (protocol.metrics, protocol.recognition, protocol.ranking) == (("eer",), (), None)
    results = evaluate(data, out)
    assert (results.protocol, {figure.metric for figure in results.figures}) == ("mine", {"eer"})
    assert {(f.dataset, f.gender, f.split) for f in results.figures} == {("mine", "", "test")}
    assert not [note for note in results.info["notes"] if "the plan says" in note or "missing" in note]
    assert (out / "report.html").is_file()
    assert not (out / "exp").exists()  # only challenges have official files
    capsys.readouterr()
    assert main(["rank", str(out / "results.json")]) == 1
    assert "mine does not rank systems: it has no [ranking]" in capsys.readouterr().err


def test_single_gender_with_transcripts_is_ranked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest, data, out = make_manifest(tmp_path / "audio"), tmp_path / "data", tmp_path / "out"
    assert main(["corpus", "protocol", str(manifest), str(data), "--name", "women", "--enroll", "2"]) == 0
    protocol = load_protocol(data / "protocol.toml")
    assert [trials.set for part in protocol.verification for trials in part.trials] == ["women_trials_f"]
    results = evaluate(data, out)
    assert {figure.metric for figure in results.figures} == {"eer", "wer"}
    assert {figure.gender for figure in results.find("eer")} == {"f"}
    capsys.readouterr()
    assert main(["rank", str(out / "results.json"), "--attacker", "bumps", "--json"]) == 0
    ranking = json.loads(capsys.readouterr().out)
    assert (ranking["protocol"], ranking["split"]) == ("women", "test")
    assert [condition["minimum_eer"] for condition in ranking["ranking"]["wer"]] == [0.1, 0.2, 0.3, 0.4]


def test_both_genders_without_transcripts(tmp_path: Path) -> None:
    manifest, data = make_manifest(tmp_path / "audio", genders="ffmm", text=False), tmp_path / "data"
    assert main(["corpus", "protocol", str(manifest), str(data), "--name", "two", "--enroll", "2"]) == 0
    results = evaluate(data, tmp_path / "out", "--no-report")
    assert {(figure.gender, figure.metric) for figure in results.figures} == {("f", "eer"), ("m", "eer")}


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data whose sets have names of the user's own, and a protocol that says which is which."""
    folder = tmp_path_factory.mktemp("renamed")
    manifest, data = make_manifest(folder / "audio"), folder / "data"
    assert main(["corpus", "protocol", str(manifest), str(data), "--name", "x", "--enroll", "2"]) == 0
    (data / "x_enrolls").rename(data / "known people")
    (data / "x_trials_f").rename(data / "calls")
    text = (data / "protocol.toml").read_text().replace("x_enrolls", "known people").replace("x_trials_f", "calls")
    (data / "protocol.toml").write_text(text)
    return data


def test_set_names_and_conditions_are_those_of_the_protocol(renamed: Path, tmp_path: Path) -> None:
    text = (renamed / "protocol.toml").read_text()
    path = tmp_path / "aa.toml"
    path.write_text(text.replace('conditions = ["oo", "oa", "aa"]', 'conditions = ["aa"]'))
    command = ["evaluate", "--data", str(renamed), "--protocol", str(path), "--out", str(tmp_path / "out")]
    attackers = ("--attackers", "bumps,mcadams-inversion:bumps", *FAST[2:])
    assert main([*command, "--system", "b2", "--no-report", *attackers]) == 0
    results = Results.load(tmp_path / "out" / "results.json")
    assert {figure.condition for figure in results.find("eer")} == {"aa"}
    assert (
        "attacker mcadams-inversion:bumps left out: it attacks under none of the protocol's conditions (aa)"
        in results.info["notes"]
    )


def test_attack_takes_a_protocol(renamed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["attack", "--data", str(renamed), "--attacker", "bumps", "--json"]
    assert main(command) == 1  # no set is named as those of the challenges
    assert "no trials here" in capsys.readouterr().err
    assert main([*command, "--protocol", str(renamed / "protocol.toml")]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["set"], row["condition"]) for row in rows] == [("calls", "oo")]
    assert main([*command, "--protocol", "vpc2024"]) == 1
    assert "no trial set of vpc2024 is here" in capsys.readouterr().err
    assert main([*command, "--protocol", str(renamed / "protocol.toml"), "--sets", "cals"]) == 1
    assert "has no set 'cals' (did you mean calls?)" in capsys.readouterr().err


@pytest.mark.parametrize("name", known_protocols())
def test_written_protocols_are_read_back(name: str, tmp_path: Path) -> None:
    protocol = load_protocol(name)
    path = tmp_path / "copy.toml"
    path.write_text(protocol_text(protocol))
    assert load_protocol(path) == protocol


@pytest.fixture(scope="module")
def designed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of a protocol that the command has written."""
    folder = tmp_path_factory.mktemp("designed")
    manifest = make_manifest(folder / "audio")
    assert main(["corpus", "protocol", str(manifest), str(folder / "data"), "--name", "x", "--enroll", "2"]) == 0
    return (folder / "data" / "protocol.toml").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("metrics = [", 'metrics = ["werr", '), "unknown metric 'werr' (did you mean wer or eer?)"),
        (("metrics = [", 'metrics = ["uar", '), "metrics has 'uar', but there is no [[emotion]]"),
        (("conditions", "condition"), "unknown key 'condition' (did you mean conditions"),
        (('["oo", "oa", "aa"]', '["ao"]'), "conditions[0] is 'ao', but must be 'oo' or 'oa' or 'aa'"),
        (("[ranking]", "[levels]\ntrials = 'speaker'\n[ranking]"), "unknown role 'trials' (did you mean trial"),
        (("[ranking]", "[levels]\ntrial = 'session'\n[ranking]"), "levels.trial is 'session', but must be 'utterance'"),
        (('by = ["wer"]', 'by = ["uar"]'), "ranking.by has 'uar', which is not in metrics"),
        (("0.1, 0.2", "10, 20"), "ranking.minimum_eer is [10, 20"),
        (("[ranking]", "[ranking]\nminimum_pitch_correlation = 0.3"), "add it to metrics"),
        (('gender = "f"', 'gender = "w"'), "but must be 'f' or 'm' or ''"),
        (('gender = "f"', 'gender = "f", weight = -1'), "a weight is -1"),
        (('enroll = "x_enrolls"', 'enroll = "x_trials_f"'), "has two roles: enroll and trial"),
        (('set = "x_trials_f"', 'set = "../x"'), "the set '../x' cannot be the name of a folder"),
        (('name = "x"', 'name = "a/b"'), "name is 'a/b'"),
        (("[[recognition]]", '[[recognition]]\ndataset = "x"\nsplit = "test"\nsets = ["a"]\n[[recognition]]'), "twice"),
    ],
)
def test_mistakes_in_a_protocol_are_explained(
    designed: str, change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "protocol.toml"
    assert change[0] in designed
    path.write_text(designed.replace(*change, 1))
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        load_protocol(path)
    assert str(path) in str(caught.value)


def test_documented_example_and_keys_are_true(tmp_path: Path) -> None:
    """The example of the documentation is a protocol, and every key and metric is explained."""
    page = (ROOT / "docs" / "how-to" / "protocols.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "mine.toml"
    path.write_text(example)
    protocol = load_protocol(path)
    assert protocol.weights("eer", "test") == {"calls_test f": 2 / 3, "calls_test m": 1 / 3}
    tables = (
        Protocol,
        Verification,
        ProtocolTrialSet,
        Recognition,
        Emotion,
        Training,
        StandIns,
        RankingRules,
        Official,
        Legal,
        ModelChoice,
    )
    names = [field.name for table in tables for field in fields(table)]
    assert [name for name in (*names, *METRICS) if not re.search(rf"[`\[]{name}\b", page)] == []
