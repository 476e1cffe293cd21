"""Every shell and Python block of README.md, CONTRIBUTING.md and docs/ runs as it is written, on small data."""

from __future__ import annotations

import argparse
import doctest
import fcntl
import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.documentation.pages import PAGES, RUN, SHOWN, Block, blocks, indented_commands
from tests.documentation.world import copy_world, make_programs, make_world
from tests.support.paths import ROOT
from voiceveil.cli.main import VERBS

#: Reasons for which a block may be left out. Everything else runs.
REASONS = {
    "a template of options",
    "needs several machines",
    "needs Slurm",
    "needs a graphics card",
    "needs audio devices",
    "part of a class",
    "takes hours of speech and of time",
    "sets up or tests the project itself",
    "is a file of examples/, which has a test of its own",
    "has a test of its own",
}
#: Page -> commands that make what the reader of the page has by then.
BEFORE = {
    "docs/how-to/submission.md": """
        for set in libri_dev_enrolls libri_dev_trials_f libri_dev_trials_m IEMOCAP_dev IEMOCAP_test train-clean-360; do
            voiceveil anonymize data/$set data --system b2 --suffix _mine --quiet
        done
        voiceveil evaluate --data data --system b2 --out results/b2 --quiet
        """,
}


#: Pages that have a test of their own, which looks at what the commands print.
TESTED_ELSEWHERE = {"docs/guide/tutorial.md", "docs/official.md"}  # test_tutorial.py, test_official.py


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of all pages, made once for all test processes."""
    shared = (
        tmp_path_factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else tmp_path_factory.getbasetemp()
    )
    folder = shared / "documentation"
    with (shared / "documentation.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            make_world(folder / "world")
            make_programs(folder / "bin")
            (folder / "ready").touch()
    return folder


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_has_a_known_language(page: Path) -> None:
    assert not indented_commands(page), "use a fenced block: ```sh"
    for block in blocks(page):
        assert block.language in RUN | SHOWN, f"{name_of(page)}:{block.line}: a block of {block.language or 'nothing'}"
        assert not block.not_run or block.not_run in REASONS, f"{name_of(page)}:{block.line}: {block.not_run}"


def pages_to_run() -> list[Path]:
    pages = [page for page in PAGES if name_of(page) not in TESTED_ELSEWHERE]
    return [page for page in pages if any(block.language in RUN and not block.not_run for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", pages_to_run(), ids=name_of)
def test_blocks_of_a_page_run_in_order(page: Path, world: Path, tmp_path: Path) -> None:
    if "interview.m4a" in page.read_text(encoding="utf-8"):
        pytest.importorskip("av")
    folder = copy_world(world / "world", tmp_path / "work")
    environment = {
        **os.environ,
        "PATH": f"{world / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(world / "world" / "site"), os.environ.get("PYTHONPATH")))),
        "EDITOR": "true",
        "TMPDIR": str(tmp_path),
    }
    before = BEFORE.get(name_of(page))
    if before:
        _run(Block(page, 0, "sh", before), folder, environment)
    for block in blocks(page):
        if block.language in RUN and not block.not_run:
            _run(block, folder, environment)


def _run(block: Block, folder: Path, environment: dict[str, str]) -> None:
    if block.is_doctest:
        test = doctest.DocTestParser().get_doctest(block.text, {}, str(block.page), None, block.line)
        assert not doctest.DocTestRunner().run(test).failed
        return
    if block.language == "python":
        command = [sys.executable, "-P", "-c", block.text]
    else:
        command = ["bash", "-euo", "pipefail", "-c", block.text]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    where = f"{name_of(block.page)}:{block.line}"
    assert done.returncode == 0, f"{where} ended with {done.returncode}:\n{block.text}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, f"{where}:\n{done.stderr}"


def examples() -> list[str]:
    """Return the commands below "examples:" of all help texts."""
    found = []
    for verb in VERBS:
        module = importlib.import_module(f"voiceveil.cli.{verb}")
        for part in [module, *_parts(module)]:
            text = re.sub(r"\s*\\\n\s*", " ", part.EXAMPLES.partition("examples:\n")[2])
            found += re.findall(rf"^  (voiceveil {verb} .+)$", text, flags=re.M)
    return found


def _parts(module: ModuleType) -> list[ModuleType]:
    names = sorted(Path(module.__file__ or "").parent.glob("train_*.py")) if module.__name__.endswith(".train") else []
    parts = [importlib.import_module(f"voiceveil.cli.{path.stem}") for path in names]
    return [part for part in parts if hasattr(part, "EXAMPLES")]


@pytest.mark.parametrize("command", examples())
def test_help_examples_parse(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(re.split(r"\s{2,}(?!-)|\s+(?:&&|[|]|>>?)\s", command)[0], comments=True)
    parser = argparse.ArgumentParser()
    importlib.import_module(f"voiceveil.cli.{words[1]}").add_arguments(parser)
    try:
        parser.parse_args(words[2:])
    except SystemExit:
        pytest.fail(f"{command}: {capsys.readouterr().err}")
