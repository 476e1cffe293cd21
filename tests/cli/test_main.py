"""The command line as a user meets it: help, typos, exit codes, pipes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.batch_corpora import make_folder
from voiceveil.audio import save
from voiceveil.cli.main import VERBS, main
from voiceveil.systems import systems
from voiceveil.testing import synthetic_voice


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "voiceveil.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys)
    assert code == 0
    assert all(verb in out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_ends_with_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    assert stop.value.code == 0
    assert "examples:\n  voiceveil " in capsys.readouterr().out


def test_unknown_verb_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["anonymise"])
    assert stop.value.code == 2
    assert "did you mean anonymize?" in capsys.readouterr().err


def test_version_is_printed() -> None:
    assert run("--version").stdout.startswith("voiceveil 0.")


def test_systems_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "systems")
    assert code == 0
    header, default, *others = out.splitlines()
    assert header.split() == ["system", "EER", "attacker", "WER", "speed", "weights"]
    assert default.split()[:7] == ["veil", "33", "/", "35%", "semi-informed", "10%", "19x"]
    names = [line.split()[0] for line in others if line]
    assert names[names.index("identity") - 1] == "joint-hifigan", "controls are last, behind those not measured"
    assert len(out.splitlines()) < 40, "one screen"
    rows = json.loads(call(capsys, "systems", "--json")[1])
    assert [row["name"] for row in rows] == ["veil", *names[: len(list(systems)) - 1]]
    assert {"name", "summary", "source", "rate", "parameters", "measured"} <= set(rows[0])


def test_details_of_a_system(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "systems", "d1")
    assert "team D" in out
    assert "EER:           7.4% [5.3, 12.3]; attacker campplus (lazy-informed)" in out
    assert "voiceveil evaluate --protocol vpc2020 --system all" in out
    assert "alpha=0.8,0.8" in out


def test_unknown_system_suggests_the_nearest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", 1, 1)
    code, _, err = call(capsys, "anonymize", source, tmp_path / "out", "--system", "b22")
    assert code == 1
    assert "did you mean b2" in err
    assert not (tmp_path / "out").exists()


def test_default_system_is_veil(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    save(tmp_path / "in" / "a.wav", synthetic_voice(1, seconds=0.6))
    code, _, _ = call(capsys, "anonymize", tmp_path / "in", tmp_path / "out", "--quiet")
    ledger = (tmp_path / "out" / ".voiceveil" / "ledger.jsonl").read_text()
    assert (code, '"veil"' in ledger) == (0, True)


def test_default_system_without_torch_is_b2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B2, which says what it is; parameters of veil are not those of B2, and nothing is done with them."""
    from voiceveil.systems.resynthesis import loader

    monkeypatch.setattr(loader, "find_spec", lambda name: None)
    save(tmp_path / "in" / "a.wav", synthetic_voice(1, seconds=0.2))
    code, _, err = call(capsys, "anonymize", tmp_path / "in", tmp_path / "out", "--quiet")
    assert code == 0
    assert err.splitlines()[0] == (
        "voiceveil: warning: using b2, which protects little, because veil cannot be used: veil needs torch, which is "
        "not installed (pip install 'voiceveil[neural]')"
    )
    assert '"b2"' in (tmp_path / "out" / ".voiceveil" / "ledger.jsonl").read_text()
    code, _, err = call(capsys, "anonymize", tmp_path / "in", tmp_path / "two", "--set", "privacy=1")
    assert (code, "veil needs torch" in err, (tmp_path / "two").exists()) == (1, True, False)


def test_unknown_parameter_suggests_the_nearest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", 1, 1)
    code, _, err = call(capsys, "anonymize", source, tmp_path / "out", "--system", "b2", "--set", "alfa=0.8")
    assert (code, "did you mean alpha?" in err) == (1, True)


def test_anonymize_writes_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    options = ("--system", "b2", "--set", "alpha=0.6,0.8", "--seed", "1")
    code, out, err = call(capsys, "anonymize", source, tmp_path / "out", *options)
    assert code == 0
    assert "4 anonymized" in out
    assert str(tmp_path / "out") in out
    assert err == "", "short work is not worth a line in a log"
    code, _, err = call(capsys, "anonymize", source, tmp_path / "again", *options, "--json-progress")
    assert (code, json.loads(err.splitlines()[-1])["done"]) == (0, 4)


def test_anonymize_prints_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    (source / "s0" / "bad.wav").write_text("not audio")
    code, out, err = call(capsys, "anonymize", source, tmp_path / "out", "--system", "b2", "--json", "--quiet")
    assert code == 1
    summary = json.loads(out)
    assert (summary["done"], [f["id"] for f in summary["failures"]]) == (4, ["s0/bad"])
    assert "bad.wav" in err


def test_failed_items_exit_with_1(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in")
    (source / "s0" / "bad.wav").write_text("not audio")
    code, out, _ = call(capsys, "anonymize", source, tmp_path / "out", "--system", "b2")
    assert (code, "1 FAILED" in out, "bad.wav" in out) == (1, True, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing", "out"], "no such file or folder"),
        (["in", "out", "--key-file", "none.key"], "head -c 32 /dev/urandom"),
        (["in", "out", "--jobs", "0"], "at least one job"),
        (["in", "out", "--rate", "3"], "3 Hz"),
        (["in", "in/out"], "inside the input"),
        (["in", "out", "--level", "speaker"], "no speaker"),
        (["in", "out", "--system", "b2-2022", "--draws", "official"], "cannot be reproduced"),
        (["in", "out", "--system", "identity", "--draws", "official"], "no official draws"),
        (["librispech:in", "out"], "did you mean librispeech"),
    ],
)
def test_invalid_input_exits_with_1(tmp_path: Path, arguments: list[str], message: str) -> None:
    """One line that says what is wrong; exit code 1; nothing written."""
    save(tmp_path / "in" / "a.wav", synthetic_voice(1, seconds=0.2))
    done = run("anonymize", *arguments, *(() if "--system" in arguments else ("--system", "b2")), cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


@pytest.mark.slow
def test_usage_errors_exit_with_2(tmp_path: Path) -> None:
    assert run("anonymize").returncode == 2
    assert run("anonymize", "a", "b", "--level", "word").returncode == 2
    assert run("anonymize", "a", "b", "--seed", "1", "--key-file", "k").returncode == 2


def test_closed_pipe_is_no_error() -> None:
    script = f"{sys.executable} -m voiceveil.cli.main systems | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {script}"], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_check_accepts_a_class_by_module_path(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from scipy.signal import lfilter\n"
        "from voiceveil import Anonymizer\n"
        "@dataclass(frozen=True)\n"
        "class Bright(Anonymizer):\n"
        "    'Less of the low frequencies.'\n"
        "    source = 'my own'\n"
        "    def transform(self, samples, rng):\n"
        "        return lfilter([0.5, -0.45], [1.0], samples).astype('float32')\n"
        "class Broken(Bright):\n"
        "    'Cuts the end.'\n"
        "    def transform(self, samples, rng):\n"
        "        return samples[:-1000]\n"
    )
    good = run("check", "mine:Bright", cwd=tmp_path)
    assert good.returncode == 0, good.stdout + good.stderr
    bad = run("check", "mine:Broken", "--json", cwd=tmp_path)
    assert bad.returncode == 1
    assert any(c["status"] == "failed" and "length" in c["message"] for c in json.loads(bad.stdout)["checks"])
    assert run("check", "mine:Missing", cwd=tmp_path).returncode == 1


def test_demo(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "demo", tmp_path, "--listen")
    assert code == 0
    for line in out.splitlines():
        if line.startswith(f"  {tmp_path}"):
            assert Path(line.split()[0]).stat().st_size > 7_000
    assert "Next:" in out


def test_import_is_light() -> None:
    """No torch, and neither numba nor scipy, until something needs them."""
    code = "import sys, voiceveil; print(sorted({'torch', 'numba', 'scipy', 'soundfile'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_several_files_go_into_one_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = make_folder(tmp_path / "in", 2, 2)
    files = sorted(source.rglob("*.wav"))
    code, out, _ = call(capsys, "anonymize", *files, "-o", tmp_path / "out", "--system", "b2")
    assert (code, "4 anonymized: 0:00:01 of audio" in out) == (0, True)
    assert sorted(p.name for p in (tmp_path / "out").glob("*.wav")) == [file.name for file in files]
    assert "4 done before" in call(capsys, "anonymize", *files, "-o", tmp_path / "out", "--system", "b2")[1]
    same = tmp_path / "other" / files[0].name
    save(same, synthetic_voice(seconds=0.2))
    code, _, err = call(capsys, "anonymize", files[0], same, "-o", tmp_path / "two", "--system", "b2")
    assert (code, "has the same name" in err, (tmp_path / "two").exists()) == (1, True, False)


def test_several_folders_keep_their_names(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_folder(tmp_path / name, 1, 1)
    file = tmp_path / "a.wav"
    save(file, synthetic_voice(seconds=0.2))
    code, _, _ = call(
        capsys, "anonymize", file, tmp_path / "one", tmp_path / "two", "-o", tmp_path / "out", "--system", "b2"
    )
    assert code == 0
    written = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.wav"))
    assert written == ["a.wav", "one/s0/s0-u0.wav", "two/s0/s0-u0.wav"]


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["anonymize", "a", "b", "--jbos", "2"], "unknown option --jbos: did you mean --jobs"),
        (["evaluate", "--dta", "x"], "unknown option --dta: did you mean --data"),
        (["corpus", "check", "x", "--no-adio"], "did you mean --no-audio"),
        (["corpus", "chek", "x"], "'chek' is not known: did you mean check?"),
        (["anonymize", "a", "b", "--level", "speakr"], "'speakr' is not known: did you mean speaker?"),
        (["anonymize", "a", "b", "--nothing-like-it"], "unknown option --nothing-like-it (see --help)"),
        (["--vresion"], "did you mean --version?"),
    ],
)
def test_mistyped_options_are_suggested(
    capsys: pytest.CaptureFixture[str], arguments: list[str], suggestion: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert suggestion in capsys.readouterr().err


def test_options_are_not_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["anonymize", "a", "b", "--over"])
    assert "did you mean --overwrite" in capsys.readouterr().err


def test_former_options_are_accepted_with_a_warning(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["attack", "--data", str(tmp_path), "--attacker=free"]) == 1
    assert "voiceveil: warning: --attacker is now called --attackers" in capsys.readouterr().err
    assert main(["tdsv", "submit", "a.txt", "--trials", "t", "--to", str(tmp_path / "s.zip")]) == 1
    assert "--to is now called --out" in capsys.readouterr().err


def test_errors_have_colors_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for variables, colored in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        stream = Terminal()
        with monkeypatch.context() as patch:
            patch.delenv("NO_COLOR", raising=False)
            patch.setenv("TERM", "xterm")
            for name, value in variables.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stderr", stream)
            assert main(["systems", "b22"]) == 1
        assert ("\x1b[31mvoiceveil systems: \x1b[0m" in stream.getvalue()) == colored
        assert ("\x1b" in stream.getvalue()) == colored
