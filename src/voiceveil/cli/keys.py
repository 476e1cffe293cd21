"""The options that say what pseudo-speakers are drawn from: --seed, --key-file and --key-namespace."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_key_arguments"]


def add_key_arguments(parser: argparse.ArgumentParser, *, corpus: str = "") -> None:
    """Declare the options; ``corpus`` says what a namespace is named after (default: it has to be given)."""
    key = parser.add_mutually_exclusive_group()
    key.add_argument("--seed", type=int, help="repeatable by everybody: for experiments, not for protection")
    key.add_argument("--key-file", type=Path, metavar="FILE", help="repeatable by those who have this secret file")
    default = f"{corpus}; with --seed: none" if corpus else "none"
    help = f"other names give other pseudo-speakers, the same name repeats them (default: {default})"
    parser.add_argument("--key-namespace", metavar="NAME", help=help)
