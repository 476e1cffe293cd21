"""One generic registry: a name, one decorator, entry points for third parties, "did you mean" on a typo."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from voiceveil.core.errors import InputError

__all__ = ["Registry", "did_you_mean"]

T = TypeVar("T")


def did_you_mean(name: str, known: list[str]) -> str:
    """Return the end of an error message: the known names most like ``name``, or all of them.

    >>> did_you_mean("b22", ["b2", "d1"])
    'did you mean b2?'
    """
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"


class Registry(Generic[T]):
    """Named items of one kind, from modules of this package, from entry points, or added by a decorator.

    ``modules`` are imported only when a name is first looked up, so that declaring a registry costs nothing.
    """

    def __init__(self, kind: str, *, group: str, modules: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.group = group
        self._modules = modules
        self._items: dict[str, T] = {}
        self._points: dict[str, EntryPoint] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that adds an item, as in ``@systems.register("b2")``; a name can be used once."""

        def add(item: T) -> T:
            if name in self._items:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._items[name] = item
            return item

        return add

    def __getitem__(self, name: str) -> T:
        self._load()
        if name in self._points and name not in self._items:
            self._items[name] = self._from_point(self._points[name])
        if name not in self._items:
            raise InputError(f"unknown {self.kind} {name!r}", fix=did_you_mean(name, list(self)))
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._items or name in self._points

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted({*self._items, *self._points}))

    def _load(self) -> None:
        if self._loaded:
            return
        for module in self._modules:
            import_module(module)
        self._points = {point.name: point for point in entry_points(group=self.group)}
        self._loaded = True  # only now: a module that failed to import fails again, and is not just unknown

    def _from_point(self, point: EntryPoint) -> T:
        """Import a third party's item when it is first used, so that a broken package affects no other item."""
        try:
            item: T = point.load()
        except Exception as error:  # anything can happen while a module is imported
            fix = f"repair or uninstall {point.dist.name if point.dist else point.value}"
            raise InputError(f"cannot load {self.kind} {point.name!r}: {error}", fix=fix) from error
        return item
