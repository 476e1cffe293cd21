"""Typed parameters of systems: declared once as dataclass fields, checked, and read from ``--set name=value``.

Types: ``int``, ``float``, ``bool``, ``str``, ``Literal[...]`` and ``Range`` (two floats, low <= high; one number
stands for both).
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any, Literal

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

__all__ = ["Range", "check_names", "check_parameters", "describe", "parameter", "parse_settings"]

Range = tuple[float, float]


def parameter(default: Any, help: str, *, low: float | None = None, high: float | None = None) -> Any:
    """A dataclass field that is a parameter: its default, one line of help, and the limits of a number."""
    return dataclasses.field(default=default, metadata={"help": help, "low": low, "high": high})


def check_names(cls: type, name: str, parameters: Iterable[str]) -> None:
    """Refuse parameters that ``cls`` does not have."""
    known = [field.name for field in dataclasses.fields(cls)]
    for given in parameters:
        if given not in known:
            fix = did_you_mean(given, known) if known else "it has no parameters"
            raise InputError(f"system {name} has no parameter {given!r}", fix=fix)


def check_parameters(instance: Any) -> None:
    """Bring every field of a frozen dataclass to its declared type, and refuse what does not fit."""
    for field, hint in _fields(type(instance)):
        value = _coerced(getattr(instance, field.name), hint, field.name)
        low, high = field.metadata.get("low"), field.metadata.get("high")
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        for number in value if isinstance(value, tuple) else (value,):
            if _is_number(number) and not low <= number <= high:  # NaN is outside as well
                raise InputError(f"{field.name} = {number:g} is outside [{low:g}, {high:g}]")
        object.__setattr__(instance, field.name, value)


def parse_settings(cls: type, name: str, settings: Iterable[str]) -> dict[str, Any]:
    """``["alpha=0.6,0.8"]`` as keyword arguments of ``cls``."""
    texts: dict[str, str] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise InputError(f"--set {setting}: no value", fix="write --set NAME=VALUE")
        texts[key.strip()] = text.strip()
    check_names(cls, name, texts)
    hints = {field.name: hint for field, hint in _fields(cls)}
    return {key: _from_text(text, hints[key], key) for key, text in texts.items()}


def describe(cls: type) -> list[dict[str, Any]]:
    """Name, type, default and help of every parameter, for lists and reports."""
    return [
        {
            "name": field.name,
            "type": _type_name(hint),
            "default": list(field.default) if isinstance(field.default, tuple) else field.default,
            "help": field.metadata.get("help", ""),
        }
        for field, hint in _fields(cls)
    ]


def _fields(cls: type) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(cls)
    return [(field, hints[field.name]) for field in dataclasses.fields(cls)]


def _type_name(hint: Any) -> str:
    if hint == Range:
        return "low,high"
    if typing.get_origin(hint) is Literal:
        return "|".join(map(str, typing.get_args(hint)))
    return str(hint.__name__ if isinstance(hint, type) else hint)


def _from_text(text: str, hint: Any, name: str) -> Any:
    try:
        if hint == Range:
            return tuple(float(part) for part in text.split(","))
        if hint is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
        if typing.get_origin(hint) is Literal:
            return next((choice for choice in typing.get_args(hint) if str(choice) == text), text)
        if hint in (int, float):
            return hint(text)
    except (ValueError, KeyError) as error:
        raise InputError(f"{name} = {text!r} is not of the form {_type_name(hint)}") from error
    return text


def _coerced(value: Any, hint: Any, name: str) -> Any:
    wrong = InputError(f"{name} = {value!r} is not of the form {_type_name(hint)}")
    if hint == Range:
        pair = tuple(value) if isinstance(value, Sequence) else (value,)
        if len(pair) == 1:
            pair = (pair[0], pair[0])
        if len(pair) != 2 or not all(map(_is_number, pair)):
            raise wrong
        if pair[0] > pair[1]:
            raise InputError(f"{name} = {pair[0]:g},{pair[1]:g}: the lower end comes first")
        return (float(pair[0]), float(pair[1]))
    if typing.get_origin(hint) is Literal:
        if value not in typing.get_args(hint):
            raise InputError(
                f"{name} = {value!r} is unknown", fix=did_you_mean(str(value), list(map(str, typing.get_args(hint))))
            )
        return value
    if (hint is float and _is_number(value)) or (hint is int and _is_number(value) and isinstance(value, Integral)):
        return hint(value)  # NumPy's numbers become Python's: they go into JSON
    if hint in (int, float) or (hint in (bool, str) and not isinstance(value, hint)):
        raise wrong
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
