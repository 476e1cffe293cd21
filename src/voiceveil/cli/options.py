"""Options that several verbs share."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_overwrite", "training_files"]


def training_files(out: Path) -> list[Path]:
    """Return the files that a training writes into its folder."""
    return [out / name for name in ("model.safetensors", "record.json", "checkpoint.safetensors")]


def add_overwrite(
    parser: argparse.ArgumentParser, help: str = "replace files that are in the way (never the input)"
) -> None:
    """Declare --overwrite: without it no file is replaced that the program did not record as its own."""
    parser.add_argument("--overwrite", action="store_true", help=help)
