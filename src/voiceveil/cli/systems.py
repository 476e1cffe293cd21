"""List every anonymization system, where it is described, and its parameters."""

from __future__ import annotations

import argparse
import inspect
import json
from typing import Any

from voiceveil.systems import systems
from voiceveil.systems.parameters import describe

EXAMPLES = """\
examples:
  voiceveil systems                 all of them
  voiceveil systems b2              one of them, in full
  voiceveil systems --json          for programs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", help="show this system only")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Print the list."""
    names = [args.name] if args.name else list(systems)
    rows = [_row(name) for name in names]
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    for row in rows:
        print(f"{row['name']}: {row['text'] if args.name else row['summary']}")
        print(f"    source: {row['source']}; works at {row['rate']} Hz")
        for parameter in row["parameters"]:
            default = parameter["default"]
            shown = ",".join(f"{number:g}" for number in default) if isinstance(default, list) else default
            print(f"    --set {parameter['name']}={shown}  ({parameter['type']}) {parameter['help']}")
    return 0


def _row(name: str) -> dict[str, Any]:
    cls = systems[name]
    text = inspect.cleandoc(cls.__doc__ or "")
    return {
        "name": name,
        "summary": text.partition("\n")[0],
        "text": text,
        "source": cls.source,
        "rate": cls.rate,
        "parameters": describe(cls),
    }
