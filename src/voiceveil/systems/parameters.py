"""Typed parameters of systems: declared once as dataclass fields, checked, and read from ``--set name=value``.

Types: ``int``, ``float``, ``bool``, ``str``, ``Literal[...]`` and ``Range`` (two floats, low <= high; one number
stands for both).

A parameter that was renamed declares its former names, and a choice its former spellings. They are accepted, with a
:class:`RenamedWarning`, for one release.
"""

from __future__ import annotations

import dataclasses
import math
import typing
import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, TypeVar

from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

__all__ = [
    "Range",
    "RenamedWarning",
    "check_parameters",
    "current_names",
    "describe",
    "parameter",
    "parameter_names",
    "parse_settings",
    "present_parameters",
]

Range = tuple[float, float]
T = TypeVar("T")


class RenamedWarning(FutureWarning):
    """A parameter, or one of its choices, was given under a former name."""


def parameter(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    former_names: tuple[str, ...] = (),
    former_choices: Mapping[str, str] | None = None,
) -> Any:
    """Declare a dataclass field as a parameter of a system.

    Parameters
    ----------
    default
        Default value.
    help
        One line for `voiceveil systems NAME`.
    low, high
        Limits of a number, inclusive.
    former_names
        Earlier names of the parameter, accepted with a warning.
    former_choices
        Earlier spelling of a choice -> present spelling, accepted with a warning.
    """
    metadata = {
        "help": help,
        "low": low,
        "high": high,
        "former_names": former_names,
        "former_choices": dict(former_choices or {}),
    }
    return dataclasses.field(default=default, metadata=metadata)


def present_parameters(cls: type, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded parameters of ``cls`` under their present names and choices."""
    names, fields = _former_names(cls), {field.name: field for field, _ in _fields(cls)}
    present: dict[str, Any] = {}
    for old, value in recorded.items():
        name = names.get(old, old)
        choices = fields[name].metadata.get("former_choices", {}) if name in fields else {}
        present[name] = choices.get(value, value) if isinstance(value, str) else value
    return {name: value for name, value in present.items() if name not in _unused(cls)}


def parameter_names(cls: type) -> list[str]:
    """Return the names of the parameters that ``cls`` uses, in the order of declaration."""
    return [field.name for field, _ in _fields(cls) if field.name not in _unused(cls)]


def current_names(cls: type, system: str, parameters: Mapping[str, T]) -> dict[str, T]:
    """Return ``parameters`` under their present names; warn about former names, refuse unknown ones.

    Raises
    ------
    InputError
        If ``cls`` has no such parameter, or one is given under two names.
    """
    known, renamed = parameter_names(cls), _former_names(cls)
    current: dict[str, T] = {}
    for given, value in parameters.items():
        name = renamed.get(given, given)
        if name not in known:
            fix = did_you_mean(given, known) if known else "it has no parameters"
            raise InputError(f"system {system} has no parameter {given!r}", fix=fix)
        if name in current:
            raise InputError(f"{name} is given twice, once under a former name", fix=f"give {name} only")
        if name != given:
            warnings.warn(f"the parameter {given} is now called {name}", RenamedWarning, stacklevel=3)
        current[name] = value
    return current


def check_parameters(instance: Any) -> None:
    """Convert every field of a frozen dataclass to its declared type.

    Raises
    ------
    InputError
        Names the first field whose value has the wrong type or is out of range.
    """
    for field, hint in _fields(type(instance)):
        value = _coerced(_current_choice(field, getattr(instance, field.name)), hint, field.name)
        low, high = field.metadata.get("low"), field.metadata.get("high")
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        for number in value if isinstance(value, tuple) else (value,):
            if _is_number(number) and not low <= number <= high:  # NaN is outside as well
                raise InputError(f"{field.name} = {number:g} is outside [{low:g}, {high:g}]")
        object.__setattr__(instance, field.name, value)


def parse_settings(cls: type, name: str, settings: Iterable[str]) -> dict[str, Any]:
    """Parse settings of the command line.

    Parameters
    ----------
    cls
        Class of the system.
    name
        Its name, for error messages.
    settings
        Strings such as ``"alpha=0.6,0.8"``.

    Returns
    -------
    dict
        Keyword arguments of ``cls``.
    """
    texts: dict[str, str] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise InputError(f"--set {setting} has no value", fix="write --set NAME=VALUE")
        texts[key.strip()] = text.strip()
    texts = current_names(cls, name, texts)
    hints = {field.name: hint for field, hint in _fields(cls)}
    return {key: _from_text(text, hints[key], key) for key, text in texts.items()}


def describe(cls: type) -> list[dict[str, Any]]:
    """Return name, type, default and help of every parameter, for lists and reports."""
    return [
        {
            "name": field.name,
            "type": _type_name(hint),
            "default": list(field.default) if isinstance(field.default, tuple) else field.default,
            "help": field.metadata.get("help", ""),
        }
        for field, hint in _fields(cls)
        if field.name not in _unused(cls)
    ]


def _unused(cls: type) -> frozenset[str]:
    """Return the inherited fields that ``cls`` ignores."""
    return getattr(cls, "unused_parameters", frozenset())


def _former_names(cls: type) -> dict[str, str]:
    """Return former name -> present name of the parameters of ``cls``."""
    return {old: field.name for field in dataclasses.fields(cls) for old in field.metadata.get("former_names", ())}


def _fields(cls: type) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(cls)
    return [(field, hints[field.name]) for field in dataclasses.fields(cls)]


def _current_choice(field: dataclasses.Field[Any], value: Any) -> Any:
    """Return the present spelling of a choice, with a warning if ``value`` is a former one."""
    former = field.metadata.get("former_choices", {})
    if not isinstance(value, str) or value not in former:
        return value
    message = f"{field.name}={value} is now written {field.name}={former[value]}"
    warnings.warn(message, RenamedWarning, stacklevel=5)
    return former[value]


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
