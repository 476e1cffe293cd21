"""The device of torch that networks run on: the processor (``cpu``), or a graphics card (``cuda``, ``mps``).

A run names its device once, ``with use_device("cuda"): ...``; networks that are loaded in the block ask
:func:`current_device`, and work that goes to other processes takes :func:`worker_device` with it. Outside of any block
the device is the processor. ``auto`` is ``cuda`` if torch sees a card, else ``mps``, else ``cpu``; it is decided when a
network is first loaded, so that runs without networks do not import torch.

Several processes can share a card, each with networks of its own in the card's memory. ``auto`` therefore uses it from
one process alone; a device that is named is used by all ``--jobs``. Nodes of a cluster use their processors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Generic, TypeVar

from voiceveil.core.errors import InputError
from voiceveil.run.executor import Executor

__all__ = [
    "AUTO", "CPU", "OnDevice", "available_devices", "check_device", "current_device", "requested_device", "use_device",
    "worker_device",
]  # fmt: skip

AUTO, CPU = "auto", "cpu"

Item = TypeVar("Item")
Result = TypeVar("Result")

_requested: ContextVar[str] = ContextVar("device", default=CPU)


@contextmanager
def use_device(name: str) -> Iterator[None]:
    """Run the networks of this block on a device.

    Parameters
    ----------
    name
        ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.

    Raises
    ------
    InputError
        If torch has no such device; the error names those that it has.
    """
    check_device(name)
    token = _requested.set(name)
    try:
        yield
    finally:
        _requested.reset(token)


def requested_device() -> str:
    """Return the device of the current block as it was asked for, ``auto`` included; ``cpu`` outside of any block."""
    return _requested.get()


def current_device() -> str:
    """Return the device that networks of the current block run on: a name that torch knows."""
    name = _requested.get()
    return _best_device() if name == AUTO else name


def worker_device(executor: Executor) -> str:
    """Return the device for the workers of an executor.

    Raises
    ------
    InputError
        If a graphics card is asked for on a cluster.
    """
    name = _requested.get()
    if executor.distant and name not in (AUTO, CPU):
        raise InputError(f"--device {name}: nodes of a cluster use their processors", fix="leave --device out")
    return CPU if name == AUTO and (executor.distant or executor.workers > 1) else name


@dataclass(frozen=True)
class OnDevice(Generic[Item, Result]):
    """A function whose networks run on a device, in whatever process it is called; picklable if the function is."""

    function: Callable[[Item], Result]
    device: str

    def __call__(self, item: Item) -> Result:
        """Call the function."""
        with use_device(self.device):
            return self.function(item)


def check_device(name: str) -> None:
    """Raise an ``InputError`` unless networks can run on the device."""
    if name in (AUTO, CPU):
        return
    available = available_devices()
    if name not in available:
        problem = f"the device {name!r} is not available here"
        if find_spec("torch") is None:
            raise InputError(f"{problem}: torch is not installed", fix="use auto or cpu")
        raise InputError(problem, fix=f"use one of: {', '.join((AUTO, *available))}")


@lru_cache(maxsize=1)
def available_devices() -> tuple[str, ...]:
    """Return the names of the devices of this computer, the best last: ``cpu``, ``mps``, ``cuda:0``, ``cuda``."""
    if find_spec("torch") is None:
        return (CPU,)
    import torch

    metal = ("mps",) if torch.backends.mps.is_available() else ()
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return (CPU, *metal, *(f"cuda:{number}" for number in range(count)), *(("cuda",) if count else ()))


def _best_device() -> str:
    return available_devices()[-1]
