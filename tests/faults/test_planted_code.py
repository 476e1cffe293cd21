"""Modules, configuration and caches that somebody planted beside the recordings: none of them runs or is read.

The working directory holds a hostile module under every name of the standard library and of the installed packages.
Each notes that it was imported. Commands run there as the installed ``voiceveil`` does.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import voiceveil
from tests.faults.runs import PROTOCOL
from voiceveil.audio import save
from voiceveil.core.errors import InputError
from voiceveil.corpus import Corpus, Trials, Utterance, write_kaldi
from voiceveil.systems.contract import find_system
from voiceveil.testing import synthetic_voice

OWN_SYSTEM = """\
from dataclasses import dataclass
from voiceveil import Anonymizer
@dataclass(frozen=True)
class Half(Anonymizer):
    'Half as loud.'
    source = 'my own'
    def transform(self, samples, rng):
        return samples * 0.5
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of recordings, a small evaluation, and modules that say when they run."""
    folder = tmp_path_factory.mktemp("recordings")
    spoken = {}
    for role, numbers in (("enroll", range(1)), ("trial", range(1, 18))):
        spoken[role] = tuple(
            Utterance(f"{s}-{i}", folder / "audio" / f"{s}-{i}.wav", speaker=str(s), gender="f", role=role)
            for s in (1, 2, 3)
            for i in numbers
        )
        for u in spoken[role]:
            save(u.path, synthetic_voice(int(u.speaker or 0), int(u.id[2:]), seconds=0.3))
    pairs = [(str(s), u.id, str(s) == u.speaker) for s in (1, 2, 3) for u in spoken["trial"]]
    trials = Trials(*(np.array(column) for column in zip(*pairs, strict=True)))
    write_kaldi(Corpus("libri_dev_enrolls", spoken["enroll"]), folder / "libri_dev_enrolls")
    write_kaldi(Corpus("libri_dev_trials_f", spoken["trial"], trials), folder / "libri_dev_trials_f")
    (folder / "small.toml").write_text(PROTOCOL)
    (folder / "mine.py").write_text(OWN_SYSTEM)
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "helper.py").write_text("FACTOR = 0.5\n")
    (package / "system.py").write_text(f"from package.helper import FACTOR\n{OWN_SYSTEM.replace('0.5', 'FACTOR')}")
    for name in hostile_names():
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write({name!r} + '\\n')\n")
    # Compiled code is stored as pickles: whoever names the cache of numba runs code.
    (folder / ".numba_config.yaml").write_text(f"cache_dir: {folder / 'planted-cache'}\ndisable_jit: 1\n")
    (folder / "planted-1.0.dist-info").mkdir()
    (folder / "planted-1.0.dist-info" / "METADATA").write_text("Name: planted\nVersion: 1.0\n")
    points = "[voiceveil.systems]\nb2 = voiceveil_plugin:System\nplanted = voiceveil_plugin:System\n"
    (folder / "planted-1.0.dist-info" / "entry_points.txt").write_text(points)
    return folder


def hostile_names() -> set[str]:
    """Every module that some program here might import."""
    installed = {name for name in importlib.metadata.packages_distributions() if name.isidentifier()}
    others = {"sitecustomize", "usercustomize", "voiceveil_plugin", "voiceveil_systems", "conftest", "uvloop"}
    return (installed | others | set(sys.stdlib_module_names)) - {"voiceveil", "this", "antigravity"}


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The ``voiceveil`` command as pip writes it: a script in a folder of its own."""
    script = tmp_path_factory.mktemp("bin") / "voiceveil"
    script.write_text(
        "import sys\nfrom voiceveil.cli.main import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
    )
    return [sys.executable, str(script)]


@pytest.fixture(autouse=True)
def _nothing_ran(folder: Path) -> Iterator[None]:
    (folder / "ran").unlink(missing_ok=True)
    yield
    assert not (folder / "ran").exists(), f"planted modules ran: {(folder / 'ran').read_text().split()}"
    assert not (folder / "planted-cache").exists(), "compiled code comes from where a planted file says"


def run(command: list[str], folder: Path, *arguments: object, expected: int = 0) -> str:
    """The output of a command that runs in the folder."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONSAFEPATH", "NUMBA_CACHE_DIR")
    }
    words = [*command, *map(str, arguments)]
    done = subprocess.run(words, cwd=folder, env=inherited, capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("jobs", [1, 2])
def test_anonymize_imports_nothing_from_the_working_directory(
    command: list[str], folder: Path, tmp_path: Path, jobs: int
) -> None:
    run(command, folder, "anonymize", "audio", tmp_path / "out", "--system", "b2", "--quiet", "--jobs", jobs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_evaluate_imports_nothing_from_the_working_directory(
    command: list[str], folder: Path, tmp_path: Path, jobs: int
) -> None:
    options = ["--system", "b2", "--seed", "1", "--quiet", "--attackers", "free:f0", "--protocol", "small.toml"]
    run(command, folder, "evaluate", "--data", ".", "--out", tmp_path / "out", *options, "--jobs", jobs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_feature_extraction_imports_nothing_from_the_working_directory(
    command: list[str], folder: Path, jobs: int
) -> None:
    """``extract`` serves `attack`, `risk`, `tdsv` and `train`; it starts processes from 50 recordings on."""
    run(command, folder, "attack", "--data", ".", "--attackers", "free", "--quiet", "--resamples", 10, "--jobs", jobs)


def test_checks_import_nothing_from_the_working_directory(command: list[str], folder: Path) -> None:
    """The conformance checks run a batch in two processes."""
    run(command, folder, "check", "b2")


def test_training_imports_nothing_from_the_working_directory(command: list[str], folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    size = ["--channels", 8, "--epochs", 1, "--batch-size", 4, "--seconds-per-chunk", 0.25, "--quiet"]
    run(command, folder, "train", "asv", "--data", "libri_dev_trials_f", "--out", tmp_path / "out", *size, "--jobs", 2)


def test_the_list_of_devices_imports_nothing_from_the_working_directory(command: list[str], folder: Path) -> None:
    done = subprocess.run([*command, "live", "--devices"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), "a machine without sound says so"
    assert "Traceback" not in done.stderr


def test_python_m_removes_the_working_directory_from_the_path(folder: Path, tmp_path: Path) -> None:
    """Python itself imports a few modules from there before VoiceVeil starts: the test leaves these out."""
    before = {"voiceveil", "typing", "collections", "functools", "importlib"}
    clean = tmp_path / "clean"
    clean.mkdir()
    for name in ("argparse", "random", "selectors", "json", "numpy", "soundfile", "numba", "scipy", "difflib", "torch"):
        assert name not in before
        (clean / f"{name}.py").write_text((folder / f"{name}.py").read_text())
    options = ["--system", "b2", "--quiet", "--jobs", 2]
    run([sys.executable, "-m", "voiceveil"], clean, "anonymize", folder / "audio", tmp_path / "out", *options)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("system", ["mine:Half", "package.system:Half"])
def test_only_the_named_system_is_imported(
    command: list[str], folder: Path, tmp_path: Path, system: str, jobs: int
) -> None:
    run(command, folder, "anonymize", "audio", tmp_path / "out", "--system", system, "--quiet", "--jobs", jobs)
    assert len(list((tmp_path / "out").glob("*.wav"))) == 54


def test_settings_of_the_compiler_in_the_working_directory_are_not_read(command: list[str], folder: Path) -> None:
    code = (
        "import sys\n"
        "import voiceveil.metrics.kernels\n"
        "from numba.core import config\n"
        "config.reload_config()\n"
        "print(repr(config.CACHE_DIR), config.DISABLE_JIT)"
    )
    assert run([sys.executable, "-P", "-c", code], folder) == "'' 0\n"


def test_workers_need_the_environment_of_python(command: list[str], folder: Path, tmp_path: Path) -> None:
    """With -E, workers would ignore the variable that keeps them from the working directory."""
    words = [command[0], "-E", command[1], "anonymize", "audio", str(tmp_path / "out"), "--system", "b2", "--jobs", "2"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "start it with -I or with -E -P, or use --jobs 1" in done.stderr


def test_every_process_start_has_a_safe_path() -> None:
    """Whatever module starts Python processes does so with a safe path."""
    package = Path(voiceveil.__file__).parent
    starts = re.compile(r"subprocess\.|get_context\(|Process\(|ProcessPoolExecutor\(|Popen\(|os\.exec|os\.spawn")
    guards = ("with safe_path():", '[sys.executable, "-P"')
    unguarded = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if starts.search(path.read_text()) and not any(guard in path.read_text() for guard in guards)
    ]
    assert unguarded == []


@pytest.mark.parametrize("spec", [":Half", "mine:", "../mine:Half", "mine..x:Half", "mine:a.b"])
def test_invalid_module_and_class_is_rejected(spec: str) -> None:
    with pytest.raises(InputError, match="does not name a class of a module"):
        find_system(spec)
