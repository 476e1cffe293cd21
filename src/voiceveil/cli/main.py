"""``voiceveil VERB ...``: find the verb's module, run it, and turn an ``InputError`` into exit code 1.

A verb is a module ``voiceveil.cli.<verb>`` with

* ``EXAMPLES``: the end of its ``--help``;
* ``add_arguments(parser)``;
* ``AFTER_INTERRUPTION``, if it can be resumed: end of the message after Ctrl-C;
* ``run(args) -> int``: the exit code.

Exit codes: 0 done, 1 bad input or failed items, 2 wrong usage; 130 after Ctrl-C, as shells expect. Only the module of
the given verb is imported, so that each starts fast.
"""

from __future__ import annotations

import errno
import importlib
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from voiceveil.cli.parser import Parser, UsageError
from voiceveil.cli.streams import prepare_streams, silence_stdout
from voiceveil.core.activity import watch
from voiceveil.core.errors import InputError
from voiceveil.core.extras import EXTRAS
from voiceveil.core.registry import did_you_mean
from voiceveil.core.terminal import print_styled, safe_streams
from voiceveil.run.progress import StatusLines, progress_style

__all__ = ["VERBS", "main", "verb_parser"]

#: Verb -> one line, in the order of the work.
VERBS: dict[str, str] = {
    "demo": "compare veil and b2 on real speech that ships: anonymize, attack, measure, listen; start here",
    "doctor": "check the installation: packages, models, device, write access, and a short self-test",
    "systems": "list the anonymization systems: protection, word error rate, speed, parameters",
    "anonymize": "anonymize audio files, folders, Kaldi directories, manifests or named corpora",
    "compare": "compare recordings with their anonymized versions: same voice? words kept? natural?",
    "evaluate": "evaluate systems by the protocol of a challenge: privacy and utility, with a report",
    "risk": "assess singling out, linkability and inference (GDPR), with a report",
    "corpus": "check, describe and convert corpora, and design trials",
    "train": "train speaker encoders, recognizers and parts of anonymization systems",
    "attack": "attack anonymized speech: EERs of ignorant, lazy-informed and semi-informed attackers",
    "score": "compute EER, Cllr, D_sys, ZEBRA and others from score files",
    "rank": "rank systems within each EER condition, with the privacy-utility plot",
    "submit": "pack a submission to the 2024 challenge, or check one",
    "tdsv": "text-dependent speaker verification (TdSV 2024): make, train, score, evaluate, submit",
    "report": "write the report of an evaluation as one HTML file",
    "listen": "run listening tests in a browser: design, invite, serve, analyze",
    "live": "anonymize live speech: a pipe, audio devices, or a page in a browser",
    "board": "run the leaderboard of a challenge: teams, uploads, scoring, ranking",
    "check": "run the conformance checks on a system, built in or your own",
    "completion": "print the completion script of bash, zsh or fish",
}

#: Errors without a file name that a command can only get from its own standard output.
_WRITE_ERRORS = {errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the ``voiceveil`` command and return its exit code."""
    prepare_streams()
    with safe_streams():
        return _run(list(sys.argv[1:] if argv is None else argv))


def _run(arguments: list[str]) -> int:
    """Run a verb, or print the list of verbs; errors of the operating system are reported in one line."""
    name = "voiceveil"
    try:
        try:
            if arguments and arguments[0] in VERBS:
                name = f"voiceveil {arguments[0]}"
                return _run_verb(*arguments)
            return _run_without_verb(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # `voiceveil ... | head`
        silence_stdout()
        return 0
    except OSError as error:
        silence_stdout()
        of_stdout = error.filename is None and error.errno in _WRITE_ERRORS
        print_error(name, f"cannot write to the standard output: {error.strerror}" if of_stdout else error)
        return 1
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        fix = f"pip install 'voiceveil[{EXTRAS[package]}]'"
        print_error(name, f"the package {package} is not installed ({fix})")
        return 1
    except MemoryError:
        print_error(name, "not enough memory (close other programs, or use fewer --jobs)")
        return 1


def _run_without_verb(arguments: list[str]) -> int:
    """Print the list of verbs, or refuse an unknown one."""
    parser = _top_parser()
    if arguments and not arguments[0].startswith("-"):
        parser.error(f"unknown command {arguments[0]!r}: {did_you_mean(arguments[0], list(VERBS))}")
    parser.parse_args(arguments)
    parser.print_help()
    return 0


def _run_verb(verb: str, *arguments: str) -> int:
    module, parser = verb_parser(verb)
    args = parser.parse_args(arguments)
    watch(StatusLines(quiet=getattr(args, "quiet", False) or getattr(args, "json", False)))
    try:
        with _plain_warnings(), progress_style("json" if getattr(args, "json_progress", False) else "auto"):
            return int(module.run(args))
    except InputError as error:
        print_error(f"voiceveil {verb}", error)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        print_error(f"voiceveil {verb}", f"interrupted{getattr(module, 'AFTER_INTERRUPTION', '')}")
        return 128 + signal.SIGINT
    finally:
        watch(None)


def verb_parser(verb: str) -> tuple[ModuleType, Parser]:
    """Return the module of a verb, and its parser."""
    module = importlib.import_module(f"voiceveil.cli.{verb}")
    parser = Parser(prog=f"voiceveil {verb}", description=module.__doc__, epilog=module.EXAMPLES)
    module.add_arguments(parser)
    return module, parser


def print_error(name: str, error: object) -> None:
    """Print an error in one line: the command in red on a terminal with colors, then the error."""
    print_styled((f"{name}: ", "red"), (error, ""), file=sys.stderr)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show the warnings of VoiceVeil itself as plain lines, without the place in the source."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if category.__module__.startswith("voiceveil."):
            print_styled(("voiceveil: warning: ", "yellow"), (message, ""), file=sys.stderr)
        else:
            shown(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _top_parser() -> Parser:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {line}" for verb, line in VERBS.items())
    parser = Parser(
        prog="voiceveil",
        usage="voiceveil COMMAND ...",
        description="Hide who speaks, keep what is said, and measure how well.",
        epilog=f"commands:\n{verbs}\n\n`voiceveil COMMAND --help` ends with examples.",
    )
    parser.add_argument("--version", action="version", version=f"voiceveil {_version()}")
    return parser


def _version() -> str:
    from importlib.metadata import version

    return version("voiceveil")


if __name__ == "__main__":
    if sys.path[0] in ("", str(Path.cwd())):  # see voiceveil.__main__
        del sys.path[0]
    sys.exit(main())
