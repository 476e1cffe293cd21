"""List the anonymization systems with their measured figures, or show one with its parameters.

EER is the equal error rate of the strongest attacker that was measured: 50% is perfect privacy, 0% is none. A
semi-informed attacker learns from speech that the same system has anonymized; a lazy-informed one only anonymizes the
enrollment. WER is the word error rate of a recognizer; speed is times real time on one core. "-": not measured.
"""

from __future__ import annotations

import argparse
import inspect
import json
import shutil
import textwrap
from dataclasses import asdict
from typing import Any

from voiceveil.cli.options import add_json
from voiceveil.core.errors import InputError
from voiceveil.core.terminal import print_lines, print_styled
from voiceveil.evaluation.protocol import load_protocol
from voiceveil.evaluation.resource_rules import resource_faults
from voiceveil.systems import systems
from voiceveil.systems.contract import DEFAULT_SYSTEM, Anonymizer, find_system
from voiceveil.systems.listing import measured
from voiceveil.systems.parameters import describe

EXAMPLES = """\
examples:
  voiceveil systems                 all systems on one screen
  voiceveil systems veil            one system, with its parameters and how it was measured
  voiceveil systems veil --resources                       training data and pretrained models behind it
  voiceveil systems veil --resources --protocol vpc2022    the same, checked against the rules of a challenge
  voiceveil systems --json          for programs
"""
_NO_FIGURES = ("-", "-", "-", "-")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="show this system with its parameters")
    parser.add_argument(
        "--resources", action="store_true", help="show the training data and pretrained models behind the system NAME"
    )
    parser.add_argument(
        "--protocol",
        metavar="NAME|FILE.toml",
        help="with --resources: exit code 1 if the protocol does not allow one of them",
    )
    add_json(parser, "the list")


def run(args: argparse.Namespace) -> int:
    """Print the list, or one system."""
    if args.resources:
        return _resources(args)
    if args.protocol is not None:
        raise InputError("--protocol without --resources", fix="add --resources")
    names = [args.name] if args.name else sorted(systems, key=_order)
    if args.json:
        print(json.dumps([_row(name) for name in names], indent=2))
    elif args.name:
        _print_system(args.name)
    else:
        _print_list(names)
    return 0


def _resources(args: argparse.Namespace) -> int:
    """Print the training resources of a system, and those that a protocol does not allow."""
    if not args.name:
        raise InputError("--resources without a system", fix="name one: voiceveil systems veil --resources")
    chosen = find_system(args.name)
    resources = chosen.resources()
    faults = [] if args.protocol is None else resource_faults(load_protocol(args.protocol), chosen)
    if args.json:
        rows = None if resources is None else [asdict(resource) for resource in resources]
        print(json.dumps({"system": chosen.name, "resources": rows, "not_allowed": faults}, indent=2))
        return 1 if faults else 0
    if not resources:
        print_lines(f"{chosen.name}: " + ("not declared" if resources is None else "no part of it is trained"))
    for resource in resources or ():
        print_lines(
            f"{resource.name} ({resource.kind}{f', {resource.source}' if resource.source else ''}): "
            f"{', '.join(resource.used_in)}"
        )
    for fault in faults:
        print_lines(f"not allowed: {fault}")
    return 1 if faults else 0


def _order(name: str) -> tuple[bool, bool, bool, float, str]:
    """Return a key that sorts the default first, controls last, and the others by what was measured and protection."""
    figures = measured().get(name)
    unmeasured = figures is None or figures.knowledge != "semi-informed"
    return name != DEFAULT_SYSTEM, systems[name].is_control, unmeasured, -(figures.lowest_eer if figures else 0.0), name


def _print_list(names: list[str]) -> None:
    rows = [("system", "EER", "attacker", "WER", "speed", "weights", "")]
    for name in names:
        rows.append((name, *_cells(name), _weights(systems[name]), _summary(systems[name])))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    room = max(20, shutil.get_terminal_size().columns - sum(widths) - 12)
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        line = "  ".join([*cells, textwrap.shorten(row[6], room, placeholder=" ...") if row[6] else ""]).rstrip()
        print_styled((line, "bold" if number < 2 else ""))
    originals = sorted({f"{figures.original_wer.value:g}" for figures in measured().values() if figures.original_wer})
    print_lines(
        "",
        f"{DEFAULT_SYSTEM} is the default. EER: of the strongest attacker measured (women / men, or the mean of both);",
        f"50% is perfect privacy. WER: the original speech has {' or '.join(originals)}%. Speed: times real time on",
        "one core. Weights: included, none needed, or to be trained first. -: not measured.",
        "`voiceveil systems NAME` shows parameters, intervals and how it was measured.",
    )


def _cells(name: str) -> tuple[str, str, str, str]:
    figures = measured().get(name)
    if figures is None:
        return _NO_FIGURES
    eer = " / ".join(f"{rate.value:.0f}" for rate in figures.eer)
    speed = "-" if figures.speed is None else f"{figures.speed:g}x"
    return f"{eer}%", figures.knowledge, f"{figures.wer.value:.0f}%", speed


def _weights(cls: type[Anonymizer]) -> str:
    shipped = getattr(cls, "shipped", None)
    return "none needed" if shipped is None else "included" if shipped else "train first"


def _print_system(name: str) -> None:
    cls, width = systems[name], min(120, shutil.get_terminal_size().columns)
    print_styled((name, "bold"), (" (default)" if name == DEFAULT_SYSTEM else "", ""))
    print_lines(*_description(cls).splitlines(), "")
    rows = [("source", cls.source), ("sampling rate", f"{cls.rate} Hz"), ("weights", _weights(cls))]
    figures = measured().get(name)
    if figures is not None:
        groups = ("women ", "men ") if len(figures.eer) == 2 else ("",)
        original = f"original speech {figures.original_wer}; " if figures.original_wer else ""
        eer = ", ".join(f"{group}{rate}" for group, rate in zip(groups, figures.eer, strict=True))
        rows += [
            ("EER", f"{eer}; attacker {figures.attacker} ({figures.knowledge})"),
            ("WER", f"{figures.wer}; {original}{figures.recognizer}"),
            *([] if figures.speed is None else [("speed", f"{figures.speed:g} times real time on one core")]),
            ("measured on", figures.corpus),
            ("measured by", f"`{figures.command}`, see {figures.page}"),
        ]
    for label, text in rows:
        print_lines(*_wrapped(f"{label}:".ljust(15), text, width))
    parameters = describe(cls)
    if parameters:
        print_lines("")
        print_styled(("parameters", "bold"), (", each given as --set NAME=VALUE:", ""))
    longest = max((len(_assignment(parameter)) for parameter in parameters), default=0)
    for parameter in parameters:
        head = f"  {_assignment(parameter).ljust(longest)}  "
        print_lines(*_wrapped(head, f"{parameter['help']} ({parameter['type']})", width))


def _wrapped(head: str, text: str, width: int) -> list[str]:
    """Return ``text`` behind ``head``, in lines that are indented below it."""
    return textwrap.wrap(text, max(width, len(head) + 20), initial_indent=head, subsequent_indent=" " * len(head))


def _assignment(parameter: dict[str, Any]) -> str:
    default = parameter["default"]
    shown = ",".join(f"{number:g}" for number in default) if isinstance(default, list) else default
    return f"{parameter['name']}={shown}"


def _summary(cls: type[Anonymizer]) -> str:
    """Return the first line of the description."""
    return _description(cls).partition("\n")[0]


def _description(cls: type[Anonymizer]) -> str:
    return inspect.cleandoc(cls.__doc__ or "").replace("``", "`")


def _row(name: str) -> dict[str, Any]:
    cls, figures = systems[name], measured().get(name)
    return {
        "name": name,
        "default": name == DEFAULT_SYSTEM,
        "summary": _summary(cls),
        "text": _description(cls),
        "source": cls.source,
        "rate": cls.rate,
        "weights": _weights(cls),
        "measured": None if figures is None else asdict(figures),
        "parameters": describe(cls),
    }
