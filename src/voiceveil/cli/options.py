"""Options that several verbs share: one meaning, one wording, one place."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from voiceveil.cli.parser import Parser as SuggestingParser
from voiceveil.core.errors import InputError
from voiceveil.run.executor import Jobs

__all__ = [
    "add_attackers",
    "add_cache",
    "add_device",
    "add_executor",
    "add_former_name",
    "add_jobs",
    "add_json",
    "add_key",
    "add_out",
    "add_overwrite",
    "add_progress",
    "add_seed",
    "add_system_parameters",
    "add_train",
    "add_trial_options",
    "chosen_jobs",
]

Parser = argparse.ArgumentParser | argparse._ArgumentGroup

_MOST_UTTERANCES = 100  # of a trial


def add_former_name(parser: argparse.ArgumentParser, former: str, present: str) -> None:
    """Accept an option under its former name as well, with a warning, for one release."""
    if isinstance(parser, SuggestingParser):
        parser.rename_option(former, present)


def add_out(parser: Parser, help: str, *, metavar: str = "DIR", required: bool = False) -> None:
    """Declare --out: where the result is written."""
    parser.add_argument("-o", "--out", type=Path, metavar=metavar, required=required, help=help)


def add_jobs(parser: Parser, *, default: int = 1, default_text: str = "1") -> None:
    """Declare --jobs: the number of worker processes."""
    text = f"worker processes (default: {default_text})"
    parser.add_argument("-j", "--jobs", type=int, default=default, metavar="N", help=text)


def add_seed(parser: Parser, purpose: str, *, default: int | None = 0) -> None:
    """Declare --seed: the seed of random numbers."""
    text = f"random seed of {purpose} (default: {'a fresh one' if default is None else default})"
    parser.add_argument("--seed", type=int, default=default, metavar="N", help=text)


def add_device(parser: Parser) -> None:
    """Declare --device: where networks run."""
    text = (
        "where networks run: auto, cpu, cuda, cuda:N or mps; auto takes a graphics card if there is one (default: auto)"
    )
    parser.add_argument("--device", default="auto", metavar="NAME", help=text)


def add_train(parser: Parser, help: str, *, metavar: str = "CORPUS", name: str = "--train") -> None:
    """Declare --train: the speech that attackers learn from; several values, and repeatable."""
    parser.add_argument(name, nargs="+", action="extend", default=[], metavar=metavar, help=help)


def add_attackers(parser: Parser, *, default: str, help: str) -> None:
    """Declare --attackers: which attackers run, separated by commas."""
    parser.add_argument("--attackers", default=default, metavar="NAME[,NAME]", help=f"{help} (default: {default})")


def add_trial_options(parser: Parser) -> None:
    """Declare --trial-utterances and --trials: trials beside those of the lists."""
    parser.add_argument(
        "--trial-utterances",
        type=numbers,
        default=(1,),
        metavar="N[,N]",
        help="utterances known to be of one person in a trial, e.g. 1,3,5 (default: 1)",
    )
    parser.add_argument(
        "--trials",
        choices=("listed", "mixed"),
        default="listed",
        help="mixed: also compare women with men, all pairs (default: the trial lists alone)",
    )


def numbers(text: str) -> tuple[int, ...]:
    """Return the whole numbers between commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 1 <= int(part) <= _MOST_UTTERANCES for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} are no numbers from 1 to {_MOST_UTTERANCES}, e.g. 1,3,5")
    return tuple(map(int, parts))


def add_cache(parser: Parser, content: str = "embeddings", default: str = "none") -> None:
    """Declare --cache: a file of intermediate results, which are biometric data."""
    text = f"keep {content} in this file for later runs; it holds biometric data (default: {default})"
    parser.add_argument("--cache", type=Path, metavar="FILE", help=text)


def add_progress(parser: Parser) -> None:
    """Declare --quiet and --json-progress."""
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    text = "write progress to the standard error output as JSON lines, for programs"
    parser.add_argument("--json-progress", action="store_true", help=text)


def add_json(parser: Parser, content: str = "the result") -> None:
    """Declare --json: the result for programs."""
    parser.add_argument("--json", action="store_true", help=f"print {content} as JSON")


def add_overwrite(parser: Parser, help: str = "replace existing files (never the input)") -> None:
    """Declare --overwrite: without it no file is replaced that the program did not record as its own."""
    parser.add_argument("--overwrite", action="store_true", help=help)


def add_system_parameters(parser: Parser) -> None:
    """Declare --set: parameters of a system."""
    text = "a parameter of the system, see `voiceveil systems NAME`; repeatable"
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=text)


def add_key(parser: Parser, *, corpus: str = "") -> None:
    """Declare --seed, --key-file and --key-namespace, from which pseudo-speakers are drawn.

    ``corpus``: what the namespace is named after by default; "": there is no default.
    """
    key = parser.add_mutually_exclusive_group()
    key.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="random seed of the pseudo-speakers, for experiments: anybody can repeat the run (default: a fresh key)",
    )
    key.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="secret key file: only those who have it can repeat the run",
    )
    default = f"{corpus}; none with --seed" if corpus else "none"
    text = f"runs with the same key and namespace draw the same pseudo-speakers (default: {default})"
    parser.add_argument("--key-namespace", metavar="NAME", help=text)


def add_executor(parser: Parser) -> None:
    """Declare --executor and --address: worker processes of this computer, or a Ray cluster."""
    parser.add_argument(
        "--executor",
        choices=("local", "ray"),
        default="local",
        help="local: --jobs processes; ray: a running Ray cluster, see docs/how-to/cluster.md (default: local)",
    )
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="head of the Ray cluster (default: the cluster of this computer)"
    )


@contextmanager
def chosen_jobs(args: argparse.Namespace) -> Iterator[Jobs]:
    """Yield the number of processes, or the executor of a cluster, as the arguments say."""
    if args.executor == "local":
        if args.address is not None:
            raise InputError(f"--address {args.address} is only for --executor ray", fix="add --executor ray")
        yield args.jobs
        return
    from voiceveil.run.cluster import ray_executor

    with ray_executor(args.address) as executor:
        yield executor
