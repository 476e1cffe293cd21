"""The texts of the pages: defaults in ``texts.toml`` beside this module, the designer's in the folder of the study.

Conventions: TOML, plain text. Keys that the designer's file leaves out have their defaults; unknown keys are errors.
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

__all__ = ["TEXTS", "Ask", "Texts", "initial_texts", "load_texts", "paragraphs"]


@dataclass(frozen=True)
class Ask:
    """A question of the designer about an evaluator."""

    name: str
    label: str
    options: tuple[str, ...] = ()  # none: a line of text
    required: bool = False


@dataclass(frozen=True)
class Texts:
    """All texts: ``parts[section][key]``."""

    language: str
    direction: str
    parts: Mapping[str, Mapping[str, Any]]
    ask: tuple[Ask, ...] = ()

    def __getitem__(self, section: str) -> Mapping[str, Any]:
        return self.parts[section]


#: Texts that a study may begin with: name -> file beside this module.
TEXTS = {"default": "texts.toml", "2022": "texts-2022.toml"}


def initial_texts(name: str) -> bytes:
    """Return the file of texts that a new study begins with, of :data:`TEXTS`."""
    if name not in TEXTS:
        raise InputError(f"unknown texts {name!r}", fix=did_you_mean(name, list(TEXTS)))
    return (files("voiceveil.apps.listen") / TEXTS[name]).read_bytes()


def load_texts(folder: Path) -> Texts:
    """Read the texts of a study."""
    defaults = tomllib.loads((files("voiceveil.apps.listen") / "texts.toml").read_text(encoding="utf-8"))
    path = folder / "texts.toml"
    custom = read_toml(path, fix="see https://toml.io") if os.path.lexists(path) else {}
    asks = custom.pop("ask", [])
    for name, value in custom.items():
        _check(name, value, defaults, path)
    parts = {name: {**value, **custom.get(name, {})} for name, value in defaults.items() if isinstance(value, dict)}
    direction = str(custom.get("direction", defaults["direction"]))
    if direction not in ("ltr", "rtl"):
        raise InputError(f"direction {direction!r}", where=path, fix='"ltr" or "rtl"')
    return Texts(str(custom.get("language", defaults["language"])), direction, parts, _asks(asks, path))


def _check(name: str, value: Any, defaults: Mapping[str, Any], path: Path) -> None:
    """Raise an ``InputError`` unless names and types of values are those of the defaults."""
    if name not in defaults:
        raise InputError(f"unknown key {name!r}", where=path, fix=did_you_mean(name, list(defaults)))
    if not isinstance(value, type(defaults[name])):
        raise InputError(f"{name!r} is not of the right kind", where=path, fix="compare with the file as it was made")
    if isinstance(value, dict):
        for key, text in value.items():
            _check(key, text, defaults[name], path)
    if isinstance(value, list) and len(value) != len(defaults[name]):
        raise InputError(f"{name!r} has {len(value)} entries", where=path, fix=f"it must have {len(defaults[name])}")


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
    """Return the paragraphs of a text."""
    return [part.strip() for part in text.split("\n\n") if part.strip()]
