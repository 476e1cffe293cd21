"""Documents are read within limits, and turned into dataclasses field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from voiceveil.core.documents import DEEPEST, MOST, Extended, build, parse_json, read_json, read_toml
from voiceveil.core.errors import InputError


@dataclass(frozen=True)
class Inner:
    name: str
    rates: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outer:
    count: int
    value: Extended
    kind: Literal["a", "b"] = "a"
    low: float | None = None
    flag: bool = False
    inner: Inner | None = None
    rows: list[Inner] = field(default_factory=list)
    more: Mapping[str, int] = field(default_factory=dict)
    pair: tuple[str, float] | None = None
    any: Any = None


def test_valid_document_becomes_a_dataclass() -> None:
    text = """{"count": 1, "value": "inf", "kind": "b", "low": 2, "flag": true,
        "inner": {"name": "x", "rates": [1, 0.5]},
        "rows": [{"name": "y"}], "more": {"z": 3}, "pair": ["p", 1], "any": [{}]}"""
    wanted = Outer(1, float("inf"), "b", 2.0, True, Inner("x", (1.0, 0.5)), [Inner("y")], {"z": 3}, ("p", 1.0), [{}])
    assert build(Outer, parse_json(text)) == wanted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 1.5}, "count is 1.5, but must be a whole number"),
        ({"count": True}, "count is true, but must be a whole number"),
        ({"count": 2**63}, "count is 9223372036854775808, but must be a whole number"),
        ({"value": "1"}, "value is '1', but must be a number"),
        ({"value": None}, "value is null, but must be a number"),
        ({"low": "inf"}, "low is 'inf', but must be a number or null"),
        ({"kind": "c"}, "kind is 'c', but must be 'a' or 'b'"),
        ({"flag": 1}, "flag is 1, but must be true or false"),
        ({"inner": []}, "inner is a list of 0 entries, but must be an object or null"),
        ({"inner": {}}, "inner.name is missing"),
        ({"inner": {"name": "x", "rates": [0, "y"]}}, "inner.rates[1] is 'y', but must be a number"),
        ({"inner": {"name": "x" * 20_000}}, "inner.name has 20000 characters, but may have 10000"),
        ({"inner": {"name": "\x1b[2J"}}, "inner.name is '\\x1b[2J', but may not hold control characters"),
        ({"rows": {"a": 1}}, "rows is an object of 1 entries, but must be a list"),
        ({"rows": [{"name": "x"}, {"nam": "x"}]}, "unknown key 'nam' in rows[1] (did you mean name?)"),
        ({"more": {"z": "3"}}, "more.z is '3', but must be a whole number"),
        ({"pair": ["x"]}, "pair has 1 entries, but must have 2"),
        ({"counts": 1}, "unknown key 'counts' (did you mean count?)"),
    ],
)
def test_wrong_type_names_the_field(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        build(Outer, {"count": 1, "value": 1.0, **changes}, where="a.json")
    assert str(caught.value) == f"a.json: {message}"


def test_unknown_keys_can_be_ignored() -> None:
    assert build(Inner, {"name": "x", "color": 1}, unknown=True) == Inner("x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * (DEEPEST + 2) + "]" * (DEEPEST + 2), "nested more than"),
        ("[" + "[]," * MOST + "1]", "more than 1000000 lists and objects"),
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ("NaN", "NaN is not a number of JSON"),
        ("-Infinity", "-Infinity is not a number of JSON"),
        ("1e999", "the number '1e999' is too large"),
        ("9" * 5000, "a number of 5000 digits"),
        (r'"\ud800"', "not Unicode text"),
        (r'{"\udfff": 1}', "not Unicode text"),
        (b'"\xff"', "invalid start byte"),
        ("", "Expecting value"),
    ],
)
def test_invalid_documents_are_rejected(text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=r"a\.json:3: not JSON: .*" + message):
        parse_json(text, where="a.json", line=3)


def test_surrogates_in_file_names_and_nan_are_accepted() -> None:
    assert parse_json(json.dumps("\udcff").encode(), surrogates=True) == "\udcff"
    assert str(parse_json("[NaN, 1]", nan=True)) == "[nan, 1]"


def test_documents_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(tmp_path / "a.json") == {"a": 1}
    with pytest.raises(InputError, match="larger than 5 bytes"):
        read_json(tmp_path / "a.json", largest=5)
    for path in (tmp_path, tmp_path / "none.json", tmp_path / "\0"):
        with pytest.raises(InputError, match=r"a folder|no such file"):
            read_json(path)
    with pytest.raises(InputError) as caught:
        read_toml(tmp_path / "none.toml", fix="give another")
    assert str(caught.value).count("none.toml") == str(caught.value).count("give another") == 1
    (tmp_path / "a.toml").write_text("a = 1\n")
    assert read_toml(tmp_path / "a.toml") == {"a": 1}
    for text in ("a = " + "[" * 5000, "a = " + "9" * 4000, "a." * 300 + "a = 1", "a = 1\na = 2", "a = \xff"):
        (tmp_path / "a.toml").write_bytes(text.encode("latin-1"))
        with pytest.raises(InputError, match="not TOML"):
            read_toml(tmp_path / "a.toml")
