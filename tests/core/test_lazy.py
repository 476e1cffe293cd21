"""Names that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from voiceveil.core.lazy import lazy_exports


def test_name_is_imported_at_first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "vv_home.py").write_text("answer = 42\n")
    get, names = lazy_exports("vv_package", {"answer": "vv_home", "question": "vv_home"})
    assert "vv_home" not in sys.modules
    assert get("answer") == 42
    assert sys.modules.pop("vv_home").answer == 42
    assert names() == ["answer", "question"]
    with pytest.raises(AttributeError, match="module 'vv_package' has no attribute 'nonsense'"):
        get("nonsense")
    with pytest.raises(AttributeError, match="question"):  # its home does not have it
        get("question")
    del sys.modules["vv_home"]


@pytest.mark.parametrize("name", ["voiceveil", "voiceveil.metrics", "voiceveil.stats", "voiceveil.models"])
def test_packages_list_their_lazy_names(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nonsense'"):
        importlib.import_module(name).nonsense  # noqa: B018
    package = importlib.import_module(name)
    assert dir(package) == sorted(package.__all__)
