"""``voiceveil VERB ...``: finds the verb's module, runs it, and turns an ``InputError`` into exit code 1.

A verb is a module ``voiceveil.cli.<verb>`` with

* ``HELP``: one line for ``voiceveil --help``; ``EXAMPLES``: the end of its own ``--help``;
* ``add_arguments(parser)``;
* ``AFTER_INTERRUPTION``, if it can go on: what to say of that after Ctrl-C;
* ``run(args) -> int``: the exit code (0 done, 1 bad input or failed items; argparse itself exits 2 on usage).

Only the module of the verb that is asked for is imported, so that each starts fast.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from voiceveil.errors import InputError
from voiceveil.registry import did_you_mean
from voiceveil.terminal import print_lines, safe_streams

__all__ = ["VERBS", "main"]

#: Verb -> one line, in the order of the work.
VERBS: dict[str, str] = {
    "demo": "the whole way on a small corpus: anonymize, attack, measure, rank, report; start here",
    "systems": "list the anonymization systems and their parameters",
    "anonymize": "anonymize a file, a folder, a Kaldi directory, a manifest or a named corpus",
    "evaluate": "run the protocol of a challenge: anonymize, attack, recognise, measure",
    "risk": "singling out, linkability and inference: the legally validated assessment, with a report",
    "corpus": "check, describe and convert corpora",
    "train": "train speaker encoders and recognisers",
    "attack": "attack anonymized speech: EER of ignorant, lazy-informed and semi-informed attackers",
    "score": "compute EER, Cllr, D_sys, ZEBRA ... from score files",
    "rank": "rank systems within each EER condition, with the privacy-utility figure",
    "submit": "pack a submission to the 2024 challenge, or check one without trusting it",
    "tdsv": "text-dependent verification, the TdSV 2024 challenge: make, train, score, evaluate, submit",
    "report": "write a report on an evaluation: one HTML file for experts and for those who decide",
    "listen": "listening tests in a browser: design, invite, serve, analyse",
    "live": "anonymize speech while it is spoken: a pipe, audio devices, or a page in a browser",
    "board": "a leaderboard for organisers of a challenge: teams, uploads, scoring, ranking",
    "check": "run the conformance checks on a system, ours or yours",
}


@safe_streams()
def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the ``voiceveil`` command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # file names need not be text
            stream.reconfigure(errors="backslashreplace")
    parser = _top_parser()
    if arguments and not arguments[0].startswith("-") and arguments[0] not in VERBS:
        parser.error(f"unknown command {arguments[0]!r}: {did_you_mean(arguments[0], list(VERBS))}")
    if not arguments or arguments[0] not in VERBS:
        parser.parse_args(arguments)
        parser.print_help()
        return 0
    verb = arguments[0]
    module = importlib.import_module(f"voiceveil.cli.{verb}")
    sub = argparse.ArgumentParser(
        prog=f"voiceveil {verb}",
        description=module.__doc__,
        epilog=module.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(sub)
    try:
        with _plain_warnings():
            return int(module.run(sub.parse_args(arguments[1:])))
    except InputError as error:
        print(f"voiceveil {verb}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nvoiceveil {verb}: interrupted{getattr(module, 'AFTER_INTERRUPTION', '')}", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:  # `voiceveil ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show the warnings of VoiceVeil itself as plain lines, without the place in the source."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if category.__module__.startswith("voiceveil."):
            print_lines(f"voiceveil: warning: {message}", file=sys.stderr)
        else:
            shown(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _top_parser() -> argparse.ArgumentParser:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {line}" for verb, line in VERBS.items())
    parser = argparse.ArgumentParser(
        prog="voiceveil",
        usage="voiceveil COMMAND ...",
        description="Hide who speaks, keep what is said, and prove how well.",
        epilog=f"commands:\n{verbs}\n\n`voiceveil COMMAND --help` ends with examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"voiceveil {_version()}")
    return parser


def _version() -> str:
    from importlib.metadata import version

    return version("voiceveil")


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working directory, see voiceveil.__main__
    sys.exit(main())
