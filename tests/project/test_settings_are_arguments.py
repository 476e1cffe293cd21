"""Settings are arguments: nothing below the command line takes parsed options, or sets the environment."""

from __future__ import annotations

import re
from pathlib import Path

import voiceveil

ROOT = Path(voiceveil.__file__).parent
#: Modules that set variables of other programs, which have no argument for them: Ray, Python itself, numba.
SETS_FOR_OTHERS = {"run/cluster.py", "testing/nodes.py", "run/safe_path.py", "core/compiled.py"}
WRITE = re.compile(
    r"os\.environ(\[[^\]]+\] *=|\.(setdefault|update|pop|clear)\()|del os\.environ|os\.(un|put)(set)?env\("
)


def _sources() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}


def test_parsed_options_stay_in_the_command_line() -> None:
    takers = [name for name, text in _sources().items() if "argparse" in text and not name.startswith("cli/")]
    assert takers == []


def test_no_setting_goes_through_the_environment() -> None:
    sources = _sources()
    assert {name for name, text in sources.items() if WRITE.search(text)} == SETS_FOR_OTHERS
    assert [name for name, text in sources.items() if "VOICEVEIL_" in text] == []
