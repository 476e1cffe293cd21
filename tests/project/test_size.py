"""The source stays readable: no module of more than 400 lines, no public function of more than six parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import voiceveil

ROOT = Path(voiceveil.__file__).parent
MOST_LINES, MOST_PARAMETERS = 400, 6

#: Public functions that may have more parameters, and why.
EXCEPTIONS = {
    "api.evaluating.evaluate": "a verb of the Python API: the common options by name, the others in `options`",
    "api.risk_assessment.assess_risk": "a verb of the Python API, likewise",
    "attack.recorded_attack.attack": "a verb of the Python API, likewise",
    "official.submission.contents.sort_members": "reads an archive once: all that it fills, and all limits",
    "stats.intervals.interval": "a value, its replicates, and five facts about them that callers know",
}


def public_functions(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the parameters of each public function and method of a module."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, list[str]]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
                yield from visit(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [a.arg for a in (*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs)]
                if not child.name.startswith("_") or child.name in ("__init__", "__call__"):
                    yield f"{prefix}{child.name}", [name for name in names if name not in ("self", "cls")]

    return visit(ast.parse(path.read_text(encoding="utf-8")), f"{module}.")


def test_no_module_is_long() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sorted(ROOT.rglob("*.py"))}
    long = [f"{path.relative_to(ROOT)}: {count}" for path, count in lines.items() if count > MOST_LINES]
    assert not long, f"more than {MOST_LINES} lines; split by what they do: {', '.join(long)}"


def test_no_public_function_has_many_parameters() -> None:
    functions = dict(entry for path in sorted(ROOT.rglob("*.py")) for entry in public_functions(path))
    many = {name for name, parameters in functions.items() if len(parameters) > MOST_PARAMETERS}
    new = sorted(many - set(EXCEPTIONS))
    assert not new, f"more than {MOST_PARAMETERS} parameters; put options into a dataclass: {', '.join(new)}"
    assert set(EXCEPTIONS) == many, "remove what is no exception any more"
