"""Names that a terminal would obey: they come from data, and are shown escaped by every verb."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.runs import PROTOCOL, evaluating
from voiceveil.audio import save
from voiceveil.cli.main import main
from voiceveil.cli.streams import prepare_streams
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import escaped, print_lines, safe_streams, unguarded
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.evaluation.results import Figure, Results
from voiceveil.run.progress import Progress
from voiceveil.testing import synthetic_voice

#: Sets the title of the window, clears the screen, returns to the start of the line, turns the text round, begins a
#: control sequence in one character, and makes a line of its own.
NAME = "n\x1b]0;owned\x07\x1b[2J\r\u202e\u009b31m\nvoiceveil: all is well"
#: What is left of it in an id of a Kaldi directory.
ID = "n\u202e\u009b31m"
DANGEROUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def said(capsys: pytest.CaptureFixture[str], expected: str = "\\u202e") -> str:
    """What was printed, after a look at it."""
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert not DANGEROUS.search(text), DANGEROUS.search(text)
    assert not [line for line in text.splitlines() if line.startswith("voiceveil: all is well")], text
    assert expected in text
    return text


def hostile_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    save(folder / NAME / "good.wav", synthetic_voice(1, seconds=0.2))
    (folder / NAME / f"{NAME}.wav").write_bytes(b"no audio")
    return folder


# --- The functions ------------------------------------------------------------------------------------------------


@given(st.text(st.characters()))
def test_arbitrary_text_becomes_one_harmless_line(text: str) -> None:
    line = escaped(text)
    assert not DANGEROUS.search(line)
    assert line.splitlines() in ([line], [])
    assert escaped(line) == line
    line.encode("utf-8")


def test_ordinary_text_is_unchanged() -> None:
    text = "Müller 日本語 עברית 🙂 نمی‌خواهم \\x1b C:\\new"
    assert escaped(text) == text


def test_streams_are_guarded_and_restored() -> None:
    before, stream = sys.stdout, io.StringIO()
    sys.stdout = stream
    try:
        with safe_streams(), safe_streams():
            print(f"a{NAME}\tb")
            unguarded(sys.stdout).write("\r1/2")
            print_lines("x\ny", "z")
            sys.stdout.writelines(["\x07"])
        assert sys.stdout is stream
    finally:
        sys.stdout = before
    assert stream.getvalue() == (
        "an\\x1b]0;owned\\x07\\x1b[2J\\r\\u202e\\u009b31m\nvoiceveil: all is well\tb\n\r1/2x\\ny\nz\n\\x07"
    )


def test_terminal_without_unicode_is_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(data, encoding="ascii"))
    prepare_streams()
    with safe_streams():
        print("caf\u00e9 \U0001f642", flush=True)
    assert data.getvalue() == b"caf\\xe9 \\U0001f642\n"


def test_errors_are_one_line() -> None:
    error = InputError(f"no {NAME}", where=NAME, fix=NAME)
    assert not DANGEROUS.search(str(error))
    assert "\n" not in str(error)
    assert error.where == NAME


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_prints_no_control_characters() -> None:
    stream = Terminal()
    with contextlib.redirect_stderr(stream):
        progress = Progress(f"working on {NAME}", 2)
    with progress:
        progress.status(NAME)
        progress.note(f"failed: {NAME}")
        progress.advance()
    assert not DANGEROUS.search(stream.getvalue().replace("\r", ""))
    assert "\rn" not in stream.getvalue()
    assert "\\x1b[2J" in stream.getvalue()


# --- The verbs ----------------------------------------------------------------------------------------------------


def test_anonymize_prints_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = hostile_folder(tmp_path), str(tmp_path / NAME)
    command = ["anonymize", str(source), out, "--system", "b2"]
    assert main(command) == 1
    assert "\\x1b]0;owned\\x07" in said(capsys)
    assert main([*command, "--publish", f"{out}release", "--quiet"]) == 1
    assert "release" in said(capsys)
    (source / NAME / f"{NAME}.wav").unlink()
    shutil.move(source / NAME / "good.wav", source / NAME / "other.wav")
    assert main([*command, "--quiet"]) == 0
    assert "of an earlier run" in said(capsys)
    assert main([*command, "--quiet", "--json"]) == 0
    assert json.loads(said(capsys))["output"] == out
    assert not DANGEROUS.search((Path(out) / ".voiceveil" / "ledger.jsonl").read_text()), "people look at it"
    assert main(["anonymize", str(source), out, "--system", NAME]) == 1
    said(capsys)
    assert main(["anonymize", f"{NAME}:{source}", out]) == 1
    said(capsys)
    assert main(["anonymize", NAME]) == 2
    with pytest.raises(SystemExit):
        main([NAME])
    said(capsys)


def test_file_names_that_are_not_utf8_are_printed_safely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"caf\xe9")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"{name}.wav").write_bytes(b"no audio")
    assert main(["anonymize", str(tmp_path / "in"), str(tmp_path / "out"), "--system", "b2"]) == 1
    assert "caf\\udce9" in said(capsys, "")


def test_corpus_prints_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = hostile_folder(tmp_path)
    manifest = tmp_path / "list.jsonl"
    rows = [{"id": NAME, "path": str(source / NAME / "good.wav"), "speaker": NAME, "emotion": NAME, "subset": NAME}]
    rows.append({"id": NAME, "path": NAME})
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["corpus", "check", str(source)]) == 1
    said(capsys)
    assert main(["corpus", "check", str(manifest)]) == 1
    said(capsys)
    assert main(["corpus", "check", str(manifest), "--json"]) == 1
    json.loads(said(capsys))
    manifest.write_text(json.dumps(rows[0]) + "\n")
    assert main(["corpus", "info", str(manifest)]) == 0
    assert "emotions" in said(capsys)
    assert main(["corpus", "convert", str(manifest), str(tmp_path / f"{NAME}.csv"), "--to", "csv"]) == 0
    assert "1 utterances" in said(capsys)
    assert main(["corpus", "convert", str(manifest), str(tmp_path / "kaldi"), "--to", "kaldi"]) == 1
    said(capsys)


def test_attack_prints_no_control_characters(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoken = tuple(
        Utterance(
            f"{ID}{s}-{i}", data / "audio" / f"{s}-{i}.wav", f"{ID}{s}", "f", role="enroll" if i == 0 else "trial"
        )
        for s in (1, 2, 3)
        for i in range(5)
    )
    tried = [u for u in spoken if u.role == "trial"]
    pairs = [(f"{ID}{s}", u.id, u.speaker == f"{ID}{s}") for s in (1, 2, 3) for u in tried]
    trials = Trials(*(np.array(column) for column in zip(*pairs, strict=True)))
    folder = tmp_path / NAME
    write_kaldi(Corpus("e", tuple(u for u in spoken if u.role == "enroll")), folder / f"toy{ID}_enrolls")
    write_kaldi(Corpus("t", tuple(tried), trials), folder / f"toy{ID}_trials_f")
    command = ["attack", "--data", str(folder), "--attackers", "free:f0", "--resamples", "20"]
    assert main([*command, "--out", str(tmp_path / f"{NAME}out")]) == 0
    assert "attackers' health" in said(capsys)
    assert main([*command, "--json"]) == 0
    json.loads(said(capsys))
    assert main([*command[:-4], "--attackers", NAME]) == 1
    said(capsys)


def test_evaluate_and_report_print_no_control_characters(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    title = json.dumps("A protocol \u202e")
    protocol = tmp_path / f"{NAME}.toml"
    text = re.sub(r"title = .*", lambda _: f"title = {title}", PROTOCOL)
    protocol.write_text(text)
    out = tmp_path / f"{NAME}out"
    command = evaluating(data, out)
    command[command.index("--protocol") + 1] = str(protocol)
    assert main([*command, "--plan"]) == 0
    assert "needs:" in said(capsys)
    assert main([argument for argument in command if argument != "--quiet"]) == 0
    assert "results:" in said(capsys)
    assert not DANGEROUS.search((out / "results.json").read_text())
    assert main(["report", str(out)]) == 0
    assert "report:" in said(capsys)
    assert main(["report", str(out / "none")]) == 1
    said(capsys)


def test_score_prints_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    rows = [(f"{ID}{s}", f"{ID}{t}-{k}", s == t) for s in range(4) for t in range(4) for k in range(3)]
    key, scores = tmp_path / f"{NAME}key", tmp_path / f"{NAME}.scores"
    key.write_text("".join(f"{a} {b} {'target' if same else 'nontarget'}\n" for a, b, same in rows))
    scores.write_text("".join(f"{a} {b} {rng.normal(2 * same)}\n" for a, b, same in rows))
    assert main(["score", str(scores), "--trials", str(key), "--resamples", "100"]) == 0
    assert "nontarget" in said(capsys)
    assert main(["score", str(scores), "--trials", str(scores)]) == 1
    said(capsys)


def test_rank_prints_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = [
        *(Figure("eer", 0.2, "libri_test", split="test", gender=g, condition="aa", attacker="a\u202e") for g in "fm"),
        Figure("wer", 0.05, "libri_test", split="test", condition="a"),
        Figure("uar", 0.4, "IEMOCAP_test", split="test", condition="a"),
    ]
    files = []
    for number in range(2):
        path = tmp_path / f"results{number}.json"
        Results(f"\u202e{number}", "vpc2024", tuple(figures), {"notes": []}).save(path)
        files.append(f"{NAME}{number}={path}" if number else str(path))
    assert main(["rank", *files]) == 0
    assert "note:" in said(capsys)
    assert main(["rank", *files, "--json"]) == 0
    json.loads(said(capsys))
    assert main(["rank", files[0], files[0]]) == 1
    said(capsys)


def test_tdsv_prints_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.tdsv.test_evaluation import KEYS, SCORES
    from voiceveil.tdsv.evaluation import evaluate
    from voiceveil.tdsv.tables import table

    shown = table([evaluate(SCORES, KEYS, name=NAME, resamples=20)])
    assert not DANGEROUS.search(shown)
    assert "\\nvoiceveil: all is well" in shown
    (tmp_path / NAME / "docs").mkdir(parents=True)
    (tmp_path / NAME / "docs" / f"{NAME}.txt").write_text(NAME)
    assert main(["tdsv", "check", str(tmp_path / NAME)]) == 1
    said(capsys)
    answer = tmp_path / f"{NAME}.txt"
    answer.write_text(NAME)
    lists = ["--trials", str(answer), "--keys", str(answer)]
    assert main(["tdsv", "evaluate", str(answer), *lists]) == 1
    said(capsys)
    assert main(["tdsv", "submit", str(answer), "--trials", str(answer)]) == 1
    said(capsys)
