"""Read JSON and TOML that nobody vouches for, and turn it into dataclasses whose types are checked.

Every document of ours goes through here: results, details, records of trainings, studies, contests, headers of weights.
A document is refused with an ``InputError`` if it has more than ``largest`` bytes or ``MOST`` lists and objects, is
nested deeper than ``DEEPEST``, has a key twice in one object, a number that is not finite or has more than ``DIGITS``
digits, or text that cannot be written as UTF-8.

:func:`build` then checks the document against the annotations of a dataclass, field by field.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
import types
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from voiceveil.core.errors import InputError
from voiceveil.core.files import read_bytes
from voiceveil.core.registry import did_you_mean

__all__ = [
    "DEEPEST",
    "DIGITS",
    "LARGEST",
    "LONGEST",
    "MOST",
    "Extended",
    "build",
    "parse_json",
    "read_json",
    "read_toml",
]

#: Bytes of a document.
LARGEST = 16 << 20
#: Levels of lists and objects within each other.
DEEPEST = 50
#: Lists and objects of a document.
MOST = 1_000_000
#: Digits of a whole number: 128 bits have 39.
DIGITS = 40
#: Characters of a text in a dataclass.
LONGEST = 10_000

#: A number of a dataclass that may be infinite; in JSON it is the text "inf" or "-inf".
Extended = Annotated[float, "infinite"]

T = TypeVar("T")
Where = str | PathLike[str] | None


def read_json(path: Path, *, largest: int = LARGEST, nan: bool = False, fix: str = "") -> Any:
    """Return the value of a JSON file of at most ``largest`` bytes; see :func:`parse_json`."""
    return parse_json(_content(path, largest, fix), where=path, nan=nan, fix=fix)


def read_toml(path: Path, *, largest: int = 1 << 20, fix: str = "") -> dict[str, Any]:
    """Return the table of a TOML file of at most ``largest`` bytes; errors end with ``fix``."""
    content = _content(path, largest, fix)
    try:
        document = tomllib.loads(content.decode("utf-8"))
        _check_values(document)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not TOML: {_reason(error)}", where=path, fix=fix) from error
    return document


def parse_json(
    data: bytes | str,
    *,
    where: Where = None,
    line: int | None = None,
    surrogates: bool = False,
    nan: bool = False,
    fix: str = "",
) -> Any:
    """Return the value of JSON text.

    Parameters
    ----------
    data
        The text.
    where, line, fix
        Of the error, see :class:`~voiceveil.core.errors.InputError`.
    surrogates
        Allow lone surrogates, by which Python represents file names that are not UTF-8.
    nan
        Allow NaN and Infinity, which Python writes for numbers that are not finite.

    Raises
    ------
    InputError
        If it is not JSON, or exceeds the limits of this module.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8", "surrogatepass" if surrogates else "strict")
        brackets = text.count("[") + text.count("{")
        if brackets > MOST:
            raise ValueError(f"more than {MOST} lists and objects")
        value = (_WITH_NAN if nan else _DECODER).decode(text.removeprefix("\ufeff"))
        if brackets > DEEPEST or ("\\u" in text and not surrogates):
            _check_values(value, surrogates=surrogates)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {_reason(error)}", where=where, line=line, fix=fix) from error
    return value


def _content(path: Path, largest: int, fix: str) -> bytes:
    try:
        return read_bytes(path, at_most=largest)
    except InputError as error:
        raise InputError(error.what, where=error.where, fix=error.fix or fix) from error


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {_shown(next(name for name in names if names.count(name) > 1))} is there twice")
    return document


def _whole(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {_shown(digits)} is too large")
    return value


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole, parse_float=_number, parse_constant=_no_number)
_WITH_NAN = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole)


def _check_values(document: Any, *, surrogates: bool = False) -> None:
    """Raise a ``ValueError`` for values nested too deeply, too large numbers, and text that is not Unicode."""
    level, depth = [document], 0
    while level:
        if depth > DEEPEST:
            raise ValueError(f"nested more than {DEEPEST} levels deep")
        below: list[Any] = []
        for value in level:
            if isinstance(value, str) and not surrogates:
                _check_text(value)
            elif isinstance(value, int) and not -(10**DIGITS) < value < 10**DIGITS:
                raise ValueError(f"a number of more than {DIGITS} digits")
            elif isinstance(value, dict):
                below += [*value, *value.values()]
            elif isinstance(value, list):
                below += value
        level, depth = below, depth + 1


def _check_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"{_shown(text)} is not Unicode text: it holds half of a character") from None


class _Mismatch(Exception):
    """A value that does not fit the annotation of its field, and how to fix it."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.fix = fix


class _WrongType(_Mismatch):
    """A value of another type than the annotation of its field."""

    def __init__(self, place: str, value: Any, wanted: str) -> None:
        super().__init__(f"{place or 'the document'} is {_shown(value)}, but must be {wanted}")
        self.place = place


def build(kind: type[T], value: Any, *, where: Where = None, unknown: bool = False, fix: str = "") -> T:
    """Return the dataclass ``kind`` made from the object ``value``, if each field has the type of its annotation.

    Known types: ``str``, ``int``, ``float`` (finite), ``Extended``, ``bool``, ``None``, ``Any``, ``Literal``, unions,
    ``tuple``, ``list``, ``Sequence``, ``dict``, ``Mapping`` and dataclasses; any other type if the value has it already
    (``datetime`` of TOML, ``Path``).

    Parameters
    ----------
    kind
        The dataclass.
    value
        A parsed document.
    where, fix
        Of the error, see :class:`~voiceveil.core.errors.InputError`.
    unknown
        Ignore keys that are not fields, instead of refusing them.

    Examples
    --------
    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: float
    >>> build(Point, {"x": "1"}, where="a.json")
    Traceback (most recent call last):
    ...
    voiceveil.core.errors.InputError: a.json: x is '1', but must be a number
    """
    try:
        document: T = _built(kind, value, "", unknown)
    except _Mismatch as error:
        raise InputError(str(error), where=where, fix=error.fix or fix) from None
    except InputError as error:  # of a dataclass that checks itself
        raise InputError(error.what, where=where, fix=error.fix or fix) from error
    return document


def _built(kind: Any, value: Any, place: str, unknown: bool) -> Any:
    if not isinstance(value, dict):
        raise _WrongType(place, value, "an object")
    hints = _hints(kind)
    wanted = [field for field in dataclasses.fields(kind) if field.init]
    names = [field.name for field in wanted]
    strange = [name for name in value if name not in names]
    if strange and not unknown:
        problem = f"unknown key {_shown(strange[0])}{f' in {place}' if place else ''}"
        raise _Mismatch(problem, did_you_mean(strange[0][:100], names))
    values = {}
    for field in wanted:
        if field.name in value:
            values[field.name] = _checked(hints[field.name], value[field.name], _inside(place, field.name), unknown)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise _Mismatch(f"{_inside(place, field.name)} is missing")
    return kind(**values)


@lru_cache(maxsize=64)
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _checked(hint: Any, value: Any, place: str, unknown: bool) -> Any:
    if hint is Any:
        return value
    if hint == Extended and value in ("inf", "-inf"):
        return float(value)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _checked(arguments[0], value, place, unknown)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, place, unknown)
    if origin is Literal:
        if not any(value == choice and type(value) is type(choice) for choice in arguments):
            raise _WrongType(place, value, _named(hint))
        return value
    if dataclasses.is_dataclass(hint):
        return _built(hint, value, place, unknown)
    if origin in (dict, Mapping) or hint in (dict, Mapping):
        return _mapping(arguments, value, place, unknown)
    if origin in (tuple, list, Sequence) or hint in (tuple, list):
        return _sequence(list if origin is list or hint is list else tuple, arguments, value, place, unknown)
    return _plain(hint, value, place)


def _one_of(hints: tuple[Any, ...], value: Any, place: str, unknown: bool) -> Any:
    for hint in hints:
        try:
            return _checked(hint, value, place, unknown)
        except _WrongType as error:
            if error.place != place:  # a list or an object of the right kind, with something wrong inside
                raise
    raise _WrongType(place, value, " or ".join(map(_named, hints)))


def _mapping(arguments: tuple[Any, ...], value: Any, place: str, unknown: bool) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _WrongType(place, value, "an object")
    hint = arguments[1] if arguments else Any
    for key in value:
        _plain(str, key, f"a key of {place}")
    return {key: _checked(hint, item, _inside(place, key), unknown) for key, item in value.items()}


def _sequence(kind: Any, arguments: tuple[Any, ...], value: Any, place: str, unknown: bool) -> Any:
    if not isinstance(value, list | tuple):
        raise _WrongType(place, value, "a list")
    hints: list[Any] = list(arguments) or [Any]
    if kind is list or len(arguments) < 2 or arguments[-1] is Ellipsis:
        hints = [hints[0]] * len(value)
    if len(hints) != len(value):
        raise _Mismatch(f"{place} has {len(value)} entries, but must have {len(hints)}")
    return kind(
        _checked(hint, item, f"{place}[{i}]", unknown) for i, (hint, item) in enumerate(zip(hints, value, strict=True))
    )


def _plain(hint: Any, value: Any, place: str) -> Any:
    if hint is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if hint is int and type(value) is int and -(2**63) <= value < 2**63:
        return value
    if hint is str and isinstance(value, str):
        if len(value) > LONGEST:
            raise _Mismatch(f"{place} has {len(value)} characters, but may have {LONGEST}")
        if any(letter < " " and letter not in "\t\n" for letter in value):
            raise _Mismatch(f"{place} is {_shown(value)}, but may not hold control characters")
        return value
    if hint in (bool, type(None)) and type(value) is hint:
        return value
    if hint not in (str, int, float, bool) and isinstance(value, hint):  # Path, datetime: made by the caller, or TOML
        return value
    raise _WrongType(place, value, _named(hint))


def _named(hint: Any) -> str:
    """Return the words for an annotation."""
    if get_origin(hint) is Annotated:
        return _named(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    words = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "null"}
    if hint in words:
        return words[hint]
    if (get_origin(hint) or hint) in (tuple, list, Sequence):
        return "a list"
    return {datetime: "a date and time", Path: "a path"}.get(hint, "an object")


def _inside(place: str, name: str) -> str:
    shown = name if len(name) <= 40 else f"{name[:40]}..."
    return f"{place}.{shown}" if place else shown


def _shown(value: Any) -> str:
    """Return the beginning of a value, for a message."""
    if isinstance(value, list | tuple | dict):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)} entries"
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else f"{value[:40]}...")
    return json.dumps(value, default=str)[:40]
