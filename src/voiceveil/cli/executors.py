"""The options that say where the work is done: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from voiceveil.core.errors import InputError
from voiceveil.run.executor import Jobs

__all__ = ["add_executor_arguments", "chosen_jobs"]


def add_executor_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --executor and --address."""
    parser.add_argument(
        "--executor",
        choices=("local", "ray"),
        default="local",
        help="ray: all cores of a running Ray cluster instead of --jobs; see docs/how-to/cluster.md (default: local)",
    )
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="head of the Ray cluster (default: the cluster of this machine)"
    )


@contextmanager
def chosen_jobs(args: argparse.Namespace) -> Iterator[Jobs]:
    """Processes or a cluster, as the arguments say."""
    if args.executor == "local":
        if args.address is not None:
            raise InputError(f"--address {args.address}: no executor but ray has one", fix="add --executor ray")
        yield args.jobs
        return
    from voiceveil.run.cluster import ray_executor

    with ray_executor(args.address) as executor:
        yield executor
