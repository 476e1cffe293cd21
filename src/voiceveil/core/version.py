"""The version of the installed package; a module of its own, as reading it takes longer than ``import voiceveil``."""

from __future__ import annotations

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("voiceveil")
