"""Settings are arguments: nothing below the command line takes parsed options, or sets the environment."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import voiceveil

ROOT = Path(voiceveil.__file__).parent
#: Modules that set variables of other programs, which have no argument for them: Ray, Python itself, numba.
SETS_FOR_OTHERS = {"run/cluster.py", "testing/nodes.py", "run/safe_path.py", "core/compiled.py"}
FOREIGN = re.compile(r"RAY_\w+|PYTHONSAFEPATH|NUMBA_CACHE_DIR")


def _sources() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}


def test_parsed_options_stay_in_the_command_line() -> None:
    takers = [name for name, text in _sources().items() if "argparse" in text and not name.startswith("cli/")]
    assert takers == []


def test_no_setting_goes_through_the_environment() -> None:
    users = {name: text for name, text in _sources().items() if re.search(r"os\.(environ|putenv|getenv)", text)}
    assert set(users) == SETS_FOR_OTHERS
    for name, text in users.items():
        names = {
            node.value
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant) and re.fullmatch(r"[A-Z][A-Za-z]*(_\w+)+|PYTHON\w+", str(node.value))
        }
        assert all(FOREIGN.fullmatch(str(variable)) for variable in names), name
