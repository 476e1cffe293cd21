"""The words of the pages: ours in ``texts.toml`` beside this module, the designer's in the folder of the study.

Conventions: TOML, plain text. What the designer's file leaves out is as in ours; a key that ours does not have is a
mistake, and said so.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from voiceveil.core.documents import read_toml
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean

__all__ = ["Ask", "Texts", "load_texts", "paragraphs"]


@dataclass(frozen=True)
class Ask:
    """Something that the designer wants to know of an evaluator."""

    name: str
    label: str
    options: tuple[str, ...] = ()  # none: a line of text
    required: bool = False


@dataclass(frozen=True)
class Texts:
    """All words; ``parts[section][key]``."""

    language: str
    direction: str
    parts: Mapping[str, Mapping[str, Any]]
    ask: tuple[Ask, ...] = ()

    def __getitem__(self, section: str) -> Mapping[str, Any]:
        return self.parts[section]


def load_texts(folder: Path) -> Texts:
    """The words of a study."""
    ours = tomllib.loads((files("voiceveil.apps.listen") / "texts.toml").read_text(encoding="utf-8"))
    path = folder / "texts.toml"
    theirs = read_toml(path, fix="see https://toml.io") if os.path.lexists(path) else {}
    asks = theirs.pop("ask", [])
    for name, value in theirs.items():
        _check(name, value, ours, path)
    parts = {name: {**value, **theirs.get(name, {})} for name, value in ours.items() if isinstance(value, dict)}
    direction = str(theirs.get("direction", ours["direction"]))
    if direction not in ("ltr", "rtl"):
        raise InputError(f"direction {direction!r}", where=path, fix='"ltr" or "rtl"')
    return Texts(str(theirs.get("language", ours["language"])), direction, parts, _asks(asks, path))


def _check(name: str, value: Any, ours: Mapping[str, Any], path: Path) -> None:
    """Names and kinds of values must be those of our own file."""
    if name not in ours:
        raise InputError(f"unknown key {name!r}", where=path, fix=did_you_mean(name, list(ours)))
    if not isinstance(value, type(ours[name])):
        raise InputError(f"{name!r} is not of the right kind", where=path, fix="compare with the file as it was made")
    if isinstance(value, dict):
        for key, text in value.items():
            _check(key, text, ours[name], path)
    if isinstance(value, list) and len(value) != len(ours[name]):
        raise InputError(f"{name!r} has {len(value)} entries", where=path, fix=f"it must have {len(ours[name])}")


def _asks(rows: Any, path: Path) -> tuple[Ask, ...]:
    try:
        asks = tuple(Ask(**{**row, "options": tuple(map(str, row.get("options", ())))}) for row in rows)
    except (TypeError, AttributeError) as error:
        fix = "each [[ask]] has name and label, and may have options and required"
        raise InputError(f"[[ask]]: {error}", where=path, fix=fix) from error
    if len({ask.name for ask in asks}) < len(asks):
        raise InputError("two [[ask]] have the same name", where=path)
    return asks


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text."""
    return [part.strip() for part in text.split("\n\n") if part.strip()]
