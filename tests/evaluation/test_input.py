"""What `voiceveil evaluate`, `rank` and `submit` refuse: named, with set and utterance, before anything long starts."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import voiceveil as vv
from tests.support.evaluations import settings_for
from tests.support.small_challenge import ATTACKERS, make_challenge
from voiceveil.audio import Waveform, save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.evaluation.evaluate import evaluate, prepare
from voiceveil.evaluation.results import Figure, Results
from voiceveil.models import tracker
from voiceveil.official.tree import write_tree

SETS = ("libri_dev_enrolls", "libri_dev_trials_f", "libri_dev_trials_m")


OPTIONS: dict[str, Any] = {"recognizers": ["counter"]}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The development sets, and what another system made of them: audio, and nothing else."""
    data = make_challenge(tmp_path_factory.mktemp("source"), only=("dev",))
    system = vv.system("b2")
    for name in SETS:
        vv.anonymize(data / name, data / "made", system=system, seed=1, suffix="_theirs")
        shutil.copytree(data / "made" / f"{name}_theirs" / "wav", data / f"{name}_theirs" / "wav")
    shutil.rmtree(data / "made")
    return data


@pytest.fixture
def data(source: Path, tmp_path: Path) -> Path:
    """A copy to spoil; audio of the original sets stays where it is."""
    for path in source.iterdir():
        if path.name != "audio":
            shutil.copytree(path, tmp_path / "data" / path.name)
    return tmp_path / "data"


def refusal(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """What the command says; nothing was written."""
    arguments = ["evaluate", "--data", str(data), "--out", str(tmp_path / "out"), *(more or ("--anon", "_theirs"))]
    assert main(arguments) == 1
    assert not (tmp_path / "out").exists()
    return capsys.readouterr().err.removeprefix("voiceveil evaluate: ").rstrip("\n")


@pytest.mark.slow
def test_audio_without_metadata_gives_the_same_results(source: Path, tmp_path: Path) -> None:
    """The official layout; the data folder is not written to."""
    before = sorted(source.rglob("*"))
    settings = settings_for(source, tmp_path / "out", attackers=ATTACKERS, **OPTIONS)
    results = evaluate(prepare(settings, anon="_theirs"), exports=(write_tree,))
    assert sorted(source.rglob("*")) == before
    theirs = {(f.metric, f.gender, f.condition, f.evaluator): f.value for f in results.figures}
    settings = settings_for(source, tmp_path / "ours", attackers=ATTACKERS, seed=1, **OPTIONS)
    again = evaluate(prepare(settings, system=vv.system("b2")), exports=(write_tree,))
    assert theirs == {(f.metric, f.gender, f.condition, f.evaluator): f.value for f in again.figures}
    assert (tmp_path / "out" / "exp/results_summary/result_for_rank_theirs").exists()
    assert results.info["anonymized"]["libri_dev_enrolls"] == again.info["anonymized"]["libri_dev_enrolls"]


def test_commands_in_wav_scp_are_not_run_and_not_needed(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = data / "libri_dev_trials_f_theirs"
    ids = [path.stem for path in (folder / "wav").iterdir()]
    victim = tmp_path / "victim"
    lines = [f"{key} touch {victim}; sox {folder}/wav/{key}.wav -t wav -R -b 16 - |\n" for key in sorted(ids)]
    (folder / "wav.scp").write_text("".join(lines))
    found = prepare(settings_for(data, tmp_path / "out"), anon="_theirs").given["libri_dev_trials_f"]
    assert found["10-103-0000"].path == (folder / "wav/10-103-0000.wav").resolve()
    assert found["10-103-0000"].speaker == "10"
    assert not victim.exists()
    shutil.rmtree(folder / "wav")
    assert refusal(data, tmp_path, capsys) == (
        f"{folder}/wav.scp:1: 10-103-0000 is a shell command, which is never run "
        "(data is never code: convert to plain audio files and write their plain paths)"
    )
    assert not victim.exists()


def test_audio_of_another_project_is_not_used(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `wav.scp` with official paths, read in the folder of another project that has the same sets."""
    other = shutil.copytree(data, tmp_path / "other" / "data")
    folder = data / "libri_dev_trials_f_theirs"
    ids = sorted(path.stem for path in (folder / "wav").iterdir())
    (folder / "wav.scp").write_text("".join(f"{key} data/{folder.name}/wav/{key}.wav\n" for key in ids))
    monkeypatch.chdir(other.parent)
    found = prepare(settings_for(data, tmp_path / "out"), anon="_theirs").given["libri_dev_trials_f"]
    assert {u.path.parent for u in found} == {(folder / "wav").resolve()}


def test_wav_scp_of_another_machine_is_rebuilt(data: Path, tmp_path: Path) -> None:
    folder = data / "libri_dev_trials_f_theirs"
    ids = sorted(path.stem for path in (folder / "wav").iterdir())
    (folder / "wav.scp").write_text("".join(f"{key} /somewhere/else/{key}.wav\n" for key in ids))
    found = prepare(settings_for(data, tmp_path / "out"), anon="_theirs").given["libri_dev_trials_f"]
    assert [u.id for u in found] == ids


def _move(data: Path, one: str, other: str) -> None:
    (data / one).rename(data / "aside")
    (data / other).rename(data / one)
    (data / "aside").rename(data / other)


def _half_finished(data: Path) -> None:
    """As a killed run leaves it: some files, a ledger, a temporary file, no wav.scp."""
    folder = data / "libri_dev_trials_f_theirs"
    (folder / ".voiceveil").mkdir()
    (folder / ".voiceveil" / "ledger.jsonl").write_text("")
    for path in sorted((folder / "wav").iterdir())[5:]:
        path.unlink()
    (folder / "wav" / ".voiceveil-part-abc.wav").write_bytes(b"RIFF")


def _another_rate(data: Path) -> None:
    wave = Waveform(np.sin(np.arange(8000) / 10).astype(np.float32), 8000)
    save(data / "libri_dev_trials_f_theirs/wav/10-103-0001.wav", wave)


def _copy(data: Path, one: str, other: str) -> None:
    (data / other).parent.mkdir(exist_ok=True)
    shutil.copyfile(data / one, data / other)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


F = "libri_dev_trials_f_theirs"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda d: (d / F / "wav/10-103-0001.wav").unlink(),
            "{data}/libri_dev_trials_f_theirs: 1 of 12 utterances are missing, e.g. 10-103-0001 "
            "(anonymize all of the original set)",
        ),
        (
            lambda d: _copy(d, f"{F}/wav/10-103-0001.wav", f"{F}/wav/10-103-9999.wav"),
            "{data}/libri_dev_trials_f_theirs: 1 utterances are not in the original libri_dev_trials_f, e.g. "
            "10-103-9999 (remove them, or give the data they were made from)",
        ),
        (
            _another_rate,
            "{data}/libri_dev_trials_f_theirs/wav/10-103-0001.wav: utterance 10-103-0001 of libri_dev_trials_f_theirs "
            "has 8000 Hz, not 16000 Hz (resample the set: `voiceveil anonymize --rate 16000`, or sox)",
        ),
        (
            lambda d: _move(d, "libri_dev_enrolls_theirs", F),
            "{data}/libri_dev_enrolls_theirs: 12 utterances are of libri_dev_trials_f, not of libri_dev_enrolls, e.g. "
            "10-103-0000 (are the two sets swapped?)",
        ),
        (
            _half_finished,
            "{data}/libri_dev_trials_f_theirs: 7 of 12 utterances are missing, e.g. 11-103-0002 "
            "(its anonymization has not finished: run the same command again to its end)",
        ),
        (
            lambda d: _cut(d / F / "wav/10-103-0001.wav"),
            "{data}/libri_dev_trials_f_theirs/wav/10-103-0001.wav: utterance 10-103-0001 of libri_dev_trials_f_theirs: "
            "truncated: 100 of 17600 bytes are missing (copy the file again from its source)",
        ),
        (
            lambda d: _copy(d, f"{F}/wav/10-103-0001.wav", f"{F}/wav/again/10-103-0001.wav"),
            "{data}/libri_dev_trials_f_theirs/wav/again/10-103-0001.wav: utterance 10-103-0001 is there twice: "
            "wav/10-103-0001.wav (remove one of them)",
        ),
        (
            lambda d: shutil.rmtree(d / F),
            "{data}/libri_dev_trials_f_theirs: no anonymized set (anonymize it: `voiceveil anonymize`)",
        ),
        (
            lambda d: shutil.rmtree(d / F / "wav"),
            "{data}/libri_dev_trials_f_theirs: no audio (expected libri_dev_trials_f_theirs/wav/<utterance>.wav)",
        ),
        (
            lambda d: _move(d, "libri_dev_enrolls", "libri_dev_trials_f"),
            "{data}/libri_dev_trials_f: a set of trials without a trial list",
        ),
        (
            lambda d: (d / "libri_dev_trials_f/text").unlink(),
            "12 of 24 utterances have no text, e.g. 10-103-0000",
        ),
        (
            lambda d: (d / "libri_dev_trials_f/trials").write_text("99 10-103-0000 target\n10 10-103-0000 nontarget\n"),
            "{data}/libri_dev_enrolls: speaker 99 of the trials has no enrollment audio",
        ),
    ],
)  # fmt: skip
def test_damaged_data_is_reported(
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], None],
    message: str,
) -> None:
    spoil(data)
    assert message.format(data=data) in refusal(data, tmp_path, capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--anon", ""], "the suffix is empty (give the end of the anonymized directories' names, e.g. _b2)"),
        (["--system", "b2", "--attackers", "camplus"], "did you mean campplus"),
        (["--system", "b2", "--recognizers", "monshine"], "did you mean moonshine"),
    ],
)
def test_invalid_arguments_are_found_before_the_work(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert message in refusal(data, tmp_path, capsys, *arguments)


def results(protocol: str, system: str = "b2") -> Results:
    return Results(system, protocol, (Figure("eer", 0.1, "libri_test", split="test", condition="aa"),))


def test_results_of_another_protocol_are_not_overwritten(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    results("vpc2022").save(out / "results.json")
    before = (out / "results.json").read_bytes()
    assert main(["evaluate", "--data", str(data), "--out", str(out), "--system", "b2"]) == 1
    assert capsys.readouterr().err == (
        f"voiceveil evaluate: {out}: holds the results of b2 under vpc2022, not of b2 under vpc2024 "
        "(give another folder for the results, or --overwrite)\n"
    )
    assert (out / "results.json").read_bytes() == before
    assert [path.name for path in out.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("protocols", "rules", "message"),
    [
        (["vpc2022", "vpc2024"], None, "results of different protocols: vpc2022, vpc2024"),
        (["vpc2020"], None, "vpc2020 does not rank systems: it has no [ranking]"),
        (["vpc2024"], "vpc2022", "s0: results of vpc2024, not of vpc2022 (rank results of one protocol; another"),
        (["vpc2024", "vpc2020"], "vpc2024", "s1: results of vpc2020, not of vpc2024"),
    ],
)
def test_rank_rejects_results_of_another_protocol(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    protocols: list[str],
    rules: str | None,
    message: str,
) -> None:
    paths = []
    for number, protocol in enumerate(protocols):
        paths.append(tmp_path / f"{number}.json")
        results(protocol, f"s{number}").save(paths[-1])
    assert main(["rank", *map(str, paths), *(["--protocol", rules] if rules else [])]) == 1
    assert message in capsys.readouterr().err


def test_unfinished_evaluation_has_no_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cache.sqlite").write_bytes(b"")
    for verb in ("rank", "submit"):
        assert main([verb, str(tmp_path)]) == 1
        assert capsys.readouterr().err == (
            f"voiceveil {verb}: {tmp_path}: a half-finished evaluation: no results.json yet "
            "(run the same `voiceveil evaluate` again: it goes on where it stopped)\n"
        )


def test_results_have_their_provenance(source: Path, tmp_path: Path) -> None:
    """Hashes of sets are those that sha256sum gives; no path of this machine is in the file."""
    out = tmp_path / "out"
    settings = settings_for(source, out, attackers=("bumps",), seed=3, **OPTIONS)
    info = evaluate(prepare(settings, anon="_theirs"), exports=(write_tree,)).info
    name = "libri_dev_trials_f"
    listed = subprocess.run(
        ["sha256sum", *sorted(str(p) for p in (source / f"{name}_theirs/wav").iterdir())],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = sorted(f"{Path(path).stem} {digest}\n" for digest, path in map(str.split, listed.splitlines()))
    assert info["anonymized"][name]["sha256"] == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert info["data"][name]["utterances"] == 12
    assert info["data"][name]["trials"] == 48
    assert info["models"] == {
        "bumps": "bumps 1 original",
        "counter": "counter 1",
        "autocorrelation": tracker("autocorrelation").fingerprint(),
    }
    assert {"voiceveil", "numpy", "scipy", "numba"} <= set(info["versions"])
    assert info["seeds"] == {"anonymization": 3, "intervals": 0, "resamples": 1000, "attackers": 0}
    assert info["official"]["names"]["ASV_eval^anon"] == ""
    text = (out / "results.json").read_text()
    assert str(source) not in text
    assert str(out) not in text
    note = (out / "exp/results_summary/NOTE_theirs.txt").read_text()
    assert "ASV_eval^anon: nobody." in note
    assert "ASV_eval^anon" not in (out / "exp/results_summary/result_for_rank_theirs").read_text()
    assert not (out / "exp/asv_anon_theirs").exists()


@pytest.mark.slow
def test_rerun_removes_only_its_own_files(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    settings = settings_for(source, out, attackers=ATTACKERS, **OPTIONS)
    evaluate(prepare(settings, anon="_theirs"), exports=(write_tree,))
    mine = out / "exp" / "asv_anon_theirs" / "notes.txt"
    mine.write_text("mine")
    scores = out / "exp/asv_anon_theirs/libri_dev_enrolls_theirs-libri_dev_trials_f_theirs/scores"
    assert scores.exists()
    before = (out / "exp/results_summary/eval_orig_theirs/results_orig.txt").read_bytes()
    settings = settings_for(source, out, attackers=("bumps",), **OPTIONS)
    evaluate(prepare(settings, anon="_theirs"), exports=(write_tree,))
    assert not scores.exists()
    assert mine.exists()
    assert (out / "exp/results_summary/eval_orig_theirs/results_orig.txt").read_bytes() == before


def test_prepare_rejects_a_system_together_with_data(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one of a system and the suffix of anonymized data is needed"):
        prepare(settings_for(data, tmp_path / "out"))
