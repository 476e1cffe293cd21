"""Options that several verbs share."""

from __future__ import annotations

import argparse

__all__ = ["add_overwrite"]


def add_overwrite(
    parser: argparse.ArgumentParser, help: str = "replace files that are in the way (never the input)"
) -> None:
    """Declare --overwrite: without it no file is replaced that the program did not record as its own."""
    parser.add_argument("--overwrite", action="store_true", help=help)
