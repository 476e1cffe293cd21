"""One generic registry: a name, one decorator, entry points for third parties, "did you mean" on a typo."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from voiceveil.errors import InputError

__all__ = ["Registry", "did_you_mean"]

T = TypeVar("T")


def did_you_mean(name: str, known: list[str]) -> str:
    """The end of an error message: the nearest known names, or all of them.

    >>> did_you_mean("b22", ["b2", "d1"])
    'did you mean b2?'
    """
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"


class Registry(Generic[T]):
    """Named things of one kind, found in our own modules, in entry points, or added by a decorator.

    ``modules`` are imported only when a name is first looked up, so that declaring a registry costs nothing.
    """

    def __init__(self, kind: str, *, group: str, modules: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.group = group
        self._modules = modules
        self._items: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: ``@systems.register("b2")``. A name can be taken once."""

        def add(item: T) -> T:
            if name in self._items:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._items[name] = item
            return item

        return add

    def __getitem__(self, name: str) -> T:
        self._load()
        if name not in self._items:
            raise InputError(f"unknown {self.kind} {name!r}", fix=did_you_mean(name, list(self._items)))
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._items))

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        for module in self._modules:
            import_module(module)
        for point in entry_points(group=self.group):
            if point.name not in self._items:
                self._items[point.name] = point.load()
