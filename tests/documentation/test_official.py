"""The seven commands of docs/official.md, as they stand there: from raw corpora to a checked archive.

The corpora have the layout in which they are distributed, and a few utterances; exp/asv_orig and exp/asr are tiny
models in the official format. Trainings are made small as in the other pages.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from tests.documentation.command import made_small
from tests.documentation.pages import blocks
from tests.support.paths import ROOT
from tests.support.small_plan import COUNTS, main, make_checkout
from voiceveil.corpus.iemocap import DEVELOPMENT
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.results import Results

for package in ("torch", "transformers"):
    pytest.importorskip(package)
pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "official.md"
EVALUATORS = {
    "ASV_eval": "speechbrain:exp/asv_orig",
    "ASV_eval^anon": "speechbrain:exp/asv_anon_mine",
    "ASR_eval": "speechbrain:exp/asr",
    "SER_eval": "speechbrain:exp/ser",
}


def commands() -> list[list[str]]:
    """Return the arguments of each command of the page, expanded by the shell."""
    listed = []
    for block in blocks(PAGE):
        assert block.language == "sh"
        done = subprocess.run(
            ["bash", "-c", f"printf '%s\\0' {block.text}"], capture_output=True, text=True, check=True
        )
        program, *arguments = done.stdout.split("\0")[:-1]
        assert program == "voiceveil"
        listed.append(arguments)
    return listed


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A participant's folder, which is the working directory."""
    before, place = Path.cwd(), make_checkout(tmp_path_factory.mktemp("official"))
    os.chdir(place)
    yield place
    os.chdir(before)


@pytest.fixture(scope="module")
def printed(checkout: Path) -> dict[str, str]:
    """Run the commands; return first words -> what they print."""
    outputs = {}
    for arguments in commands():
        small = {"--device": "cpu", "--jobs": "1"}
        added = [word for option, value in small.items() if option in arguments for word in (option, value)]
        added += {"evaluate": ["--jobs", "1"], "anonymize": ["--seed", "1"]}.get(arguments[0], [])
        with redirect_stdout(StringIO()) as output:
            code = main([*made_small(arguments), *added])
        assert code == 0, f"{arguments}\n{output.getvalue()}"
        outputs[" ".join(word for word in arguments[:2] if not word.startswith("data/"))] = output.getvalue()
    return outputs


def test_page_has_seven_commands_in_the_order_of_a_participant() -> None:
    verbs = [arguments[:2] if arguments[0] in ("corpus", "train") else arguments[:1] for arguments in commands()]
    assert verbs == [
        ["corpus", "prepare"], ["anonymize"], ["train", "asv"], ["train", "ser"], ["evaluate"], ["submit"], ["submit"],
    ]  # fmt: skip
    named = {word.removeprefix("data/") for word in commands()[1] if word.startswith("data/")}
    protocol = load_protocol("vpc2024")
    assert named == set(protocol.roles())


def test_archive_of_the_seven_commands_is_good(printed: dict[str, str]) -> None:
    assert printed["submit --check"].splitlines()[-1] == "submission_mine.tar.gz: good"
    for name in load_protocol("vpc2024").roles():
        assert f"\n{name}: " in f"\n{printed['submit --check']}"
    assert Path("results/mine/submission_mine.tar.gz").is_file()


def test_results_are_by_the_official_evaluators(printed: dict[str, str]) -> None:
    results = Results.load(Path("results/mine/results.json"))
    assert results.info["official"]["names"] == EVALUATORS
    assert {(f.dataset, f.condition) for f in results.find("uar")} == {
        (f"IEMOCAP_{split}", side) for split in ("dev", "test") for side in "oa"
    }
    knowledge = {f.knowledge for f in results.find("eer") if f.attacker == EVALUATORS["ASV_eval^anon"]}
    assert knowledge == {"semi-informed"}
    note = Path("results/mine/exp/results_summary/NOTE_mine.txt").read_text()
    assert note.count("the challenge's own, as far as") == 4


def test_emotion_models_learn_from_the_eight_speakers_of_the_other_folds(printed: dict[str, str]) -> None:
    record = json.loads(Path("exp/ser/record.json").read_text())
    for fold, entry in record["folds"].items():
        assert entry["validation_speakers"] == [f"Ses0{fold}{DEVELOPMENT[fold].upper()}"]
        assert len(entry["speakers"]) == 8
        assert not any(name.startswith(f"Ses0{fold}") for name in entry["speakers"])
        assert entry["utterances"] == 8 * COUNTS[fold, "f"]
    assert printed["train ser"].splitlines()[-1] == "emotion model: speechbrain:exp/ser"


def test_advice_for_publishing_is_given_once(printed: dict[str, str]) -> None:
    assert printed["anonymize"].count("before you publish") == 1
    assert printed["anonymize"].count("output: data/") == 9


#: Command -> part of what it says.
MISTAKES = {
    "evaluate --data data --anon _min --out results/a": "`voiceveil anonymize`; with other suffixes there is _mine)",
    "evaluate --data data --anon _mine --recognizers speechbrain:exp/arr --out results/a": "exp/arr: no such folder of "
    "the recognizer (give a folder like exp/asr of the challenge)",
    "evaluate --data data --anon _mine --emotion-models speechbrain:exp --out results/a": "exp: no folder fold_1 to",
    "train asv --data data/train-clean-360_mine --out exp/asv": "say what they are (add --trained-on anonymized",
    "train ser --model models/wav2vec2-bas --data data/IEMOCAP_dev --out exp/ser2": "the model models/wav2vec2-bas is "
    "neither a folder nor on this machine (give the folder of facebook/wav2vec2-base",
    "submit results/main": "results/main: no such file",
    "submit --check results/mine/submission.tar.gz --data data": "no such file (give the archive whose name `voiceveil "
    "submit RESULTS` prints",
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.items())
def test_typing_errors_are_told_in_one_sentence(
    arguments: str, message: str, printed: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not Path("results/a").exists()


def test_figures_that_are_missing_are_named_with_the_options_for_them(
    printed: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Path(shutil.copytree("results/mine", tmp_path / "mine"))
    path = copy / "results.json"
    content = json.loads(path.read_text())
    for name, model, option in (
        ("ASV_eval", "", "--attackers speechbrain:exp/asv_orig"),
        ("ASV_eval^anon", "", "--attackers speechbrain:exp/asv_anon_mine"),
        ("ASR_eval", "", "--recognizers speechbrain:exp/asr"),
        ("SER_eval", "functionals", "--emotion-models speechbrain:exp/ser"),
        ("ASR_eval", "speechbrain-correct:exp/asr", "--recognizers speechbrain:exp/asr"),
    ):
        content["info"]["official"]["names"] = {**EVALUATORS, name: model}
        path.write_text(json.dumps(content))
        assert main(["submit", str(copy), "--out", str(tmp_path / "a.tar.gz")]) == 1
        said = capsys.readouterr().err
        assert f"({option}; docs/official.md)" in said, said
        assert (f"{name}: {model}" in said) == bool(model)
