"""``pytest --quick``: the tests that need no torch, browser, cluster or database, and no long time.

Whatever imports one of the ``HEAVY`` packages is skipped at that moment, a whole module of tests or a single test, so
nothing has to be marked but what is slow for other reasons (``@pytest.mark.slow``) and no quick test imports them.
Programs that a test starts are not covered.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

#: Top-level packages that no quick test imports.
HEAVY = frozenset({"torch", "transformers", "onnxruntime", "ray", "psycopg", "playwright"})


class SkippingLoader(Loader):
    """Skip the test, or the module of tests, that imports a heavy package."""

    def exec_module(self, module: ModuleType) -> None:
        """Skip instead of executing the module."""
        pytest.skip(f"--quick: needs {module.__name__}", allow_module_level=True)


class SkippingFinder:
    """Find the heavy packages, so that they count as installed, with a loader that skips."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return a spec for heavy packages; leave all others to the finders behind this one."""
        return ModuleSpec(name, SkippingLoader()) if name in HEAVY else None


def active() -> bool:
    """Return whether this is a quick run."""
    return any(isinstance(finder, SkippingFinder) for finder in sys.meta_path)


def skip_heavy_imports() -> None:
    """Make imports of heavy packages skip the running test; they must not have been imported yet."""
    if loaded := HEAVY & set(sys.modules):
        raise RuntimeError(f"imported already: {', '.join(sorted(loaded))}")
    sys.meta_path.insert(0, SkippingFinder())
