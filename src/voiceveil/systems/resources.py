"""Training resources of systems: the data and pretrained models behind every part of them.

The challenges allow only listed resources. A system declares its own (:meth:`Anonymizer.resources`); a protocol may
list the allowed ones. ``resources.toml`` has those of what ships, with the models whose outputs a network was trained
on. A part that it does not know, such as weights of the user's own, is *undeclared*, which no list allows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

__all__ = ["Resource", "resources_of"]

Kind = Literal["data", "model", "undeclared"]


@dataclass(frozen=True)
class Resource:
    """A corpus or a pretrained model, and the parts of a system that were made from it.

    Parameters
    ----------
    name
        E.g. ``LibriSpeech train-clean-100``; of an undeclared one the name of the part.
    kind
        ``data``, ``model`` or ``undeclared``.
    source
        Where it comes from.
    used_in
        Parts of the system.
    """

    name: str
    kind: Kind
    source: str = ""
    used_in: tuple[str, ...] = ()


def resources_of(parts: Iterable[str]) -> tuple[Resource, ...]:
    """Return the resources of parts, each once, in the order of ``resources.toml``; undeclared ones last.

    ``parts``: ``content NAME``, ``pitch NAME``, ``speaker NAME``, ``weights NAME`` or ``table of voices``. A pretrained
    model that an extractor is named with, ``content NAME:MODEL``, is a resource of its own.

    >>> [resource.name for resource in resources_of(["pitch swift", "content ssl:facebook/hubert-base-ls960"])]
    ['SwiftF0', 'facebook/hubert-base-ls960']
    """
    known, made_from = _declarations()
    used: dict[str, list[str]] = {}
    others: dict[str, Resource] = {}
    for part in parts:
        _, colon, model = part.partition(":")
        if colon:
            others[model] = Resource(model, "model", used_in=(part,))
        elif part not in made_from:
            others[part] = Resource(part, "undeclared", used_in=(part,))
        for name in made_from.get(part, ()) if not colon else ():
            used.setdefault(name, []).append(part)
    declared = [Resource(name, kind, source, tuple(used[name])) for name, kind, source in known if name in used]
    return (*declared, *others.values())


@cache
def _declarations() -> tuple[tuple[tuple[str, Kind, str], ...], dict[str, list[str]]]:
    """Return (name, kind, source) of each resource, and part -> names of its resources."""
    document = tomllib.loads((files("voiceveil.systems") / "resources.toml").read_text(encoding="utf-8"))
    known = tuple((entry["name"], entry["kind"], entry["source"]) for entry in document["resources"])
    return known, document["parts"]
