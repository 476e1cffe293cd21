"""The report: its figures against plain counting, its text, and that data is never code."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shutil
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.support.paths import GOLDEN
from tests.support.report_world import ATTACKS, make_results
from voiceveil.audio import save
from voiceveil.cli.main import main
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.evaluation.details import read_details
from voiceveil.evaluation.results import Results
from voiceveil.report.page import Options, write_report
from voiceveil.report.report_data import ReportData, load_report_data
from voiceveil.report.sections import command
from voiceveil.report.summary import findings
from voiceveil.testing import synthetic_voice

HOSTILE = '<script>alert(1)</script>"onload=x{{7*7}}&'


class Tags(HTMLParser):
    """All tags with their attributes, and the text outside of the style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(folder: Path, out: Path, options: Options | None = None) -> Tags:
    return Tags(write_report(folder, out, options).read_text())


def plain(text: str) -> str:
    return " ".join(text.replace("\N{NO-BREAK SPACE}", " ").split())


def test_command_in_the_report_is_quoted_for_the_shell(report_data: ReportData) -> None:
    results = replace(
        report_data.results, system="x; rm -rf ~", info={**report_data.results.info, "attackers": ["$(id)"]}
    )
    shown = command(ReportData(results, report_data.folder))
    assert "--system 'x; rm -rf ~' " in shown
    assert "--attackers '$(id)' " in shown


def test_every_eer_has_attacker_condition_and_interval(folder: Path, tmp_path: Path) -> None:
    html = write_report(folder, tmp_path / "r.html").read_text()
    section = html[html.index('id="attackers"') : html.index("What the attackers know")]
    rows = [
        [plain(re.sub("<[^>]+>", "", cell)) for cell in re.findall(r"<td.*?</td>", row)]
        for row in re.findall(r"<tr.*?</tr>", section)
    ]
    rows = [row for row in rows if row]
    assert len(rows) == 2 * len(ATTACKS)
    for name, dataset, eer, knowledge, enroll, trial in rows:
        assert name.startswith("campplus")
        assert knowledge in ("unprotected", "lazy-informed", "semi-informed")
        assert {enroll, trial} <= {"original", "anonymized"}
        assert dataset in ("libri_dev female", "libri_dev male")
        assert re.fullmatch(r"[\d.]+% \[[\d.]+, [\d.]+\]", eer)


def test_warnings_come_first_and_grades_are_words(folder: Path, tmp_path: Path, report_data: ReportData) -> None:
    text = plain(page_of(folder, tmp_path / "r.html").text)
    warning = text.index("campplus-adapted: it identifies only 40.0% of its own utterances")
    assert warning < text.index("Can somebody still tell who speaks?") < text.index("Who attacked, and how well")
    privacy, words, emotions, intonation = findings(report_data)
    assert privacy.grade == "poor"
    assert "weak protection" in privacy.answer
    assert "Guessing is wrong in 50%" in privacy.text
    assert (words.grade, emotions.grade, intonation.grade) == ("poor", "poor", "middling")
    for finding in (privacy, words, emotions, intonation):
        assert plain(finding.answer) in text
    assert "Not evaluated, because the data are missing: libri_test_enrolls" in text
    assert "What this does not show" in text


def test_words_are_not_praised_where_the_recognizer_fails_on_the_original(report_data: ReportData) -> None:
    figures = tuple(replace(f, value=1.0) if f.metric == "wer" else f for f in report_data.results.figures)
    data = replace(report_data, results=replace(report_data.results, figures=figures))
    words = findings(data)[1]
    assert words.grade == "unknown"
    assert words.answer == "Not known: the recognizer fails on the original speech"
    assert "of the words wrong in the original speech already" in words.text


def test_without_a_trained_attacker_the_report_warns(report_data: ReportData, tmp_path: Path) -> None:
    figures = tuple(f for f in report_data.results.figures if f.knowledge != "semi-informed")
    replace(report_data.results, figures=figures).save(tmp_path / "results.json")
    text = page_of(tmp_path, tmp_path / "r.html").text
    assert "No attacker was trained on speech of this system" in text


def test_page_escapes_data(folder: Path, tmp_path: Path) -> None:
    """The same tags whatever the data are called, and none that could run or load anything."""
    # names of speakers and utterances stand in score files, where blanks would separate columns
    bad = make_results(tmp_path / "bad", rename=HOSTILE)
    results = Results.load(bad / "results.json")
    hostile = tuple(
        replace(f, model=f"{f.model}{HOSTILE}" if f.metric != "eer" else f.model, detail=dict(f.detail))
        for f in results.figures
    )
    health = [{**results.info["health"][0], "warnings": [HOSTILE], "choice": HOSTILE}]
    replace(results, figures=hostile, info={**results.info, "health": health, "time": HOSTILE}).save(
        bad / "results.json", overwrite=True
    )
    safe = make_results(tmp_path / "safe")
    pages = [page_of(f, tmp_path / f"{f.name}.html", Options(title=t)) for f, t in ((bad, HOSTILE), (safe, "safe"))]
    names = [[tag for tag, _ in page.tags] for page in pages]
    assert names[0] == names[1]
    assert pages[0].text.count("<script>alert(1)</script>") > 20  # it is shown, as text
    assert "49" not in re.findall(r"onload=x(\d\d)", pages[0].text)
    for tag, attributes in pages[0].tags:
        assert tag not in ("script", "img", "iframe", "object", "embed", "link", "base", "form")
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert attributes.get("href", "#").startswith("#")  # type: ignore[union-attr]
        assert "src" not in attributes


def test_content_policy_allows_only_the_style(folder: Path, tmp_path: Path) -> None:
    html = write_report(folder, tmp_path / "r.html").read_text()
    policy = next(a["content"] for tag, a in Tags(html).tags if a.get("http-equiv") == "Content-Security-Policy")
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; media-src data:; base-uri 'none'; form-action 'none'"
    )
    assert "http" not in re.sub(r'xmlns="http://www.w3.org/2000/svg"|http-equiv', "", html)


def test_recordings_are_included_only_on_request(folder: Path, tmp_path: Path) -> None:
    silent = page_of(folder, tmp_path / "silent.html")
    assert not any(tag == "audio" for tag, _ in silent.tags)
    assert "data:audio" not in (tmp_path / "silent.html").read_text()
    loud = page_of(folder, tmp_path / "loud.html", Options(audio=2))
    sources = [attributes["src"] or "" for tag, attributes in loud.tags if tag == "audio"]
    assert len(sources) == 4
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(sources[0].partition(",")[2])))
    assert (len(samples), rate) == (24000, 16000)
    assert "personal data" in loud.text
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    shutil.rmtree(moved / "audio")
    gone = page_of(moved, tmp_path / "gone.html", Options(audio=2))
    assert gone.text.count("the audio is no longer where it was") == 2


def test_the_player_has_the_versions_of_compared_systems(folder: Path, tmp_path: Path) -> None:
    theirs = make_results(tmp_path / "theirs", audio=True)
    figures = make_results(tmp_path / "figures")
    shutil.rmtree(figures / "details")  # figures alone: nothing to listen to
    compare = [f"b2={theirs}", f"b3={figures / 'results.json'}"]
    page = page_of(folder, tmp_path / "r.html", Options(audio=2, compare=compare))
    labels = re.findall(r"<label>([^<]*)<audio", (tmp_path / "r.html").read_text())
    assert labels == ["original", "mine", "b2"] * 2
    sources = [attributes["src"] or "" for tag, attributes in page.tags if tag == "audio"]
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(sources[2].partition(",")[2])))
    assert (len(samples), rate) == (24000, 16000)
    assert "“the cat sat on a mat”" in page.text


@pytest.mark.parametrize("protocol", ["vpc2020", "vpc2022", "vpc2024"])
def test_page_has_the_metrics_of_the_protocol(protocol: str, tmp_path: Path) -> None:
    text = plain(page_of(make_results(tmp_path / "r", protocol=protocol), tmp_path / "r.html").text)
    for word, edition in {"linkability D_sys": "vpc2020", "ZEBRA, individual": "vpc2020", "dB [": "vpc2020"}.items():
        assert (word in text) == (edition == protocol or (protocol == "vpc2022" and word == "dB ["))
    assert "pitch correlation" in text
    assert "IEMOCAP_dev" in text


def test_official_file_gives_a_page_without_details(tmp_path: Path) -> None:
    for file in ("vpc2020/RESULTS_mcadams", "vpc2022/RESULTS_summary_mcadams", "vpc2024/result_for_rank_mcadams"):
        text = plain(page_of(GOLDEN / file, tmp_path / f"{Path(file).name}.html").text)
        assert "Not shown: The results have no details" in text
        assert "ASV_eval" in text


def test_page_is_reproducible(folder: Path, tmp_path: Path) -> None:
    pages = [write_report(folder, tmp_path / f"{i}.html").read_bytes() for i in range(2)]
    assert pages[0] == pages[1]


def test_report_command_writes_the_page(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = make_results(tmp_path / "other")
    out = tmp_path / "report.html"
    arguments = ["--out", str(out), "--title", "For the officer", "--compare", f"theirs={other}", "--audio", "1"]
    assert main(["report", str(folder), *arguments]) == 0
    assert f"report: {out}" in capsys.readouterr().out
    page = Tags(out.read_text())
    assert "For the officer" in page.text
    assert "theirs (other)" in page.text
    assert main(["report", str(other)]) == 0
    assert (other / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no such file"),
        ([".", "--audio", "-1"], "audio must be a number of speakers, not -1"),
        ([".", "--compare", "nothing"], "no such file"),
    ],
)
def test_invalid_input_is_rejected(
    folder: Path,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    assert main(["report", *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "report.html").exists()


def test_invalid_scores_are_reported_with_their_line(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    file = copy / "scores" / "campplus" / "libri_dev_trials_f.oo.scores"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], "11 stranger 0.5", *lines[2:]]))
    with pytest.raises(
        InputError, match=r"oo\.scores:2: not `<speaker> <utterance> <score>` of the details: 'stranger'"
    ):
        load_report_data(copy)


def test_scores_outside_of_the_results_are_not_read(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (tmp_path / "secret").write_text("not scores")
    results = Results.load(copy / "results.json")
    figures = [replace(f, detail={**f.detail, "scores": "../secret"}) for f in results.find("eer")]
    replace(results, figures=tuple(figures)).save(copy / "results.json", overwrite=True)
    assert load_report_data(copy).scored == ()


PROTOCOL = """
name = "mine"
title = "A protocol of one's own"
metrics = ["eer"]
levels = { enroll = "utterance", trial = "utterance" }
conditions = ["aa"]
scoring = "cosine"
[[verification]]
dataset = "mine"
split = "dev"
enroll = "mine_enrolls"
trials = [{ set = "mine_trials_f", gender = "f" }]
"""


@pytest.mark.slow
def test_evaluation_writes_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From recordings to the page; a second one, with other options, is made without measuring anything."""
    data, out = tmp_path / "data", tmp_path / "out"
    (tmp_path / "mine.toml").write_text(PROTOCOL)
    sets = {
        name: [_utterance(data, name, s, i) for s in (1, 2, 3) for i in range(3)] for name in ("enrolls", "trials_f")
    }
    pairs = [(str(s), u.id, str(s) == u.speaker) for s in (1, 2, 3) for u in sets["trials_f"]]
    columns = [np.array(column) for column in zip(*pairs, strict=True)]
    trials = Trials(columns[0], columns[1], columns[2])
    for name, spoken in sets.items():
        corpus = Corpus(name, tuple(spoken), trials if name == "trials_f" else None)
        write_kaldi(corpus, data / f"mine_{name}")
    command = [
        "evaluate",
        "--protocol",
        str(tmp_path / "mine.toml"),
        "--data",
        str(data),
        "--system",
        "b2",
        "--seed",
        "1",
    ]
    command += ["--out", str(out), "--attackers", "free:duration,free:f0", "--jobs", "1", "--quiet"]
    assert main(command) == 0
    assert f"report: {out / 'report.html'}" in capsys.readouterr().out
    rows = read_details(out).utterances["mine_trials_f"]
    assert len(rows) == 9
    assert all(row.number("f0_original") and row.number("pitch_correlation") is not None for row in rows)
    assert not any(row.text("reference") for row in rows)
    assert (out / rows[0].anonymized).exists()
    text = plain(Tags((out / "report.html").read_text()).text)
    assert "No attacker was trained on speech of this system" in text
    assert (
        "Not shown: No voice similarity was computed: it needs an attacker that compares voices, e.g. campplus." in text
    )
    shutil.rmtree(out / "data")  # a report needs no audio
    begin = time.process_time()
    assert main(["report", str(out), "--title", "again"]) == 0
    assert time.process_time() - begin < 10
    assert main([*command, "--no-report", "--out", str(tmp_path / "none")]) == 0
    assert not (tmp_path / "none" / "details").exists()
    assert not (tmp_path / "none" / "report.html").exists()


def _utterance(data: Path, name: str, speaker: int, i: int) -> Utterance:
    path = data / "audio" / f"{name}-{speaker}-{i}.wav"
    save(path, synthetic_voice(speaker, i + 10 * (name == "enrolls"), seconds=1.0 + 0.2 * i))
    return Utterance(
        f"{speaker}-{name[:2]}-{i}",
        path,
        speaker=str(speaker),
        gender="f",
        role="enroll" if name == "enrolls" else "trial",
    )
