"""The registry and the error: names, typos, third parties' entry points, what a message says."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from voiceveil.core.errors import InputError, OutputError
from voiceveil.core.registry import Registry, did_you_mean


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, from which modules can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def install(site: Path, package: str, text: str, entry_points: str) -> None:
    """A third party's distribution, as pip would leave it."""
    (site / f"{package}.py").write_text(text)
    meta = site / f"{package}-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text(entry_points)


def make() -> Registry[object]:
    registry: Registry[object] = Registry("thing", group="voiceveil.test_things")
    for name in ("b2", "b2-2020", "d1"):
        registry.register(name)(name.upper())
    return registry


def test_register_and_look_up() -> None:
    things = make()
    assert things["b2"] == "B2"
    assert list(things) == ["b2", "b2-2020", "d1"]
    assert "d1" in things
    assert "d2" not in things
    assert 7 not in things


def test_the_decorator_returns_what_it_decorates() -> None:
    things: Registry[type] = Registry("thing", group="voiceveil.test_things")

    @things.register("f")
    class Thing:
        pass

    assert things["f"] is Thing


@pytest.mark.parametrize(
    ("name", "fix"), [("b22", "did you mean b2"), ("D1", "did you mean d1"), ("xyz", "known: b2, b2-2020, d1")]
)
def test_typo_suggests_the_nearest_name(name: str, fix: str) -> None:
    with pytest.raises(InputError, match=f"unknown thing '{name}'") as caught:
        make()[name]
    assert caught.value.fix.startswith(fix)


def test_did_you_mean_names_several() -> None:
    assert did_you_mean("librispeach", ["librispeech", "libritts", "vctk"]) == "did you mean librispeech or libritts?"
    assert did_you_mean("libri", ["librispeech", "libritts"]) == "did you mean libritts or librispeech?"
    assert did_you_mean("?", []) == "known: "


def test_registering_a_name_twice_is_rejected() -> None:
    things = make()
    with pytest.raises(ValueError, match="thing 'b2' is registered twice"):
        things.register("b2")("another")
    assert things["b2"] == "B2"


def test_modules_are_imported_at_first_lookup(site: Path) -> None:
    (site / "vv_lazy.py").write_text("from vv_holder import things\nthings.register('lazy')(1)\n")
    (site / "vv_holder.py").write_text(
        "from voiceveil.core.registry import Registry\n"
        "things = Registry('thing', group='voiceveil.test_things', modules=('vv_lazy',))\n"
    )
    from vv_holder import things  # type: ignore[import-not-found]

    assert "vv_lazy" not in sys.modules
    assert list(things) == ["lazy"]
    assert "vv_lazy" in sys.modules


def test_import_error_is_raised_again_at_the_next_lookup(site: Path) -> None:
    things: Registry[object] = Registry("thing", group="voiceveil.test_things", modules=("vv_no_such_module",))
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="vv_no_such_module"):
            things["b2"]


def test_entry_points_are_found(site: Path) -> None:
    install(site, "vv_plugin", "thing = 'from a plugin'\n", "[voiceveil.test_things]\nplugged = vv_plugin:thing\n")
    things = make()
    assert "plugged" in things
    assert list(things) == ["b2", "b2-2020", "d1", "plugged"]
    assert "vv_plugin" not in sys.modules, "imported only when asked for"
    assert things["plugged"] == "from a plugin"
    with pytest.raises(InputError, match="did you mean plugged"):
        things["pluged"]


def test_builtin_name_wins_over_a_plugin(site: Path) -> None:
    install(site, "vv_plugin", "thing = 'theirs'\n", "[voiceveil.test_things]\nb2 = vv_plugin:thing\n")
    assert make()["b2"] == "B2"


def test_broken_plugin_leaves_other_names_usable(site: Path) -> None:
    install(site, "vv_broken", "1 / 0\n", "[voiceveil.test_things]\nbroken = vv_broken:thing\n")
    things = make()
    assert things["b2"] == "B2"
    with pytest.raises(InputError, match=r"cannot load thing 'broken': division by zero \(repair or uninstall vv_br"):
        things["broken"]


# --- Errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (InputError("no speaker"), "no speaker"),
        (InputError("no speaker", fix="give one"), "no speaker (give one)"),
        (InputError("no speaker", where=Path("a") / "b"), "a/b: no speaker"),
        (InputError("no speaker", where="a", line=3, fix="give one"), "a:3: no speaker (give one)"),
        (OutputError("cannot write", where="a"), "a: cannot write"),
    ],
)
def test_error_message_has_problem_place_and_fix(error: InputError, text: str) -> None:
    assert str(error) == text
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("kind", [InputError, OutputError])
def test_errors_can_be_pickled(kind: type[InputError]) -> None:
    error = kind("what", where=Path("where"), line=7, fix="fix")
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is kind
    assert str(twin) == str(error)
    assert (twin.what, twin.where, twin.line, twin.fix) == ("what", "where", 7, "fix")
