"""The command line parses, calls and prints: computations are below it, where Python can reach them."""

from __future__ import annotations

import ast
from pathlib import Path

import voiceveil

CLI = Path(voiceveil.__file__).parent / "cli"
#: Packages for computations, which a module that only parses and prints does not need.
NUMERIC = {"numba", "numpy", "safetensors", "scipy", "sklearn", "soundfile", "torch"}
#: Modules with classes of the command line itself: its parser, completion and streams.
WITH_CLASSES = {"completion.py", "parser.py", "streams.py"}
LONGEST = 60  # lines of a function


def _trees() -> dict[str, ast.Module]:
    return {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(CLI.rglob("*.py"))}


def test_command_line_computes_nothing() -> None:
    wrong = []
    for name, tree in _trees().items():
        for node in ast.walk(tree):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{name} imports {module}" for module in imported if module.partition(".")[0] in NUMERIC]
    assert wrong == []


def test_results_and_settings_are_classes_of_other_packages() -> None:
    holders = {name for name, tree in _trees().items() if any(isinstance(n, ast.ClassDef) for n in ast.walk(tree))}
    assert holders == WITH_CLASSES


def test_functions_of_the_command_line_are_short() -> None:
    functions = [(name, n) for name, tree in _trees().items() for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    assert len(functions) > 100
    assert [f"{name}: {n.name}" for name, n in functions if (n.end_lineno or 0) - n.lineno > LONGEST] == []
