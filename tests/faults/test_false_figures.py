"""Figures that say nothing must not pass: each broken input has a named check, and good input has none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tests.support.small_challenge  # registers the encoder `bumps`
import voiceveil.attack as attack
from tests.support.check_inputs import Samples, names, noise, scores, spoken
from voiceveil.audio import Waveform, load, save
from voiceveil.cli.main import main
from voiceveil.core.checks import failed
from voiceveil.corpus import Corpus, Trials, Utterance, open_corpus, write_kaldi
from voiceveil.evaluation.results import Figure, Results
from voiceveil.testing import synthetic_voice

SPEAKERS = {"f": (10, 11, 12, 13), "m": (20, 21, 22, 23)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight speakers, sets to enroll and to try, and the same by B2."""
    import voiceveil as vv

    data = tmp_path_factory.mktemp("world")
    for part, gender, numbers in (
        ("enrolls", "fm", range(2)),
        ("trials_f", "f", range(2, 6)),
        ("trials_m", "m", range(2, 6)),
    ):
        name = f"libri_dev_{part}"
        role = "enroll" if part == "enrolls" else "trial"
        utterances = tuple(
            Utterance(f"{s}-{i}", data / name / f"{s}-{i}.wav", speaker=str(s), gender=sex, role=role, text="ONE TWO")
            for sex in gender
            for s in SPEAKERS[sex]
            for i in numbers
        )
        for utterance in utterances:
            number, index = map(int, utterance.id.split("-"))
            save(utterance.path, synthetic_voice(number, index, seconds=1.2))
        pairs = [(str(s), u.id, str(s) == u.speaker) for s in SPEAKERS[gender[0]] for u in utterances]
        columns = [np.array(column) for column in zip(*pairs, strict=True)]
        trials = Trials(*columns) if role == "trial" else None
        write_kaldi(Corpus(name, utterances, trials), data / name)
        assert not vv.anonymize(data / name, data, system="b2", seed=1).failures
    return data


@pytest.fixture
def data(world: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(world, tmp_path / "data"))


def spoil(data: Path, how: Callable[[str], Samples], *, every: int = 1) -> None:
    """Replace the audio of every so many anonymized utterances."""
    utterances = [u for name in sorted(data.glob("*_b2")) for u in open_corpus(name)]
    for utterance in utterances[::every]:
        save(utterance.path, Waveform(how(utterance.id), 16000))


def original(data: Path) -> Callable[[str], Samples]:
    """Utterance id -> the original samples."""
    paths = {u.id: u.path for name in data.glob("libri*") if not name.name.endswith("_b2") for u in open_corpus(name)}
    return lambda key: load(paths[key]).samples


FEW_RESAMPLES = attack.AttackOptions(resamples=20)


def attacked(data: Path, attackers: tuple[str, ...] = ("bumps",)) -> attack.AttackResult:
    return attack.attack(data, anon="_b2", attackers=attackers, options=FEW_RESAMPLES)


def test_correct_speech_gives_no_warning(world: Path) -> None:
    assert attacked(world).checks == ()
    assert attack.attack(world, attackers=["bumps"], options=FEW_RESAMPLES).checks == ()


def test_unchanged_speech_gives_a_warning(data: Path) -> None:
    source = original(data)
    spoil(data, lambda key: np.float32(0.5) * source(key)[200:], every=4)
    (check,) = attacked(data).checks
    assert check.name == "identical-audio"
    assert "12 of 48 utterances" in check.seen


def test_silent_and_noisy_output_gives_a_warning(data: Path) -> None:
    spoil(data, lambda key: np.zeros(16000, np.float32), every=6)
    assert "silent-audio" in names(attacked(data).checks)
    spoil(data, lambda key: noise(len(key) % 3, 1.2))
    assert "noise-audio" in names(attacked(data).checks)


def test_constant_cue_gives_no_warning(world: Path) -> None:
    assert attacked(world, ("free:duration",)).checks == ()  # all utterances have one length


def test_one_recording_for_all_utterances_gives_a_warning(data: Path) -> None:
    spoil(data, lambda key: spoken(3, 1.2))
    checks = attacked(data).checks
    assert set(names(checks)) >= {"repeated-audio", "constant-scores"}
    assert "48 of 48 utterances have one and the same audio" in checks[0].seen
    gain = iter(np.linspace(0.2, 0.9, 100))
    spoil(data, lambda key: np.float32(next(gain)) * spoken(3, 1.2))
    checks = attacked(data).checks
    assert "47 of 47 pairs of utterances that were compared sound the same" in checks[0].seen


def test_silence_in_the_original_gives_no_warning(data: Path) -> None:
    for name in ("libri_dev_enrolls", "libri_dev_enrolls_b2"):
        save(next(iter(open_corpus(data / name))).path, Waveform(np.zeros(16000, np.float32), 16000))
    assert attacked(data, ("free:duration",)).checks == ()


def test_enrollment_among_the_trials_gives_a_warning(data: Path) -> None:
    enrolled = next(u for u in open_corpus(data / "libri_dev_enrolls") if u.gender == "f")
    trial = next(u for u in open_corpus(data / "libri_dev_trials_f") if u.speaker == enrolled.speaker)
    shutil.copy(enrolled.path, trial.path)
    (check,) = attacked(data).checks
    assert check.name == "shared-utterances"
    assert f"{trial.id} is {enrolled.id} (libri_dev_trials_f)" in check.seen


def test_renamed_training_speech_among_the_trials_gives_a_warning(data: Path) -> None:
    heard = open_corpus(data / "libri_dev_trials_f_b2")
    renamed = [Utterance(f"x{u.id}", u.path, speaker=f"x{u.speaker}", gender="f") for u in heard]
    write_kaldi(Corpus("learned", tuple(renamed)), data / "learned", {u.id: u.path for u in renamed})
    result = attack.attack(data, anon="_b2", attackers=["bumps"], train=[data / "learned"], options=FEW_RESAMPLES)
    check = next(check for check in result.checks if check.name == "training-speakers-in-test")
    assert "16 of 16 training utterances of learned are in the test data" in check.seen


def test_encoder_trained_on_test_speakers_gives_a_warning(world: Path) -> None:
    from dataclasses import dataclass

    from voiceveil.models.speaker.encoders import TrainingRecord, encoders

    @dataclass(frozen=True)
    class Knowing(tests.support.small_challenge.Bumps):
        def training(self) -> TrainingRecord:
            return TrainingRecord(speakers=3, speaker_ids=("11", "20", "99"))

    encoders.register("knowing")(lambda argument: Knowing("knowing"))
    (check,) = attacked(world, ("knowing",)).checks
    assert check.name == "training-speakers-in-test"
    assert check.seen == "The encoder of knowing was trained on 2 of 8 test speakers, e.g. 11."


def test_attack_command_prints_and_stores_the_warning(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = original(data)
    spoil(data, source)
    options = ["attack", "--data", str(data), "--anon", "_b2", "--attackers", "bumps", "--resamples", "20", "--quiet"]
    assert main([*options, "--out", str(data / "out")]) == 0
    printed = capsys.readouterr()
    for text in printed:
        assert "WARNING identical-audio: Anonymized speech is the original speech." in text
        assert "Do not use or publish these figures" in text
    written = json.loads((data / "out" / "attack.json").read_text())["checks"]
    assert [check["name"] for check in written] == ["identical-audio"]
    assert main([*options, "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["checks"] == written
    assert "WARNING identical-audio" in printed.err


def test_evaluation_prints_stores_and_reports_the_warning(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["evaluate", "--data", str(world), "--attackers", "bumps", "--recognizers", "counter", "--jobs", "1"]
    assert main([*options, "--system", "identity", "--out", str(tmp_path / "out"), "--quiet"]) == 0
    for text in capsys.readouterr():
        assert "WARNING identical-audio" in text
    results = Results.load(tmp_path / "out" / "results.json")
    assert names(results.checks) == ["identical-audio"]
    page = (tmp_path / "out" / "report.html").read_text()
    first = page[page.index("Read this first") :]
    assert first.index("WARNING identical-audio") < first.index("No attacker was trained")


def test_score_files_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, nontarget = scores(2.0, 60)
    lines = [f"{-s} {kind}" for kind, side in (("target", target), ("nontarget", nontarget)) for s in side]
    (tmp_path / "scores").write_text("\n".join(lines) + "\n")
    assert main(["score", str(tmp_path / "scores"), "--metrics", "eer"]) == 0
    for text in capsys.readouterr():
        assert "WARNING eer-above-half" in text
    assert main(["score", str(tmp_path / "scores"), "--metrics", "eer", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [check["name"] for check in printed["files"][0]["checks"]] == ["eer-above-half"]


def test_ranking_marks_systems_with_failed_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tuple(
        Figure(
            metric,
            0.3,
            dataset,
            split="test",
            gender=gender,
            condition=condition,
            attacker="a" if metric == "eer" else "",
        )
        for metric, dataset, gender, condition in (
            ("eer", "libri_test", "f", "aa"),
            ("eer", "libri_test", "m", "aa"),
            ("wer", "libri_test", "", "a"),
            ("uar", "IEMOCAP_test", "", "a"),
        )
    )
    Results("good", "vpc2024", figures).save(tmp_path / "good.json")
    bad = Results("bad", "vpc2024", figures, {}, (failed("silent-audio", "40 of 48 are silent."),))
    bad.save(tmp_path / "bad.json")
    files = [str(tmp_path / name) for name in ("good.json", "bad.json")]
    assert main(["rank", *files]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("bad (!)") == 3  # in the table, by WER and by UAR
    assert "good (!)" not in printed.out
    for text in printed:
        assert "(!) bad: WARNING silent-audio: Anonymized speech is silent. 40 of 48 are silent." in text
    assert main(["rank", *files, "--json"]) == 0
    systems = json.loads(capsys.readouterr().out)["systems"]
    assert [[check["name"] for check in system["checks"]] for system in systems] == [[], ["silent-audio"]]


def test_comparison_marks_systems_with_failed_checks(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["evaluate", "--data", str(world), "--attackers", "bumps", "--recognizers", "counter", "--jobs", "1"]
    assert main([*options, "--system", "identity,b2", "--out", str(tmp_path / "out"), "--quiet", "--no-report"]) == 0
    printed = capsys.readouterr()
    assert "identity (!)" in printed.out
    assert "b2 (!)" not in printed.out
    for text in printed:
        assert "(!) identity: WARNING identical-audio" in text
    page = (tmp_path / "out" / "comparison.html").read_text()
    assert page.index("Read this first") < page.index("WARNING identical-audio") < page.index("All systems")
    rows = json.loads((tmp_path / "out" / "comparison.json").read_text())["rows"]
    assert {row["system"]: len(row["checks"]) for row in rows} == {"original": 0, "identity": 1, "b2": 0}


def test_recordings_of_a_risk_assessment_are_checked(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The release is the original speech, and one utterance of B is one of A."""
    data = tmp_path / "risk"
    shutil.copytree(world / "libri_dev_trials_f", data / "toy")
    shutil.copy(data / "toy" / "10-2.wav", data / "toy" / "10-3.wav")
    design = ["corpus", "protocol", str(data / "toy"), str(data), "--name", "toy", "--legal"]
    assert main([*design, "--a-utterances", "2", "--b-utterances", "2", "--seed", "1"]) == 0
    sides = [f"--original={data / f'toy_{side}'}" for side in "AB"] + [f"--anonymized={data / 'toy'}"]
    encoders = ["--encoder=original=bumps", "--encoder=ignorant=bumps", "--encoder=informed=bumps"]
    capsys.readouterr()
    options = ["--lengths=1", "--draws=1", "--json", "--quiet", "--enrolled=4"]
    assert main(["risk", f"--protocol={data / 'protocol.toml'}", *sides, *encoders, *options]) == 0
    printed = capsys.readouterr()
    found = {check["name"]: check["seen"] for check in json.loads(printed.out)["checks"]}
    assert "16 of 16 utterances that were looked at equal the original" in found["identical-audio"]
    assert "WARNING identical-audio" in printed.err
