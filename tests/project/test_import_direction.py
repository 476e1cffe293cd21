"""Packages import only from those above them: the order in which the source is meant to be read."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import voiceveil

ROOT = Path(voiceveil.__file__).parent

#: From the ground up. A package imports from those before it, never from those after it.
ORDER = [
    "core", "audio", "dsp", "corpus", "stats", "metrics", "run", "models", "training", "systems", "attack",
    "evaluation", "official", "risk", "tdsv", "report", "apps", "testing", "api", "cli",
]  # fmt: skip

#: Imports against the order that are still to go.
PENDING = {("evaluation.evaluate", "official.tree"), ("evaluation.ranking", "official.names")}

#: Packages that may import ``training``: everything else only uses what was trained.
MAY_TRAIN = {"training", "api", "cli"}


def _modules() -> dict[str, Path]:
    """Return module name -> file, of all modules of the package."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(name: str, path: Path, modules: dict[str, Path]) -> set[str]:
    """Return the modules that a module imports: at its top, in its functions, for types, or by name in a string."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
        elif isinstance(node, ast.Constant) and re.fullmatch(r"voiceveil(\.\w+)+", str(node.value)):  # of registries
            found.add(str(node.value))
    return {module for module in found if module in modules} - {name}


@cache
def _edges() -> list[tuple[str, str]]:
    """Return (importing module, imported module), of modules in different packages, names without ``voiceveil.``."""
    modules = _modules()
    pairs = [(name, other) for name, path in modules.items() for other in _imports(name, path, modules)]
    short = [(a.removeprefix("voiceveil."), b.removeprefix("voiceveil.")) for a, b in pairs]
    return [(a, b) for a, b in short if _package(a) != _package(b) and "voiceveil" not in (a, b)]


def _package(module: str) -> str:
    return module.split(".")[0]


def test_every_package_has_a_place_in_the_order() -> None:
    packages = {_package(name.removeprefix("voiceveil.")) for name in _modules()} - {"voiceveil", "__main__"}
    assert packages <= set(ORDER)


def test_no_package_imports_from_one_that_comes_later() -> None:
    place = {name: number for number, name in enumerate(ORDER)}
    back = {(a, b) for a, b in _edges() if _package(a) in place and place[_package(b)] > place[_package(a)]}
    back -= PENDING
    assert not back, "\n".join(f"{a} imports {b}" for a, b in sorted(back))


def test_inference_does_not_import_training() -> None:
    wrong = {(a, b) for a, b in _edges() if _package(b) == "training" and _package(a) not in MAY_TRAIN}
    assert not wrong, "\n".join(f"{a} imports {b}" for a, b in sorted(wrong))


def test_core_and_audio_stand_on_their_own() -> None:
    allowed = {"core": set[str](), "audio": {"core"}}
    wrong = {(a, b) for a, b in _edges() if _package(a) in allowed and _package(b) not in allowed[_package(a)]}
    assert not wrong, "\n".join(f"{a} imports {b}" for a, b in sorted(wrong))
