"""Parameters of systems: types, limits, text from the command line, errors that name the parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voiceveil.core.errors import InputError
from voiceveil.systems.parameters import (
    Range,
    RenamedWarning,
    check_parameters,
    current_names,
    describe,
    parameter,
    parse_settings,
    present_parameters,
)


@dataclass(frozen=True)
class Example:
    alpha: Range = parameter((0.5, 0.9), "a range", low=0.1, high=4)
    factor: float = parameter(1.0, "a number", low=0.0)
    order: int = parameter(20, "a whole number", low=1, high=99)
    smooth: bool = parameter(True, "yes or no")
    name: str = parameter("x", "a text")
    edges: Literal["whole", "official"] = parameter("whole", "a choice")
    bits: Literal[8, 16] = parameter(16, "a choice of numbers")
    plain: float = 0.0

    def __post_init__(self) -> None:
        check_parameters(self)


@dataclass(frozen=True)
class Nothing:
    pass


def from_text(*settings: str) -> Example:
    return Example(**parse_settings(Example, "example", settings))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"alpha": 0.7}, (0.7, 0.7)),
        ({"alpha": 1}, (1.0, 1.0)),
        ({"alpha": [0.5, 0.6]}, (0.5, 0.6)),
        ({"alpha": (1, 2)}, (1.0, 2.0)),
        ({"alpha": (0.5,)}, (0.5, 0.5)),
        ({"alpha": np.float32(0.5)}, (0.5, 0.5)),
        ({"alpha": (np.float64(0.5), np.int64(2))}, (0.5, 2.0)),
        ({"factor": 3}, 3.0),
        ({"factor": np.float32(0.5)}, 0.5),
        ({"factor": math.inf}, math.inf),
        ({"order": np.int16(7)}, 7),
        ({"smooth": False}, False),
        ({"bits": 8}, 8),
    ],
)
def test_values_are_converted_to_their_type(given: dict[str, Any], kept: object) -> None:
    ((name, _),) = given.items()
    value = getattr(Example(**given), name)
    assert value == kept
    assert type(value) is type(kept)
    if isinstance(value, tuple):
        assert [type(number) for number in value] == [float, float]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": (0.9, 0.5)}, "alpha = 0.9,0.5: the lower end comes first"),
        ({"alpha": (0.05, 0.5)}, "alpha = 0.05 is outside [0.1, 4]"),
        ({"alpha": 5}, "alpha = 5 is outside [0.1, 4]"),
        ({"alpha": math.nan}, "alpha = nan is outside [0.1, 4]"),
        ({"alpha": (0.5, math.nan)}, "alpha = nan is outside [0.1, 4]"),
        ({"alpha": ()}, "alpha = () is not of the form low,high"),
        ({"alpha": (1, 2, 3)}, "alpha = (1, 2, 3) is not of the form low,high"),
        ({"alpha": "12"}, "alpha = '12' is not of the form low,high"),
        ({"alpha": None}, "alpha = None is not of the form low,high"),
        ({"alpha": True}, "alpha = True is not of the form low,high"),
        ({"alpha": ("a", "b")}, "alpha = ('a', 'b') is not of the form low,high"),
        ({"factor": -1}, "factor = -1 is outside [0, inf]"),
        ({"factor": math.nan}, "factor = nan is outside [0, inf]"),
        ({"factor": "1"}, "factor = '1' is not of the form float"),
        ({"factor": True}, "factor = True is not of the form float"),
        ({"plain": math.nan}, "plain = nan is outside [-inf, inf]"),
        ({"order": 0}, "order = 0 is outside [1, 99]"),
        ({"order": 2.0}, "order = 2.0 is not of the form int"),
        ({"order": True}, "order = True is not of the form int"),
        ({"smooth": 1}, "smooth = 1 is not of the form bool"),
        ({"name": 1}, "name = 1 is not of the form str"),
        ({"edges": "wohle"}, "edges = 'wohle' is unknown (did you mean whole?)"),
        ({"bits": 24}, "bits = 24 is unknown (known: 16, 8)"),
        ({"edges": ["whole"]}, "edges = ['whole'] is unknown (did you mean whole?)"),
    ],
)
def test_invalid_values_are_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Example(**given)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("alpha=0.6,0.8", "alpha", (0.6, 0.8)),
        ("alpha=0.7", "alpha", (0.7, 0.7)),
        (" alpha = 0.6 , 0.8 ", "alpha", (0.6, 0.8)),
        ("factor=1e-3", "factor", 0.001),
        ("order=7", "order", 7),
        ("smooth=no", "smooth", False),
        ("smooth=TRUE", "smooth", True),
        ("smooth=0", "smooth", False),
        ("name=a=b", "name", "a=b"),
        ("name=", "name", ""),
        ("edges=official", "edges", "official"),
        ("bits=8", "bits", 8),
    ],
)
def test_settings_are_parsed_from_text(setting: str, name: str, value: object) -> None:
    assert getattr(from_text(setting), name) == value


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("alpha", "--set alpha has no value (write --set NAME=VALUE)"),
        ("alhpa=1", "system example has no parameter 'alhpa' (did you mean alpha?)"),
        ("=1", "system example has no parameter ''"),
        ("alpha=", "alpha = '' is not of the form low,high"),
        ("alpha=0.5;0.6", "alpha = '0.5;0.6' is not of the form low,high"),
        ("alpha=1,2,3", "alpha = (1.0, 2.0, 3.0) is not of the form low,high"),
        ("alpha=nan", "alpha = nan is outside"),
        ("order=2.5", "order = '2.5' is not of the form int"),
        ("smooth=maybe", "smooth = 'maybe' is not of the form bool"),
        ("edges=none", "edges = 'none' is unknown"),
        ("bits=24", "bits = '24' is unknown (known: 16, 8)"),
    ],
)
def test_invalid_settings_are_rejected(setting: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        from_text(setting)
    assert str(caught.value).startswith(message)


def test_last_setting_wins() -> None:
    assert from_text("order=3", "order=4").order == 4


@given(st.floats(0.1, 4), st.floats(0.1, 4), st.integers(1, 99), st.booleans())
def test_text_and_values_agree(a: float, b: float, order: int, smooth: bool) -> None:
    low, high = sorted((a, b))
    by_text = from_text(f"alpha={low!r},{high!r}", f"order={order}", f"smooth={smooth}")
    assert by_text == Example(alpha=(low, high), order=order, smooth=smooth)


def test_class_without_parameters_has_none() -> None:
    assert current_names(Nothing, "nothing", {}) == {}
    with pytest.raises(InputError, match=r"system nothing has no parameter 'a' \(it has no parameters\)"):
        current_names(Nothing, "nothing", {"a": 1})
    assert describe(Nothing) == []


def test_parameters_are_described() -> None:
    rows = {row["name"]: row for row in describe(Example)}
    assert list(rows) == ["alpha", "factor", "order", "smooth", "name", "edges", "bits", "plain"]
    assert rows["alpha"] == {"name": "alpha", "type": "low,high", "default": [0.5, 0.9], "help": "a range"}
    types = [row["type"] for row in rows.values()]
    assert types == ["low,high", "float", "int", "bool", "str", "whole|official", "8|16", "float"]
    assert rows["plain"]["help"] == ""


@dataclass(frozen=True)
class Renamed:
    f0_range_kept: float = parameter(0.0, "a number", low=0, high=1, former_names=("excursion", "reach"))
    gender: Literal["stated", "estimated"] = parameter("stated", "a choice", former_choices={"heard": "estimated"})

    def __post_init__(self) -> None:
        check_parameters(self)


def test_former_names_are_accepted_with_a_warning() -> None:
    with pytest.warns(RenamedWarning, match="the parameter excursion is now called f0_range_kept"):
        assert parse_settings(Renamed, "example", ["excursion=0.5"]) == {"f0_range_kept": 0.5}
    with pytest.warns(RenamedWarning, match="gender=heard is now written gender=estimated"):
        assert Renamed(gender="heard").gender == "estimated"  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"f0_range_kept = 2 is outside"), pytest.warns(RenamedWarning):
        Renamed(**parse_settings(Renamed, "example", ["reach=2"]))


def test_a_parameter_under_two_names_is_refused() -> None:
    with pytest.raises(InputError, match="f0_range_kept is given twice, once under a former name"):
        current_names(Renamed, "example", {"f0_range_kept": 1, "excursion": 0})


def test_recorded_parameters_get_their_present_names() -> None:
    recorded = {"excursion": 0.5, "gender": "heard", "other": [1]}
    assert present_parameters(Renamed, recorded) == {"f0_range_kept": 0.5, "gender": "estimated", "other": [1]}
